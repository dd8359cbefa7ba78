//! A client of HTTP/1.1 over a socket, so plain that it can misbehave at any point.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Long enough for a slow machine, and never waited for on a healthy one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An answer that has arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer with this status.
    pub(crate) fn with(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.json()
    }

    /// Its status, the last part of its problem's type, and its sentence.
    pub(crate) fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json; charset=utf-8"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        let text = |name: &str| problem[name].as_str().expect("it is a text").to_owned();
        (self.status, text("type").replace("/problems/", ""), text("detail"))
    }
}

/// A request, written by hand.
#[derive(Clone)]
pub(crate) struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Request {
        Request { head: format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n"), body: Vec::new() }
    }

    /// The same, to another host.
    pub(crate) fn for_host(self, host: &str) -> Request {
        Request { head: self.head.replace("Host: localhost", &format!("Host: {host}")), ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.head.extend([name, ": ", value, "\r\n"]);
        self
    }

    pub(crate) fn body(self, kind: &str, body: impl Into<Vec<u8>>) -> Request {
        let body = body.into();
        let length = body.len().to_string();
        Request { body, ..self }.header("Content-Type", kind).header("Content-Length", &length)
    }

    pub(crate) fn json(self, body: &Value) -> Request {
        self.body("application/json", body.to_string())
    }

    /// As it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// How long its head is, with the empty line.
    pub(crate) fn head_length(&self) -> usize {
        self.head.len() + 2
    }
}

/// One connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).expect("the server accepts connections")
    }

    pub(crate) fn try_open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more is sent.
    pub(crate) fn end_sending(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).expect("the connection is there");
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: &Request) -> std::io::Result<Answer> {
        self.send(&request.bytes())?;
        self.read_answer()
    }

    /// Reads an answer with all of its body.
    pub(crate) fn read_answer(&mut self) -> std::io::Result<Answer> {
        let (mut answer, body) = self.read_answer_and_bytes()?;
        answer.body = String::from_utf8(body).map_err(|_| ErrorKind::InvalidData)?;
        Ok(answer)
    }

    /// Reads an answer, and its body apart from it, which may be no text.
    pub(crate) fn read_answer_and_bytes(&mut self) -> std::io::Result<(Answer, Vec<u8>)> {
        let (status, headers) = self.read_head()?;
        let answer = Answer { status, headers, body: String::new() };
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.read_chunk()? {
                body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length")
            && status != 304
        {
            body.resize(length.parse().map_err(|_| ErrorKind::InvalidData)?, 0);
            self.stream.read_exact(&mut body)?;
        }
        Ok((answer, body))
    }

    /// Reads the status and the headers, with their names in small letters.
    pub(crate) fn read_head(&mut self) -> std::io::Result<(u16, Vec<(String, String)>)> {
        let status = self.read_line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok((status.ok_or(ErrorKind::InvalidData)?, headers))
    }

    /// Reads a piece of a body that comes in pieces; none at its end.
    pub(crate) fn read_chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.read_line()?, 16).map_err(|_| ErrorKind::InvalidData)?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    fn read_line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
