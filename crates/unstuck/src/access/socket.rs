//! The socket of the process that owns a store: one JSON line per request and per reply.

mod client;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use unstuck_api::ProblemDocument;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;

use unstuck_api::request::Request;

pub(crate) use client::{SocketError, connect_http, has_owner, send_request};
pub(crate) use server::{HttpSocket, Server};

/// The file in the folder of a store.
const NAME: &str = "socket";
/// The file on which a server answers over HTTP.
const HTTP_NAME: &str = "http";
/// What both ends must agree on.
const VERSION: u32 = 3;
/// The largest question: a signal with the largest payload, in which quotes are escaped.
const LONGEST_QUESTION: usize = 2 * MAX_PAYLOAD_BYTES + (64 << 10);
/// The largest answer.
const LONGEST_ANSWER: usize = 256 << 20;
/// The path of a socket may be about 100 bytes long.
const LONGEST_PATH: usize = 100;

#[derive(Debug, Serialize, Deserialize)]
struct SocketRequest {
    version: u32,
    /// What a command that is to be typed needs to find the same store.
    #[serde(default)]
    option: String,
    request: Request,
}

#[derive(Debug, Serialize, Deserialize)]
struct SocketReply {
    version: u32,
    /// `null` is an answer too.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    answer: Option<Box<RawValue>>,
    /// Why there is none, in a sentence that every version understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// The same, as a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<Box<ProblemDocument>>,
    /// Nobody has listened: it may be asked again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    busy: bool,
    /// What was asked was refused because of the store, and may succeed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unavailable: bool,
}

/// Deserialises a value that is given, `null` included, which `Option` alone would take for absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Default for SocketReply {
    fn default() -> SocketReply {
        SocketReply {
            version: VERSION,
            answer: None,
            refused: None,
            problem: None,
            busy: false,
            unavailable: false,
        }
    }
}

/// Calls `with` with a path to a file in the folder that is short enough for a socket address, by way of
/// `/proc/self/fd` if the real one is too long.
fn short_path<T>(directory: &Path, name: &str, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = directory.join(name);
    if path.as_os_str().len() <= LONGEST_PATH {
        return with(&path);
    }
    let folder = File::open(directory)?;
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    if !path.parent().is_some_and(Path::exists) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the path of the store is too long for a socket (more than {LONGEST_PATH} bytes)"),
        ));
    }
    with(&path)
}

/// The user of the process at the other end, if it is not the user of this one.
#[cfg(target_os = "linux")]
fn foreign_user(stream: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?.uid;
    (peer != rustix::process::geteuid()).then(|| peer.as_raw())
}

/// Only the modes of the folder and of the socket keep others away here.
#[cfg(not(target_os = "linux"))]
fn foreign_user(_: &UnixStream) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_long_path_is_no_hindrance() {
        let folder = tempfile::tempdir().expect("there is room");
        let deep = folder.path().join("d".repeat(90)).join("e".repeat(90));
        std::fs::create_dir_all(&deep).expect("it can be made");
        let listener = short_path(&deep, NAME, |path| UnixListener::bind(path)).expect("it listens");
        short_path(&deep, NAME, |path| UnixStream::connect(path)).expect("it connects");
        assert!(deep.join(NAME).exists());
        drop(listener);
    }
}
