//! Peers that speak HTTP/2, frame by frame: one that only pings is closed like any other that asks nothing, and one that is being
//! answered is not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::PATIENCE;
use crate::support::{FLOWS, Server, Store, wait_until};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Of settings and pings.
const ACK: u8 = 1;
/// Nothing follows on the stream, and no headers follow these.
const END_OF_STREAM_AND_HEADERS: u8 = 0b101;

const IDLE: Duration = Duration::from_millis(600);

/// A frame that has arrived.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A connection by HTTP/2.
struct Peer(TcpStream);

impl Peer {
    /// Connects, and says what every peer has to say first.
    fn connect(server: &Server) -> Peer {
        let stream = TcpStream::connect(server.address).expect("the server accepts connections");
        // Short, so that pings go out while nothing comes in.
        stream.set_read_timeout(Some(IDLE / 6)).expect("it can be set");
        let mut peer = Peer(stream);
        peer.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("it is sent");
        peer.send(SETTINGS, 0, 0, &[]).expect("it is sent");
        peer
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat())
    }

    /// Asks for a path on a stream, with headers that need no table.
    fn get(&mut self, stream: u32, path: &str) {
        let text = |index: u8, text: &str| {
            let length = u8::try_from(text.len()).expect("it is short");
            [&[index, length], text.as_bytes()].concat()
        };
        let headers = [vec![0x82, 0x86], text(0x04, path), text(0x01, "localhost")].concat();
        self.send(HEADERS, END_OF_STREAM_AND_HEADERS, stream, &headers).expect("it is sent");
    }

    /// The next frame, after those that only have to be acknowledged; none where nothing comes for a moment.
    fn read(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let mut head = [0; 9];
            match self.0.peek(&mut head[..1]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock) => return Ok(None),
                Err(error) => return Err(error),
            }
            self.0.read_exact(&mut head)?;
            let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, l1, l2, l3]) as usize];
            self.0.read_exact(&mut payload)?;
            match kind {
                SETTINGS | PING if flags & ACK != 0 => {}
                SETTINGS => self.send(SETTINGS, ACK, 0, &[])?,
                PING => self.send(PING, ACK, 0, &payload)?,
                _ => {
                    let stream = u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]);
                    return Ok(Some(Frame { kind, flags, stream, payload }));
                }
            }
        }
    }

    /// Pings and reads, until the server ends the connection. Returns whether it said so before.
    fn ping_until_closed(&mut self) -> bool {
        let (end, mut is_told) = (Instant::now() + PATIENCE, false);
        while Instant::now() < end {
            // It fails once the server has closed.
            let _ = self.send(PING, 0, 0, &[7; 8]);
            match self.read() {
                Ok(Some(frame)) => is_told |= frame.kind == GOAWAY,
                Ok(None) => {}
                Err(_) => return is_told,
            }
        }
        panic!("the connection is never closed");
    }

    /// Reads data until a text has come, with pings, and fails if the server ends the connection.
    fn read_until(&mut self, text: &str) {
        let (end, mut received) = (Instant::now() + PATIENCE, Vec::new());
        while !String::from_utf8_lossy(&received).contains(text) {
            assert!(Instant::now() < end, "never: {text}");
            match self.read().expect("the connection stays") {
                Some(frame) if frame.kind == DATA => received.extend(frame.payload),
                Some(frame) => assert_ne!(frame.kind, GOAWAY, "it is closed"),
                None => {}
            }
        }
    }
}

fn start() -> Server {
    let server = Server::start_on(&Store::new(), &["--limits-idle-time", "600ms"]);
    server.apply(FLOWS).with(200);
    server
}

#[test]
fn a_peer_that_only_pings_is_closed_after_the_idle_time() {
    let server = start();
    let before = server.open_sockets();
    let begun = Instant::now();
    let mut never_asked = Peer::connect(&server);
    assert!(never_asked.ping_until_closed(), "it is told first");
    assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
    // One that has been answered has as long again.
    let mut has_asked = Peer::connect(&server);
    has_asked.get(1, "/health/live");
    has_asked.read_until("ok");
    let answered = Instant::now();
    assert!(has_asked.ping_until_closed());
    assert!(answered.elapsed() + Duration::from_millis(50) >= IDLE, "{:?}", answered.elapsed());
    wait_until("both are closed", || server.open_sockets() <= before);
}

#[test]
fn a_peer_that_is_being_answered_is_not_idle() {
    let server = start();
    let run = server.start_order("o-1");
    let mut waits = Peer::connect(&server);
    waits.get(1, &format!("/v1/runs/{run}?wait=30s&until=final"));
    let mut follows = Peer::connect(&server);
    follows.get(1, "/v1/events");
    follows.read_until("caughtUp");
    // Both are quiet for longer than a connection may be idle, and only then is there something to tell.
    let begun = Instant::now();
    while begun.elapsed() < IDLE * 2 {
        for peer in [&mut waits, &mut follows] {
            let frame = peer.read().expect("the connection stays");
            assert!(frame.is_none_or(|frame| frame.kind != GOAWAY), "it is closed");
        }
    }
    server.post(&format!("/v1/runs/{run}/signal"), &json!({"name": "approve"})).with(200);
    waits.read_until("\"completed\"");
    follows.read_until("run.completed");
}

#[test]
fn streams_that_are_reset_are_given_up_and_hold_up_no_other() {
    let server = start();
    let mut peer = Peer::connect(&server);
    // Many more would be taken for an attack, and the connection closed.
    for stream in (1..20).step_by(2) {
        peer.get(stream, "/v1/events");
        peer.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes()).expect("it is sent");
    }
    peer.get(101, "/health/live");
    loop {
        let frame = peer.read().expect("the connection stays");
        if frame.is_some_and(|frame| frame.stream == 101 && frame.flags & 1 != 0) {
            break;
        }
    }
    drop(peer);
    let metrics = || server.get("/metrics").body;
    wait_until("no stream is left", || metrics().contains("unstuck_event_streams 0\n"));
}
