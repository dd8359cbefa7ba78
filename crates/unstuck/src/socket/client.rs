//! Asking whoever owns the store.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::{Answer, LONGEST_ANSWER, NAME, Question, VERSION, foreign_user, short_path};
use crate::desk::asked::Asked;
use crate::failure::{Failure, plain};

/// So long an owner may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long where there may be a hundred thousand errors to look at.
const LONG_PATIENCE: Duration = Duration::from_mins(10);

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// Nobody owns the store, or not yet, or no longer: nothing was asked.
    Nobody,
    /// Too many ask at once: nothing was asked.
    Busy,
    /// The owner went away before it answered, and may or may not have done it.
    HungUp,
    /// In a sentence.
    Refused(String),
    /// In a sentence: nothing was done, and the same may succeed later.
    Unavailable(String),
    /// In a sentence: whoever has the store open does not answer, and may or may not do it.
    Silent(String),
}

/// What was asked changes nothing, so that it can be asked again.
impl From<Unheard> for Failure {
    fn from(unheard: Unheard) -> Failure {
        match unheard {
            Unheard::Refused(sentence) => Failure::new(sentence),
            Unheard::Unavailable(sentence) | Unheard::Silent(sentence) => Failure::Unavailable(sentence),
            Unheard::Busy => {
                Failure::Unavailable("too many commands ask at once; try again in a moment".to_owned())
            }
            Unheard::Nobody | Unheard::HungUp => {
                Failure::Unavailable("the process that had the store open went away; try again".to_owned())
            }
        }
    }
}

/// Asks, and gives the JSON of the answer.
pub(crate) fn ask(directory: &Path, option: &str, asked: &Asked) -> Result<String, Unheard> {
    unstuck_sqlite::check_access(directory).map_err(|error| Unheard::Refused(error.to_string()))?;
    let Ok(mut stream) = short_path(directory, NAME, |path| UnixStream::connect(path)) else {
        return Err(Unheard::Nobody);
    };
    if let Some(user) = foreign_user(&stream) {
        return Err(Unheard::Refused(format!(
            "a process of user {user} answers for the store {}, which is not theirs; nothing was asked",
            directory.display()
        )));
    }
    let question = Question { version: VERSION, option: option.to_owned(), asked: asked.clone() };
    let mut line = serde_json::to_vec(&question).map_err(|error| Unheard::Refused(error.to_string()))?;
    line.push(b'\n');
    let patience = if asked.takes_long() { LONG_PATIENCE } else { PATIENCE };
    let heard = converse(&mut stream, &line, patience).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Unheard::Silent(silent(&stream, patience)),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => Unheard::HungUp,
        _ => Unheard::Refused(format!(
            "the process that has the store open cannot be asked: {}",
            plain(&error)
        )),
    })?;
    let answer: Answer = serde_json::from_slice(&heard).map_err(|_| Unheard::Refused(foreign()))?;
    match answer {
        Answer { busy: true, .. } => Err(Unheard::Busy),
        Answer { refused: Some(sentence), unavailable: true, .. } => Err(Unheard::Unavailable(sentence)),
        Answer { refused: Some(sentence), .. } => Err(Unheard::Refused(sentence)),
        Answer { version: VERSION, answer: Some(answer), .. } => Ok(answer.get().to_owned()),
        Answer { .. } => Err(Unheard::Refused(foreign())),
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

fn silent(stream: &UnixStream, patience: Duration) -> String {
    let who = process(stream).map_or_else(|| "the process".to_owned(), |id| format!("process {id}"));
    format!(
        "{who} has the store open and has not answered for {} seconds; look at what it is doing, or end it",
        patience.as_secs()
    )
}

fn foreign() -> String {
    "the process that has the store open speaks another version of the protocol; use the same version of unstuck"
        .to_owned()
}

/// The process at the other end.
#[cfg(target_os = "linux")]
fn process(stream: &UnixStream) -> Option<i32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

#[cfg(not(target_os = "linux"))]
fn process(_: &UnixStream) -> Option<i32> {
    None
}
