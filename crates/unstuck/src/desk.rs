//! The desk: all that may be asked about the runs of a store, and the one place that answers.
//!
//! Whoever owns the store has a desk; others ask it through the socket. Where nobody owns it, a command opens the store
//! and asks a desk of its own. What is asked and answered is JSON either way.

pub(crate) mod aside;
pub(crate) mod asked;
pub(crate) mod bulk;
mod change;
pub(crate) mod driven;
pub(crate) mod errors;
pub(crate) mod explain;
pub(crate) mod family;
mod history;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod name;
pub(crate) mod order;
pub(crate) mod policies;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod trial;
mod unit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use unstuck_core::home::{Homes, is_idle};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::Run;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{Store, StoreError};

use self::asked::{Asked, Reading};

pub(crate) use self::change::{Changed, Forgotten};
pub(crate) use self::history::{HistoryPage, Told};
pub(crate) use self::list::{RunLine, RunsPage};
pub(crate) use self::order::{Applied, Ordered};
pub(crate) use self::show::Shown;

/// Where questions about runs are answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk {
    /// The home of the run that this process executes, if it executes one.
    pub(crate) serves: Option<Arc<str>>,
    /// That run.
    pub(crate) run: Option<RunId>,
    /// What a command that is to be typed needs to find the same store.
    pub(crate) option: String,
    /// Another process has the store open and does not answer: this is what the file says.
    pub(crate) silent: Option<SilentOwner>,
}

/// A process that has the store open and does not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SilentOwner {
    pub(crate) process: Option<u32>,
    /// Somebody has stopped it.
    pub(crate) is_stopped: bool,
}

impl SilentOwner {
    /// What that means for every run of the store.
    pub(crate) fn note(self) -> String {
        let process = self.process.map_or_else(|| "A process".to_owned(), |id| format!("Process {id}"));
        if self.is_stopped {
            format!(
                "{process} has the store open and is suspended (Ctrl-Z, SIGSTOP): no run continues until it does."
            )
        } else {
            format!("{process} has the store open but does not answer. The run may have changed since.")
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// In a sentence: what is wrong, and what to do. Nothing was changed.
    Refused(String),
    /// In a sentence: the store is busy, full or out of reach. Nothing was changed, and the same may succeed later.
    Unavailable(String),
    /// The engine has stopped, and may or may not have done it.
    Stopped,
}

impl Desk {
    /// Answers by way of a running engine.
    pub(crate) fn answer(&self, handle: &Handle, asked: Asked) -> Result<String, Unanswered> {
        match asked {
            Asked::Read(Reading::Trial(of)) => json(&trial::by_engine(handle, of)?),
            Asked::Read(reading) => {
                let desk = self.clone();
                handle.read(move |store, flows| desk.read(store, flows, &reading))?
            }
            Asked::Change(change) => {
                let done = change::change(self, handle, change)?;
                json(&done)
            }
            Asked::Policies(wish) => order::carry_out(handle, wish),
            Asked::Bulk(wish) => bulk::carry_out(self, handle, wish),
        }
    }

    /// Answers what changes nothing, from the store alone.
    pub(crate) fn read(
        &self,
        store: &mut dyn Store,
        flows: &mut Flows,
        reading: &Reading,
    ) -> Result<String, Unanswered> {
        guarded(|| match reading {
            Reading::Owner => json(&std::process::id()),
            Reading::Driven => json(&driven::driven(self, store, flows)?),
            Reading::Key { flow, key, input, on_duplicate } => {
                json(&driven::of_key(self, store, flows, (flow, key), input, *on_duplicate)?)
            }
            Reading::Status => json(&status::status(self, store, flows)?),
            Reading::Runs(wanted) => json(&list::list(self, store, flows, wanted)?),
            Reading::Show { run } => json(&show::show(self, store, flows, run)?),
            Reading::Explain { run } => {
                let explained = explain::of_name(self, store, flows, run)?;
                json(&explained.document(&self.option))
            }
            Reading::ExplainPage { run, columns } => {
                let explained = explain::of_name(self, store, flows, run)?;
                let page = explained.page(&self.option, columns.unwrap_or(explain::COLUMNS));
                json(&match explained.go_on() {
                    Some(go_on) => format!("{page}\nTo continue the run:\n  {go_on}\n"),
                    None => page,
                })
            }
            Reading::History { run, after, limit } => {
                json(&history::history(store, flows, run, *after, *limit)?)
            }
            Reading::Logs { run, step } => json(&logs::logs(self, store, flows, run, step.as_deref())?),
            Reading::Policies => json(&policies::list(store)?),
            Reading::Policy { name } => json(&policies::show(store, name)?),
            Reading::Kept { names } => json(&policies::kept(store, names)?),
            Reading::Audit { name, before, limit } => {
                json(&policies::audit(store, name.as_deref(), *before, *limit)?)
            }
            Reading::Trial(of) => json(&trial::by_store(store, of.clone())?),
            Reading::Errors(wanted) => json(&errors::list(store, wanted)?),
            Reading::ErrorGroup { group } => json(&errors::show(store, group)?),
            Reading::Names { first, second } => json(&name::is_run(store, flows, first, second)?),
            Reading::Bulks { open_only, limit } => json(&bulk::list(store, *open_only, *limit)?),
            Reading::Bulk { bulk } => json(&bulk::show(self, store, bulk)?),
            Reading::BulkTargets { bulk, from, limit } => {
                json(&bulk::targets(store, flows, bulk, *from, *limit)?)
            }
        })
    }

    /// The homes that this process drives.
    fn homes(&self) -> Homes {
        Homes::of(self.serves.clone())
    }

    /// The command that goes on with a run that is idle, or works for one below it that is.
    fn go_on(&self, store: &mut dyn Store, run: &Run, below: &[Run]) -> Result<Option<String>, Unanswered> {
        // Whoever has the store open may execute it.
        if self.silent.is_some() {
            return Ok(None);
        }
        let homes = self.homes();
        if !below.iter().chain([run]).any(|run| is_idle(run, &homes)) {
            return Ok(None);
        }
        let root = family::root(store, run)?;
        Ok(Some(format!("unstuck run --continue {root}{}", self.option)))
    }
}

/// A fault of ours in a question must not take the engine with it.
fn guarded(answer: impl FnOnce() -> Result<String, Unanswered>) -> Result<String, Unanswered> {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        Err(Unanswered::refused("the command failed because of a bug in Unstuck; please report it"))
    })
}

impl Unanswered {
    pub(crate) fn refused(sentence: impl Into<String>) -> Unanswered {
        Unanswered::Refused(sentence.into())
    }
}

impl From<EngineError> for Unanswered {
    fn from(error: EngineError) -> Unanswered {
        match error {
            EngineError::Stopped => Unanswered::Stopped,
            EngineError::Store(error) => error.into(),
            EngineError::Busy => Unanswered::Unavailable(error.to_string()),
            error => Unanswered::Refused(error.to_string()),
        }
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Unanswered {
        let sentence = error.to_string();
        if error.may_pass() { Unanswered::Unavailable(sentence) } else { Unanswered::Refused(sentence) }
    }
}

fn json(answer: &impl Serialize) -> Result<String, Unanswered> {
    serde_json::to_string(answer)
        .map_err(|error| Unanswered::Refused(format!("the answer cannot be written as JSON: {error}")))
}

/// The text of a payload, wherever it is.
pub(crate) fn payload_of(store: &mut dyn Store, payload: &Payload) -> Json {
    match payload {
        Payload::Inline(json) => json.clone(),
        Payload::Stored(id) => {
            let found = store.payloads(&[*id]).map(|mut found| found.pop().flatten());
            match found {
                Ok(found) => found.unwrap_or_default(),
                // Shown in its place: null would be taken for a value.
                Err(error) => Json::of(&serde_json::json!({ "damaged": error.to_string() })),
            }
        }
    }
}
