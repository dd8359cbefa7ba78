//! What the owner of a store is executing, and the run of a key, for a start that cannot open the store.

use unstuck_api::owner::{KeyView, OwnerView};
use unstuck_api::request::OnDuplicate;
use unstuck_core::decide::check_same_input;
use unstuck_core::home::is_idle;
use unstuck_core::json::Json;
use unstuck_core::refusal::Refusal;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::Reader;

use crate::service::{Service, ServiceError};
use crate::{explain, show};

/// Describes the run that an owner executes.
pub fn describe_run(owner: &OwnerView) -> Option<String> {
    let (Some(run), Some(flow), Some(state)) = (&owner.run, &owner.flow, &owner.state) else { return None };
    Some(format!("{run} of flow `{flow}`, which is {}", state_phrase(state)))
}

/// Builds the view of this process and the run that it executes.
pub(crate) fn build_owner_view(
    service: &Service,
    reader: &dyn Reader,
    flows: &ReadFlows,
) -> Result<OwnerView, ServiceError> {
    let run = match service.run {
        Some(run) => reader.run(run)?,
        None => None,
    };
    let (process, serves) = (std::process::id(), service.serves.clone());
    let mut owner = OwnerView { process, serves, run: None, flow: None, state: None };
    if let Some(run) = run {
        owner.flow = Some(flows.get(reader, run.flow)?.name.to_string());
        owner.state = Some(run.state().word().to_owned());
        owner.run = Some(run.id.to_string());
    }
    Ok(owner)
}

/// Finds the run of this flow with this key, and checks that it has the same input.
pub(crate) fn find_run_of_key(
    service: &Service,
    reader: &dyn Reader,
    (flow, key): (&str, &str),
    input: &str,
    on_duplicate: OnDuplicate,
) -> Result<Option<KeyView>, ServiceError> {
    let Some(id) = reader.run_of_key(flow, key)? else { return Ok(None) };
    let Some(run) = reader.run(id)? else { return Ok(None) };
    let input = Json::parse(input).map_err(|error| ServiceError::refused(format!("the input: {error}")))?;
    // The run is started again once the store is free, with the given input.
    if on_duplicate == OnDuplicate::RestartIfFinal && run.is_final() {
        return Ok(None);
    }
    check_same_input(&run, key, &input)?;
    match on_duplicate {
        OnDuplicate::Return | OnDuplicate::RestartIfFinal => {}
        OnDuplicate::Refuse => {
            return Err(Refusal::KeyExists { key: key.into(), run: id }.into());
        }
    }
    let explained = explain::explain_run(service, reader, id)?;
    let is_idle = is_idle(&run, &service.homes());
    Ok(Some(KeyView {
        run: id.to_string(),
        state: shown_state(run.state().word(), is_idle).to_owned(),
        is_driven: service.home.is_some() && service.home == run.home,
        is_idle,
        headline: explained.headline().to_owned(),
        document: show::build_run_document(service, reader, id)?,
    }))
}

/// Returns the word for a state as it is shown: a run that no process executes is idle, not running.
pub fn shown_state(state: &str, is_idle: bool) -> &str {
    if is_idle && matches!(state, "running" | "queued" | "waiting") { "idle" } else { state }
}

/// Returns the words for a state after "is": `held`, but `in error`.
pub fn state_phrase(state: &str) -> &str {
    if state == "error" { "in error" } else { state }
}
