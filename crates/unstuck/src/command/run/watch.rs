//! Watches a run until it ends, rests or is interrupted.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use unstuck_api::ProblemType;
use unstuck_core::event::Event;
use unstuck_core::explain::SlotHolder;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::{Handle, Runtime, Stopped};
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::{Store as _, StoreError};

use super::backlog::Backlog;
use super::finish::Finished;
use super::log::Line;
use super::show::Show;
use super::signals::Signal;
use super::tree::{Takes, Tree};
use super::{Message, log, seed};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreLocation;
use crate::access::socket::Server;
use crate::error::{CommandError, without_os_number};
use crate::view::output::{Output, terminal_size};
use crate::view::problems::number_of;
use crate::view::style;
use crate::view::text;
use unstuck_service::{Service, explain};

/// The interval between two looks at the store.
const LOOK: Duration = Duration::from_secs(1);
/// How many messages are taken before the screen is drawn again.
const MAX_TAKEN: usize = 5_000;

/// A run that is being watched.
pub(super) struct Watch {
    place: StoreLocation,
    runtime: Runtime,
    service: Service,
    tree: Tree,
    format: Format,
    show: Show,
    /// Log lines have the time since then; since the start of the run where that happens here.
    began: Option<Time>,
    /// What waits to be shown, and the signal that has interrupted it.
    backlog: Backlog,
    /// What is wrong with the store, as it was told last.
    trouble: Option<String>,
}

impl Watch {
    pub(super) fn new(
        place: StoreLocation,
        runtime: Runtime,
        service: Service,
        tree: Tree,
        format: Format,
        notes: &[String],
        backlog: Backlog,
    ) -> Watch {
        let mut output = match format {
            Format::Text => Output::stdout(),
            Format::Json => Output::stderr(),
        };
        let width = if output.look.live { terminal_size().0 } else { usize::MAX };
        for line in notes.iter().flat_map(|note| text::wrap(&text::visible(note), width)) {
            output.line(&output.look.paint(style::DIM, line));
        }
        // For a run that is continued, times in the log count from now.
        let began = tree.root().map(|_| unstuck_service::service::now());
        Watch { place, runtime, service, tree, format, show: Show::on(output), began, backlog, trouble: None }
    }

    /// Shows the run until it ends, serves other commands meanwhile, and reports the result.
    pub(super) fn watch_to_end(mut self, receiver: &Receiver<Message>) -> CommandResult {
        loop {
            let server = self.start_server();
            self.watch_until_over(receiver)?;
            // A last request through the socket may have moved the run again.
            if let Some(server) = server {
                server.close();
            }
            let _ = self.handle().read(|_, _| ());
            self.take_waiting_messages(receiver)?;
            if self.backlog.signal().is_some() || self.is_over() {
                break;
            }
        }
        match self.backlog.signal() {
            Some(signal) if !self.is_over() => self.report_interruption(signal, receiver),
            Some(_) | None => self.report_end(),
        }
    }

    /// Returns the time that log offsets count from.
    fn log_start(&self) -> Time {
        self.began
            .or_else(|| self.tree.root().map(|(run, _)| run.created_at))
            .unwrap_or_else(unstuck_service::service::now)
    }

    fn handle(&self) -> Handle {
        self.runtime.handle()
    }

    /// Starts the socket for other commands. Without it, the run continues all the same.
    fn start_server(&self) -> Option<Server> {
        match Server::start(&self.place.directory, self.service.clone(), self.handle()) {
            Ok(server) => Some(server),
            Err(error) => {
                let what =
                    format!("warning: other commands cannot reach this run: {}", without_os_number(&error));
                Output::stderr().line(&text::visible(&what));
                None
            }
        }
    }

    /// Shows the run until it is final, only an operator can move it, or it is interrupted.
    fn watch_until_over(&mut self, receiver: &Receiver<Message>) -> Result<(), CommandError> {
        let mut looked = Instant::now();
        while self.backlog.signal().is_none() && !self.is_over() {
            self.check_store(&mut looked)?;
            match receiver.recv_timeout(self.show.time_to_next_frame().min(LOOK)) {
                Ok(message) => {
                    self.take_message(message)?;
                    self.take_waiting_messages(receiver)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(engine_gone_error()),
            }
            self.show.draw_if_due(&self.tree);
        }
        Ok(())
    }

    /// Checks the store once a second: a store in trouble sends no messages.
    fn check_store(&mut self, looked: &mut Instant) -> Result<(), CommandError> {
        if looked.elapsed() < LOOK {
            return Ok(());
        }
        *looked = Instant::now();
        self.show_trouble();
        self.look_for_holders();
        let root = self.tree.root_id();
        let handle = self.handle();
        handle.reader().last_time().map_err(|error| engine_failed(error.into()))?;
        match handle.reader().set_aside_record(root) {
            // Nothing will happen to it in this process.
            Some(aside) => {
                Err(CommandError::of(ProblemType::WrongState, format!("{root} is set aside: {}", aside.why)))
            }
            None => Ok(()),
        }
    }

    /// Finds idle runs that hold the slots this run waits for, and shows them: they release their slots only once they
    /// are continued.
    fn look_for_holders(&mut self) {
        for (name, (max, run)) in self.tree.waiting_for_slots() {
            let holders =
                explain::list_slot_holders(&self.service, self.handle().reader(), &run, max as usize);
            let holders = holders.unwrap_or_default();
            let idle: Vec<String> =
                holders.iter().filter(|holder| holder.is_idle).map(SlotHolder::description).collect();
            if !idle.is_empty() {
                let text = format!("limit `{name}` has no free slot: held by {}", idle.join(", "));
                self.show.log(vec![Line::note(
                    unstuck_service::service::now(),
                    self.log_start(),
                    text,
                    style::ASKS,
                )]);
            }
            self.tree.set_idle_holders(name, idle.len());
        }
    }

    /// Shows when the store is full or unreachable, and when it works again.
    fn show_trouble(&mut self) {
        let trouble = self.handle().trouble().map(|trouble| describe_trouble(&trouble));
        if trouble == self.trouble {
            return;
        }
        let (text, style) = match &trouble {
            Some(trouble) => (trouble.clone(), style::BAD),
            None => ("The store works again. The run continues".to_owned(), style::GOOD),
        };
        self.show.log(vec![Line::note(unstuck_service::service::now(), self.log_start(), text, style)]);
        self.trouble = trouble;
    }

    fn is_over(&self) -> bool {
        self.tree.root().is_some_and(|(run, _)| run.is_final()) || self.tree.rest().is_some()
    }

    /// Takes the messages that wait, up to a limit, because they may come as fast as they are taken. A signal comes
    /// first.
    fn take_waiting_messages(&mut self, receiver: &Receiver<Message>) -> Result<(), CommandError> {
        for message in receiver.try_iter().take(MAX_TAKEN) {
            if self.backlog.signal().is_some() {
                return Ok(());
            }
            self.take_message(message)?;
        }
        self.reload_left_out()
    }

    /// Reloads the tree if events were left out.
    fn reload_left_out(&mut self) -> Result<(), CommandError> {
        let left_out = self.backlog.take_left_out();
        if left_out == 0 {
            return Ok(());
        }
        let root = self.tree.root_id();
        let read = seed::load_family(self.handle().reader(), &self.service.flows, root);
        self.tree.replace_runs(read.map_err(engine_failed)?);
        let text = format!(
            "{left_out} events were too many to show; to see all: unstuck history {root}{}",
            self.place.option
        );
        self.show.log(vec![Line::note(unstuck_service::service::now(), self.log_start(), text, style::DIM)]);
        Ok(())
    }

    /// Handles one message; a gone engine is an error.
    fn take_message(&mut self, message: Message) -> Result<(), CommandError> {
        match message {
            Message::Happened(run, event) => {
                self.backlog.took_one();
                self.take_event(run, &event)?;
            }
            Message::Signal | Message::Told(_) | Message::StreamEnded(_) => {}
            Message::EngineGone => return Err(engine_gone_error()),
        }
        Ok(())
    }

    /// Applies an event to the tree and logs it; loads a run that the tree does not know.
    fn take_event(&mut self, run: RunId, event: &Event) -> Result<(), CommandError> {
        match self.tree.take(run, event) {
            Takes::Taken => {}
            Takes::NotOurs => return Ok(()),
            Takes::Unknown => {
                let read = self.handle().reader().run(run);
                match read.map_err(|error| engine_failed(error.into()))? {
                    Some(found) if self.tree.is_ours(&found) => self.tree.add_run(found),
                    Some(_) | None => {
                        self.tree.ignore(run);
                        return Ok(());
                    }
                }
            }
        }
        if let Some(flow) = self.tree.unknown_flow(run) {
            let read = self.service.flows.get(self.handle().reader(), flow);
            self.tree.add_flow(read.map_err(engine_failed)?);
        }
        self.show.log(log::event_lines(&self.tree, run, event, self.log_start()));
        self.tree.drop_ended(run);
        Ok(())
    }

    /// Stops the engine and reports how the run ended.
    fn report_end(self) -> CommandResult {
        let finished = Finished::read(&self.handle(), &self.service, &self.tree)?;
        let mut output = self.show.finish(&self.tree);
        show_unrecorded(&stop_runtime(self.runtime));
        match self.format {
            Format::Text => finished.show(&mut output),
            Format::Json => {
                output = Output::stdout();
                output.line(&finished.document());
            }
        }
        output.finish()?;
        Ok(finished.exit_code())
    }

    /// Reports an interruption. The run stays in the store, and its executors' attempts are released.
    fn report_interruption(mut self, signal: Signal, receiver: &Receiver<Message>) -> CommandResult {
        let Finished { document, run, .. } = Finished::read(&self.handle(), &self.service, &self.tree)?;
        let (root, began) = (run.id, self.log_start());
        let stopped = stop_runtime(self.runtime);
        for message in receiver.try_iter() {
            // Of the last events, those about known runs are enough.
            if let Message::Happened(run, event) = message
                && self.tree.take(run, &event) == Takes::Taken
            {
                self.show.log(log::event_lines(&self.tree, run, &event, began));
            }
        }
        let mut output = self.show.finish(&self.tree);
        show_unrecorded(&stopped);
        match self.format {
            Format::Text => {
                let option = &self.place.option;
                let what = output.look.paint(style::LATER.bold(), "interrupted");
                output.line(&format!("\n{what} ({}); the run is kept in the store", signal.reason()));
                output
                    .line(&text::visible(&format!("  continue it:  unstuck run --continue {root}{option}")));
                output.line(&text::visible(&format!("  cancel it:    unstuck cancel {root}{option}")));
            }
            Format::Json => {
                output = Output::stdout();
                // The document after the stop, unless another process has the store already.
                let left = load_document(&self.place, root);
                output.line(&crate::view::json_text::pretty(&left.unwrap_or(document)));
            }
        }
        output.finish()?;
        Ok(signal.exit_code())
    }
}

/// Loads the document of a run from a store that no process has open.
fn load_document(place: &StoreLocation, run: RunId) -> Option<String> {
    let mut store = SqliteStore::open(&place.directory).ok()?;
    let service = Service { option: place.option.clone(), ..Service::default() };
    let document = unstuck_service::show::build_run_document(&service, &*store.reader(), run).ok()?;
    Some(document.get().to_owned())
}

/// Stops the engine and its processes, and says so if it takes a while.
fn stop_runtime(runtime: Runtime) -> Stopped {
    let handle = runtime.handle();
    let (sender, stopped) = channel();
    thread::spawn(move || drop(sender.send(runtime.stop())));
    match stopped.recv_timeout(Duration::from_millis(300)) {
        Ok(stopped) => return stopped,
        Err(RecvTimeoutError::Disconnected) => return Stopped::default(),
        Err(RecvTimeoutError::Timeout) => {}
    }
    let waits_for = match handle.trouble() {
        Some(trouble) => format!("trying for a few seconds to record the results of processes: {trouble}"),
        None => "waiting for processes to end; Ctrl-C again ends them at once".to_owned(),
    };
    Output::stderr().line(&text::visible(&waits_for));
    stopped.recv().unwrap_or_default()
}

/// Shows attempts whose result could not be recorded, and what that means.
fn show_unrecorded(stopped: &Stopped) {
    let Some(trouble) = stopped.trouble.as_ref().filter(|_| !stopped.unrecorded.is_empty()) else { return };
    let attempts = number_of(stopped.unrecorded.len(), "attempt");
    let trouble = match trouble {
        StoreError::Full(_) => "the disk is full".to_owned(),
        trouble => trouble.to_string(),
    };
    let what = format!(
        "warning: the end of {attempts} was not recorded: {trouble}. The steps are executed again when the run continues."
    );
    Output::stderr().line(&text::visible(&what));
}

/// Describes what the run waits for while its store is in trouble.
fn describe_trouble(trouble: &StoreError) -> String {
    match trouble {
        StoreError::Full(_) => "Disk full. The run waits, and continues when there is space again".to_owned(),
        trouble => format!("{trouble}; the run waits"),
    }
}

fn engine_gone_error() -> CommandError {
    CommandError::unknown(
        ProblemType::Internal,
        "the engine stopped because of a bug in Unstuck; please report the message above",
    )
}

fn engine_failed(error: EngineError) -> CommandError {
    error.into()
}
