//! External events: kept per name, first in first out, consumed once.

use std::sync::Arc;

use crate::advance::advance_all;
use crate::decide::{Answer, Draft, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES};
use crate::event::Fact;
use crate::json::Json;
use crate::model::run::KEPT_SIGNALS;
use crate::refusal::Refusal;

/// A signal has come.
pub(crate) fn signal(draft: &mut Draft<'_, '_>, name: &Arc<str>, payload: Json) -> Result<Answer, Refusal> {
    draft.open_run()?;
    Refusal::unless_named("the name of the signal", name, MAX_NAME_BYTES)?;
    let bytes = payload.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Refusal::TooLarge { what: "the signal", bytes, max: MAX_PAYLOAD_BYTES });
    }
    if draft.run().signals.get(name).is_some_and(|kept| kept.len() >= KEPT_SIGNALS) {
        return Err(Refusal::TooManySignals { name: name.clone(), max: KEPT_SIGNALS });
    }
    let payload = draft.store_payload(payload);
    draft.emit(Fact::SignalKept { name: name.clone(), payload });
    advance_all(draft);
    Ok(Answer::Done)
}
