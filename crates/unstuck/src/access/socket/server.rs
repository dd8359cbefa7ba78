//! Answers requests of other processes, as long as this process owns the store.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use unstuck_api::ProblemDocument;
use unstuck_engine::runtime::Handle;

use super::{
    HTTP_NAME, LONGEST_ANSWER, LONGEST_QUESTION, NAME, SocketReply, SocketRequest, VERSION, foreign_user,
    short_path,
};
use unstuck_service::{Service, ServiceError};

/// How many connections are served at once.
const AT_ONCE: usize = 16;
/// How long a request may take to arrive, and a reply to be read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long closing waits for replies under way.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A socket on which questions are answered.
pub(crate) struct Server {
    path: PathBuf,
    counts: Arc<Counts>,
}

/// How many ask, and how many of them are being answered.
#[derive(Default)]
struct Counts {
    asking: AtomicUsize,
    answering: AtomicUsize,
}

impl Server {
    /// Listens in the folder of a store that this process owns.
    pub(crate) fn start(directory: &Path, service: Service, handle: Handle) -> io::Result<Server> {
        let (listener, path) = bind_socket(directory, NAME)?;
        let counts = Arc::new(Counts::default());
        let counter = counts.clone();
        let listen = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => accept_connection(stream, &service, &handle, &counter),
                    // Most likely out of file descriptors, which passes.
                    Err(_) => thread::sleep(Duration::from_millis(50)),
                }
            }
        };
        thread::Builder::new().name("unstuck-socket".to_owned()).spawn(listen)?;
        Ok(Server { path, counts })
    }

    /// Stops accepting connections, and waits until requests under way are answered.
    pub(crate) fn close(self) {
        let _ = fs::remove_file(&self.path);
        let until = Instant::now() + LAST_ANSWERS;
        while self.counts.answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Binds a socket in the folder of a store that this process owns. It is bound under another name and renamed, so that no client finds
/// it before its permissions are set.
fn bind_socket(directory: &Path, name: &str) -> io::Result<(UnixListener, PathBuf)> {
    let (path, made) = (directory.join(name), format!("{name}.new"));
    let made_path = directory.join(&made);
    // A killed owner may have left it.
    let _ = fs::remove_file(&made_path);
    let listener = short_path(directory, &made, |path| UnixListener::bind(path))?;
    fs::set_permissions(&made_path, fs::Permissions::from_mode(0o600))?;
    fs::rename(&made_path, &path)?;
    Ok((listener, path))
}

/// The socket on which a server answers over HTTP, for the owner of the store. Its file goes away with it.
pub(crate) struct HttpSocket(PathBuf);

impl HttpSocket {
    /// Binds it in the folder of a store that this process owns.
    pub(crate) fn bind(directory: &Path) -> io::Result<(UnixListener, HttpSocket)> {
        let (listener, path) = bind_socket(directory, HTTP_NAME)?;
        Ok((listener, HttpSocket(path)))
    }
}

impl Drop for HttpSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Accepts a connection on a thread of its own, unless the peer is another user or too many are open.
fn accept_connection(mut stream: UnixStream, service: &Service, handle: &Handle, counts: &Arc<Counts>) {
    if let Some(user) = foreign_user(&stream) {
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = stream.write_all(&refusal_line(&format!("user {user} may not use this store")));
        return;
    }
    if counts.asking.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
        counts.asking.fetch_sub(1, Ordering::AcqRel);
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = stream.write_all(&encode_reply(&SocketReply {
            busy: true,
            ..refused_reply("too many commands at once; repeat the command in a moment")
        }));
        return;
    }
    let asking = Asking(counts.clone());
    let (service, handle) = (service.clone(), handle.clone());
    let conversation = move || serve_connection(stream, &service, &handle, &asking.0);
    // If the thread cannot start, the connection closes and the client tries again.
    let _ = thread::Builder::new().name("unstuck-answer".to_owned()).spawn(conversation);
}

/// Counts a conversation until it is over, however it ends.
struct Asking(Arc<Counts>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers requests until the client closes the connection or misbehaves.
fn serve_connection(mut stream: UnixStream, service: &Service, handle: &Handle, counts: &Counts) {
    if stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let mut rest = Vec::new();
    while let Ok(Some(line)) = read_line(&mut stream, &mut rest) {
        counts.answering.fetch_add(1, Ordering::AcqRel);
        let answer = answer_line(&line, service, handle);
        let sent = answer.is_some_and(|answer| stream.write_all(&answer).is_ok());
        counts.answering.fetch_sub(1, Ordering::AcqRel);
        if !sent {
            return;
        }
    }
}

/// Reads one line without its end; `None` at the end of the stream, or if the line is too long. `rest` keeps what came
/// after it.
fn read_line(stream: &mut UnixStream, rest: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + PATIENCE;
    let mut searched = 0;
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(end) = rest[searched..].iter().position(|byte| *byte == b'\n') {
            let after = rest.split_off(searched + end + 1);
            let mut line = std::mem::replace(rest, after);
            line.pop();
            return Ok(Some(line));
        }
        searched = rest.len();
        if rest.len() > LONGEST_QUESTION {
            stream.write_all(&refusal_line("the request is too large"))?;
            return Ok(None);
        }
        let patience = until.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(patience))?;
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            count => rest.extend_from_slice(&piece[..count]),
        }
    }
}

/// Handles the request of a line and returns the reply; `None` if the engine has stopped, which closing the connection
/// tells.
fn answer_line(line: &[u8], service: &Service, handle: &Handle) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Spoken {
        version: u32,
    }
    match serde_json::from_slice(line) {
        Ok(Spoken { version: VERSION }) => {}
        Ok(Spoken { version }) => {
            return Some(refusal_line(&format!(
                "the request uses version {version} of the protocol, not {VERSION}; use the same version of unstuck as the process that has the store open"
            )));
        }
        Err(_) => return Some(refusal_line("this is not a request; use the commands of unstuck")),
    }
    let question: SocketRequest = match serde_json::from_slice(line) {
        Ok(question) => question,
        Err(error) => return Some(refusal_line(&format!("cannot read the request: {error}"))),
    };
    let service = Service { option: question.option, ..service.clone() };
    match service.handle_request(handle, question.request) {
        Ok(json) if json.len() + 64 > LONGEST_ANSWER => Some(refusal_line(&format!(
            "the answer has {} bytes, which is too much for the socket; repeat the command when no process has the store open",
            json.len()
        ))),
        Ok(json) => Some(match RawValue::from_string(json) {
            Ok(json) => encode_reply(&SocketReply { answer: Some(json), ..SocketReply::default() }),
            Err(error) => refusal_line(&error.to_string()),
        }),
        Err(ServiceError::Refused(problem)) => Some(encode_reply(&problem_reply(problem))),
        Err(ServiceError::Unavailable(problem)) => {
            Some(encode_reply(&SocketReply { unavailable: true, ..problem_reply(problem) }))
        }
        Err(ServiceError::Stopped) => None,
    }
}

fn refusal_line(sentence: &str) -> Vec<u8> {
    encode_reply(&refused_reply(sentence))
}

fn problem_reply(problem: Box<ProblemDocument>) -> SocketReply {
    let refused = refused_reply(&problem.detail);
    SocketReply { problem: Some(problem), ..refused }
}

fn refused_reply(sentence: &str) -> SocketReply {
    SocketReply { refused: Some(sentence.to_owned()), ..SocketReply::default() }
}

/// Encodes a reply as one line of JSON.
fn encode_reply(answer: &SocketReply) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    // Raw JSON may contain line breaks, which are only space.
    for byte in line.iter_mut().filter(|byte| **byte == b'\n') {
        *byte = b' ';
    }
    line.push(b'\n');
    line
}
