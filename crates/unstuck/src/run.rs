//! `unstuck run`: runs a flow of a file in this process, shows it, and tells by its exit code how it went.

mod finish;
mod input;
mod log;
mod processes;
mod screen;
mod show;
mod signals;
mod tree;
mod view;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::emulation::EmulationExecutor;
use unstuck_engine::request::StartRun;
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_store::contract::FlowRecord;
use unstuck_store::memory::MemoryStore;

use self::finish::Finished;
use self::processes::Processes;
use self::show::Show;
use self::signals::Signal;
use self::tree::Tree;
use crate::failure::{Failure, Refused};
use crate::output::Output;
use crate::source::{STDIN, Source};
use crate::{Done, Format, problems};

/// Run a flow, and show what happens and why.
///
/// The first flow of the file is run; the others are its children and exception handlers. The run is kept in memory, and
/// lives as long as this command.
///
/// Exit code: 0 completed, 1 failed, cancelled or at rest in error, 3 held for an operator. Ctrl-C cancels the run; a
/// second one ends its processes at once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The flow file, YAML or JSON; `-` is stdin.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: String,

    /// The input: JSON, `@FILE`, or `-` for stdin.
    #[arg(short, long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// The key of the run.
    #[arg(short, long)]
    key: Option<String>,

    /// Run this flow of the file instead of the first.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// How much load local processes may take at once. [default: twice the cores, at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_load: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  unstuck run examples/first.yaml
  unstuck run order.yaml --input '{\"order\": 17}' --key order-17
  unstuck run order.yaml --input @order.json -o json | jq .state";

/// Emulated steps take nothing but a timer.
const EMULATION_LOAD: u32 = 1_000_000;

/// What the thread that shows a run is told.
enum Message {
    Happened(RunId, Event),
    Signal(Signal),
    EngineGone,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        if self.file == STDIN && self.input.as_deref() == Some(STDIN) {
            return Err(Failure::new(
                "the flow and its input cannot both come from stdin; put one into a file",
            ));
        }
        let (flow, flows) = self.load()?;
        let input = input::parse(self.input.as_deref())?;
        let (sender, receiver) = channel();
        let processes = Processes::new(self.max_load.unwrap_or_else(default_load));
        listen(&sender, &processes)?;
        let (runtime, flows) = start_engine(flows, &processes, sender)?;
        let root = self.start(&runtime.handle(), &flow, input)?;
        let output = match format {
            Format::Text => Output::stdout(),
            Format::Json => Output::stderr(),
        };
        let mut watch = Watch {
            root,
            handle: runtime.handle(),
            tree: Tree::new(root, flows),
            show: Show::on(output),
            signal: None,
        };
        watch.until_over(&receiver)?;
        watch.finish(runtime, format)
    }

    /// The name of the flow to run, and all flows of the file.
    fn load(&self) -> Result<(Arc<str>, Vec<Flow>), Failure> {
        let source = Source::read(&self.file)?;
        let loaded = match source.load() {
            Ok(loaded) => loaded,
            Err(problems) => {
                let Source { file, text } = source;
                return Err(Failure::Refused(Refused { file, text, problems }));
            }
        };
        let mut stderr = Output::stderr();
        for warning in &loaded.warnings {
            stderr.line(&problems::show(warning, &source.text, stderr.look));
        }
        let mut names = loaded.flows.iter().map(|flow| flow.name.clone());
        let name = match &self.flow {
            None => names.next(),
            Some(wanted) => names.find(|name| **name == **wanted),
        };
        let name = name.ok_or_else(|| no_such_flow(&self.file, self.flow.as_deref(), &loaded.flows))?;
        Ok((name, loaded.flows))
    }

    fn start(&self, handle: &Handle, flow: &Arc<str>, input: Json) -> Result<RunId, Failure> {
        let start = StartRun {
            flow: flow.clone(),
            key: self.key.as_deref().map(Arc::from),
            input,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: user(),
        };
        match handle.start(start) {
            Ok(Answer::Started(run) | Answer::Exists(run)) => Ok(run),
            Ok(Answer::Done | Answer::Already) => {
                Err(Failure::new("the engine did not say which run it started"))
            }
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }
}

fn no_such_flow(file: &str, wanted: Option<&str>, flows: &[Flow]) -> Failure {
    let names: Vec<String> = flows.iter().map(|flow| format!("`{}`", flow.name)).collect();
    let wanted = wanted.unwrap_or_default();
    Failure::new(format!("{file} has no flow `{wanted}`; it has {}", names.join(", ")))
}

fn default_load() -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores * 2).unwrap_or(u32::MAX).max(4)
}

/// Who starts and cancels the run.
fn user() -> Actor {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    Actor::User(name.unwrap_or_else(|| "somebody".to_owned()).into())
}

fn now() -> Time {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn listen(sender: &Sender<Message>, processes: &Processes) -> Result<(), Failure> {
    let (sender, processes) = (sender.clone(), processes.clone());
    // Nobody listens any more once the run is over; then the signal changes nothing.
    let first = move |signal| drop(sender.send(Message::Signal(signal)));
    signals::listen(first, move || processes.kill())
        .map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {}", crate::failure::plain(&error))))
}

/// An engine on a store in memory, with these flows; the flows come back as it keeps them.
fn start_engine(
    flows: Vec<Flow>,
    processes: &Processes,
    sender: Sender<Message>,
) -> Result<(Runtime, Vec<Arc<Flow>>), Failure> {
    let compile = |record: &FlowRecord| {
        let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
        let told = |problems: Vec<unstuck_flow::Problem>| {
            problems.first().map_or_else(String::new, ToString::to_string)
        };
        let flow = loaded.map_err(told)?.flows.into_iter().next();
        flow.ok_or_else(|| format!("there is no flow in what is kept of `{}`", record.name))
    };
    let failed = |what: String| Failure::new(format!("the engine cannot start: {what}"));
    let mut seed = [0; 8];
    let mut token_key = [0; 32];
    getrandom::fill(&mut seed)
        .and_then(|()| getrandom::fill(&mut token_key))
        .map_err(|e| failed(e.to_string()))?;
    let settings = Settings { seed: u64::from_le_bytes(seed), token_key, ..Settings::default() };
    let mut engine = Engine::new(MemoryStore::new(), Box::new(compile), settings)
        .map_err(|error| failed(error.to_string()))?;
    let mut kept = Vec::new();
    for flow in flows {
        kept.push(engine.put_flow(flow).map_err(|error| Failure::new(error.to_string()))?);
    }
    let teller = Teller(sender);
    let observer = Box::new(move |run, event: &Event| teller.tell(Message::Happened(run, event.clone())));
    let emulation = EmulationExecutor::new(EMULATION_LOAD);
    let runtime =
        Runtime::start(engine, vec![Box::new(processes.clone()), Box::new(emulation)], Some(observer));
    Ok((runtime, kept))
}

/// Passes on what the engine tells, and that it has gone.
struct Teller(Sender<Message>);

impl Teller {
    fn tell(&self, message: Message) {
        // Nobody listens any more once the run is over.
        let _ = self.0.send(message);
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.tell(Message::EngineGone);
    }
}

/// A run that is being watched.
struct Watch {
    root: RunId,
    handle: Handle,
    tree: Tree,
    show: Show,
    /// The signal that has cancelled it.
    signal: Option<Signal>,
}

impl Watch {
    /// Returns when the run is final, or when nothing will move it but a person.
    fn until_over(&mut self, receiver: &Receiver<Message>) -> Result<(), Failure> {
        while !self.is_over() {
            match receiver.recv_timeout(self.show.patience()) {
                Ok(message) => {
                    self.take(message)?;
                    for message in receiver.try_iter() {
                        self.take(message)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(engine_gone()),
            }
            self.show.tick(&self.tree);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.tree.root().is_some_and(|(run, _)| run.is_final()) || self.tree.rest().is_some()
    }

    fn take(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Happened(run, event) => {
                self.tree.apply(run, &event);
                let began = self.tree.root().map_or(event.at, |(run, _)| run.created_at);
                self.show.log(log::lines(&self.tree, run, &event, began));
                Ok(())
            }
            Message::Signal(signal) => {
                self.signal = Some(signal);
                let command = Command::Cancel { by: user(), reason: Some(signal.reason().into()) };
                // Refused only if the run has ended by itself in the meantime.
                let _ = self.handle.command(self.root, command);
                Ok(())
            }
            Message::EngineGone => Err(engine_gone()),
        }
    }

    /// Tells how it ended, once its processes have.
    fn finish(self, runtime: Runtime, format: Format) -> Done {
        let finished = Finished::read(&self.handle, &self.tree, self.root)?;
        let mut output = self.show.finish(&self.tree);
        stop(runtime);
        // A run that has ended by itself before the signal came did not end by it.
        let cancelled_by = self.signal.filter(|_| finished.is_cancelled());
        match format {
            Format::Text => finished.show(&mut output, cancelled_by.is_some()),
            Format::Json => {
                output = Output::stdout();
                output.line(&finished.document());
            }
        }
        output.finish()?;
        Ok(cancelled_by.map_or_else(|| finished.exit_code(), Signal::exit_code))
    }
}

/// Stops the engine, which ends what is left of its processes, and says so where that takes a while.
fn stop(runtime: Runtime) {
    let (sender, stopped) = channel::<()>();
    thread::spawn(move || {
        // Dropped in this order, so that the other end hears of it when nothing is left.
        let _sender = sender;
        drop(runtime);
    });
    if stopped.recv_timeout(Duration::from_millis(300)) == Err(RecvTimeoutError::Timeout) {
        Output::stderr().line("waiting for processes to end; Ctrl-C again ends them at once");
        let _ = stopped.recv();
    }
}

fn engine_gone() -> Failure {
    Failure::new("the engine has stopped because of a fault of its own; please report what stands above")
}
