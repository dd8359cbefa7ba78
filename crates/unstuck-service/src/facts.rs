//! Facts of an event for programs, in a form that stays the same when the stored form changes.

use std::collections::{BTreeMap, HashMap};

use unstuck_api::history::{FactView, PassedPolicyView};
use unstuck_core::bulk::BulkRef;
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Amended, Choice, Closing, Fact, UnitFact};
use unstuck_core::model::attempt::{Cancelled, Outcome, ResumedBy};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::PausedBy;
use unstuck_core::model::unit::{SkippedBy, UnitRef};
use unstuck_core::policy::{PassedPolicy, PassedReason, PolicyRef};
use unstuck_core::time::{Millis, Time};

/// Converts the facts of one run to views, from its first event on.
#[derive(Debug, Default)]
pub(crate) struct FactTeller {
    /// The last attempt of each unit: most facts do not repeat its number.
    attempts: HashMap<UnitRef, u32>,
}

impl FactTeller {
    /// Takes in the facts of an event before the wanted page, so that later facts know the number of their attempt.
    pub(crate) fn follow(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.remember_attempt(fact);
        }
    }

    /// Remembers the number of the attempt that a fact begins; a rerun counts from 1 again.
    fn remember_attempt(&mut self, fact: &Fact) {
        if let Fact::Reran { .. } = fact {
            self.attempts.clear();
        }
        if let Fact::Unit { unit, fact } = fact
            && let Some(attempt) = attempt_number(fact)
        {
            self.attempts.insert(*unit, attempt);
        }
    }

    /// Converts the facts of the next event. Events come in order, as facts after the first of an attempt lack its
    /// number.
    pub(crate) fn convert_facts(&mut self, flow: &Flow, facts: &[Fact]) -> Vec<FactView> {
        facts.iter().map(|fact| self.convert_fact(flow, fact)).collect()
    }

    /// Converts a fact to the view of its type: fields that a type does not have stay empty.
    fn convert_fact(&mut self, flow: &Flow, fact: &Fact) -> FactView {
        self.remember_attempt(fact);
        let mut view = FactView { kind: fact_type(fact).to_owned(), ..FactView::default() };
        match fact {
            Fact::Started(started) => {
                view.flow = Some(flow.name.to_string());
                view.key = owned_text(started.key.as_deref());
                view.parent = started.origin.parent().map(|parent| parent.to_string());
                view.due = started.deadline.map(Time::timestamp);
            }
            Fact::Paused { by, reason } => {
                view.because = owned_text(Some(match by {
                    PausedBy::Operator => "operator",
                    PausedBy::Parent => "parent",
                }));
                view.reason = owned_text(reason.as_deref());
            }
            Fact::Amended(amended) => {
                view.priority = amended.priority;
                view.labels = changed_labels(amended);
                view.due = amended.deadline.and_then(|deadline| deadline.at).map(Time::timestamp);
                view.reason = owned_text(amended.reason.as_deref());
            }
            Fact::Migrated(migrated) => {
                view.version = Some(migrated.version.to_string());
                view.reason = owned_text(migrated.reason.as_deref());
            }
            Fact::ClockCorrected { by } => view.delay = Some(*by),
            Fact::SignalKept { name, .. } | Fact::SignalTaken { name } => {
                view.signal = Some(name.to_string());
            }
            Fact::Failing { error, handler } => {
                view.step = error.unit.map(|unit| unit_name(flow, unit));
                view.cause = Some(error.error.cause.to_string());
                view.flow = owned_text(handler.as_deref());
            }
            Fact::HandlerStarted { run } => view.run = Some(run.to_string()),
            Fact::HandlerChanged { state } => view.state = owned_text(Some(state.word())),
            Fact::RunFailed { handler_error } => {
                view.cause = handler_error.as_ref().map(|error| error.error.cause.to_string());
            }
            Fact::RunCancelled { reason } => view.reason = owned_text(reason.as_deref()),
            Fact::Reran { generation, deadline, bulk, .. } => {
                view.generation = Some(*generation);
                view.due = deadline.map(Time::timestamp);
                view.bulk = bulk_id_text(bulk.as_ref());
            }
            Fact::ItemsKnown { step, total, .. } => {
                view.step = Some(unit_name(flow, UnitRef::step(*step)));
                view.count = Some(u64::from(*total));
            }
            Fact::ItemsCompleted { step, .. } | Fact::ItemsEnded { step, .. } => {
                view.step = Some(unit_name(flow, UnitRef::step(*step)));
            }
            Fact::Unit { unit, fact } => {
                view.step = Some(unit_name(flow, *unit));
                view.attempt = self.attempts.get(unit).copied();
                fill_unit_details(fact, &mut view);
            }
            Fact::Admitted | Fact::Unpaused | Fact::InputChanged { .. } | Fact::Completed { .. } => {}
        }
        view
    }
}

/// Returns the labels that were changed: their values now, or null where they are gone.
fn changed_labels(amended: &Amended) -> BTreeMap<String, Option<String>> {
    let gone = amended.labels_removed.keys().map(|name| (name.clone(), None));
    let set = amended.labels_set.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    gone.chain(set).collect()
}

/// Returns the number of the attempt that a fact names.
fn attempt_number(fact: &UnitFact) -> Option<u32> {
    match fact {
        UnitFact::Queued { attempt, .. }
        | UnitFact::ReportIgnored { attempt, .. }
        | UnitFact::Ended { attempt, .. }
        | UnitFact::ChildStarted { attempt, .. } => Some(*attempt),
        UnitFact::InputBound { .. }
        | UnitFact::Dequeued { .. }
        | UnitFact::Started { .. }
        | UnitFact::Progress { .. }
        | UnitFact::LimitExtended { .. }
        | UnitFact::Retry { .. }
        | UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::Scheduled { .. }
        | UnitFact::PassedOver { .. }
        | UnitFact::LeftInError
        | UnitFact::Acknowledged { .. }
        | UnitFact::DoneByHand { .. }
        | UnitFact::Failed
        | UnitFact::Deferred { .. }
        | UnitFact::Requeued { .. }
        | UnitFact::Skipped { .. }
        | UnitFact::Done { .. }
        | UnitFact::TimerSet { .. }
        | UnitFact::SignalAwaited { .. }
        | UnitFact::ChildChanged { .. }
        | UnitFact::Chosen { .. }
        | UnitFact::Resumed { .. }
        | UnitFact::Closed { .. } => None,
    }
}

/// Returns the stable type name of a fact.
fn fact_type(fact: &Fact) -> &'static str {
    match fact {
        Fact::Started(_) => "run.started",
        Fact::Admitted => "run.admitted",
        Fact::Paused { .. } => "run.paused",
        Fact::Unpaused => "run.unpaused",
        Fact::Amended(_) => "run.amended",
        Fact::Migrated(_) => "run.migrated",
        Fact::ClockCorrected { .. } => "run.clockCorrected",
        Fact::InputChanged { .. } => "run.inputChanged",
        Fact::SignalKept { .. } => "run.signalled",
        Fact::SignalTaken { .. } => "run.signalTaken",
        Fact::Failing { .. } => "run.failing",
        Fact::HandlerStarted { .. } => "run.handlerStarted",
        Fact::HandlerChanged { .. } => "run.handlerChanged",
        Fact::Completed { .. } => "run.completed",
        Fact::RunFailed { .. } => "run.failed",
        Fact::RunCancelled { .. } => "run.cancelled",
        Fact::Reran { .. } => "run.rerun",
        Fact::ItemsKnown { .. } => "step.itemsKnown",
        Fact::ItemsCompleted { .. } => "step.completed",
        Fact::ItemsEnded { how, .. } => closing_word(*how),
        Fact::Unit { fact, .. } => unit_fact_type(fact),
    }
}

/// Names how something ended together with its run, in the words of the API.
fn closing_word(how: Closing) -> &'static str {
    match how {
        Closing::Failed => "step.failed",
        Closing::Dropped => "step.dropped",
        Closing::Cancelled => "step.cancelled",
        Closing::Skipped => "step.skipped",
    }
}

/// Returns the stable type name of a fact about a unit.
fn unit_fact_type(fact: &UnitFact) -> &'static str {
    match fact {
        UnitFact::InputBound { .. } => "step.inputBound",
        UnitFact::Queued { .. } => "step.queued",
        UnitFact::Dequeued { .. } => "attempt.dequeued",
        UnitFact::Started { .. } => "attempt.started",
        UnitFact::Progress { .. } => "attempt.progress",
        UnitFact::ReportIgnored { .. } => "attempt.reportIgnored",
        UnitFact::LimitExtended { .. } => "attempt.limitExtended",
        UnitFact::Ended { outcome, .. } => match outcome {
            Outcome::Completed(_) => "attempt.completed",
            Outcome::Stalled(_) => "attempt.stalled",
            Outcome::Failed(_) => "attempt.failed",
            Outcome::Deferred { .. } => "attempt.deferred",
            Outcome::Stuck(_) => "attempt.stuck",
            Outcome::Cancelled(Cancelled::Released) => "attempt.released",
            Outcome::Cancelled(
                Cancelled::RunCancelled | Cancelled::Deadline | Cancelled::RunFailing | Cancelled::Operator,
            ) => "attempt.cancelled",
        },
        UnitFact::Retry { .. } => "step.retried",
        UnitFact::Held => "step.held",
        UnitFact::Ignored => "step.ignored",
        UnitFact::Scheduled { .. } => "step.scheduled",
        UnitFact::PassedOver { .. } => "step.passedOver",
        UnitFact::LeftInError => "step.error",
        UnitFact::Acknowledged { .. } => "step.acknowledged",
        UnitFact::DoneByHand { .. } => "step.doneByHand",
        UnitFact::Failed => "step.failed",
        UnitFact::Deferred { .. } => "step.deferred",
        UnitFact::Requeued { .. } => "step.requeued",
        UnitFact::Skipped { .. } => "step.skipped",
        UnitFact::Done { .. } => "step.completed",
        UnitFact::TimerSet { .. } | UnitFact::SignalAwaited { .. } => "step.waiting",
        UnitFact::ChildStarted { .. } => "step.childStarted",
        UnitFact::ChildChanged { .. } => "step.childChanged",
        UnitFact::Chosen { .. } => "step.chosen",
        UnitFact::Resumed { .. } => "step.resumed",
        UnitFact::Closed { how } => closing_word(*how),
    }
}

/// Fills in the details of a fact about a unit.
fn fill_unit_details(fact: &UnitFact, view: &mut FactView) {
    match fact {
        UnitFact::Queued { resumed_by, .. } => view.because = owned_text(resumed_by.map(ResumedBy::word)),
        UnitFact::Dequeued { worker } | UnitFact::Started { worker } => {
            view.worker = Some(worker.name.to_string());
        }
        UnitFact::ReportIgnored { lines, more, .. } => view.count = Some(lines.len() as u64 + more),
        UnitFact::LimitExtended { until, by, .. } => set_due_and_delay(view, *until, *by),
        UnitFact::Ended { outcome, .. } => fill_outcome(view, outcome),
        UnitFact::Retry { due, delay, stalled, max } => {
            set_due_and_delay(view, *due, *delay);
            (view.count, view.max) = (Some(u64::from(*stalled)), *max);
        }
        UnitFact::Scheduled { due, delay, policy, rounds, max } => {
            set_due_and_delay(view, *due, *delay);
            view.policy = Some(policy_name(policy));
            (view.count, view.max) = (Some(u64::from(*rounds)), Some(*max));
        }
        UnitFact::PassedOver { policies } => {
            view.passed = policies.iter().map(build_passed_policy_view).collect();
        }
        UnitFact::Acknowledged { reason } | UnitFact::DoneByHand { reason, .. } => {
            view.reason = owned_text(reason.as_deref());
        }
        UnitFact::Deferred { due, delay } => set_due_and_delay(view, *due, *delay),
        UnitFact::Requeued { due, stuck, max, .. } => {
            view.due = Some(due.timestamp());
            (view.count, view.max) = (Some(u64::from(*stuck)), Some(*max));
        }
        UnitFact::Skipped { why, reason } => {
            view.because = owned_text(Some(match why {
                SkippedBy::Condition => "condition",
                SkippedBy::Operator => "operator",
            }));
            view.reason = owned_text(reason.as_deref());
        }
        UnitFact::TimerSet { due, .. } => view.due = Some(due.timestamp()),
        UnitFact::SignalAwaited { name, until } => {
            view.signal = Some(name.to_string());
            view.due = until.map(Time::timestamp);
        }
        UnitFact::ChildStarted { resumed_by, run, .. } => {
            view.because = owned_text(resumed_by.map(ResumedBy::word));
            view.run = Some(run.to_string());
        }
        UnitFact::ChildChanged { state } => view.state = owned_text(Some(state.word())),
        UnitFact::Chosen { choice, bulk } => {
            view.choice = owned_text(Some(match choice {
                Choice::Retry => "retry",
                Choice::None => "none",
            }));
            view.bulk = bulk_id_text(bulk.as_ref());
        }
        UnitFact::Resumed { by, reason, bulk, waited } => {
            view.because = owned_text(Some(by.word()));
            view.reason = owned_text(reason.as_deref());
            view.bulk = bulk_id_text(bulk.as_ref());
            view.delay = waited.map(to_milliseconds);
        }
        UnitFact::InputBound { .. }
        | UnitFact::Progress { .. }
        | UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::LeftInError
        | UnitFact::Failed
        | UnitFact::Done { .. }
        | UnitFact::Closed { .. } => {}
    }
}

fn set_due_and_delay(view: &mut FactView, due: Time, delay: Millis) {
    view.due = Some(due.timestamp());
    view.delay = Some(to_milliseconds(delay));
}

/// Fills in how an attempt ended.
fn fill_outcome(view: &mut FactView, outcome: &Outcome) {
    let cause = |error: &Error| Some(error.cause.to_string());
    match outcome {
        Outcome::Stalled(error) | Outcome::Failed(error) => view.cause = cause(error),
        Outcome::Deferred { asked, lacking } => {
            view.delay = asked.map(to_milliseconds);
            view.cause = owned_text(lacking.as_deref());
        }
        Outcome::Stuck(stuck) => view.cause = Some(stuck.limit.to_string()),
        Outcome::Completed(_) | Outcome::Cancelled(_) => {}
    }
}

fn owned_text(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

fn policy_name(policy: &PolicyRef) -> String {
    policy.name.to_string()
}

fn build_passed_policy_view(passed: &PassedPolicy) -> PassedPolicyView {
    let why = match passed.why {
        PassedReason::Spent { .. } => "spent",
        PassedReason::Disabled => "disabled",
    };
    PassedPolicyView { policy: policy_name(&passed.policy), why: why.to_owned() }
}

fn bulk_id_text(bulk: Option<&BulkRef>) -> Option<String> {
    bulk.map(|bulk| bulk.bulk.to_string())
}

/// JSON numbers of the API are signed.
fn to_milliseconds(span: Millis) -> i64 {
    i64::try_from(span.0).unwrap_or(i64::MAX)
}
