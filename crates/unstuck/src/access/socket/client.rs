//! Sends requests to the process that owns the store.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use unstuck_api::{ProblemDocument, ProblemType};

use super::{HTTP_NAME, LONGEST_ANSWER, NAME, SocketReply, SocketRequest, VERSION, foreign_user, short_path};
use crate::error::{CommandError, without_os_number};
use unstuck_api::request::Request;

/// How long the owner may take to reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to reply to a query that the file can answer instead.
const READING_PATIENCE: Duration = Duration::from_millis(1_500);
/// How long it may take where there may be a hundred thousand errors to look at.
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

/// Builds the error that the owner of the store cannot be asked.
fn refused_error(sentence: String) -> SocketError {
    SocketError::Refused(Box::new(ProblemDocument::new(ProblemType::StoreAway, sentence)))
}

/// Sends a request to the owner and returns the JSON of its answer. Checks first that the socket belongs to this user,
/// and that the owner is not suspended.
pub(crate) fn send_request(directory: &Path, option: &str, request: &Request) -> Result<String, SocketError> {
    unstuck_sqlite::check_access(directory).map_err(|error| refused_error(error.to_string()))?;
    let Ok(mut stream) = short_path(directory, NAME, |path| UnixStream::connect(path)) else {
        return Err(SocketError::Nobody);
    };
    if let Some(user) = foreign_user(&stream) {
        return Err(refused_error(format!(
            "a process of user {user} answers for the store {}, which belongs to another user. Nothing was sent",
            directory.display()
        )));
    }
    let question = SocketRequest { version: VERSION, option: option.to_owned(), request: request.clone() };
    let mut line = serde_json::to_vec(&question).map_err(|error| refused_error(error.to_string()))?;
    line.push(b'\n');
    let process = peer_process(&stream);
    if let Some(id) = process.filter(|id| is_stopped(*id)) {
        return Err(SocketError::Stopped(describe_stopped_owner(id), process));
    }
    let patience = match request {
        _ if request.takes_long() => LONG_PATIENCE,
        Request::Query(_) => READING_PATIENCE,
        Request::Change(_)
        | Request::Policies(_)
        | Request::Bulk(_)
        | Request::Start(_)
        | Request::Flows(_)
        | Request::Schedule(_)
        | Request::Tokens(_) => PATIENCE,
    };
    let heard = exchange_lines(&mut stream, &line, patience).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            SocketError::Silent(describe_silent_owner(process, patience), process)
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => SocketError::HungUp,
        _ => refused_error(format!(
            "cannot reach the process that has the store open: {}",
            without_os_number(&error)
        )),
    })?;
    let answer: SocketReply =
        serde_json::from_slice(&heard).map_err(|_| refused_error(describe_other_version()))?;
    match answer {
        SocketReply { busy: true, .. } => Err(SocketError::Busy),
        SocketReply { problem: Some(problem), unavailable: true, .. } => {
            Err(SocketError::Unavailable(problem))
        }
        SocketReply { problem: Some(problem), .. } => Err(SocketError::Refused(problem)),
        SocketReply { refused: Some(sentence), .. } => Err(refused_error(sentence)),
        SocketReply { version: VERSION, answer: Some(answer), .. } => Ok(answer.get().to_owned()),
        SocketReply { .. } => Err(refused_error(describe_other_version())),
    }
}

/// Returns whether a process answers for the store.
pub(crate) fn has_owner(directory: &Path) -> bool {
    short_path(directory, NAME, |path| UnixStream::connect(path)).is_ok()
}

/// Connects to the socket on which the server of a store answers over HTTP. Checks that both belong to this user.
pub(crate) fn connect_http(directory: &Path) -> io::Result<UnixStream> {
    unstuck_sqlite::check_access(directory)
        .map_err(|error| io::Error::new(ErrorKind::PermissionDenied, error.to_string()))?;
    let stream = short_path(directory, HTTP_NAME, |path| UnixStream::connect(path))?;
    match foreign_user(&stream) {
        None => Ok(stream),
        Some(user) => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("a process of user {user} answers for the store"),
        )),
    }
}

/// Sends a line and reads the reply.
fn exchange_lines(stream: &mut UnixStream, line: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // A server that refuses the connection closes it, and may have sent the reason before.
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

/// Describes an owner that does not answer.
fn describe_silent_owner(process: Option<u32>, patience: Duration) -> String {
    let who = process.map_or_else(|| "the process".to_owned(), |id| format!("process {id}"));
    let seconds = patience.as_secs_f32();
    format!(
        "{who} has the store open but has not answered for {seconds} seconds. Check what it is doing, or stop it"
    )
}

/// Describes an owner that is suspended, with how to wake or end it.
fn describe_stopped_owner(process: u32) -> String {
    format!(
        "process {process} has the store open but is suspended (Ctrl-Z, SIGSTOP). Wake it with `kill -CONT {process}`, or end it with `kill -KILL {process}`"
    )
}

/// Returns whether a process is suspended, so that it cannot answer.
fn is_stopped(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The state follows the process name, which is in parentheses and may contain anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

fn describe_other_version() -> String {
    "the process that has the store open is another version of unstuck; use the same version".to_owned()
}

/// The process at the other end.
#[cfg(target_os = "linux")]
fn peer_process(stream: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

#[cfg(not(target_os = "linux"))]
fn peer_process(_: &UnixStream) -> Option<u32> {
    None
}
