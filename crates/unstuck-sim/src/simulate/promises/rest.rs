//! What must hold when the engine rests: slots are with those who may have them, parents know what their children do,
//! and whoever is paused with a parent goes on with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::RunId;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Failing, Handler, PausedBy, Phase, Run, RunState, Slot};
use unstuck_core::model::unit::{AttemptPhase, UnitState};
use unstuck_engine::flows::Flows;
use unstuck_store::contract::Store;

use super::{Broken, CheckError, Promise, Promises, flow, requests};

/// Whether a run keeps its slot where it must give it back, or the other way round.
pub(super) fn check_slot(flow: &Flow, before: Option<&Run>, after: &Run, reran: bool) -> Result<(), Broken> {
    let strict = flow.concurrency.as_ref().is_some_and(|limit| limit.strict);
    let broken = |what: String| Err(Broken::of(Promise::Slots, after.id, what));
    match &after.slot {
        Slot::Taken(limit) => match resting(after) {
            Some(word) if !strict || after.is_final() => {
                broken(format!("it is {word}, and keeps its slot of `{}`", limit.name))
            }
            _ => Ok(()),
        },
        Slot::Wanted(limit) => {
            let had =
                before.is_some_and(|before| matches!(before.slot, Slot::Taken(_)) && !before.is_final());
            if had && strict && !after.is_final() && !reran {
                return broken(format!("`{}` is strict, and its slot was taken away", limit.name));
            }
            Ok(())
        }
        Slot::Unlimited => Ok(()),
    }
}

/// The word for a state in which a slot is given back; `None` where something goes on, or waits for a timer or signal.
fn resting(run: &Run) -> Option<&'static str> {
    match &run.phase {
        Phase::Ended(_) => return Some("over"),
        _ if run.paused.is_some() => return Some("paused"),
        Phase::Failing(Failing { handler: Some(Handler { run: Some(_), state, .. }), .. }) => {
            return match state {
                RunState::Held => Some("held"),
                RunState::Error => Some("in error"),
                _ => None,
            };
        }
        Phase::Failing(_) => return None,
        Phase::Going => {}
    }
    let (mut goes_on, mut held, mut error) = (false, false, false);
    run.each_unit(|_, unit| match &unit.state {
        UnitState::Ready(_) => goes_on = true,
        UnitState::Active(live) => match &live.doing {
            AttemptPhase::Child { state: RunState::Held, .. } => held = true,
            AttemptPhase::Child { state: RunState::Error, .. } => error = true,
            AttemptPhase::Child { state: RunState::Waiting | RunState::Paused, .. } => {}
            _ => goes_on = true,
        },
        UnitState::Held { .. } => held = true,
        UnitState::Error { .. } => error = true,
        _ => {}
    });
    match (goes_on, held, error) {
        (true, ..) | (_, false, false) => None,
        (_, true, _) => Some("held"),
        (_, _, true) => Some("in error"),
    }
}

impl Promises {
    /// Looks at every run by its book: everything is durable and heard, and nothing is on its way.
    pub(super) fn check_at_rest(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
    ) -> Result<(), CheckError> {
        if !store.notices(1)?.is_empty() {
            return Ok(());
        }
        for promise in [Promise::Slots, Promise::Paused, Promise::Bulks] {
            self.count(promise);
        }
        let runs: Vec<&Run> = self.books.values().filter_map(|book| book.run()).collect();
        let mut has: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for run in &runs {
            if let Slot::Taken(limit) = &run.slot {
                *has.entry(limit.name.clone()).or_default() += 1;
            }
        }
        for run in runs.iter().filter(|run| !run.is_final()) {
            self.check_paused(run)?;
            self.check_children_told(run)?;
            if let Slot::Wanted(limit) = &run.slot
                && has.get(&limit.name).is_none_or(|has| *has < limit.max)
            {
                let flow = flow(store, flows, run.flow)?;
                let model = &self.books[&run.id].model;
                let is_ready = !run.units_where(|unit| matches!(unit.state, UnitState::Ready(_))).is_empty();
                let may = matches!(run.phase, Phase::Going) && run.paused.is_none();
                if may && (is_ready || requests::can_enter(&flow, model, run)) {
                    let what = format!("`{}` has room, and it is not let in", limit.name);
                    return Err(Broken::of(Promise::Slots, run.id, what).into());
                }
            }
        }
        self.check_losses()?;
        self.bulks.check_at_rest(store)
    }

    /// Whoever's worker is said to be gone has lost the attempt.
    fn check_losses(&self) -> Result<(), Broken> {
        for id in self.leases.losses_told() {
            let Some(run) = self.books.get(&id.run).and_then(|book| book.run()) else { continue };
            let live = run.unit(id.unit).and_then(|unit| unit.state.live());
            let holds =
                live.is_some_and(|live| live.attempt == id.attempt) && run.generation == id.generation;
            if holds && !run.is_final() {
                let what =
                    format!("the worker of attempt {} is said to be gone, and it still holds", id.attempt);
                return Err(Broken::of(Promise::Leases, id.run, what));
            }
        }
        Ok(())
    }

    /// Who was paused with its parent goes on with it, and who has a paused parent is paused, unless somebody said so.
    fn check_paused(&self, run: &Run) -> Result<(), Broken> {
        let Some(parent) = run.origin.parent() else { return Ok(()) };
        let Some(parent) = self.books.get(&parent).and_then(|book| book.run()) else { return Ok(()) };
        let is_paused = parent.paused.is_some() && !parent.is_final();
        if run.paused == Some(PausedBy::Parent) && !is_paused {
            let what = "it was paused with its parent, which goes on without it".to_owned();
            return Err(Broken::of(Promise::Paused, run.id, what));
        }
        let is_awaited = awaits(parent, run.id).is_some();
        let let_go_on = self.books.get(&run.id).is_some_and(|book| book.model.let_go_on);
        if is_paused && is_awaited && run.paused.is_none() && !let_go_on {
            let what = "its parent is paused, and it goes on".to_owned();
            return Err(Broken::of(Promise::Paused, run.id, what));
        }
        Ok(())
    }

    /// What a parent takes its child to be doing is what that does.
    fn check_children_told(&self, run: &Run) -> Result<(), Broken> {
        let Some(parent) = run.origin.parent().and_then(|parent| self.books.get(&parent)) else {
            return Ok(());
        };
        let Some(parent) = parent.run().filter(|parent| !parent.is_final()) else { return Ok(()) };
        match awaits(parent, run.id) {
            Some(last)
                if last != run.state() && !(run.state() == RunState::Queued && last == RunState::Running) =>
            {
                let (is, last) = (run.state().word(), last.word());
                let what = format!("it is {is}, and its parent was last told that it is {last}");
                Err(Broken::of(Promise::Children, run.id, what))
            }
            _ => Ok(()),
        }
    }
}

/// What a run takes this child or handler to be doing, if it waits for it.
fn awaits(parent: &Run, child: RunId) -> Option<RunState> {
    if let Phase::Failing(Failing { handler: Some(handler), .. }) = &parent.phase
        && handler.run == Some(child)
    {
        // Until it says otherwise it counts as running.
        return Some(if handler.state == RunState::Queued { RunState::Running } else { handler.state });
    }
    let mut found = None;
    parent.each_unit(|_, unit| {
        if let UnitState::Active(live) = &unit.state
            && let AttemptPhase::Child { state, .. } = &live.doing
            && unit.child == Some(child)
        {
            found = Some(*state);
        }
    });
    found
}
