//! Why a run is where it is, with those below it that need a person.

use unstuck_api as api;
use unstuck_core::event::Event;
use unstuck_core::explain::{Explanation, explain};
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::time::Time;
use unstuck_engine::document;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Store;

use super::{Unanswered, aside, family, name};
use crate::who;

/// So many runs below a run are explained with it.
const BELOW: usize = 5;

/// A run, explained.
pub(crate) struct Explained {
    run: Run,
    explanation: Explanation,
    /// Those below it in which a person is needed.
    below: Vec<Explanation>,
    /// How many more of them there are.
    more: usize,
}

/// So many runs below it are looked at: there may be 100,000.
const LOOKED_AT: usize = 1_000;

/// Explains a run, however it is named.
pub(super) fn of_name(store: &mut dyn Store, flows: &mut Flows, name: &str) -> Result<Explained, Unanswered> {
    let run = name::find(store, flows, name)?;
    of_run(store, flows, run)
}

/// Explains a run.
pub(crate) fn of_run(store: &mut dyn Store, flows: &mut Flows, run: RunId) -> Result<Explained, Unanswered> {
    let (run, history) = stored(store, run)?;
    let all = family::under_way(store, run.clone(), LOOKED_AT)?;
    let states: Vec<(RunId, RunState)> = all.iter().map(|run| (run.id, run.state())).collect();
    let mut told = |store: &mut dyn Store, run: &Run, history: &[Event]| -> Result<Explanation, Unanswered> {
        let now = who::now().max(run.updated_at);
        let why = if run.is_final() { None } else { aside::why_aside(store, flows, run)? };
        let mut told = match flows.get(store, run.flow) {
            Ok(flow) => explain(run, &flow, history, now, &states),
            Err(error) => unexplained(run, now, &error),
        };
        if let Some(why) = why {
            told.headline = format!("{} is set aside: {why}", run.id);
            told.next.clear();
        }
        Ok(told)
    };
    let explanation = told(store, &run, &history)?;
    let resting: Vec<&Run> =
        all.iter().filter(|other| other.id != run.id && family::needs_a_person(other)).collect();
    let mut below = Vec::new();
    for run in resting.iter().take(BELOW) {
        let history = store.history(run.id, 0, usize::MAX)?;
        below.push(told(store, run, &history)?);
    }
    let more = resting.len() - below.len();
    Ok(Explained { run, explanation, below, more })
}

/// What there is to say of a run whose flow cannot be used.
fn unexplained(run: &Run, now: Time, error: &EngineError) -> Explanation {
    Explanation {
        run: run.id,
        now,
        state: run.state(),
        headline: format!("{} is {}, and cannot be explained: {error}", run.id, run.state().word()),
        happened: Vec::new(),
        earlier: 0,
        because: Vec::new(),
        next: Vec::new(),
        can: Vec::new(),
    }
}

/// A run and its whole history.
pub(super) fn stored(store: &mut dyn Store, run: RunId) -> Result<(Run, Vec<Event>), Unanswered> {
    let found = store.run(run)?.ok_or_else(|| {
        Unanswered::refused(format!("there is no run {run} in this store; `unstuck runs` lists them"))
    })?;
    Ok((found, store.history(run, 0, usize::MAX)?))
}

impl Explained {
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// The whole in one sentence.
    pub(super) fn headline(&self) -> &str {
        &self.explanation.headline
    }

    /// For programs.
    pub(super) fn document(&self, option: &str) -> api::Explanation {
        document::explanation(&ready_to_type(self.explanation.clone(), option))
    }

    /// For people: all that happened, and what can be done.
    pub(super) fn page(&self, option: &str) -> String {
        let page = ready_to_type(self.explanation.clone(), option).to_string();
        page + &self.below(option)
    }

    /// For people who have seen what happened, of a run in which nothing happens any more.
    pub(crate) fn rest(&self, option: &str) -> String {
        let page = without_happened(ready_to_type(self.explanation.clone(), option)).to_string();
        page + &self.below(option)
    }

    fn below(&self, option: &str) -> String {
        let told = |explanation: &Explanation| {
            format!("\n{}", without_happened(ready_to_type(explanation.clone(), option)))
        };
        let more = (self.more > 0).then(|| format!("\n{} more runs below it need a person.\n", self.more));
        self.below.iter().map(told).chain(more).collect::<Vec<_>>().concat()
    }
}

fn without_happened(mut explanation: Explanation) -> Explanation {
    explanation.happened.clear();
    explanation.earlier = 0;
    // Nothing is under way that a pause would keep from going on.
    if matches!(explanation.state, RunState::Held | RunState::Error) {
        explanation.can.retain(|can| !can.command.starts_with("unstuck pause "));
    }
    explanation
}

/// With commands that find the store.
fn ready_to_type(mut explanation: Explanation, option: &str) -> Explanation {
    for can in &mut explanation.can {
        can.command += option;
    }
    explanation
}
