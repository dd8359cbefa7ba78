//! Asking whoever owns the store.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use unstuck_api::{ProblemDocument, ProblemType};

use super::{LONGEST_ANSWER, NAME, SocketReply, SocketRequest, VERSION, foreign_user, short_path};
use crate::error::{CommandError, plain};
use unstuck_api::request::Request;

/// So long an owner may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long where the file can be read instead.
const READING_PATIENCE: Duration = Duration::from_millis(1_500);
/// And so long where there may be a hundred thousand errors to look at.
const LONG_PATIENCE: Duration = Duration::from_mins(10);

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocketError {
    /// Nobody owns the store, or not yet, or no longer: nothing was asked.
    Nobody,
    /// Too many ask at once: nothing was asked.
    Busy,
    /// The owner went away before it answered, and may or may not have done it.
    HungUp,
    /// What was asked was refused, or nobody could be asked.
    Refused(Box<ProblemDocument>),
    /// Nothing was done, and the same may succeed later.
    Unavailable(Box<ProblemDocument>),
    /// In a sentence, and which process: whoever has the store open does not answer, and may or may not do it.
    Silent(String, Option<u32>),
    /// In a sentence, and which process: whoever has the store open is stopped, and nothing was asked.
    Stopped(String, Option<u32>),
}

/// What was asked changes nothing, so that it can be asked again.
impl From<SocketError> for CommandError {
    fn from(unheard: SocketError) -> CommandError {
        match unheard {
            SocketError::Refused(problem) => CommandError::Problem(problem),
            SocketError::Unavailable(problem) => CommandError::Unavailable(problem),
            SocketError::Silent(sentence, _) | SocketError::Stopped(sentence, _) => {
                CommandError::unavailable(ProblemType::StoreAway, sentence)
            }
            SocketError::Busy => CommandError::unavailable(
                ProblemType::Overloaded,
                "too many commands at once; repeat the command in a moment",
            ),
            SocketError::Nobody | SocketError::HungUp => CommandError::unavailable(
                ProblemType::Stopping,
                "the process that had the store open has stopped; repeat the command",
            ),
        }
    }
}

/// That the process that has the store open cannot be asked.
fn refused(sentence: String) -> SocketError {
    SocketError::Refused(Box::new(ProblemDocument::new(ProblemType::StoreAway, sentence)))
}

/// Asks, and gives the JSON of the answer.
pub(crate) fn ask(directory: &Path, option: &str, request: &Request) -> Result<String, SocketError> {
    unstuck_sqlite::check_access(directory).map_err(|error| refused(error.to_string()))?;
    let Ok(mut stream) = short_path(directory, NAME, |path| UnixStream::connect(path)) else {
        return Err(SocketError::Nobody);
    };
    if let Some(user) = foreign_user(&stream) {
        return Err(refused(format!(
            "a process of user {user} answers for the store {}, which belongs to another user. Nothing was sent",
            directory.display()
        )));
    }
    let question = SocketRequest { version: VERSION, option: option.to_owned(), request: request.clone() };
    let mut line = serde_json::to_vec(&question).map_err(|error| refused(error.to_string()))?;
    line.push(b'\n');
    let process = process(&stream);
    if let Some(id) = process.filter(|id| is_stopped(*id)) {
        return Err(SocketError::Stopped(stopped(id), process));
    }
    let patience = match request {
        _ if request.takes_long() => LONG_PATIENCE,
        Request::Query(_) => READING_PATIENCE,
        Request::Change(_) | Request::Policies(_) | Request::Bulk(_) => PATIENCE,
    };
    let heard = converse(&mut stream, &line, patience).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            SocketError::Silent(silent(process, patience), process)
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => SocketError::HungUp,
        _ => refused(format!("cannot reach the process that has the store open: {}", plain(&error))),
    })?;
    let answer: SocketReply = serde_json::from_slice(&heard).map_err(|_| refused(foreign()))?;
    match answer {
        SocketReply { busy: true, .. } => Err(SocketError::Busy),
        SocketReply { problem: Some(problem), unavailable: true, .. } => {
            Err(SocketError::Unavailable(problem))
        }
        SocketReply { problem: Some(problem), .. } => Err(SocketError::Refused(problem)),
        SocketReply { refused: Some(sentence), .. } => Err(refused(sentence)),
        SocketReply { version: VERSION, answer: Some(answer), .. } => Ok(answer.get().to_owned()),
        SocketReply { .. } => Err(refused(foreign())),
    }
}

fn converse(stream: &mut UnixStream, line: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Whoever does not want to listen hangs up, and may have said why.
    match stream.write_all(line) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
        Err(_) | Ok(()) => {}
    }
    let mut heard = Vec::new();
    BufReader::new(stream).take(LONGEST_ANSWER as u64).read_until(b'\n', &mut heard)?;
    if heard.last() != Some(&b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(heard)
}

fn silent(process: Option<u32>, patience: Duration) -> String {
    let who = process.map_or_else(|| "the process".to_owned(), |id| format!("process {id}"));
    let seconds = patience.as_secs_f32();
    format!(
        "{who} has the store open but has not answered for {seconds} seconds. Check what it is doing, or stop it"
    )
}

fn stopped(process: u32) -> String {
    format!(
        "process {process} has the store open but is suspended (Ctrl-Z, SIGSTOP). Wake it with `kill -CONT {process}`, or end it with `kill -KILL {process}`"
    )
}

/// Whether somebody has stopped a process, so that it cannot answer.
fn is_stopped(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The name before it, in brackets, may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

fn foreign() -> String {
    "the process that has the store open is another version of unstuck; use the same version".to_owned()
}

/// The process at the other end.
#[cfg(target_os = "linux")]
fn process(stream: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

#[cfg(not(target_os = "linux"))]
fn process(_: &UnixStream) -> Option<u32> {
    None
}
