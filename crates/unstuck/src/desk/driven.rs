//! What the owner of a store executes, and the run that has a key: for a start that cannot have the store.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use unstuck_core::command::OnDuplicate;
use unstuck_core::decide::same_input;
use unstuck_core::home::is_idle;
use unstuck_core::json::Json;
use unstuck_core::refusal::Refusal;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::Store;

use super::{Desk, Unanswered, explain, show};
use crate::style::{shown_state, state_phrase};

/// The process that has the store open, and what it executes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Driven {
    pub(crate) process: u32,
    /// The run that it executes, in words.
    pub(crate) run: Option<String>,
}

/// The run that has a key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keyed {
    pub(crate) run: String,
    pub(crate) state: String,
    /// Whether the process that has the store open executes it.
    pub(crate) is_driven: bool,
    /// Whether it has something to do and nobody does it.
    pub(crate) is_idle: bool,
    pub(crate) headline: String,
    /// The run document.
    pub(crate) document: Box<RawValue>,
}

pub(super) fn driven(desk: &Desk, store: &mut dyn Store, flows: &mut Flows) -> Result<Driven, Unanswered> {
    let run = match desk.run {
        Some(run) => store.run(run)?,
        None => None,
    };
    let run = match run {
        Some(run) => {
            let flow = flows.get(store, run.flow)?;
            Some(format!("{} of flow `{}`, which is {}", run.id, flow.name, state_phrase(run.state().word())))
        }
        None => None,
    };
    Ok(Driven { process: std::process::id(), run })
}

/// The run of this flow that has this key, as it is now.
pub(super) fn of_key(
    desk: &Desk,
    store: &mut dyn Store,
    flows: &mut Flows,
    (flow, key): (&str, &str),
    input: &str,
    on_duplicate: OnDuplicate,
) -> Result<Option<Keyed>, Unanswered> {
    let Some(id) = store.run_of_key(flow, key)? else { return Ok(None) };
    let Some(run) = store.run(id)? else { return Ok(None) };
    let input = Json::parse(input).map_err(|error| Unanswered::Refused(format!("the input: {error}")))?;
    // It is started again as soon as the store is free, with whatever input is given.
    if on_duplicate == OnDuplicate::RestartIfFinal && run.is_final() {
        return Ok(None);
    }
    same_input(&run, key, &input).map_err(|refusal| Unanswered::Refused(refusal.to_string()))?;
    match on_duplicate {
        OnDuplicate::Return | OnDuplicate::RestartIfFinal => {}
        OnDuplicate::Refuse => {
            return Err(Unanswered::Refused(Refusal::KeyExists { key: key.into(), run: id }.to_string()));
        }
    }
    let explained = explain::of_run(desk, store, flows, id)?;
    let is_idle = is_idle(&run, &desk.homes());
    Ok(Some(Keyed {
        run: id.to_string(),
        state: shown_state(run.state().word(), is_idle).to_owned(),
        is_driven: desk.serves.is_some() && desk.serves == run.home,
        is_idle,
        headline: explained.headline().to_owned(),
        document: show::document(desk, store, flows, id)?,
    }))
}
