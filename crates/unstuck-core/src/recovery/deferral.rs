//! Deferrals: an attempt that lacks resources waits and is tried again, until the limit of its round.

use std::sync::Arc;

use crate::decide::Draft;
use crate::event::UnitFact;
use crate::model::attempt::Outcome;
use crate::model::error::{DEFER_ACTION, Error, Reason};
use crate::model::unit::UnitRef;
use crate::recovery::ladder::{self, AttemptError};
use crate::recovery::{backoff, failing_run};
use crate::time::Millis;

/// Defers an attempt whose worker lacks resources: schedules the next one, or stalls it if the round's limit is used
/// up.
pub(crate) fn defer(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    attempt: u32,
    asked: Option<Millis>,
    lacking: Option<Arc<str>>,
) {
    let step = draft.step(unit);
    let round = draft.unit(unit).round;
    let left = Millis(step.defer.limit.0.saturating_sub(round.deferred.0));
    if left == Millis::ZERO && !draft.run().is_failing() {
        let what = lacking.map_or(String::new(), |lacking| format!(": {lacking}"));
        let cause = format!("deferred for longer than {} (defer.limit){what}", step.defer.limit);
        let outcome = Outcome::Stalled(Box::new(Error::found_with(DEFER_ACTION, Reason::Capacity, cause)));
        draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
        ladder::climb(draft, unit, AttemptError::Stalled);
        return;
    }
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome: Outcome::Deferred { asked, lacking } });
    if draft.run().is_failing() {
        let how = failing_run::closing_for_open_units(draft);
        draft.emit_unit(unit, UnitFact::Closed { how });
        failing_run::advance_failing(draft);
        return;
    }
    let delay =
        backoff::deferral_delay(&step.defer, round.deferrals, asked, left).max(step.limits.minimum_delay);
    let due = draft.now() + delay;
    draft.emit_unit(unit, UnitFact::Deferred { due, delay });
}
