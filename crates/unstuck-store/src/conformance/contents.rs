//! Everything that can be seen of a store, to compare one with another or with itself at another time.

mod errors;

use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkCounts, BulkRef, CountedAs, ResultKind, Target};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::{Notice, NoticeBody};
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Event;
use unstuck_core::evolve::replay;
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;

use crate::conformance::contents::errors::ErrorContents;
use crate::conformance::driver::offer;
use crate::conformance::flows::queues;
use crate::conformance::steps::BatchSteps;
use crate::contract::{Due, FlowRecord, RunFilter, RunLogs, Store};

/// All that can be seen of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    runs: Vec<(Run, Vec<Event>)>,
    keys: Vec<(Arc<str>, Arc<str>, Option<RunId>)>,
    payloads: Vec<(PayloadId, Option<Json>)>,
    ready: Vec<ReadyAttempt>,
    highest_waiting: Vec<Option<i32>>,
    due: Vec<Due>,
    notices: Vec<Notice>,
    due_notices: Vec<Notice>,
    things: Vec<Thing>,
    admissible: Vec<RunId>,
    flows: Vec<FlowRecord>,
    last_time: Option<Time>,
    last_id: u64,
    downtimes: Vec<Downtime>,
    clock: ClockRecord,
    errors: ErrorContents,
    logs: Vec<RunLogs>,
    bulks: Vec<(Bulk, Vec<Target>)>,
}

/// Reads everything that a store has, to compare it before and after. No transaction may be open.
pub fn contents<'a, S: Store>(store: &mut S, flows: impl Iterator<Item = &'a Arc<Flow>>) -> Contents {
    let flows: Vec<&Arc<Flow>> = flows.collect();
    let runs: Vec<(Run, Vec<Event>)> = all_runs(store)
        .into_iter()
        .map(|run| {
            let history = store.history(run.id, 0, usize::MAX).expect("the history can be read");
            (run, history)
        })
        .collect();
    let keys = runs.iter().filter_map(|(run, _)| {
        let flow = flows.iter().find(|flow| flow.id == run.flow)?;
        Some((flow.name.clone(), run.key.clone()?))
    });
    let keys = keys.collect::<Vec<_>>().into_iter().map(|(flow, key)| {
        let run = store.run_of_key(&flow, &key).expect("keys can be read");
        (flow, key, run)
    });
    let keys = keys.collect();
    let stored: Vec<PayloadId> = runs.iter().flat_map(|(_, history)| payloads_of(history)).collect();
    let texts = store.payloads(&stored).expect("payloads can be read");
    let queues: Vec<Arc<str>> = flows.iter().flat_map(|flow| queues(flow)).collect();
    let waiting = queues.iter().map(|queue| store.highest_waiting_priority(std::slice::from_ref(queue)));
    Contents {
        keys,
        payloads: stored.into_iter().zip(texts).collect(),
        highest_waiting: waiting.map(|highest| highest.expect("queues can be read")).collect(),
        ready: ready(store, &queues),
        due: store.due(Time(i64::MAX), usize::MAX).expect("timers can be read"),
        notices: notices(store),
        due_notices: due_notices(store),
        things: store.things().expect("things can be read"),
        admissible: store.admissible_runs(usize::MAX).expect("slots can be read"),
        flows: flows.iter().filter_map(|flow| store.flow(flow.id).expect("flows can be read")).collect(),
        last_time: store.last_time().expect("the time can be read"),
        last_id: store.last_id().expect("the last id can be read"),
        downtimes: store.downtimes().expect("downtimes can be read"),
        clock: store.clock().expect("what is known of the clock can be read"),
        errors: ErrorContents::read(store, &runs, &flows),
        logs: runs.iter().map(|(run, _)| store.logs(run.id).expect("logs can be read")).collect(),
        bulks: bulks(store),
        runs,
    }
}

impl Contents {
    /// Checks that the parts fit each other: histories have no gaps and give the states, and what waits, is due or is
    /// to be admitted belongs to a run that is not final.
    pub fn check(&self) {
        for (run, history) in &self.runs {
            assert!(
                history.iter().map(|event| event.seq).eq(1..=run.seq),
                "the history of {} has gaps",
                run.id
            );
            assert_eq!(replay(history).as_ref(), Some(run), "the history of {} gives its state", run.id);
        }
        let woken = self.ready.iter().map(|ready| ready.run).chain(self.due.iter().map(|due| due.run));
        for id in woken.chain(self.admissible.iter().copied()) {
            let found = self.runs.iter().find(|(run, _)| run.id == id);
            assert!(
                found.is_some_and(|(run, _)| !run.is_final()),
                "{id} is final, and something waits for it"
            );
        }
        assert!(self.payloads.iter().all(|(_, json)| json.is_some()), "every payload of a history is kept");
        assert!(self.keys.iter().all(|(.., run)| run.is_some()), "every key leads to a run");
        self.errors.check();
        for (bulk, targets) in &self.bulks {
            self.check_bulk(bulk, targets);
        }
    }

    /// Checks that a bulk action counts what its targets say, and that whatever is under way will be reported.
    fn check_bulk(&self, bulk: &Bulk, targets: &[Target]) {
        let mut counts = BulkCounts::default();
        for target in targets {
            match target.result.kind().counts_as() {
                None => assert!(target.place >= bulk.next, "{target:?} of {bulk:?}"),
                Some(CountedAs::UnderWay) => {
                    counts.under_way += 1;
                    let wanted = BulkRef { bulk: bulk.id, place: target.place };
                    let run = self.runs.iter().map(|(run, _)| run).find(|run| run.id == target.run);
                    let unit = run.and_then(|run| run.unit(target.unit?));
                    let remembered = match &bulk.action {
                        BulkAction::Rerun { .. } => run.and_then(|run| run.bulk),
                        _ => unit.and_then(|unit| unit.round.bulk),
                    };
                    let is_told = self.notices.iter().any(|notice| tells(notice, wanted));
                    assert!(remembered == Some(wanted) || is_told, "{target:?} will come out");
                }
                Some(CountedAs::Passed) => counts.passed += 1,
                Some(CountedAs::Failed) => counts.failed += 1,
                Some(CountedAs::Refused) => counts.refused += 1,
                Some(CountedAs::Unscheduled) => counts.unscheduled += 1,
                Some(CountedAs::Unchanged) => counts.unchanged += 1,
            }
        }
        assert_eq!(bulk.counts, counts, "what {} has counted", bulk.id);
        assert!(targets.iter().skip_while(|target| target.place < bulk.next).all(is_pending), "{bulk:?}");
    }

    /// Describes in short how it differs from other contents.
    pub fn unlike(&self, other: &Contents) -> String {
        let numbers =
            |contents: &Contents| contents.runs.iter().map(|(run, _)| (run.id, run.seq)).collect::<Vec<_>>();
        let (ours, theirs) = (numbers(self), numbers(other));
        if ours != theirs {
            return format!("runs and their last events {ours:?} in place of {theirs:?}");
        }
        let (ours, theirs) = (format!("{self:#?}"), format!("{other:#?}"));
        let differ = ours.lines().zip(theirs.lines()).enumerate().find(|(_, (ours, theirs))| ours != theirs);
        let from = differ.map_or(0, |(line, _)| line.saturating_sub(20));
        let some = |text: &str| text.lines().skip(from).take(30).collect::<Vec<_>>().join("\n");
        format!("this:\n{}\nin place of:\n{}", some(&ours), some(&theirs))
    }

    /// Lists the runs with their states.
    pub fn states(&self) -> Vec<(RunId, RunState)> {
        self.runs.iter().map(|(run, _)| (run.id, run.state())).collect()
    }
}

fn is_pending(target: &Target) -> bool {
    target.result.kind() == ResultKind::Pending
}

/// Reads every run in small pages, so that paging is tested too.
fn all_runs<S: Store>(store: &mut S) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    loop {
        let before = runs.last().map(|run| run.id);
        let page = store.list(&RunFilter::default(), before, 7).expect("runs can be listed");
        if page.is_empty() {
            return runs;
        }
        runs.extend(page);
        assert!(
            runs.is_sorted_by(|newer, older| newer.id > older.id),
            "runs are listed newest first, each once"
        );
    }
}

/// Lists queued attempts in an order that does not depend on turns.
fn ready<S: Store>(store: &mut S, queues: &[Arc<str>]) -> Vec<ReadyAttempt> {
    let somebody = offer(queues.iter().map(|queue| &**queue), u32::MAX);
    let mut everybody = vec![somebody.clone(); 4];
    let mut found: Vec<ReadyAttempt> = loop {
        let found = store.candidates(&everybody, usize::MAX).expect("queues can be read");
        // What must be alone takes a whole offer: somebody must be left who could have taken more of it.
        if found.iter().filter(|candidate| candidate.ready.alone).count() + 1 < everybody.len() {
            break found.into_iter().map(|candidate| candidate.ready).collect();
        }
        everybody.resize(2 * everybody.len(), somebody.clone());
    };
    found.sort_unstable_by_key(|ready| (ready.run, ready.unit));
    found
}

/// Lists every bulk action with its targets.
fn bulks<S: Store>(store: &mut S) -> Vec<(Bulk, Vec<Target>)> {
    let all = store.bulks(false, None, usize::MAX).expect("bulk actions can be listed");
    let open: Vec<Bulk> = all.iter().filter(|bulk| !bulk.is_settled()).cloned().collect();
    assert_eq!(store.bulks(true, None, usize::MAX), Ok(open), "those that are not over are found");
    let with_targets = all.into_iter().map(|bulk| {
        let targets = store.targets(bulk.id, None, 0, usize::MAX).expect("targets can be read");
        assert!(
            targets.iter().map(|target| target.place).eq(0..bulk.total),
            "{} has all its targets",
            bulk.id
        );
        (bulk, targets)
    });
    with_targets.collect()
}

/// Returns whether a notice reports the result of this target.
fn tells(notice: &Notice, target: BulkRef) -> bool {
    matches!(notice.body, NoticeBody::TargetEnded { place, .. } if place == target.place)
        && notice.to == ThingRef::Bulk(target.bulk)
}

/// Lists the notices that are due at the time of the last stage.
fn due_notices<S: Store>(store: &mut S) -> Vec<Notice> {
    let now = store.last_time().expect("the time can be read").unwrap_or_default();
    let notices = store.due_notices(now, usize::MAX).expect("notices can be read");
    notices.into_iter().map(|(_, notice)| notice).collect()
}

fn notices<S: Store>(store: &mut S) -> Vec<Notice> {
    let notices = store.notices(usize::MAX).expect("notices can be read");
    notices.into_iter().map(|(_, notice)| notice).collect()
}

/// The stored payloads that a history speaks of. They are found in its text, so that no fact can be forgotten.
fn payloads_of(history: &[Event]) -> Vec<PayloadId> {
    let text = format!("{history:?}");
    let mark = format!("{:?}", Payload::Stored(PayloadId(0)));
    let (before, after) = mark.split_once('0').unwrap_or_default();
    let ids = text.split(before).skip(1).filter_map(|rest| rest.split(after).next()?.parse().ok());
    ids.map(PayloadId).collect()
}
