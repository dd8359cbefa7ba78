//! Rehearsal plans: what each step does on purpose, what is down when, which workers die. Read from a file and checked
//! against the flows.

mod outage;
pub mod outputs;
mod pattern;
mod planned_behaviour;
mod planned_time;
mod read;
mod rule;
mod world;

use std::sync::Arc;

use unstuck_core::event::Choice;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Kind, Step};
use unstuck_core::time::{Millis, Time};

use crate::parse;
use crate::problem::{Problem, Problems};
use crate::tree::Position;

pub use crate::schema::plan_schema as schema;
pub use outage::{Outage, Window};
pub use outputs::Example;
pub use pattern::{Pattern, Target};
pub use planned_behaviour::{PlannedBehaviour, Range};
pub use planned_time::PlannedTime;
pub use rule::{BehaviourOrder, Rule};

/// The default start of the virtual clock: always the same, so that rehearsals print the same.
pub const START: Time = Time(1_767_225_600_000);

/// What happens in a rehearsal. Attempts that it does not mention pass at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the virtual clock starts.
    pub start: Time,
    /// The time between the starts of two runs.
    pub every: Millis,
    /// The input of every run, if it says.
    pub input: Option<Json>,
    /// When the rehearsal is broken off, counted from its start.
    pub until: Option<Millis>,
    /// What steps do; the first rule that matches applies.
    pub rules: Vec<Rule>,
    /// Outputs of steps where no rule gives one; the first example that matches applies.
    pub outputs: Vec<Example>,
    /// What is down when.
    pub outages: Vec<Outage>,
    /// The emulated workers.
    pub workers: Workers,
    /// What is sent to runs.
    pub signals: SignalPlan,
    /// The emulated operator.
    pub operator: Option<Operator>,
}

/// The emulated workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// How many, if the plan says.
    pub count: Option<u32>,
    /// How much load each takes at once.
    pub max_load: u32,
    /// How long a worker that died is away.
    pub restart_after: Millis,
    /// When workers die, whatever they are doing.
    pub deaths: Vec<Death>,
}

/// The death of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Death {
    pub when: Times,
    /// Which worker, from 1; any that lives if it does not say.
    pub worker: Option<u32>,
    /// How long it is away, if not as long as others.
    pub restart_after: Option<Millis>,
}

/// Once, or again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// At this time; on every day where it is a time of day.
    At(PlannedTime),
    /// Every so often.
    Every(Millis),
}

/// Which signals are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalPlan {
    /// These, to every run whose flow awaits them.
    Sent(Vec<SentSignal>),
    /// Whatever is awaited, as soon as it is.
    AsAwaited,
}

/// A signal that is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentSignal {
    pub name: Arc<str>,
    /// How long after the start of the run.
    pub after: Millis,
    /// What it carries.
    pub payload: Json,
}

/// The emulated operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    /// How long it takes until the operator reacts.
    pub after: Millis,
    /// What is chosen for a held step.
    pub choose: Option<Choice>,
    /// Whether steps in error are resumed.
    pub resume: bool,
    /// How often in all for one step, if not always.
    pub times: Option<u32>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            start: START,
            every: Millis::ZERO,
            input: None,
            until: None,
            rules: Vec::new(),
            outputs: Vec::new(),
            outages: Vec::new(),
            workers: Workers::default(),
            signals: SignalPlan::Sent(Vec::new()),
            operator: None,
        }
    }
}

impl Default for Workers {
    fn default() -> Workers {
        Workers { count: None, max_load: 10, restart_after: Millis::seconds(5), deaths: Vec::new() }
    }
}

impl Plan {
    /// Returns the first rule for this unit.
    pub fn rule(&self, flow: &str, step: &Step, item: Option<u32>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.target.includes_unit(flow, step, item))
    }

    /// Returns the first example output for this unit, which applies where no rule gives an output.
    pub fn example(&self, flow: &str, step: &Step, item: Option<u32>) -> Option<&Example> {
        self.outputs.iter().find(|example| example.target.includes_unit(flow, step, item))
    }
}

/// Returns whether attempts of a step are dispatched, so that a plan can say what they do.
pub fn is_executed(step: &Step) -> bool {
    match step.kind {
        Kind::Action(_) | Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_) => true,
        Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_) => false,
    }
}

/// The result of loading a file.
#[derive(Debug)]
pub struct LoadedPlan {
    pub plan: Plan,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

/// Loads a plan for these flows from YAML or JSON. `file` is the name shown in problems; all problems are reported at
/// once.
pub fn load(text: &str, file: &str, flows: &[Flow]) -> Result<LoadedPlan, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(file, text);
    let Some(documents) = parse::parse_documents(&mut problems) else { return Err(problems.into_sorted()) };
    match documents.as_slice() {
        [] => {
            problems
                .error(Position::START, "", "the file contains no plan")
                .hint("start with `steps:`, for example `steps: {fetch: {sequence: [stall, pass]}}`");
        }
        [_] => {}
        [_, second, ..] => {
            problems
                .error(second.at, "", "a file can contain only one plan; this is the second")
                .hint("move it to its own file");
        }
    }
    let plan = documents.first().and_then(|document| read::read_plan(document, flows, &mut problems));
    match plan {
        Some(plan) if !problems.any_error() => Ok(LoadedPlan { plan, warnings: problems.into_sorted() }),
        Some(_) | None => Err(problems.into_sorted()),
    }
}
