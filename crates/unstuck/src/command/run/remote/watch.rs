//! Shows a run on a server from its stream of events until it ends, rests or is left alone.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use unstuck_api::history::StreamEventView;
use unstuck_api::request::Query;
use unstuck_api::{ProblemType, Run};
use unstuck_client::{Client, ClientError, StreamMessage};
use unstuck_core::time::Time;
use unstuck_service::owner::state_phrase;

use super::super::Message;
use super::super::backlog::Backlog;
use super::super::finish::show_outcome;
use super::super::log::Line;
use super::super::show::Show;
use super::super::signals::Signal;
use super::at_rest::is_at_rest;
use super::screen_view::RunScreen;
use super::{is_final, read_document};
use crate::CommandResult;
use crate::Format;
use crate::access::connection::unanswered_query;
use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::exit;
use crate::view::json_text;
use crate::view::output::{Output, terminal_size};
use crate::view::style;
use crate::view::text;

/// The interval between two looks at the run while nothing is told of it.
const QUIET: Duration = Duration::from_secs(5);
/// The interval between two looks while much is told.
const BUSY: Duration = Duration::from_millis(250);
/// How long events are waited for that have happened already.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// How many messages are taken before the screen is drawn again.
const MAX_TAKEN: usize = 5_000;

/// A run on a server, as it was found.
pub(super) struct RemoteRun {
    pub(super) id: String,
    /// What happens after it is shown.
    pub(super) cursor: String,
    /// What to say first.
    pub(super) notes: Vec<String>,
    /// Whether it was started just now.
    pub(super) is_new: bool,
}

/// A run on a server that is being watched.
pub(super) struct RemoteWatch {
    place: StoreLocation,
    server: Client,
    run: String,
    cursor: String,
    format: Format,
    show: Show,
    backlog: Backlog,
    /// Log lines have the time since then; none before the first event of a new run.
    began: Option<Time>,
    /// The run as it was when it was last looked at.
    screen: RunScreen,
    looked: Instant,
    /// Whether something was told since then that may be its end or its rest.
    is_worth_a_look: bool,
    told: Told,
}

/// What the stream has told so far.
struct Told {
    /// The state of the run, after its last event.
    state: Option<String>,
    /// Whether nothing is told any more, or not at once.
    is_over: bool,
}

impl RemoteWatch {
    pub(super) fn new(
        place: StoreLocation,
        server: Client,
        found: RemoteRun,
        format: Format,
        backlog: Backlog,
    ) -> RemoteWatch {
        let mut output = match format {
            Format::Text => Output::stdout(),
            Format::Json => Output::stderr(),
        };
        let width = if output.look.live { terminal_size().0 } else { usize::MAX };
        for line in found.notes.iter().flat_map(|note| text::wrap(&text::visible(note), width)) {
            output.line(&output.look.paint(style::DIM, line));
        }
        RemoteWatch {
            place,
            server,
            run: found.id,
            cursor: found.cursor,
            format,
            show: Show::on(output),
            backlog,
            began: (!found.is_new).then(unstuck_service::service::now),
            screen: RunScreen::default(),
            looked: Instant::now(),
            // A run that was there already may rest.
            is_worth_a_look: !found.is_new,
            told: Told { state: found.is_new.then(String::new), is_over: false },
        }
    }

    /// Shows the run until it ends, rests or is left alone, and reports how that was.
    pub(super) fn watch_to_end(
        mut self,
        sender: Sender<Message>,
        receiver: &Receiver<Message>,
    ) -> CommandResult {
        self.follow(sender)?;
        let mut is_first = true;
        loop {
            if let Some(signal) = self.backlog.signal() {
                return self.report_detached(signal);
            }
            let is_due = (self.is_worth_a_look && (is_first || self.looked.elapsed() >= BUSY))
                || self.looked.elapsed() >= QUIET;
            if is_due {
                is_first = false;
                if let Some((state, document)) = self.look()? {
                    self.take_last_events(receiver, &state)?;
                    return self.report_end(&document);
                }
            }
            let patience = if self.is_worth_a_look { BUSY } else { QUIET };
            match receiver.recv_timeout(self.show.time_to_next_frame().min(patience)) {
                Ok(message) => {
                    self.take(message)?;
                    self.take_waiting(receiver)?;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.show.draw_if_due(&self.screen);
        }
    }

    /// Follows the stream on a thread of its own.
    fn follow(&self, sender: Sender<Message>) -> Result<(), CommandError> {
        let (server, run, cursor) = (self.server.clone(), self.run.clone(), self.cursor.clone());
        let follow = move || {
            let followed = server.follow_run(&run, cursor, |message| {
                let sent = sender.send(Message::Told(message));
                if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if let Err(error) = followed {
                // The receiver is gone once the run has ended.
                let _ = sender.send(Message::StreamEnded(error));
            }
        };
        let spawned = thread::Builder::new().name("unstuck-events".to_owned()).spawn(follow);
        spawned.map(drop).map_err(|error| CommandError::internal(format!("cannot follow the run: {error}")))
    }

    fn take_waiting(&mut self, receiver: &Receiver<Message>) -> Result<(), CommandError> {
        for message in receiver.try_iter().take(MAX_TAKEN) {
            if self.backlog.signal().is_some() {
                return Ok(());
            }
            self.take(message)?;
        }
        Ok(())
    }

    /// Takes the events that led to the state in which the run was found: what is seen may be ahead of what is told.
    fn take_last_events(&mut self, receiver: &Receiver<Message>, state: &str) -> Result<(), CommandError> {
        let until = Instant::now() + LAST_EVENTS;
        while !self.told.is_over && self.told.state.as_deref().is_some_and(|told| told != state) {
            let patience = until.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(patience) {
                Ok(message) => self.take(message)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.take_waiting(receiver)
    }

    fn take(&mut self, message: Message) -> Result<(), CommandError> {
        match message {
            Message::Told(StreamMessage::Event(event)) => self.take_event(&event),
            Message::Told(StreamMessage::CaughtUp) => self.is_worth_a_look = true,
            Message::Told(StreamMessage::Cut(why)) => {
                self.told.is_over = true;
                self.note(format!("{why}; trying to reach it again"), style::BAD);
            }
            Message::Told(StreamMessage::Resumed) => {
                (self.is_worth_a_look, self.told.is_over) = (true, false);
                self.note("The server is there again".to_owned(), style::GOOD);
            }
            Message::StreamEnded(ClientError::Problem(problem)) if problem.kind == ProblemType::Forbidden => {
                self.told.is_over = true;
                self.note(
                    "the token may not read events; waiting for the end of the run".to_owned(),
                    style::DIM,
                );
            }
            Message::StreamEnded(error) => return Err(self.lost(error)),
            Message::Happened(..) | Message::Signal | Message::EngineGone => {}
        }
        Ok(())
    }

    fn take_event(&mut self, event: &StreamEventView) {
        let began = *self.began.get_or_insert(Time(event.at.as_millisecond()));
        self.show.log(Line::of_stream_event(event, began));
        let is_telling = matches!(event.state.as_str(), "held" | "error")
            || (event.run == self.run && is_final(&event.state));
        if event.run == self.run {
            self.told.state = Some(event.state.clone());
        }
        self.is_worth_a_look |= is_telling || self.show.is_live();
    }

    fn note(&mut self, text: String, style: anstyle::Style) {
        let now = unstuck_service::service::now();
        self.show.log(vec![Line::note(now, self.began.unwrap_or(now), text, style)]);
    }

    /// Looks at the run, and returns its state and document if it has ended or only an operator can move it.
    fn look(&mut self) -> Result<Option<(String, String)>, CommandError> {
        (self.looked, self.is_worth_a_look) = (Instant::now(), false);
        let document = match self.server.get_run(&self.run) {
            Ok(Some((document, _))) => document,
            Ok(None) => {
                return Err(CommandError::not_found(format!("{} is gone: it was forgotten", self.run)));
            }
            // The stream says so, and looks for the server.
            Err(ClientError::Unreachable(_) | ClientError::Lost(_)) => {
                self.is_worth_a_look = true;
                return Ok(None);
            }
            Err(error) => return Err(unanswered_query(error)),
        };
        let run = read_document(&document)?;
        if let Some(aside) = &run.set_aside {
            let why = format!("{} is set aside: {}", run.id, aside.why);
            return Err(CommandError::of(ProblemType::WrongState, why));
        }
        let server = &self.server;
        let mut load = |child: &str| -> Result<Option<Run>, CommandError> {
            let found = server.get_run(child).map_err(unanswered_query)?;
            found.map(|(document, _)| read_document(&document)).transpose()
        };
        let rests = is_at_rest(&run, &mut load)?;
        let state = run.state.clone();
        self.screen.run = Some(run);
        Ok(rests.then_some((state, document)))
    }

    /// Builds the error that the server has gone for good.
    fn lost(&self, error: ClientError) -> CommandError {
        let error = unanswered_query(error);
        CommandError::unavailable(
            ProblemType::StoreAway,
            format!(
                "{}. The run goes on when the server does; to watch it: unstuck run --continue {}{}",
                error.sentence().trim_end_matches('.'),
                self.run,
                self.place.option
            ),
        )
    }

    /// Reports how the run ended, or where it rests.
    fn report_end(self, document: &str) -> CommandResult {
        let run = read_document(document)?;
        let explanation = match (self.format, run.state.as_str()) {
            (Format::Json, _) | (_, "completed") => None,
            (Format::Text, _) => self.explain()?,
        };
        let mut output = self.show.finish(&self.screen);
        match self.format {
            Format::Text => show_outcome(
                &mut output,
                &run.state,
                Time(run.updated_at.as_millisecond()).since(Time(run.created_at.as_millisecond())),
                run.output.as_deref().map(serde_json::value::RawValue::get),
                explanation.as_deref(),
            ),
            Format::Json => {
                output = Output::stdout();
                output.line(&json_text::pretty(document));
            }
        }
        output.finish()?;
        Ok(exit::of_state(&run.state))
    }

    /// Returns why the run is where it is; nothing for a token that may not know.
    fn explain(&self) -> Result<Option<String>, CommandError> {
        let columns = Output::stdout().width();
        let query = Query::ExplainPage { run: self.run.clone(), columns, without_happened: true };
        match self.place.read(query) {
            Ok(answer) => answer.read().map(Some),
            Err(CommandError::Problem(problem)) if problem.kind == ProblemType::Forbidden => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reports that the run goes on without anybody who watches it.
    fn report_detached(self, signal: Signal) -> CommandResult {
        let document = self.server.get_run(&self.run).ok().flatten().map(|(document, _)| document);
        let mut output = self.show.finish(&self.screen);
        match self.format {
            Format::Text => {
                let (run, option) = (&self.run, &self.place.option);
                let state = document.as_deref().and_then(|document| read_document(document).ok());
                let state = state
                    .map_or_else(String::new, |run| format!(", where it is {}", state_phrase(&run.state)));
                let what = output.look.paint(style::LATER.bold(), "detached");
                output.line(&format!(
                    "\n{what} ({}); the run goes on at {}{state}",
                    signal.reason(),
                    self.server.address()
                ));
                output.line(&text::visible(&format!("  watch it:   unstuck run --continue {run}{option}")));
                output.line(&text::visible(&format!("  cancel it:  unstuck cancel {run}{option}")));
            }
            Format::Json => {
                output = Output::stdout();
                if let Some(document) = document {
                    output.line(&json_text::pretty(&document));
                }
            }
        }
        output.finish()?;
        Ok(signal.exit_code())
    }
}
