//! Nothing is handed out for a run that is paused, failing, over or without a slot, nor for a step that waits for a person.

use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::model::run::{Phase, Run};
use unstuck_core::model::unit::{AttemptPhase, UnitRef, UnitState};

use super::{Broken, Promise};

/// Looks at an event of a run that is as `before`.
pub(super) fn check(before: &Run, event: &Event) -> Result<(), Broken> {
    let broken =
        |promise, what: String| Err(Broken::of(promise, before.id, format!("event {}: {what}", event.seq)));
    let has = |wanted: fn(&Fact) -> bool| event.facts.iter().any(wanted);
    let reran = has(|fact| matches!(fact, Fact::Reran { .. }));
    let goes_on = reran || has(|fact| matches!(fact, Fact::Unpaused));
    let admitted = has(|fact| matches!(fact, Fact::Admitted));
    for (place, fact) in event.facts.iter().enumerate() {
        let Fact::Unit { unit, fact } = fact else { continue };
        check_unit(before, event, *unit, fact, reran)?;
        let state = if reran { None } else { before.unit(*unit).map(|unit| &unit.state) };
        let begins = match fact {
            UnitFact::Dequeued { .. } | UnitFact::ChildStarted { .. } => true,
            // Work on what was handed out before may begin.
            UnitFact::Started { .. } => !is_handed_out(state),
            _ => false,
        };
        if !begins {
            continue;
        }
        if before.paused.is_some() && !goes_on {
            return broken(Promise::Stopped, "an attempt begins in a run that is paused".to_owned());
        }
        let is_failing = matches!(before.phase, Phase::Failing(_))
            || event.facts[..place].iter().any(|fact| matches!(fact, Fact::Failing { .. }));
        if is_failing && !reran {
            return broken(Promise::Stopped, "an attempt begins in a run that is failing".to_owned());
        }
        if !before.slot.allows_progress() && !admitted && !reran {
            return broken(Promise::Limits, "an attempt begins in a run that has no slot".to_owned());
        }
    }
    Ok(())
}

/// A step that a person or a policy must let go on does so only by that.
fn check_unit(
    before: &Run,
    event: &Event,
    unit: UnitRef,
    fact: &UnitFact,
    reran: bool,
) -> Result<(), Broken> {
    let begins = matches!(
        fact,
        UnitFact::Queued { .. }
            | UnitFact::ChildStarted { .. }
            | UnitFact::TimerSet { .. }
            | UnitFact::SignalAwaited { .. }
    );
    if !begins || reran {
        return Ok(());
    }
    let has = |wanted: fn(&UnitFact) -> bool| {
        event
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::Unit { unit: other, fact } if *other == unit && wanted(fact)))
    };
    let what = match before.unit(unit).map(|unit| &unit.state) {
        Some(UnitState::Held { .. })
            if !(has(|fact| matches!(fact, UnitFact::Chosen { .. }))
                && matches!(event.by, Actor::User(_))) =>
        {
            "a held step goes on, and nobody has chosen"
        }
        Some(UnitState::Error { .. }) if !has(|fact| matches!(fact, UnitFact::Resumed { .. })) => {
            "a step in error goes on, and nothing has resumed it"
        }
        _ => return Ok(()),
    };
    Err(Broken::of(Promise::Stopped, before.id, format!("event {}: {what}", event.seq)))
}

fn is_handed_out(state: Option<&UnitState>) -> bool {
    matches!(state, Some(UnitState::Active(live)) if matches!(live.doing, AttemptPhase::Dequeued { .. }))
}
