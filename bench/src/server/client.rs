//! A client that costs little, so that what is measured is the server: calls that are written once, and answers of which only the
//! status and the length are read.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use super::calls::{Answers, Outcome, Plan};
use crate::figures::percentile;

/// What one connection, or all of them, have had.
#[derive(Default)]
struct Had {
    /// For each call of the plan.
    took: Vec<Vec<Duration>>,
    refused: u64,
    first_refusal: Option<String>,
}

/// Carries a plan out.
pub fn ask(plan: &Plan) -> io::Result<Outcome> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(ask_all(plan))
}

async fn ask_all(plan: &Plan) -> io::Result<Outcome> {
    let calls: Arc<[Vec<u8>]> = plan.calls.iter().map(|call| call.bytes(plan.address)).collect();
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        connections.push(Connection::open(plan.address).await?);
    }
    let begin = Instant::now();
    let interval = plan.pace.map(|pace| Duration::from_secs_f64(f64::from(plan.connections) / pace));
    let asking = (0..).zip(connections).map(|(place, connection)| {
        let first = begin + interval.unwrap_or_default() * place / plan.connections;
        let pace = interval.map(|interval| (first, interval));
        tokio::spawn(ask_on(connection, calls.clone(), place as usize, pace, begin + plan.time))
    });
    let asking: Vec<_> = asking.collect();
    let mut all = Had { took: vec![Vec::new(); calls.len()], ..Had::default() };
    for one in asking {
        let had = one.await.map_err(io::Error::other)??;
        all.took.iter_mut().zip(had.took).for_each(|(all, more)| all.extend(more));
        all.refused += had.refused;
        all.first_refusal = all.first_refusal.or(had.first_refusal);
    }
    let took = begin.elapsed();
    let answers = plan.calls.iter().zip(&mut all.took).map(|(call, took)| Answers {
        name: call.name.clone(),
        count: took.len() as u64,
        median: percentile(took, 50),
        p99: percentile(took, 99),
    });
    let answers = answers.collect();
    Ok(Outcome { took, answers, refused: all.first_refusal.map(|first| (all.refused, first)) })
}

/// Makes calls on one connection until the end. With a pace, a call that comes late counts from when it should have been made.
async fn ask_on(
    mut connection: Connection,
    calls: Arc<[Vec<u8>]>,
    first: usize,
    mut pace: Option<(Instant, Duration)>,
    end: Instant,
) -> io::Result<Had> {
    let mut had = Had { took: vec![Vec::new(); calls.len()], ..Had::default() };
    for place in first.. {
        let begin = match &mut pace {
            None => Instant::now(),
            Some((due, interval)) => {
                let begin = *due;
                *due += *interval;
                sleep_until(begin.into()).await;
                begin
            }
        };
        if begin >= end {
            break;
        }
        let call = place % calls.len();
        let status = connection.call(&calls[call]).await?;
        had.took[call].push(begin.elapsed());
        if !(200..300).contains(&status) {
            had.refused += 1;
            had.first_refusal.get_or_insert_with(|| String::from_utf8_lossy(connection.body()).into_owned());
        }
    }
    Ok(had)
}

/// A connection, and what has been read of it.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the body of the last answer begins.
    head: usize,
}

impl Connection {
    pub(super) async fn open(address: std::net::SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 << 10), head: 0 })
    }

    /// Sends a call and reads its answer, and returns the status.
    pub(super) async fn call(&mut self, bytes: &[u8]) -> io::Result<u16> {
        self.stream.write_all(bytes).await?;
        self.buffer.clear();
        loop {
            if let Some(head) = find_head(&self.buffer) {
                self.head = head.end;
                while self.buffer.len() < head.end + head.length {
                    self.read().await?;
                }
                return Ok(head.status);
            }
            self.read().await?;
        }
    }

    /// The body of the last answer.
    pub(super) fn body(&self) -> &[u8] {
        &self.buffer[self.head..]
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads what comes next, and nothing of what came before.
    pub(super) async fn next(&mut self) -> io::Result<&[u8]> {
        self.buffer.clear();
        self.read().await?;
        Ok(&self.buffer)
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has hung up")),
            _ => Ok(()),
        }
    }
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where it ends, and the body begins.
    end: usize,
    /// Of the body.
    length: usize,
}

/// Reads the head of an answer, if it is whole.
fn find_head(bytes: &[u8]) -> Option<Head> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let mut lines = bytes[..end].split(|byte| *byte == b'\n');
    let status = lines.next()?.split(|byte| *byte == b' ').nth(1)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(b"content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| value.trim_ascii())
    });
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<usize>().ok();
    Some(Head {
        status: u16::try_from(number(status)?).ok()?,
        end,
        length: length.and_then(number).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_is_read_when_it_is_whole() {
        for (text, wanted) in [
            ("", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", Some((200, 38, 2))),
            ("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n", Some((304, 40, 0))),
        ] {
            let wanted = wanted.map(|(status, end, length)| Head { status, end, length });
            assert_eq!(find_head(text.as_bytes()), wanted, "{text}");
        }
    }
}
