//! What the store shows of a run: its state is that of its history, something moves it, and it can be explained.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::NoticeBody;
use unstuck_core::event::{Actor, Event, Fact};
use unstuck_core::evolve::evolve;
use unstuck_core::explain::explain;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{ParentAttempt, Run};
use unstuck_core::model::unit::UnitState;
use unstuck_core::time::Time;
use unstuck_core::wakeup::wakeups;
use unstuck_store::contract::{Store, StoreError};
use unstuck_store::verify;
use unstuck_store::verify::movers::{self, Neighbour, Neighbours, awaited};

use super::run_record::RunRecord;
use super::{Broken, Promise};

/// A run as the store shows it.
pub(super) struct StoreView {
    pub(super) run: Run,
    /// What has happened and is not durable yet.
    pub(super) tail: Vec<Event>,
}

/// Reads a run and compares it with its book; `None` if the store does not have it.
pub(super) fn read(
    store: &mut dyn Store,
    id: RunId,
    book: &RunRecord,
) -> Result<Result<Option<StoreView>, Broken>, StoreError> {
    let Some(run) = store.run(id)? else { return Ok(Ok(None)) };
    let tail = if run.seq > book.seq() { store.history(id, book.seq(), usize::MAX)? } else { Vec::new() };
    let last =
        book.seq().checked_sub(1).map(|before| store.history(id, before, 1)).transpose()?.unwrap_or_default();
    Ok(compare(book, run, tail, last.first()).map(Some))
}

pub(super) fn compare(
    book: &RunRecord,
    run: Run,
    tail: Vec<Event>,
    last: Option<&Event>,
) -> Result<StoreView, Broken> {
    if last != book.events.last() {
        let what = format!("event {} was acknowledged, and is not in the history", book.seq());
        return Err(Broken::of(Promise::Kept, run.id, what));
    }
    if run.seq < book.seq() {
        let what = format!("it is at event {}, and event {} was acknowledged", run.seq, book.seq());
        return Err(Broken::of(Promise::Kept, run.id, what));
    }
    let is_same = if tail.is_empty() {
        book.run() == Some(&run)
    } else {
        let mut again = book.run().cloned();
        for event in &tail {
            evolve(&mut again, event);
        }
        again.as_ref() == Some(&run)
    };
    if is_same {
        return Ok(StoreView { run, tail });
    }
    let what =
        format!("its state is not what its history gives: it is {} at event {}", run.state().word(), run.seq);
    Err(Broken::of(Promise::Replayed, run.id, what))
}

/// Something moves it, or somebody is shown it.
pub(super) fn check_moved(
    store: &mut dyn Store,
    shown: &StoreView,
    book: &RunRecord,
    flow: &Flow,
    notices: &Notices,
) -> Result<Result<(), Broken>, StoreError> {
    let rerun = shown
        .tail
        .iter()
        .rev()
        .find(|event| event.facts.iter().any(|fact| matches!(fact, Fact::Reran { .. })));
    let by_user =
        rerun.map_or(book.history.was_started_by_user(), |event| matches!(event.by, Actor::User(_)));
    let mut findings = Vec::new();
    let mut others = Others { store, notices };
    movers::check_movers(&shown.run, flow, by_user, &mut others, &mut findings)?;
    let Some(finding) = findings.into_iter().next() else { return Ok(Ok(())) };
    let promise = match finding.promise {
        verify::Promise::Child => Promise::Children,
        verify::Promise::Final => Promise::Final,
        _ => Promise::Moved,
    };
    Ok(Err(Broken::of(promise, shown.run.id, finding.what)))
}

/// The notices that are on their way, by whom they are for.
pub(super) struct Notices(BTreeMap<RunId, Vec<NoticeBody>>);

impl Notices {
    pub(super) fn read(store: &mut dyn Store) -> Result<Notices, StoreError> {
        let mut all: BTreeMap<RunId, Vec<NoticeBody>> = BTreeMap::new();
        for (_, notice) in store.notices(usize::MAX)? {
            if let Some(run) = notice.to.run() {
                all.entry(run).or_default().push(notice.body);
            }
        }
        Ok(Notices(all))
    }
}

struct Others<'a> {
    store: &'a mut dyn Store,
    notices: &'a Notices,
}

impl Neighbours for Others<'_> {
    fn neighbour(&mut self, run: RunId) -> Result<Neighbour, StoreError> {
        Ok(match self.store.run(run)? {
            None => Neighbour::Absent,
            Some(run) if run.is_final() => Neighbour::Final,
            Some(run) => Neighbour::Open(run.origin.serves()),
        })
    }

    fn awaits(&mut self, parent: RunId, child: RunId) -> Result<Option<ParentAttempt>, StoreError> {
        let Some(parent) = self.store.run(parent)? else { return Ok(None) };
        Ok(awaited(&parent)
            .into_iter()
            .find(|awaited| awaited.child == Some(child))
            .map(|awaited| awaited.serves))
    }

    fn notices_to(&self, run: RunId) -> &[NoticeBody] {
        self.notices.0.get(&run).map_or(&[], Vec::as_slice)
    }
}

/// A timer that the state asks for and that nobody moves is in the store: the next thing is due no later.
pub(super) fn check_next_due(run: &Run, flow: &Flow, next_due: Option<Time>) -> Result<(), Broken> {
    for (place, wakeup) in wakeups(run, flow) {
        let has_lease = place
            .and_then(|unit| run.unit(unit))
            .is_some_and(|unit| matches!(unit.state, UnitState::Active(_)));
        let Some(due) = wakeup.due.filter(|_| !has_lease) else { continue };
        if next_due.is_none_or(|next| next > due) {
            let next =
                next_due.map_or("nothing is".to_owned(), |next| format!("the next thing is due {next}"));
            let what = format!("something is due {due}, and in the store {next}");
            return Err(Broken::of(Promise::Moved, run.id, what));
        }
    }
    Ok(())
}

/// It can be explained: what happened, why each step is where it is, and what comes next and when.
pub(super) fn check_explained(
    run: &Run,
    flow: &Arc<Flow>,
    history: &[Event],
    now: Time,
) -> Result<(), Broken> {
    let explanation = explain(run, flow, history, now, &[]);
    let broken = |what: String| Err(Broken::of(Promise::Explained, run.id, what));
    if explanation.headline.trim().is_empty() || explanation.state != run.state() {
        return broken(format!(
            "`{}` says nothing of a run that is {}",
            explanation.headline,
            run.state().word()
        ));
    }
    if explanation.happened.is_empty() && explanation.earlier == 0 {
        return broken("nothing is told of what happened".to_owned());
    }
    if let Some(because) = explanation.because.iter().find(|because| because.why.trim().is_empty()) {
        return broken(format!("step `{}` is {}, and not told why", because.name, because.state));
    }
    if run.is_final() {
        return Ok(());
    }
    if explanation.next.is_empty() {
        return broken(format!("it is {}, and what comes next is not told", run.state().word()));
    }
    let has_timer = wakeups(run, flow).iter().any(|(_, wakeup)| wakeup.due.is_some());
    if has_timer && explanation.next.iter().all(|next| next.at.is_none()) {
        return broken(format!("a timer is set, and no time is told: {:?}", explanation.next));
    }
    Ok(())
}
