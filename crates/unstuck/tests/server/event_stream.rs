//! A reader of server-sent events.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use serde_json::Value;

use crate::client::{Connection, Request};
use crate::support::Server;

/// One message of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) kind: String,
    pub(crate) data: Value,
    /// The last id that came before it.
    pub(crate) id_before: Option<String>,
}

/// A stream that is read.
pub(crate) struct EventStream {
    connection: Connection,
    text: String,
    messages: VecDeque<Message>,
    /// The id that a reader which comes back gives.
    pub(crate) last_id: Option<String>,
}

impl EventStream {
    pub(crate) fn open(server: &Server, query: &str, last_id: Option<&str>) -> EventStream {
        EventStream::try_open(server.address, query, last_id).expect("it is answered")
    }

    /// Opens a stream of a server that may be gone at any moment.
    pub(crate) fn try_open(
        address: SocketAddr,
        query: &str,
        last_id: Option<&str>,
    ) -> io::Result<EventStream> {
        let mut request =
            Request::new("GET", &format!("/v1/events{query}")).header("Accept", "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        let mut connection = Connection::try_open(address)?;
        connection.send(&request.bytes())?;
        let (status, headers) = connection.read_head()?;
        let kind = headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert_eq!((status, kind), (200, Some("text/event-stream; charset=utf-8")));
        let mut stream = EventStream {
            connection,
            text: String::new(),
            messages: VecDeque::new(),
            last_id: last_id.map(str::to_owned),
        };
        let hello = stream.next().ok_or(io::ErrorKind::UnexpectedEof)?;
        assert_eq!(hello.kind, "hello");
        Ok(stream)
    }

    /// The next message; none where the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Message> {
        while self.messages.is_empty() {
            let chunk = self.connection.read_chunk().ok()??;
            self.text += &String::from_utf8(chunk).expect("it is UTF-8");
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                self.take_block(&block);
            }
        }
        self.messages.pop_front()
    }

    fn take_block(&mut self, block: &str) {
        let mut message = Message { id_before: self.last_id.clone(), ..Message::default() };
        let mut has_data = false;
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("event", kind)) => kind.clone_into(&mut message.kind),
                Some(("data", data)) => {
                    message.data = serde_json::from_str(data).expect("it is JSON");
                    has_data = true;
                }
                Some(("id", id)) => self.last_id = Some(id.to_owned()),
                Some(("retry" | "", _)) => {}
                Some(_) | None => panic!("what is {line}?"),
            }
        }
        if has_data {
            self.messages.push_back(message);
        }
    }

    /// The events of runs up to one that is wanted, with it.
    pub(crate) fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let message = self.next().expect("the stream goes on");
            if message.kind != "run" {
                continue;
            }
            let is_last = is_wanted(&message.data);
            events.push(message.data);
            if is_last {
                return events;
            }
        }
    }

    /// All that has happened so far.
    pub(crate) fn until_caught_up(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let message = self.next().expect("the stream goes on");
            match message.kind.as_str() {
                "caughtUp" => return events,
                "run" | "flow" | "schedule" | "policy" | "bulk" => events.push(message.data),
                other => panic!("what is {other}?"),
            }
        }
    }
}

/// The run and the number of an event: whoever sees one twice has seen it.
pub(crate) fn name_of(event: &Value) -> (String, u64) {
    let run = event["run"].as_str().expect("it is an id").to_owned();
    (run, event["number"].as_u64().expect("it is a number"))
}
