//! What one run is told of another, and what a worker is told with its attempt: as the models of the runs have it.

use serde_json::Value;
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::json::Payload;
use unstuck_core::model::attempt::{Outcome, ResumedBy};
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::model::unit::AttemptPhase;
use unstuck_core::time::Time;
use unstuck_engine::executor::Job;
use unstuck_store::contract::Store;

use super::model::Past;
use super::{Broken, Promise, Promises};

/// So many attempts of the run are told with a product.
const HISTORY: usize = 20;

/// The value of a payload; `None` where the store cannot tell it now.
pub(super) fn value(store: &mut dyn Store, payload: &Payload) -> Option<Value> {
    match payload {
        Payload::Inline(json) => Some(json.value()),
        Payload::Stored(id) => Some(store.payloads(&[*id]).ok()?.pop()??.value()),
    }
}

impl Promises {
    /// What begins and ends in an event on behalf of another run is what that run has to give.
    pub(super) fn check_family_values(
        &self,
        store: &mut dyn Store,
        id: RunId,
        event: &Event,
        before: Option<&Run>,
    ) -> Result<(), Broken> {
        if self.family.is_unordered() {
            return Ok(());
        }
        for fact in &event.facts {
            match fact {
                Fact::Started(started) => self.check_begun(store, id, &started.origin, &started.input)?,
                Fact::Unit { unit, fact: UnitFact::Ended { outcome: Outcome::Completed(output), .. } } => {
                    let state = before.and_then(|run| run.unit(*unit));
                    let is_child = state
                        .and_then(|unit| unit.state.live())
                        .is_some_and(|live| matches!(live.doing, AttemptPhase::Child { .. }));
                    let child = state.and_then(|unit| unit.child).filter(|_| is_child);
                    let Some(book) = child.and_then(|child| self.books.get(&child)) else { continue };
                    let Some(given) = &book.model.output else { continue };
                    if let (Some(has), Some(given)) = (value(store, output), value(store, given))
                        && has != given
                    {
                        let what = format!("its child put out {given}, and its step has {has}");
                        return Err(Broken::of(Promise::Values, id, what));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A child gets the input of its step, a handler gets the error.
    fn check_begun(
        &self,
        store: &mut dyn Store,
        id: RunId,
        origin: &Origin,
        input: &Payload,
    ) -> Result<(), Broken> {
        let Some(book) = origin.parent().and_then(|parent| self.books.get(&parent)) else { return Ok(()) };
        match origin {
            Origin::Root => Ok(()),
            Origin::Child { unit, .. } => {
                let Some(given) = book.model.bound.get(unit).or(book.model.input.as_ref()) else {
                    return Ok(());
                };
                match (value(store, input), value(store, given)) {
                    (Some(has), Some(given)) if has != given => {
                        Err(Broken::of(Promise::Values, id, format!("it gets {has}, and should get {given}")))
                    }
                    _ => Ok(()),
                }
            }
            Origin::Handler { parent, .. } => {
                let (Some(failing), Some(has)) = (&book.model.failing, value(store, input)) else {
                    return Ok(());
                };
                let error = &failing.error;
                let is_right = has["error"]["cause"] == *error.cause
                    && has["error"]["context"] == error.context.as_deref().map_or(Value::Null, Value::from)
                    && has["error"]["fatal"] == failing.fatal
                    && has["run"] == parent.to_string();
                if is_right {
                    return Ok(());
                }
                let what = format!("`{}` is handled, and the handler is told {has}", error.cause);
                Err(Broken::of(Promise::Values, id, what))
            }
        }
    }

    /// An attempt is handed out with the input of its unit, and with what is true of the attempts before it.
    pub(super) fn check_job(&self, store: &mut dyn Store, job: &Job) -> Result<(), Broken> {
        let id = job.attempt;
        let Some(book) = self.books.get(&id.run) else { return Ok(()) };
        let is_current = book.run().is_some_and(|run| run.generation == id.generation && !run.is_final());
        if !is_current {
            return Ok(());
        }
        let model = &book.model;
        if let Some(wanted) = model.bound.get(&id.unit).or(model.input.as_ref())
            && let Some(wanted) = value(store, wanted)
            && wanted != job.input.value()
        {
            let what = format!("an attempt gets {}, and should get {wanted}", job.input.text());
            return Err(Broken::of(Promise::Values, id.run, what));
        }
        // What has ended since in the same batch is told too.
        let is_later = |past: &Past| (past.generation, past.attempt) >= (id.generation, id.attempt);
        if model.past.iter().any(|past| past.unit == id.unit && is_later(past)) {
            return Ok(());
        }
        let repeats = model.repeats(id.unit).map(ResumedBy::word);
        let wrong = wrong_product(store, job, &model.past, book.clock, repeats);
        wrong.map_or(Ok(()), |what| Err(Broken::of(Promise::Values, id.run, what)))
    }
}

/// What is wrong with what a worker is told of the attempts before.
fn wrong_product(
    store: &mut dyn Store,
    job: &Job,
    past: &[Past],
    clock: i64,
    repeats: Option<&str>,
) -> Option<String> {
    let (id, product) = (job.attempt, job.product()?);
    if product.attempt != id.attempt || product.resumed_by.as_deref() != repeats {
        return Some(format!(
            "attempt {} is told to be {}, by {:?}, and it is by {repeats:?}",
            id.attempt, product.attempt, product.resumed_by
        ));
    }
    let last = past.iter().rev().find(|past| past.unit == id.unit);
    let given = product.previous.as_ref();
    let is_same = match (last, given) {
        (None, None) => true,
        (Some(last), Some(given)) => {
            let progress = last.progress.as_ref().and_then(|progress| value(store, progress));
            let given_progress = given
                .progress
                .as_ref()
                .and_then(|progress| serde_json::from_str::<Value>(progress.get()).ok());
            (given.generation, given.attempt) == (last.generation, last.attempt)
                && given.state == last.state
                && last
                    .cause
                    .as_deref()
                    .is_none_or(|cause| given.error.as_ref().is_some_and(|error| error.cause == cause))
                && given_progress == progress
        }
        _ => false,
    };
    if !is_same {
        return Some(format!("the attempt before was {last:?}, and {given:?} is told"));
    }
    let mut all: Vec<&Past> = past.iter().collect();
    all.sort_by_key(|past| (past.generation, past.at, past.unit, past.attempt));
    let wanted = &all[all.len().saturating_sub(HISTORY)..];
    let is_same = wanted.len() == product.history.len()
        && wanted.iter().zip(&product.history).all(|(past, given)| {
            given.step == unit_name(&job.flow, past.unit)
                && (given.generation, given.attempt) == (past.generation, past.attempt)
                && given.state == past.state
                && given.ended_at == Time::timestamp(past.at.shifted(clock))
        });
    (!is_same).then(|| format!("the history is {wanted:?}, and {:?} is told", product.history))
}
