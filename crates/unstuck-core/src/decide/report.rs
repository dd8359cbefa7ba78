//! Claims and reports of workers: start, heartbeat, complete, fail, defer, release, log.

use std::cmp::Ordering;

use crate::begin_attempt::{begin_attempt, dispatch_attempt};
use crate::command::Report;
use crate::decide::{Answer, Draft, LeaseMove, MAX_PAYLOAD_BYTES};
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::json::Json;
use crate::model::attempt::{AttemptId, Cancelled, Outcome, ResumedBy, Worker};
use crate::model::error::{Error, OUTPUT_ACTION};
use crate::model::log::{AttemptLog, LogRecord, MAX_LOG_BYTES};
use crate::model::run::Run;
use crate::model::unit::{AttemptPhase, LiveAttempt, QueuePlace, UnitRef, UnitState};
use crate::recovery::ladder::{self, AttemptError};
use crate::recovery::{deferral, failing_run};
use crate::refusal::{Refusal, Void};
use crate::time::Millis;
use crate::wakeup::{first_limit, lease_duration};

/// Gives the queued attempt of a unit to the worker that claims it. Refuses if it is no longer queued or the run may
/// not dispatch now.
pub(crate) fn claim_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    worker: Worker,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    let state = run.unit(unit).ok_or_else(|| Refusal::UnknownUnit(draft.name(unit)))?;
    if !matches!(state.state, UnitState::Ready(_)) {
        let is = state.state.word();
        let hint = "another worker was faster, or the run stopped";
        return Err(Refusal::WrongState { unit: draft.name(unit), is, wanted: "ready", hint });
    }
    if !run.can_schedule() {
        let hint = "claim it when the run continues";
        return Err(Refusal::WrongRunState { is: run.state(), asked: "hand out an attempt", hint });
    }
    dispatch_attempt(draft, unit, worker);
    Ok(Answer::Done)
}

/// Applies a worker's report to its live attempt. A report about an attempt that is no longer live is refused, unless
/// it repeats the report that ended it: a worker that got no answer may safely report again.
pub(crate) fn apply_report(
    draft: &mut Draft<'_, '_>,
    id: AttemptId,
    says: Report,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if let Report::Log(log) = says {
        return store_log(draft, id, *log);
    }
    let Some(live) = live_attempt(run, id) else {
        return if is_repeat(run, id, &says) {
            Ok(Answer::Already)
        } else {
            Err(refuse_void_token(draft, id))
        };
    };
    let (unit, attempt) = (id.unit, id.attempt);
    match says {
        Report::Start => Ok(start_attempt(draft, unit, &live)),
        Report::Heartbeat { progress } => {
            let bytes = progress.as_ref().map_or(0, |progress| progress.text().len());
            if bytes > MAX_PAYLOAD_BYTES {
                return Err(Refusal::TooLarge { what: "the progress", bytes, max: MAX_PAYLOAD_BYTES });
            }
            Ok(record_heartbeat(draft, unit, &live, progress))
        }
        Report::Complete { output } => {
            complete_attempt(draft, unit, attempt, output);
            Ok(Answer::Done)
        }
        Report::Fail { error, fatal } => {
            let (outcome, verdict) = if fatal {
                (Outcome::Failed(error), AttemptError::Failed)
            } else {
                (Outcome::Stalled(error), AttemptError::Stalled)
            };
            draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
            ladder::climb(draft, unit, verdict);
            Ok(Answer::Done)
        }
        Report::Defer { asked, lacking } => {
            deferral::defer(draft, unit, attempt, asked, lacking);
            Ok(Answer::Done)
        }
        Report::Release => {
            release_attempt(draft, unit, attempt);
            Ok(Answer::Done)
        }
        Report::Log(log) => store_log(draft, id, *log),
    }
}

/// Returns the live attempt with this id, if a worker (not a child run) executes it.
fn live_attempt(run: &Run, id: AttemptId) -> Option<LiveAttempt> {
    if run.generation != id.generation || run.is_final() {
        return None;
    }
    let live = run.unit(id.unit)?.state.live()?;
    let is_workers = !matches!(live.doing, AttemptPhase::Child { .. });
    (live.attempt == id.attempt && is_workers).then(|| live.clone())
}

/// Returns whether a report repeats how the attempt has already ended.
fn is_repeat(run: &Run, id: AttemptId, says: &Report) -> bool {
    if run.generation != id.generation {
        return false;
    }
    let past = run.unit(id.unit).and_then(|unit| unit.past.iter().find(|past| past.attempt == id.attempt));
    let Some(past) = past else { return false };
    match (says, &past.outcome) {
        (Report::Complete { .. }, Outcome::Completed(_))
        | (Report::Fail { fatal: true, .. }, Outcome::Failed(_))
        | (Report::Fail { fatal: false, .. }, Outcome::Stalled(_))
        | (Report::Defer { .. }, Outcome::Deferred { .. })
        | (Report::Release, Outcome::Cancelled(Cancelled::Released)) => true,
        (
            Report::Start
            | Report::Heartbeat { .. }
            | Report::Complete { .. }
            | Report::Fail { .. }
            | Report::Defer { .. }
            | Report::Release
            | Report::Log(_),
            Outcome::Completed(_)
            | Outcome::Stalled(_)
            | Outcome::Failed(_)
            | Outcome::Deferred { .. }
            | Outcome::Stuck(_)
            | Outcome::Cancelled(_),
        ) => false,
    }
}

/// Stores the log of an attempt apart from its run, whether the attempt is live or not: the log of a stuck attempt is
/// the most useful one. Only ignored report lines become an event, so that people see them.
fn store_log(draft: &mut Draft<'_, '_>, id: AttemptId, log: AttemptLog) -> Result<Answer, Refusal> {
    let run = draft.run();
    let is_known = match run.generation.cmp(&id.generation) {
        Ordering::Less => false,
        Ordering::Equal => {
            id.attempt > 0 && run.unit(id.unit).is_some_and(|unit| id.attempt <= unit.attempts)
        }
        Ordering::Greater => true,
    };
    if !is_known {
        return Err(refuse_void_token(draft, id));
    }
    if log.size() > MAX_LOG_BYTES {
        return Err(Refusal::TooLarge { what: "the log", bytes: log.size(), max: MAX_LOG_BYTES });
    }
    if !log.ignored.is_empty() && live_attempt(run, id).is_some() {
        let (lines, more) = (log.ignored.clone(), log.more_ignored);
        draft.emit_unit(id.unit, UnitFact::ReportIgnored { attempt: id.attempt, lines, more });
    }
    draft.decision.log = Some(Box::new(LogRecord { attempt: id, at: draft.now(), log }));
    Ok(Answer::Done)
}

/// Records that the worker has begun a dequeued attempt.
fn start_attempt(draft: &mut Draft<'_, '_>, unit: UnitRef, live: &LiveAttempt) -> Answer {
    match &live.doing {
        AttemptPhase::Dequeued { worker, .. } => {
            draft.emit_unit(unit, UnitFact::Started { worker: worker.clone() });
            Answer::Done
        }
        AttemptPhase::Working { .. } | AttemptPhase::Child { .. } => Answer::Already,
    }
}

/// Extends the lease of an attempt. A heartbeat without progress is not an event: it only moves the lease in the store.
fn record_heartbeat(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    live: &LiveAttempt,
    progress: Option<Json>,
) -> Answer {
    start_attempt(draft, unit, live);
    if let Some(progress) = progress {
        let value = draft.store_payload(progress);
        draft.emit_unit(unit, UnitFact::Progress { value });
    } else if let AttemptPhase::Working { worker, heard: recorded, .. } = &live.doing {
        let heard = draft.now();
        let limit = lease_duration(&draft.step(unit).limits, worker);
        // The first heartbeat after a downtime is an event: the limit may have been extended in this very batch, which
        // discards lease moves made before it.
        if let Some(limit) = limit.filter(|limit| live.spared.is_some_and(|until| until > *recorded + *limit))
        {
            let until = heard + limit;
            draft.emit_unit(unit, UnitFact::LimitExtended { until, by: Millis::ZERO, heard: Some(heard) });
        } else {
            let due = first_limit(draft.step(unit), live, Some(heard)).map(|(due, _)| due);
            draft.decision.lease = due.map(|due| LeaseMove { unit, heard, due });
        }
    }
    Answer::Done
}

/// Completes an attempt with its output and advances the run. An output above the size limit fails the attempt.
fn complete_attempt(draft: &mut Draft<'_, '_>, unit: UnitRef, attempt: u32, output: Json) {
    let bytes = output.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        let cause = format!(
            "the output is too large ({bytes} bytes, at most {MAX_PAYLOAD_BYTES}); return a reference"
        );
        let outcome = Outcome::Failed(Box::new(Error::found_by(OUTPUT_ACTION, cause)));
        draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
        ladder::climb(draft, unit, AttemptError::Failed);
        return;
    }
    let output = draft.store_payload(output);
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome: Outcome::Completed(output) });
    if draft.run().is_failing() {
        failing_run::advance_failing(draft);
    } else {
        advance_after(draft, unit.step);
    }
}

/// Ends an attempt that its worker gave back, and queues it again at the front; it uses no budget.
fn release_attempt(draft: &mut Draft<'_, '_>, unit: UnitRef, attempt: u32) {
    let outcome = Outcome::Cancelled(Cancelled::Released);
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
    if draft.run().is_failing() {
        let how = failing_run::closing_for_open_units(draft);
        draft.emit_unit(unit, UnitFact::Closed { how });
        failing_run::advance_failing(draft);
        return;
    }
    let place = QueuePlace { front: true, alone: false };
    begin_attempt(draft, unit, Some(ResumedBy::Release), place);
}

/// Builds the refusal for a void token: when and why the worker lost the attempt, and who has the current one.
pub(crate) fn refuse_void_token(draft: &Draft<'_, '_>, id: AttemptId) -> Refusal {
    let run = draft.run();
    let unit = run.unit(id.unit);
    let name = draft.name(id.unit);
    let mut void = Void { unit: name, attempt: id.attempt, since: None, why: String::new(), holds_now: None };
    let past = unit.and_then(|unit| unit.past.iter().find(|past| past.attempt == id.attempt));
    void.why = if run.generation == id.generation {
        past.map_or_else(|| explain_unknown_attempt(run), |past| describe_outcome(&past.outcome))
    } else {
        format!("it is of generation {}, and the run is now at generation {}", id.generation, run.generation)
    };
    if run.generation == id.generation {
        void.since = past.map(|past| past.ended_at);
    }
    void.holds_now = unit.and_then(|unit| match &unit.state {
        UnitState::Ready(queued) => Some((queued.attempt, None)),
        UnitState::Active(live) => Some((live.attempt, worker_in_phase(&live.doing))),
        UnitState::Waiting(_) => Some((unit.attempts + 1, None)),
        UnitState::Pending
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => None,
    });
    Refusal::Void(Box::new(void))
}

/// Explains a token for an attempt that the run no longer remembers.
fn explain_unknown_attempt(run: &Run) -> String {
    if run.is_final() {
        format!("the run is {}", run.state().word())
    } else {
        "it is not running; see the history of the run".to_owned()
    }
}

/// Describes how an attempt ended, for the refusal of a void token.
fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Stuck(stuck) => {
            format!("it was stuck: {}, last heard from at {}", stuck.limit, stuck.heard)
        }
        Outcome::Cancelled(why) => why.text().to_owned(),
        Outcome::Completed(_) => "it completed".to_owned(),
        Outcome::Stalled(error) | Outcome::Failed(error) => {
            format!("it {}: {}", outcome.word(), error.cause)
        }
        Outcome::Deferred { .. } => "it was deferred".to_owned(),
    }
}

/// Returns the worker that executes an attempt in this phase; a child run has none.
fn worker_in_phase(doing: &AttemptPhase) -> Option<Worker> {
    match doing {
        AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } => Some(worker.clone()),
        AttemptPhase::Child { .. } => None,
    }
}
