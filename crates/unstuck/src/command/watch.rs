//! `unstuck watch`: a live screen of a store or a server: runs by state, open errors, what comes next, queues and schedules.

mod layout;
mod picture;
mod terminal;

use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;
use unstuck_core::time::Time;

use self::layout::{Shown, draw_lines, plain_lines};
use self::picture::Picture;
use self::terminal::{Leave, Terminal};
use super::run::signals::{self, Signal};
use crate::CommandResult;
use crate::Format;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::{Output, terminal_size};

/// Watch a store or a server: runs by state, open errors, what comes next, queues and schedules.
///
/// On a terminal the screen is drawn again every second until you type q or Ctrl-C; it executes nothing and changes nothing. A server that goes away is
/// looked for until it is there again. Where the output is no terminal, and with -o json, it is printed once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck watch
  unstuck watch --server http://127.0.0.1:7070
  unstuck watch -o json | jq '.errors[] | {group, open}'";

/// The interval between two looks, and between two drawings.
const INTERVAL: Duration = Duration::from_secs(1);
/// A look that takes long is followed by a rest of so many times as long, so that watching is never much of the work.
const RESTS: u32 = 10;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// How long an answer may take before the screen says that there is none.
const SLOW: Duration = Duration::from_secs(5);

const CTRL_C: u8 = 3;
const CTRL_L: u8 = 12;
const CTRL_Z: u8 = 26;

/// What happens while the screen is shown.
enum Message {
    Looking,
    Looked(Box<Result<Picture, CommandError>>),
    Key(u8),
    /// The terminal has another size.
    Resized,
    Signal(Signal),
    /// Nobody is at the terminal any more.
    Closed,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let picture = Picture::load(&place)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Text if stdout.look.live => return Watch::new(&place, picture).show(place),
            Format::Text => {
                let shown = Shown { name: name_of(&place), option: &place.option, failure: None };
                for line in plain_lines(&picture, &shown, stdout.look) {
                    stdout.line(&line);
                }
            }
            Format::Json => stdout.line(&json_text::pretty(&picture.to_json()?)),
        }
        if let Some(note) = &picture.note {
            Output::stderr().line(&format!("note: {note}"));
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns what is watched, for people.
fn name_of(place: &StoreLocation) -> String {
    match &place.server {
        Some(server) => server.address().to_string(),
        None => place.directory.display().to_string(),
    }
}

/// The screen, and what it shows.
struct Watch {
    picture: Picture,
    name: String,
    option: String,
    /// Why the last look failed.
    failure: Option<String>,
    /// When the look that is not answered yet began.
    asked: Option<Instant>,
}

impl Watch {
    fn new(place: &StoreLocation, picture: Picture) -> Watch {
        Watch { picture, name: name_of(place), option: place.option.clone(), failure: None, asked: None }
    }

    /// Shows the screen until somebody wants no more.
    fn show(mut self, place: StoreLocation) -> CommandResult {
        let (sender, receiver) = channel();
        let mut terminal = Terminal::enter();
        listen(&sender, terminal.leave())?;
        if terminal.reads_keys() {
            spawn("unstuck-keys", keys(sender.clone()))?;
        }
        spawn("unstuck-looks", looks(place, sender))?;
        let code = self.draw_until_end(&mut terminal, &receiver);
        terminal.finish()?;
        Ok(code)
    }

    fn draw_until_end(&mut self, terminal: &mut Terminal, receiver: &Receiver<Message>) -> ExitCode {
        loop {
            self.draw(terminal);
            match receiver.recv_timeout(INTERVAL) {
                Ok(Message::Looking) => self.asked = Some(Instant::now()),
                Ok(Message::Looked(looked)) => self.take(*looked),
                Ok(Message::Key(b'q' | b'Q' | CTRL_C) | Message::Closed) => return ExitCode::SUCCESS,
                Ok(Message::Key(CTRL_Z)) => terminal.suspend(),
                Ok(Message::Key(CTRL_L)) => terminal.clear(),
                Ok(Message::Signal(signal)) => return signal.exit_code(),
                Ok(Message::Resized) => terminal.clear(),
                Ok(Message::Key(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    fn take(&mut self, looked: Result<Picture, CommandError>) {
        self.asked = None;
        match looked {
            Ok(picture) => (self.picture, self.failure) = (picture, None),
            Err(error) => self.failure = Some(error.sentence()),
        }
    }

    fn draw(&self, terminal: &mut Terminal) {
        let slow = self.asked.map(|asked| asked.elapsed()).filter(|waited| *waited >= SLOW);
        let slow = slow.map(|waited| format!("no answer for {}s", waited.as_secs()));
        let failure = self.failure.as_deref().or(slow.as_deref());
        let shown = Shown { name: self.name.clone(), option: &self.option, failure };
        let size = terminal_size();
        let now = unstuck_service::service::now();
        terminal.draw(&draw_lines(&self.picture, &shown, now, size, terminal.look()));
    }
}

/// Looks again and again; what is seen, and what is not, is told.
fn looks(place: StoreLocation, sender: Sender<Message>) -> impl FnOnce() + Send + 'static {
    move || {
        let mut rest = INTERVAL;
        let mut took_before = Duration::ZERO;
        loop {
            thread::sleep(rest);
            if sender.send(Message::Looking).is_err() {
                return;
            }
            let begun = Instant::now();
            let looked = Picture::load(&place);
            // One look that takes long may only have waited, and a failed one was no work.
            let took = if looked.is_ok() { begun.elapsed() } else { Duration::ZERO };
            rest = (took.min(took_before) * RESTS).clamp(INTERVAL, LONGEST_REST);
            took_before = took;
            if sender.send(Message::Looked(Box::new(looked))).is_err() {
                return;
            }
        }
    }
}

/// Tells what is typed, until nobody can type any more.
fn keys(sender: Sender<Message>) -> impl FnOnce() + Send + 'static {
    move || {
        let mut key = [0];
        // A signal that was handled does not end it.
        while std::io::stdin().lock().read_exact(&mut key).is_ok() {
            if sender.send(Message::Key(key[0])).is_err() {
                return;
            }
        }
        // The receiver is gone when the screen is.
        let _ = sender.send(Message::Closed);
    }
}

/// Tells signals and changes of the size.
fn listen(sender: &Sender<Message>, leave: Leave) -> Result<(), CommandError> {
    let failed = |error| CommandError::new(format!("cannot listen for signals: {error}"));
    let told = sender.clone();
    // The receiver is gone when the screen is.
    let first = move |signal| drop(told.send(Message::Signal(signal)));
    signals::listen(first, move || leave.restore()).map_err(failed)?;
    let mut sizes = Signals::new([SIGWINCH]).map_err(failed)?;
    let told = sender.clone();
    spawn("unstuck-size", move || {
        for _ in sizes.forever() {
            if told.send(Message::Resized).is_err() {
                return;
            }
        }
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CommandError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| CommandError::internal(format!("cannot watch: {error}")))
}

/// Leaves out what is less than a second, so that a time that is counted down does not flicker.
fn whole_seconds(at: Time) -> Time {
    Time(at.0.div_euclid(1_000) * 1_000)
}
