//! What waits for time: a length of time goes on at its own pace, an instant is the wall's. Neither comes early, and an
//! engine that sleeps wakes up for the first of them.

use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{Outcome, ResumedBy};
use unstuck_core::model::error::DEADLINE_ACTION;
use unstuck_core::model::flow::{Deadline, Flow};
use unstuck_core::model::run::Phase;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::time::{Millis, Time};

use super::run_record::RunRecord;
use super::{Broken, Promise};

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// After a length of time: paced.
    After(Time),
    /// When the wall says so.
    At(Time),
}

impl Due {
    /// As a fact tells it, of a run whose clock was set by so much.
    fn after(due: Time, clock: i64) -> Due {
        Due::After(due.shifted(clock.saturating_neg()))
    }

    /// By the clock of an engine, with so much of corrections.
    pub(super) fn by_clock(self, shift: i64) -> Time {
        match self {
            Due::After(time) => time.shifted(shift),
            Due::At(time) => time,
        }
    }
}

/// What a unit waits for after a fact.
pub(super) fn waits_after(before: Option<Due>, fact: &UnitFact, clock: i64) -> Option<Due> {
    match fact {
        UnitFact::Retry { due, .. }
        | UnitFact::Requeued { due, .. }
        | UnitFact::Deferred { due, .. }
        | UnitFact::Scheduled { due, .. }
        | UnitFact::TimerSet { due, is_instant: false } => Some(Due::after(*due, clock)),
        UnitFact::TimerSet { due, is_instant: true } => Some(Due::At(*due)),
        UnitFact::SignalAwaited { until, .. } => until.map(|until| Due::after(until, clock)),
        UnitFact::InputBound { .. }
        | UnitFact::Progress { .. }
        | UnitFact::ReportIgnored { .. }
        | UnitFact::LimitExtended { .. } => before,
        _ => None,
    }
}

/// Nothing that an engine does to a unit that waits comes early.
pub(super) fn check_wait(
    run: RunId,
    waits: Option<Due>,
    event: &Event,
    (unit, fact): (UnitRef, &UnitFact),
    paced: Time,
) -> Result<(), Broken> {
    let Some(what) = too_early(waits, event, fact, paced) else { return Ok(()) };
    let what = format!("event {}, step #{}: {what}", event.seq, unit.step.0);
    Err(Broken::of(Promise::Time, run, what))
}

/// Nobody is given up before its deadline. Takes in the deadline that the event gives.
pub(super) fn check_deadline(
    book: &mut RunRecord,
    event: &Event,
    flow: &Flow,
    paced: Time,
) -> Result<(), Broken> {
    if let Some(what) = missed_early(book.deadline, event, paced) {
        let (promise, what) = (Promise::Deadlines, format!("event {}: {what}", event.seq));
        return Err(Broken { promise, run: book.run().map(|run| run.id), what });
    }
    book.deadline = deadline_after(book.deadline, event, flow, book.clock);
    Ok(())
}

/// What is wrong with a fact of an engine about a unit that waits for this.
fn too_early(waits: Option<Due>, event: &Event, fact: &UnitFact, paced: Time) -> Option<String> {
    let is_due = match fact {
        UnitFact::Queued { .. } | UnitFact::ChildStarted { .. } | UnitFact::Done { .. } => {
            let is_signal = |fact: &Fact| matches!(fact, Fact::SignalTaken { .. });
            event.by == Actor::Engine && !event.facts.iter().any(is_signal)
        }
        UnitFact::Resumed { by: ResumedBy::Policy, .. } => true,
        UnitFact::Ended { outcome: Outcome::Stalled(_), .. } => event.by == Actor::Engine,
        _ => false,
    };
    let is_early = match waits? {
        Due::After(due) => paced < due,
        Due::At(due) => event.time() < due,
    };
    (is_due && is_early).then(|| format!("it waits for {waits:?}, and goes on at {paced} ({})", event.time()))
}

/// The deadline of a run after an event.
fn deadline_after(before: Option<Due>, event: &Event, flow: &Flow, clock: i64) -> Option<Due> {
    let given = event.facts.iter().rev().find_map(|fact| {
        let deadline = match fact {
            Fact::Started(started) => started.deadline,
            Fact::Reran { deadline, .. } => *deadline,
            _ => return None,
        };
        let span: Option<Millis> = match flow.deadline {
            Some(Deadline::After(span)) => Some(span),
            Some(Deadline::At(_)) | None => None,
        };
        let is_span = |deadline: Time| span.is_some_and(|span| event.time() + span == deadline);
        Some(deadline.map(|time| if is_span(time) { Due::after(time, clock) } else { Due::At(time) }))
    });
    given.unwrap_or(before)
}

/// What is wrong with a run that is given up for its deadline.
fn missed_early(deadline: Option<Due>, event: &Event, paced: Time) -> Option<String> {
    let is_missed = event.facts.iter().any(|fact| {
        matches!(fact, Fact::Failing { error, .. } if error.error.found_by.as_deref() == Some(DEADLINE_ACTION) && error.unit.is_none())
    });
    let is_early = match deadline {
        None => true,
        Some(Due::After(due)) => paced < due,
        Some(Due::At(due)) => event.time() < due,
    };
    (is_missed && is_early).then(|| format!("its deadline is {deadline:?}, and it is over it at {paced}"))
}

/// The first thing that a run waits for, by the clock of an engine with so much of corrections. `latest` says until when
/// an automatic resume may wait, in paced time, if it must happen at all.
pub(super) fn first_due(book: &RunRecord, shift: i64, latest: &dyn Fn(Time) -> Option<Time>) -> Option<Time> {
    let run = book.run().filter(|run| matches!(run.phase, Phase::Going))?;
    let is_resume =
        |unit: UnitRef| run.unit(unit).is_some_and(|unit| matches!(unit.state, UnitState::Error { .. }));
    let waits = book.units.iter().filter(|_| run.paused.is_none());
    let waits = waits.filter_map(|(unit, recount)| match recount.waits? {
        Due::After(due) if is_resume(*unit) => latest(due).map(Due::After),
        due => Some(due),
    });
    waits.chain(book.deadline).map(|due| due.by_clock(shift)).min()
}
