//! Flows: named, versioned definitions, checked and compiled when they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::FlowId;
use crate::model::emulation::Emulation;
use crate::model::expression::{Expression, Reads, Template};
use crate::model::http::StatusRules;
use crate::model::recovery::{Defer, Limits, RetryStrategy};
use crate::model::schedule::ScheduleSpec;
use crate::model::time_of_day::TimeOfDay;
use crate::time::{Millis, Time};

/// The place of a step in its flow's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIndex(pub u16);

/// One version of a flow.
#[derive(Clone)]
pub struct Flow {
    /// Given by the store when the version is kept there; zero before.
    pub id: FlowId,
    pub name: Arc<str>,
    /// Its version; empty in a file that gives none, a number of the store's then.
    pub version: Arc<str>,
    /// For people.
    pub description: Option<String>,
    /// Checks a run's input.
    pub input: Option<Arc<dyn CheckInput>>,
    /// What a completed run puts out; without it, the output of the last steps.
    pub output: Option<Template>,
    /// The time by which a run must have ended.
    pub deadline: Option<Deadline>,
    /// How many runs may be under way at once.
    pub concurrency: Option<Concurrency>,
    /// When a server starts runs of it by the clock.
    pub schedule: Option<Arc<ScheduleSpec>>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// How its runs are interpreted.
    pub kind: RunKind,
    /// In an order in which every step comes after what it needs.
    pub steps: Vec<Step>,
    /// For each step, the steps that need it.
    pub dependents: Vec<Vec<StepIndex>>,
    /// The definition as one JSON document without formatting: what the store keeps and compares.
    pub source: Arc<str>,
    /// The folder that relative paths of local processes start from.
    pub directory: Arc<str>,
}

/// Selects the interpreter of its runs: see the module `interpreter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunKind {
    /// The graph of the flow's steps.
    #[default]
    Graph,
    /// Each step names the next: a kind for tests.
    #[cfg(test)]
    Plan,
}

/// Checks the input of a run.
pub trait CheckInput: Send + Sync {
    /// Every problem, each with its place, such as ``input.count: "x" is not of type "number"``.
    fn check(&self, input: &Value) -> Result<(), Vec<String>>;
}

/// The time by which a run must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Counted from the start of each generation.
    After(Millis),
    /// An instant.
    At(Time),
}

/// How many runs of a flow may be under way at once.
#[derive(Clone, Debug)]
pub struct Concurrency {
    /// The number of slots.
    pub limit: u32,
    /// With a key, each of its values has these slots.
    pub key: Option<Expression>,
    /// Whether a run keeps its slot in `error`, `held` and `paused`.
    pub strict: bool,
}

/// One step of a flow: what each unit of it does, and what is done when that goes wrong.
#[derive(Clone, Debug)]
pub struct Step {
    /// Unique in the flow.
    pub id: Arc<str>,
    /// What it does.
    pub kind: Kind,
    /// A free label, such as `TRANSFORM`.
    pub action_type: Option<Arc<str>>,
    /// When an attempt is given up on.
    pub limits: Limits,
    /// How a deferral waits.
    pub defer: Defer,
    /// How much of a worker it takes.
    pub load: u32,
    /// Higher first.
    pub priority: i32,
    /// What is done about its errors first.
    pub retry: RetryStrategy,
    /// Whether its failure is the run's.
    pub fail_on_error: bool,
    /// The flow that runs when this step has failed for good.
    pub exception_handler: Option<Arc<str>>,
    /// Who takes its attempts: see [`Kind::queue`]. The same for every run, so it is made once.
    pub queue: Arc<str>,
    /// The full action name, `flow.action`.
    pub full_action: Arc<str>,
    /// Its place in the graph: nothing for a flow of another kind.
    pub node: GraphNode,
}

impl Step {
    /// Returns the names of the secrets that its input refers to. Where there are some, the texts of its input are in the
    /// form of [`crate::model::secret`].
    pub fn secrets(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        static NONE: BTreeSet<Arc<str>> = BTreeSet::new();
        let reads = self.node.with.as_ref().and_then(Template::reads);
        reads.map_or(&NONE, |reads| &reads.secrets).iter()
    }
}

/// What the graph of a flow knows of a step.
#[derive(Clone, Debug, Default)]
pub struct GraphNode {
    /// Its input; without it, the run's input.
    pub with: Option<Template>,
    /// What must be done first.
    pub needs: Vec<StepIndex>,
    /// Whether it runs at all.
    pub when: Option<Expression>,
    /// One item for each of a list.
    pub for_each: Option<ForEach>,
}

/// A fan-out over a list.
#[derive(Clone, Debug)]
pub struct ForEach {
    /// The list.
    pub items: Template,
    /// How many at once.
    pub parallel: u32,
    /// How many at all.
    pub max_items: u32,
}

impl ForEach {
    /// The default of `parallel`.
    pub const PARALLEL: u32 = 16;
    /// The default of `maxItems`.
    pub const MAX_ITEMS: u32 = 10_000;
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// For a worker, or an executor of this process, that offers the action.
    Action(Arc<str>),
    /// A local process.
    Process(ProcessCommand),
    /// An HTTP request, which is its input: see [`crate::model::http`].
    Http(StatusRules),
    /// A child run of the flow of this name.
    Child(Arc<str>),
    /// Waits for a while, or until an instant.
    Wait(WaitFor),
    /// Waits for an external event of this name.
    Signal(Arc<str>),
    /// A value.
    Set(Template),
    /// A condition brought about on purpose.
    Emulate(Emulation),
}

impl Kind {
    /// The queue of local processes.
    pub const PROCESS_QUEUE: &'static str = "@process";
    /// The queue of HTTP requests.
    pub const HTTP_QUEUE: &'static str = "@http";
    /// The queue of emulated steps.
    pub const EMULATION_QUEUE: &'static str = "@emulate";

    /// Returns the queue that attempts of this kind wait in; empty for kinds without a worker.
    pub fn queue(&self) -> Arc<str> {
        match self {
            Kind::Action(name) => name.clone(),
            Kind::Process(_) => Kind::PROCESS_QUEUE.into(),
            Kind::Http(_) => Kind::HTTP_QUEUE.into(),
            Kind::Emulate(_) => Kind::EMULATION_QUEUE.into(),
            Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_) => "".into(),
        }
    }

    /// Returns the queue that a run with this home uses. A home has its own queues for local work (`@...`), so that
    /// only the engine that drives the home takes from them.
    pub fn queue_at(queue: &Arc<str>, home: Option<&Arc<str>>) -> Arc<str> {
        match home {
            Some(home) if queue.starts_with('@') => format!("{queue}@{home}").into(),
            _ => queue.clone(),
        }
    }

    /// Returns what the step's own expression reads when it begins.
    pub fn reads(&self) -> Option<&Reads> {
        match self {
            Kind::Set(value) => value.reads(),
            Kind::Wait(WaitFor::Computed(expression)) => Some(&expression.reads),
            Kind::Action(_)
            | Kind::Process(_)
            | Kind::Http(_)
            | Kind::Child(_)
            | Kind::Wait(WaitFor::Span(_) | WaitFor::Until(_) | WaitFor::Next(_))
            | Kind::Signal(_)
            | Kind::Emulate(_) => None,
        }
    }

    /// Returns the keyword of this kind in a flow file.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Action(_) => "action",
            Kind::Process(_) => "run",
            Kind::Http(_) => "http",
            Kind::Child(_) => "flow",
            Kind::Wait(_) => "wait",
            Kind::Signal(_) => "signal",
            Kind::Set(_) => "set",
            Kind::Emulate(_) => "emulate",
        }
    }
}

/// A local process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessCommand {
    /// A program and its arguments, as they are.
    Argv(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
}

/// How long a `wait` step waits.
#[derive(Clone, Debug)]
pub enum WaitFor {
    /// So long from when the step is reached.
    Span(Millis),
    /// Until this instant.
    Until(Time),
    /// Until the next time that clocks show this, after the step is reached.
    Next(TimeOfDay),
    /// Computed: a number of seconds, a duration or an instant.
    Computed(Expression),
}

impl Flow {
    /// Returns the step at this index.
    pub fn step(&self, ix: StepIndex) -> &Step {
        &self.steps[usize::from(ix.0)]
    }

    /// Finds the index of the step with this id.
    pub fn find_step(&self, id: &str) -> Option<StepIndex> {
        let place = self.steps.iter().position(|step| &*step.id == id)?;
        u16::try_from(place).ok().map(StepIndex)
    }

    /// Iterates over all indices, in order.
    pub fn step_indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..u16::try_from(self.steps.len()).unwrap_or(u16::MAX)).map(StepIndex)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("version", &self.version)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
