//! A small HTTP server for tests: it answers by path, says back what it was sent, and remembers it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Listens on a port of its own for as long as the test runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `/status/NNN` answers with that status; `/once/NNN` does so the first time, and then with 200; everything else
    /// answers 200, except `/silent`, which never answers. The body of an answer has the path, the headers and the body of the request.
    pub(crate) fn new() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || serve(stream, &seen));
            }
        });
        Server { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was sent, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("nobody panicked").clone()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let Some(request) = read_request(&mut stream) else { return };
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut all = seen.lock().expect("nobody panicked");
    let is_first = !all.iter().any(|before| before.split(' ').nth(1) == Some(&path));
    all.push(request.clone());
    drop(all);
    if path == "/silent" {
        // Until the other side goes away.
        let _ = stream.read(&mut [0; 16]);
        return;
    }
    let asked = path.strip_prefix("/status/").or_else(|| path.strip_prefix("/once/").filter(|_| is_first));
    let status = asked.unwrap_or("200");
    let (head, sent) = request.split_once("\n\n").unwrap_or((&request, ""));
    let body = serde_json::json!({"path": path, "head": head, "sent": sent}).to_string();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Who does not wait for the answer does not get it.
    let _ = stream.write_all(answer.as_bytes());
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text.replace("\r\n", "\n"));
        }
    }
}
