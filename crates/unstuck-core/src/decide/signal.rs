//! Signals from outside: kept per name, first in first out, each consumed once.

use crate::event::UnitFact;
use crate::json::Payload;
use crate::model::run::Run;
use crate::model::unit::{Unit, UnitState, Waiting};
use std::sync::Arc;

use crate::decide::{Answer, Draft, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES};
use crate::event::Fact;
use crate::interpreter::advance_all;
use crate::json::Json;
use crate::model::flow::Kind;
use crate::model::run::{KEPT_SIGNAL_NAMES, KEPT_SIGNALS};
use crate::refusal::Refusal;

/// Keeps a signal for the run and delivers it if a step waits for it. Refuses it if too many are kept.
pub(crate) fn signal(draft: &mut Draft<'_, '_>, name: &Arc<str>, payload: Json) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    Refusal::unless_named("the name of the signal", name, MAX_NAME_BYTES)?;
    let bytes = payload.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Refusal::TooLarge { what: "the signal", bytes, max: MAX_PAYLOAD_BYTES });
    }
    if draft.run().signals.get(name).is_some_and(|kept| kept.len() >= KEPT_SIGNALS) {
        return Err(Refusal::TooManySignals { name: name.clone(), max: KEPT_SIGNALS });
    }
    if is_one_name_too_many(draft, name) {
        return Err(Refusal::TooManySignalNames { name: name.clone(), max: KEPT_SIGNAL_NAMES });
    }
    let payload = draft.store_payload(payload);
    draft.emit(Fact::SignalKept { name: name.clone(), payload });
    advance_all(draft);
    Ok(Answer::Done)
}

/// Returns whether a signal of this name would exceed [`KEPT_SIGNAL_NAMES`]. Names that steps of the flow wait for are
/// always accepted.
fn is_one_name_too_many(draft: &Draft<'_, '_>, name: &Arc<str>) -> bool {
    let run = draft.run();
    let is_awaited =
        || draft.flow().steps.iter().any(|step| matches!(&step.kind, Kind::Signal(wanted) if wanted == name));
    run.signals.len() >= KEPT_SIGNAL_NAMES && !run.signals.contains_key(name) && !is_awaited()
}

/// Completes steps that wait for a signal with the signals that are kept, oldest first.
pub(crate) fn deliver_signals(draft: &mut Draft<'_, '_>) {
    if draft.run().signals.is_empty() || !draft.run().can_schedule() {
        return;
    }
    for unit in draft.run().units_where(|unit| kept_signal(draft.run(), unit).is_some()) {
        // The unit before this one may have consumed the last signal.
        let Some((name, output)) = kept_signal(draft.run(), draft.unit(unit)) else { continue };
        let (name, output) = (name.clone(), output.clone());
        draft.emit(Fact::SignalTaken { name });
        draft.emit_unit(unit, UnitFact::Done { output });
    }
}

/// Returns the name and payload of the oldest kept signal that this unit waits for.
pub(crate) fn kept_signal<'a>(run: &'a Run, unit: &'a Unit) -> Option<(&'a Arc<str>, &'a Payload)> {
    if let UnitState::Waiting(Waiting::Signal { name, .. }) = &unit.state {
        run.signals.get(name).and_then(|kept| kept.front()).map(|payload| (name, payload))
    } else {
        None
    }
}
