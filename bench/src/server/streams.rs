//! Many readers of one stream of events, and whoever makes the events.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::watch::{self, Receiver, Sender};

use super::calls::{Call, StreamOutcome, StreamPlan};
use super::client::Connection;
use crate::figures::percentile;

/// What stands before each event of a run, and before the sign that a stream has come to the present.
pub(super) const EVENT: &[u8] = b"event: run\n";
const CAUGHT_UP: &[u8] = b"event: caughtUp\n";
/// Requests that start runs at once.
const STARTERS: u64 = 4;

/// Carries a plan out.
pub fn follow(plan: &StreamPlan) -> io::Result<StreamOutcome> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(follow_all(plan))
}

/// How many events a reader has had; none before it has come to the present.
type Had = Option<u64>;

async fn follow_all(plan: &StreamPlan) -> io::Result<StreamOutcome> {
    let mut connections = Vec::new();
    for _ in 0..plan.readers {
        connections.push(Connection::open(plan.address).await?);
    }
    let opened = Instant::now();
    let get = Call::get("events", &plan.target).bytes(plan.address);
    let mut counts = Vec::new();
    for mut connection in connections {
        connection.send(&get).await?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(read(connection, sender));
        counts.push(receiver);
    }
    let (mut answered, mut heard) = (Vec::new(), Vec::new());
    let mut begun = opened;
    if let Some(flow) = &plan.flow {
        all_have(&mut counts, 0).await?;
        let (start, mut caller) =
            (Call::start(flow).bytes(plan.address), Connection::open(plan.address).await?);
        for number in 1..=u64::from(plan.singles) {
            let asked = Instant::now();
            check(caller.call(&start).await?)?;
            answered.push(asked.elapsed());
            all_have(&mut counts, number).await?;
            heard.push(asked.elapsed());
        }
        begun = Instant::now();
        start_all(plan, flow).await?;
    }
    all_have(&mut counts, u64::from(plan.singles) + plan.events).await?;
    let both = |mut of: Vec<Duration>| (percentile(&mut of, 50), percentile(&mut of, 99));
    Ok(StreamOutcome {
        took: begun.elapsed(),
        delivered: plan.events * u64::from(plan.readers),
        answered: both(answered),
        heard: both(heard),
    })
}

/// Starts as many runs as there are to be events, some requests at a time.
async fn start_all(plan: &StreamPlan, flow: &str) -> io::Result<()> {
    let start = Call::start_many(flow, plan.batch).bytes(plan.address);
    let requests = plan.events / plan.batch;
    let starters: Vec<_> = (0..STARTERS)
        .map(|place| {
            let (start, address, mine) = (start.clone(), plan.address, (requests + place) / STARTERS);
            tokio::spawn(async move {
                let mut caller = Connection::open(address).await?;
                for _ in 0..mine {
                    check(caller.call(&start).await?)?;
                }
                Ok::<(), io::Error>(())
            })
        })
        .collect();
    for starter in starters {
        starter.await.map_err(io::Error::other)??;
    }
    Ok(())
}

fn check(status: u16) -> io::Result<()> {
    if (200..300).contains(&status) {
        Ok(())
    } else {
        Err(io::Error::other(format!("a start was answered with {status}")))
    }
}

/// Waits until every reader has had so many events.
async fn all_have(counts: &mut [Receiver<Had>], wanted: u64) -> io::Result<()> {
    for count in counts {
        count.wait_for(|had| had.is_some_and(|had| had >= wanted)).await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Counts the events of a stream until it ends.
async fn read(mut connection: Connection, counts: Sender<Had>) -> io::Result<()> {
    let (mut events, mut present) = (Seeker::new(EVENT), Seeker::new(CAUGHT_UP));
    let (mut had, mut is_present) = (0, false);
    loop {
        let bytes = connection.next().await?;
        is_present = is_present || present.count(bytes) > 0;
        had += events.count(bytes);
        if is_present || had > 0 {
            counts.send_replace(Some(had));
        }
    }
}

/// Counts a word in what comes in pieces: one may end in the middle of it.
struct Seeker {
    word: &'static [u8],
    /// The end of the last piece, too short to have the word in it.
    end: Vec<u8>,
}

impl Seeker {
    fn new(word: &'static [u8]) -> Seeker {
        Seeker { word, end: Vec::new() }
    }

    fn count(&mut self, bytes: &[u8]) -> u64 {
        let short = self.word.len() - 1;
        let begin = self.end.len();
        self.end.extend_from_slice(&bytes[..short.min(bytes.len())]);
        let across = memchr::memmem::find_iter(&self.end, self.word).count();
        let inside = memchr::memmem::find_iter(bytes, self.word).count();
        if bytes.len() >= short {
            self.end.clear();
            self.end.extend_from_slice(&bytes[bytes.len() - short..]);
        } else {
            let all = self.end.len();
            self.end.drain(..all.saturating_sub(short).min(begin + bytes.len()));
        }
        (across + inside) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_counted_once_wherever_pieces_end() {
        let text = b"event: run\ndata: 1\n\nevent: runs\nevent: run\nevent: run\nx";
        for length in 1..=text.len() {
            let mut seeker = Seeker::new(EVENT);
            let found: u64 = text.chunks(length).map(|piece| seeker.count(piece)).sum();
            assert_eq!(found, 3, "pieces of {length}");
        }
    }
}
