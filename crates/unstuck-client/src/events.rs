//! Follows the events of a run as they happen. A stream that is cut is resumed where it stopped, so that nothing is missed and nothing
//! comes twice.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Collected};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};
use unstuck_api::history::StreamEventView;

use crate::client::{Client, ClientError, HttpAnswer, build_runtime, read_problem};
use crate::http_call::HttpCall;

/// A server says something every 15 s; one that says nothing for longer has gone.
const MOST_SILENCE: Duration = Duration::from_secs(45);
/// How long a server that has gone is looked for.
const PATIENCE: Duration = Duration::from_mins(1);
/// The pause before it is looked for again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// The largest message.
const LARGEST: usize = 16 << 20;

/// What a stream has brought.
#[derive(Clone, Debug)]
pub enum StreamMessage {
    /// Something that happened.
    Event(Box<StreamEventView>),
    /// All that had happened when the stream began has been told.
    CaughtUp,
    /// The connection was lost, in a sentence; it is looked for.
    Cut(String),
    /// It is there again.
    Resumed,
}

/// How a connection ended.
enum End {
    /// Whoever takes the messages wants no more.
    Wanted,
    /// It may be opened again, in a sentence why it ended.
    Cut(String),
}

/// Where a stream is, over all of its connections.
struct Place {
    cursor: String,
    /// The last event of each run since the cursor: they come again.
    seen: HashMap<String, u64>,
    is_cut: bool,
    /// Since when nobody has answered.
    silent_since: Instant,
}

impl Client {
    /// Tells what happens to a run and all below it, from a cursor on, until no more is wanted. An error says that the server refuses,
    /// or has not been there for a minute.
    pub fn follow_run(
        &self,
        run: &str,
        cursor: String,
        mut take: impl FnMut(StreamMessage) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let mut place = Place { cursor, seen: HashMap::new(), is_cut: false, silent_since: Instant::now() };
        build_runtime()?.block_on(async {
            let mut pause = FIRST_PAUSE;
            loop {
                let why = match self.follow_once(run, &mut place, &mut take).await {
                    Ok(End::Wanted) => return Ok(()),
                    Ok(End::Cut(why)) => why,
                    Err(ClientError::Problem(problem)) if problem.status != 503 => {
                        return Err(ClientError::Problem(problem));
                    }
                    Err(error) if place.silent_since.elapsed() > PATIENCE => return Err(error),
                    Err(error) => error.sentence(),
                };
                if !place.is_cut {
                    (place.is_cut, pause) = (true, FIRST_PAUSE);
                    if take(StreamMessage::Cut(why)).is_break() {
                        return Ok(());
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
    }

    /// Reads one connection to its end.
    async fn follow_once(
        &self,
        run: &str,
        place: &mut Place,
        take: &mut impl FnMut(StreamMessage) -> ControlFlow<()>,
    ) -> Result<End, ClientError> {
        let mut sender = self.open().await?;
        let call = HttpCall::get(&["v1", "events"])
            .with("run", Some(run))
            .with("after", Some(&place.cursor))
            .accepting("text/event-stream");
        let lost = |why: String| ClientError::Lost(format!("{} {why}", self.address()));
        let request = self.build_request(&call)?;
        let answer = match timeout(MOST_SILENCE, sender.send_request(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(lost(format!("hung up before it answered ({error})"))),
            Err(_) => return Err(lost(format!("has not answered for {} s", MOST_SILENCE.as_secs()))),
        };
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        if status != 200 {
            return Err(read_refusal(status, body).await);
        }
        if std::mem::take(&mut place.is_cut) && take(StreamMessage::Resumed).is_break() {
            return Ok(End::Wanted);
        }
        let mut text = Vec::new();
        loop {
            place.silent_since = Instant::now();
            let piece = match timeout(MOST_SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(_)) | None) | Err(_) => {
                    return Ok(End::Cut(format!("{} has ended the connection", self.address())));
                }
            };
            text.extend_from_slice(&piece);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = text.drain(..end + 2).collect();
                if let Some(end) = place.take_block(&String::from_utf8_lossy(&block), take)? {
                    return Ok(end);
                }
            }
            if text.len() > LARGEST {
                return Err(lost("sent a message that is too long".to_owned()));
            }
        }
    }
}

impl Place {
    /// Takes one message of the stream; returns how the connection ends, if it does.
    fn take_block(
        &mut self,
        block: &str,
        take: &mut impl FnMut(StreamMessage) -> ControlFlow<()>,
    ) -> Result<Option<End>, ClientError> {
        let (mut kind, mut data) = ("", "");
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("event", given)) => kind = given,
                Some(("data", given)) => data = given,
                Some(("id", given)) => {
                    given.clone_into(&mut self.cursor);
                    self.seen.clear();
                }
                // How long to wait before coming back, comments, and what a newer server has to say.
                Some(_) | None => {}
            }
        }
        let flow = match kind {
            "run" => {
                let event: StreamEventView = serde_json::from_str(data).map_err(|error| {
                    ClientError::Unreachable(format!(
                        "cannot read an event ({error}); is the server another version of unstuck?"
                    ))
                })?;
                let last = self.seen.insert(event.run.clone(), event.number).unwrap_or(0);
                if event.number <= last {
                    self.seen.insert(event.run, last);
                    return Ok(None);
                }
                take(StreamMessage::Event(Box::new(event)))
            }
            "caughtUp" => take(StreamMessage::CaughtUp),
            "bye" => return Ok(Some(End::Cut("the server has stopped or cannot read its store".to_owned()))),
            "reset" => {
                return Err(ClientError::Unreachable(
                    "the server has another store than before, or an older copy of it".to_owned(),
                ));
            }
            _ => ControlFlow::Continue(()),
        };
        Ok(flow.is_break().then_some(End::Wanted))
    }
}

/// Reads why there is no stream.
async fn read_refusal(status: u16, body: Incoming) -> ClientError {
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    ClientError::Problem(Box::new(read_problem(&HttpAnswer { status, body, events: None })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(run: &str, number: u64) -> String {
        let event = serde_json::json!({
            "run": run, "flow": "f", "path": [], "generation": 1, "number": number, "at": "2030-01-01T00:00:00Z",
            "by": "engine", "user": null, "state": "running", "step": null, "attempt": null, "facts": [], "what": [],
        });
        format!("event: run\ndata: {event}\n\n")
    }

    #[test]
    fn what_comes_again_after_a_cut_is_told_once() {
        let mut place = Place {
            cursor: "0".to_owned(),
            seen: HashMap::new(),
            is_cut: false,
            silent_since: Instant::now(),
        };
        let mut told = Vec::new();
        let blocks = [
            "retry: 2000\nevent: hello\ndata: {\"cursor\":\"0\"}\n\n".to_owned(),
            event("a", 1),
            event("a", 2),
            "id: 7\n\n".to_owned(),
            event("a", 3),
            event("b", 1),
            // The connection was cut before the next id.
            event("a", 3),
            event("b", 1),
            event("b", 2),
            ": still here\n\n".to_owned(),
        ];
        for block in blocks {
            let taken = place.take_block(&block, &mut |message| {
                if let StreamMessage::Event(event) = message {
                    told.push((event.run.clone(), event.number));
                }
                ControlFlow::Continue(())
            });
            assert!(matches!(taken, Ok(None)));
        }
        let wanted = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)];
        assert_eq!(told, wanted.map(|(run, number)| (run.to_owned(), number)));
        assert_eq!(place.cursor, "7");
    }
}
