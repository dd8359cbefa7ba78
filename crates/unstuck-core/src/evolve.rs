//! Applies events to a run: what each fact changes in its state. Decides nothing and refuses nothing.

mod clock;

use crate::slot::releases_slot;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::clock::{shift_clock, shift_clock_for_rerun};
use crate::bulk::{self, BulkRef};
use crate::event::{Amended, Closing, Event, Fact, Migrated, Started, UnitFact};
use crate::json::Payload;
use crate::model::attempt::{Outcome, PastAttempt, ResumedBy, StuckLimit};
use crate::model::error::RunError;
use crate::model::flow::StepIndex;
use crate::model::run::{Failing, Handler, Origin, Phase, Run, RunEnd, RunOutcome, RunState, Slot};
use crate::model::unit::{
    Acknowledged, AttemptPhase, AutoResume, Items, ItemsEnd, KEPT_ATTEMPTS, LiveAttempt, QueuePlace,
    QueuedAttempt, Round, SkippedBy, StepRun, Unit, UnitCounts, UnitRef, UnitState, Waiting,
};
use crate::time::Time;

/// Applies one event to a run; the first event of a run creates it.
pub fn evolve(run: &mut Option<Run>, event: &Event) {
    for fact in &event.facts {
        apply_fact_or_start(run, fact, event.time());
    }
    if let Some(run) = run {
        finish_event(run, event.seq, event.at, event.clock);
    }
}

/// Applies a whole history and returns the state it leads to.
pub fn replay<'a>(history: impl IntoIterator<Item = &'a Event>) -> Option<Run> {
    let mut run = None;
    for event in history {
        evolve(&mut run, event);
    }
    run
}

/// Records the number and time of an event, and what the clock said where that was behind, after its facts were applied;
/// and releases the slot of a run that came to rest.
pub(crate) fn finish_event(run: &mut Run, seq: u64, at: Time, clock: Option<Time>) {
    run.seq = seq;
    (run.updated_at, run.behind) = (at, clock);
    if let Slot::Taken(limit) = &run.slot
        && releases_slot(run.state(), limit)
    {
        run.slot = Slot::Wanted(limit.clone());
    }
}

/// Applies one fact; `Started` creates the run. Other facts do nothing while there is no run.
pub(crate) fn apply_fact_or_start(run: &mut Option<Run>, fact: &Fact, at: Time) {
    match (&mut *run, fact) {
        (_, Fact::Started(started)) => *run = Some(new_run(started, at)),
        (Some(run), fact) => apply_fact(run, fact, at),
        (None, _) => {}
    }
}

/// Applies one fact to an existing run.
pub(crate) fn apply_fact(run: &mut Run, fact: &Fact, at: Time) {
    if run.bulk.is_some() && bulk::rerun_result(fact).is_some() {
        run.bulk = None;
    }
    match fact {
        Fact::Started(_) => {}
        Fact::Admitted => {
            if let Slot::Wanted(limit) = &run.slot {
                run.slot = Slot::Taken(limit.clone());
            }
        }
        Fact::Paused { by, .. } => run.paused = Some(*by),
        Fact::Unpaused => run.paused = None,
        Fact::Amended(amended) => amend_run(run, amended),
        Fact::Migrated(migrated) => migrate_run(run, migrated),
        Fact::ClockCorrected { by } => shift_clock(run, *by),
        Fact::InputChanged { input, digest } => {
            run.input = input.clone();
            if digest.is_some() {
                run.input_digest.clone_from(digest);
            }
        }
        Fact::SignalKept { name, payload } => {
            run.signals.entry(name.clone()).or_default().push_back(payload.clone());
        }
        Fact::SignalTaken { name } => consume_signal(run, name),
        Fact::Failing { error, handler } => {
            let handler = handler.clone().map(|flow| Handler { flow, run: None, state: RunState::Queued });
            run.phase = Phase::Failing(Failing { since: at, error: (**error).clone(), handler });
        }
        Fact::HandlerStarted { run: id } => change_handler(run, |handler| {
            // A handler counts as running until it reports another state, as any child does.
            (handler.run, handler.state) = (Some(*id), RunState::Running);
        }),
        Fact::HandlerChanged { state } => change_handler(run, |handler| handler.state = *state),
        Fact::Completed { output } => end_run(run, at, RunOutcome::Completed { output: output.clone() }),
        Fact::RunFailed { handler_error } => fail_run(run, at, handler_error.clone()),
        Fact::RunCancelled { reason } => end_run(run, at, RunOutcome::Cancelled { reason: reason.clone() }),
        Fact::Reran { .. } => begin_generation(run, fact),
        Fact::ItemsKnown { step, values, total } => {
            let place = &mut run.steps[usize::from(step.0)];
            let earlier = match place {
                StepRun::Single(unit) => unit.take_earlier_attempts(run.generation),
                StepRun::Items(items) => std::mem::take(&mut items.earlier),
            };
            *place = StepRun::Items(Items {
                values: values.clone(),
                total: *total,
                next: 0,
                units: BTreeMap::new(),
                in_motion: 0,
                tally: UnitCounts::default(),
                end: ItemsEnd::Open,
                earlier,
            });
        }
        Fact::ItemsCompleted { step, output } => {
            change_items(run, *step, |items| items.end = ItemsEnd::Completed { at, output: output.clone() });
        }
        Fact::ItemsEnded { step, how } => change_items(run, *step, |items| {
            items.end = match how {
                Closing::Failed => ItemsEnd::Failed { at },
                Closing::Dropped => ItemsEnd::Dropped { at },
                Closing::Cancelled => ItemsEnd::Cancelled { at },
                Closing::Skipped => ItemsEnd::Skipped { at },
            }
        }),
        Fact::Unit { unit, fact } => apply_unit_fact(run, *unit, fact, at),
    }
}

/// Builds the first state of a run from its `Started` fact.
pub(crate) fn new_run(started: &Started, at: Time) -> Run {
    Run {
        id: started.run,
        generation: 1,
        seq: 0,
        flow: started.flow,
        key: started.key.clone(),
        labels: started.labels.clone(),
        input: started.input.clone(),
        input_digest: started.input_digest.clone(),
        origin: started.origin.clone(),
        root_flow: started.root_flow.clone(),
        nesting: started.nesting.clone(),
        home: started.home.clone(),
        priority: started.priority,
        created_at: at,
        updated_at: at,
        behind: None,
        deadline: started.deadline,
        deadline_is_relative: started.deadline_is_relative,
        clock: started.clock,
        slot: started.limit.clone().map_or(Slot::Unlimited, Slot::Wanted),
        paused: None,
        phase: Phase::Going,
        steps: vec![StepRun::Single(Unit::default()); usize::from(started.steps)],
        recent: Vec::new(),
        signals: BTreeMap::new(),
        bulk: None,
    }
}

/// Changes the priority, the labels and the deadline as far as they were changed.
fn amend_run(run: &mut Run, amended: &Amended) {
    run.priority = amended.priority.unwrap_or(run.priority);
    if !amended.labels_removed.is_empty() || !amended.labels_set.is_empty() {
        let mut labels = run.labels.as_deref().cloned().unwrap_or_default();
        labels.retain(|name, _| !amended.labels_removed.contains_key(name));
        labels.extend(amended.labels_set.iter().map(|(name, value)| (name.clone(), value.clone())));
        run.labels = (!labels.is_empty()).then(|| Arc::new(labels));
    }
    if let Some(deadline) = amended.deadline {
        (run.deadline, run.deadline_is_relative) = (deadline.at, deadline.is_relative);
    }
}

/// Moves the run to another version of its flow. What has begun stays where it is; all other steps are alike.
fn migrate_run(run: &mut Run, migrated: &Migrated) {
    run.flow = migrated.flow;
    run.steps.resize(usize::from(migrated.steps), StepRun::Single(Unit::default()));
    for step in &migrated.changed {
        if let Some(unit) = run.unit_mut(UnitRef::step(*step)) {
            unit.input = None;
        }
    }
    run.begin_recent_attempts();
}

/// Removes the oldest kept signal of this name.
fn consume_signal(run: &mut Run, name: &str) {
    if let Some(kept) = run.signals.get_mut(name) {
        kept.pop_front();
        if kept.is_empty() {
            run.signals.remove(name);
        }
    }
}

/// Changes the handler of a failing run; does nothing to any other run.
fn change_handler(run: &mut Run, change: impl FnOnce(&mut Handler)) {
    if let Phase::Failing(Failing { handler: Some(handler), .. }) = &mut run.phase {
        change(handler);
    }
}

/// Changes the items of a fan-out; does nothing to a step without items.
fn change_items(run: &mut Run, step: StepIndex, change: impl FnOnce(&mut Items)) {
    if let StepRun::Items(items) = &mut run.steps[usize::from(step.0)] {
        change(items);
    }
}

/// Ends the generation: nothing of it waits or is paused any longer.
fn end_run(run: &mut Run, at: Time, how: RunOutcome) {
    run.phase = Phase::Ended(RunEnd { at, how });
    run.paused = None;
    run.signals.clear();
}

/// Ends a failing run as failed, with its own error and that of its handler.
fn fail_run(run: &mut Run, at: Time, handler_error: Option<Box<RunError>>) {
    if let Phase::Failing(failing) = &run.phase {
        let handler = failing.handler.as_ref().and_then(|handler| handler.run).map(|id| (id, handler_error));
        let error = Box::new(failing.error.clone());
        end_run(run, at, RunOutcome::Failed { error, handler });
    }
}

/// Begins the next generation of a final run: `keep` names the steps that keep their results, all others are reset.
fn begin_generation(run: &mut Run, fact: &Fact) {
    let Fact::Reran { generation, flow, deadline, steps, keep, keep_children, serves, limit, .. } = fact
    else {
        return;
    };
    if let Fact::Reran { deadline_is_relative, clock, bulk, .. } = fact {
        run.deadline_is_relative = *deadline_is_relative;
        run.bulk = *bulk;
        shift_clock_for_rerun(run, *clock);
    }
    let mut old = std::mem::take(&mut run.steps);
    run.steps = vec![StepRun::Single(Unit::default()); usize::from(*steps)];
    for step in keep {
        let place = usize::from(step.0);
        run.steps[place] = match std::mem::replace(&mut old[place], StepRun::Single(Unit::default())) {
            StepRun::Single(unit) => StepRun::Single(carry_over_unit(unit, run.generation)),
            StepRun::Items(items) => StepRun::Items(carry_over_items(items, run.generation)),
        };
    }
    for (new, old) in run.steps.iter_mut().zip(old) {
        // A step that runs again continues the same child and keeps its earlier attempts.
        if let (StepRun::Single(new), StepRun::Single(mut old), true) = (new, old, *keep_children) {
            new.child = new.child.or(old.child);
            new.earlier.extend(old.take_earlier_attempts(run.generation));
        }
    }
    if let (Origin::Child { serves: old, .. }, Some(new)) = (&mut run.origin, serves) {
        *old = *new;
    }
    run.generation = *generation;
    run.rebuild_recent_attempts();
    run.flow = *flow;
    run.deadline = *deadline;
    run.phase = Phase::Going;
    run.slot = limit.clone().map_or(Slot::Unlimited, Slot::Wanted);
}

/// Carries a completed or skipped unit over into the next generation, without its round and budgets.
fn carry_over_unit(mut unit: Unit, generation: u32) -> Unit {
    let earlier = unit.take_earlier_attempts(generation);
    Unit { state: unit.state, input: unit.input, child: unit.child, earlier, ..Unit::default() }
}

/// Resets a unit that will run again; only its child and its attempts of earlier generations remain.
fn reset_unit(mut unit: Unit, generation: u32) -> Unit {
    Unit { child: unit.child, earlier: unit.take_earlier_attempts(generation), ..Unit::default() }
}

/// Carries a fan-out over into the next generation: completed items stay, all others are launched again.
fn carry_over_items(items: Items, generation: u32) -> Items {
    let units = items.units.into_iter().map(|(item, unit)| {
        let reused = matches!(unit.state, UnitState::Completed { .. } | UnitState::Skipped { .. });
        let is_done = matches!(items.end, ItemsEnd::Completed { .. } | ItemsEnd::Skipped { .. });
        (
            item,
            if reused || is_done { carry_over_unit(unit, generation) } else { reset_unit(unit, generation) },
        )
    });
    let units = units.collect();
    match items.end {
        ItemsEnd::Completed { .. } | ItemsEnd::Skipped { .. } => Items { units, ..items },
        ItemsEnd::Open | ItemsEnd::Failed { .. } | ItemsEnd::Dropped { .. } | ItemsEnd::Cancelled { .. } => {
            let tally = UnitCounts::default();
            let mut items = Items { units, next: 0, in_motion: 0, tally, end: ItemsEnd::Open, ..items };
            items.skip_done();
            items
        }
    }
}

/// Applies a fact to a step or item, and keeps the counters of its fan-out in step.
fn apply_unit_fact(run: &mut Run, unit: UnitRef, fact: &UnitFact, at: Time) {
    launch_item(run, unit);
    if let UnitFact::Ended { attempt, .. } = fact {
        run.record_recent_attempt(unit, *attempt, at);
    }
    let Some(state) = run.unit_mut(unit) else { return };
    if unit.item.is_none() {
        transition_unit(state, fact, at);
        return;
    }
    let (was, mut before) = (state.state.is_progressing(), UnitCounts::default());
    before.add(&state.state);
    transition_unit(state, fact, at);
    let (is, mut now) = (state.state.is_progressing(), UnitCounts::default());
    now.add(&state.state);
    change_items(run, unit.step, |items| {
        items.in_motion = items.in_motion + u32::from(is) - u32::from(was);
        items.tally.replace(before, now);
    });
}

/// Creates the state of an item with the first fact about it.
fn launch_item(run: &mut Run, unit: UnitRef) {
    if let Some(item) = unit.item {
        change_items(run, unit.step, |items| {
            items.units.entry(item).or_default();
            if items.next <= item {
                items.next = item + 1;
                items.skip_done();
            }
        });
    }
}

/// Applies a fact to the state of one unit.
fn transition_unit(unit: &mut Unit, fact: &UnitFact, at: Time) {
    if bulk::resume_result(fact).is_some() {
        unit.round.bulk = None;
    }
    let next = match fact {
        UnitFact::InputBound { input } => {
            unit.input = Some(input.clone());
            return;
        }
        UnitFact::Queued { attempt, resumed_by, place } => {
            unit.attempts = *attempt;
            let (attempt, place, resumed_by) = (*attempt, *place, *resumed_by);
            UnitState::Ready(QueuedAttempt { attempt, since: at, place, resumed_by, spared: None })
        }
        UnitFact::Dequeued { worker } => {
            active_state(unit, at, AttemptPhase::Dequeued { worker: worker.clone(), at })
        }
        UnitFact::Started { worker } => {
            let doing =
                AttemptPhase::Working { worker: worker.clone(), started_at: at, heard: at, progress: None };
            active_state(unit, at, doing)
        }
        UnitFact::Progress { value } => return set_progress(unit, value, at),
        UnitFact::LimitExtended { until, heard, .. } => return extend_limit(unit, *until, *heard),
        UnitFact::Ended { attempt, outcome } => end_attempt(unit, *attempt, outcome, at),
        UnitFact::Retry { due, .. } => retry_state(*due, ResumedBy::Retry, QueuePlace::default()),
        UnitFact::Held => UnitState::Held { since: at },
        UnitFact::Ignored => UnitState::Failed { at, goes_on: true },
        UnitFact::Scheduled { due, policy, .. } => {
            let resume = AutoResume { due: *due, policy: policy.clone() };
            error_state(unit, at, Some(resume))
        }
        UnitFact::LeftInError => error_state(unit, at, None),
        UnitFact::Acknowledged { reason } => return acknowledge_error(unit, reason.as_ref(), at),
        UnitFact::DoneByHand { output, .. } => {
            UnitState::Completed { at, output: output.clone(), by_hand: true }
        }
        UnitFact::Failed => UnitState::Failed { at, goes_on: false },
        UnitFact::Deferred { due, delay } => {
            unit.round.deferrals += 1;
            unit.round.deferred = unit.round.deferred.plus(*delay);
            retry_state(*due, ResumedBy::Defer, QueuePlace::default())
        }
        UnitFact::Requeued { due, place, .. } => retry_state(*due, ResumedBy::Reclaim, *place),
        UnitFact::Skipped { why, .. } => UnitState::Skipped { at, why: *why },
        UnitFact::Done { output } => UnitState::Completed { at, output: output.clone(), by_hand: false },
        UnitFact::TimerSet { due, is_instant } => timer_state(*due, *is_instant),
        UnitFact::SignalAwaited { name, until } => {
            UnitState::Waiting(Waiting::Signal { name: name.clone(), since: at, until: *until })
        }
        UnitFact::ChildStarted { attempt, resumed_by, run } => {
            unit.attempts = *attempt;
            unit.child = Some(*run);
            let doing = AttemptPhase::Child { started_at: at, state: RunState::Running };
            let (attempt, resumed_by) = (*attempt, *resumed_by);
            UnitState::Active(LiveAttempt { attempt, resumed_by, queued_at: at, doing, spared: None })
        }
        UnitFact::ChildChanged { state } => return set_child_state(unit, *state),
        UnitFact::PassedOver { .. } | UnitFact::ReportIgnored { .. } => return,
        UnitFact::Chosen { bulk, .. } => return remember_bulk(unit, *bulk),
        UnitFact::Resumed { by, bulk, .. } => {
            // A manual resume during a retry delay keeps the bulk action that waits for the result.
            unit.round = Round { bulk: bulk.or(unit.round.bulk), ..next_round(&unit.round, *by) };
            return;
        }
        UnitFact::Closed { how } => closed_state(*how, at),
    };
    unit.state = next;
}

/// Records the state that the child of an active unit has reported.
fn set_child_state(unit: &mut Unit, new: RunState) {
    if let UnitState::Active(LiveAttempt { doing: AttemptPhase::Child { state, .. }, .. }) = &mut unit.state {
        *state = new;
    }
}

/// Remembers the bulk action that waits for the result of this round, if one does.
fn remember_bulk(unit: &mut Unit, bulk: Option<BulkRef>) {
    unit.round.bulk = bulk.or(unit.round.bulk);
}

/// Returns the state of a unit that was closed with its run.
fn closed_state(how: Closing, at: Time) -> UnitState {
    match how {
        Closing::Failed => UnitState::Failed { at, goes_on: false },
        Closing::Dropped => UnitState::Dropped { at },
        Closing::Cancelled => UnitState::Cancelled { at },
        Closing::Skipped => UnitState::Skipped { at, why: SkippedBy::Operator },
    }
}

/// Records a progress value, which is also a heartbeat.
fn set_progress(unit: &mut Unit, value: &Payload, at: Time) {
    if let UnitState::Active(LiveAttempt { doing: AttemptPhase::Working { heard, progress, .. }, .. }) =
        &mut unit.state
    {
        *heard = at;
        *progress = Some(value.clone());
    }
}

/// Marks the error of a unit as acknowledged, which drops its scheduled resume.
fn acknowledge_error(unit: &mut Unit, reason: Option<&Arc<str>>, at: Time) {
    if let UnitState::Error { resume, acknowledged, .. } = &mut unit.state {
        *resume = None;
        *acknowledged = Some(Acknowledged { at, reason: reason.cloned() });
    }
}

/// Moves the limit of a queued or live attempt to `until`, because of downtime.
fn extend_limit(unit: &mut Unit, until: Time, heard_at: Option<Time>) {
    match &mut unit.state {
        UnitState::Ready(queued) => queued.spared = Some(until),
        UnitState::Active(live) => {
            live.spared = Some(until);
            if let (AttemptPhase::Working { heard, .. }, Some(heard_at)) = (&mut live.doing, heard_at) {
                *heard = heard_at.max(*heard);
            }
        }
        UnitState::Pending
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => {}
    }
}

/// Returns the error state of a unit; one that was in error before keeps the time since when.
fn error_state(unit: &Unit, at: Time, resume: Option<AutoResume>) -> UnitState {
    let since = if let UnitState::Error { since, .. } = unit.state { since } else { at };
    UnitState::Error { since, resume, acknowledged: None }
}

/// Returns the state of a unit that waits for a timer of its flow.
fn timer_state(due: Time, is_instant: bool) -> UnitState {
    UnitState::Waiting(Waiting::Timer { due, is_instant })
}

/// Returns the state of a unit that waits for its next attempt.
fn retry_state(due: Time, by: ResumedBy, place: QueuePlace) -> UnitState {
    UnitState::Waiting(Waiting::Again { due, by, place })
}

/// Returns the next round of a unit: its budgets start at zero, and a manual resume starts the count of rounds again.
fn next_round(round: &Round, by: ResumedBy) -> Round {
    let number = round.number.saturating_add(1);
    let manual = if by == ResumedBy::Operator { number } else { round.manual };
    Round { number, manual, ..Round::default() }
}

/// Returns the active state of a queued or dequeued unit, in phase `doing`; its attempt keeps its number.
fn active_state(unit: &Unit, at: Time, doing: AttemptPhase) -> UnitState {
    let (attempt, resumed_by, queued_at) = match &unit.state {
        UnitState::Ready(queued) => (queued.attempt, queued.resumed_by, queued.since),
        UnitState::Active(live) => (live.attempt, live.resumed_by, live.queued_at),
        UnitState::Pending
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => (unit.attempts, None, at),
    };
    UnitState::Active(LiveAttempt { attempt, resumed_by, queued_at, doing, spared: None })
}

/// Moves the live attempt of a unit to `past`, counts its outcome, and returns the next state. For all outcomes but
/// `Completed` the next fact of the event sets the state that follows.
fn end_attempt(unit: &mut Unit, attempt: u32, outcome: &Outcome, at: Time) -> UnitState {
    unit.attempts = unit.attempts.max(attempt);
    count_outcome(&mut unit.round, outcome);
    let mut past = PastAttempt {
        attempt,
        round: unit.round.number,
        resumed_by: None,
        worker: None,
        queued_at: at,
        started_at: None,
        ended_at: at,
        progress: None,
        outcome: outcome.clone(),
    };
    match std::mem::take(&mut unit.state) {
        UnitState::Active(live) => {
            past.resumed_by = live.resumed_by;
            past.queued_at = live.queued_at;
            match live.doing {
                AttemptPhase::Dequeued { worker, .. } => past.worker = Some(worker),
                AttemptPhase::Working { worker, started_at, progress, .. } => {
                    past.worker = Some(worker);
                    past.started_at = Some(started_at);
                    past.progress = progress;
                }
                AttemptPhase::Child { started_at, .. } => past.started_at = Some(started_at),
            }
        }
        UnitState::Ready(queued) => {
            past.resumed_by = queued.resumed_by;
            past.queued_at = queued.since;
        }
        UnitState::Waiting(Waiting::Signal { since, .. }) => past.queued_at = since,
        UnitState::Pending
        | UnitState::Waiting(Waiting::Again { .. } | Waiting::Timer { .. })
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => {}
    }
    if unit.earlier.len() + unit.past.len() >= KEPT_ATTEMPTS {
        if unit.earlier.is_empty() { drop(unit.past.remove(0)) } else { drop(unit.earlier.remove(0)) }
    }
    // Most units have one attempt: reserve room for one.
    if unit.past.is_empty() {
        unit.past.reserve_exact(1);
    }
    unit.past.push(past);
    match outcome {
        Outcome::Completed(output) => UnitState::Completed { at, output: output.clone(), by_hand: false },
        Outcome::Stalled(_)
        | Outcome::Failed(_)
        | Outcome::Deferred { .. }
        | Outcome::Stuck(_)
        | Outcome::Cancelled(_) => UnitState::Pending,
    }
}

/// Counts an outcome against the budget of the round that it uses.
fn count_outcome(round: &mut Round, outcome: &Outcome) {
    match outcome {
        Outcome::Stalled(_) | Outcome::Failed(_) => round.stalled += 1,
        Outcome::Stuck(stuck) => {
            round.stuck += u32::from(!stuck.free);
            round.losses += u32::from(stuck.limit == StuckLimit::Gone);
        }
        Outcome::Completed(_) | Outcome::Deferred { .. } | Outcome::Cancelled(_) => {}
    }
}
