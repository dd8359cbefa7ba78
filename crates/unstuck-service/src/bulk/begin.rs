//! Starts a bulk action: resolves names into what the engine needs.

use std::sync::Arc;

use unstuck_api::bulk::{BulkBegunView, ResultKind, TargetView};
use unstuck_api::request::{BulkVerb, NewBulk, RerunScope};
use unstuck_api::runs::RunState;
use unstuck_core::bulk::{Bulk, BulkAction, BulkRerun, Pace};
use unstuck_core::event::Actor;
use unstuck_engine::bulk::{BulkFilter, BulkPlan, BulkRequest, Selection, TargetFilter};
use unstuck_engine::call::Call;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{OpenErrorFilter, StoreError};

use super::StepNames;
use crate::service::{Service, ServiceError};
use crate::{change_run, convert, errors, run_filter, run_name};

/// Starts a bulk action, or with `dry_run` returns what it would act on.
pub(crate) fn begin_bulk(
    service: &Service,
    handle: &Handle,
    begin: NewBulk,
    by: Actor,
    call: &Call,
) -> Result<BulkBegunView, ServiceError> {
    let dry_run = begin.dry_run;
    let order = resolve_request(service, handle, begin, by)?;
    let (selection, action) = (order.words.to_string(), order.action.verb().to_owned());
    if !dry_run {
        let (bulk, left_out) = start_on_engine(handle, order, call)?;
        let total = bulk.as_ref().map_or(0, |bulk| bulk.total);
        let (bulk, runs) = (bulk.map(|bulk| bulk.id.to_string()), None);
        return Ok(BulkBegunView {
            bulk,
            dry_run,
            selection,
            total,
            runs,
            left_out,
            action,
            targets: Vec::new(),
        });
    }
    let BulkPlan { total, left_out, runs, first } = handle.plan_bulk(&order)?;
    let mut names = StepNames::default();
    let found = (0..).zip(first).map(|(place, (run, unit))| {
        let step = names.find_step_name(handle.reader(), &service.flows, run, unit);
        TargetView { place, run: run.to_string(), step, result: ResultKind::Pending, why: None }
    });
    let targets = found.collect();
    Ok(BulkBegunView { bulk: None, dry_run, selection, total, runs: Some(runs), left_out, action, targets })
}

/// Starts the bulk action on the engine. Forgetting may use the reserve of a full disk.
fn start_on_engine(
    handle: &Handle,
    order: BulkRequest,
    call: &Call,
) -> Result<(Option<Bulk>, u64), ServiceError> {
    let forgets = order.action == BulkAction::Forget;
    Ok(match handle.start_bulk_as(order.clone(), call.clone()) {
        // To forget makes room, and there is some in reserve for it.
        Err(EngineError::Store(StoreError::Full(_))) if forgets && handle.release_reserve()? => {
            handle.start_bulk_as(order, call.clone())?
        }
        started => started?,
    })
}

/// Builds the engine's request, with every name resolved.
fn resolve_request(
    service: &Service,
    handle: &Handle,
    begin: NewBulk,
    by: Actor,
) -> Result<BulkRequest, ServiceError> {
    let words = describe_selection(&begin);
    let action = parse_action(&begin.action)?;
    if begin.canary.is_some() && !action.has_later_result() {
        return Err(ServiceError::refused(
            "--canary has no use here: the result of each target is known at once. Leave it out",
        ));
    }
    let selection = resolve_selection(service, handle, &begin, &action)?;
    let pace = Pace { rate: begin.rate.unwrap_or(Pace::default().rate), canary: begin.canary };
    let (max, reason) = (begin.max, begin.reason.map(Arc::from));
    Ok(BulkRequest { action, selection, words: words.into(), max, pace, by, reason })
}

/// Converts the verb, and parses the inputs that it carries.
fn parse_action(act: &BulkVerb) -> Result<BulkAction, ServiceError> {
    let json = |text: &Option<String>, what: &str| {
        text.as_deref().map(|text| change_run::parse_json(text, what)).transpose()
    };
    let (input, of_step) = ("the input", "the input of the step");
    Ok(match act {
        BulkVerb::Resume { input: run, step_input: step } => {
            BulkAction::Resume { input: json(run, input)?, step_input: json(step, of_step)? }
        }
        BulkVerb::Acknowledge => BulkAction::Acknowledge,
        BulkVerb::Cancel => BulkAction::Cancel,
        BulkVerb::Rerun { again, input: run, step_input: step } => {
            let again = match again {
                RerunScope::Continue => BulkRerun::Continue,
                RerunScope::All => BulkRerun::All,
                RerunScope::Steps(steps) => {
                    BulkRerun::Steps(steps.iter().map(|step| step.as_str().into()).collect())
                }
            };
            BulkAction::Rerun { again, input: json(run, input)?, step_input: json(step, of_step)? }
        }
        BulkVerb::Choose { choice, step } => BulkAction::Choose {
            choice: convert::to_core_choice(*choice),
            step: step.as_deref().map(Arc::from),
        },
        BulkVerb::Signal { name, payload } => {
            let payload = change_run::parse_json(payload, "the payload of the signal")?;
            BulkAction::Signal { name: name.as_str().into(), payload }
        }
        BulkVerb::Skip { step } => BulkAction::Skip { step: step.as_str().into() },
        BulkVerb::Complete { step, output } => BulkAction::Complete {
            step: step.as_str().into(),
            output: change_run::parse_json(output, "the output")?,
        },
        BulkVerb::Forget => BulkAction::Forget,
    })
}

/// Builds the selection: named runs, or a filter; refuses both, or neither.
fn resolve_selection(
    service: &Service,
    handle: &Handle,
    begin: &NewBulk,
    action: &BulkAction,
) -> Result<Selection, ServiceError> {
    let (reader, flows) = (handle.reader(), &service.flows);
    let has_common =
        begin.group.is_some() || begin.flow.is_some() || begin.policy.is_some() || begin.state.is_some();
    let has_common = has_common || begin.needs_person || !begin.labels.is_empty();
    if !begin.runs.is_empty() {
        if has_common {
            return Err(ServiceError::refused("give either runs or filters, not both"));
        }
        let find = |run: &String| run_name::find_run(reader, flows, run);
        return Ok(Selection::Runs(begin.runs.iter().map(find).collect::<Result<_, _>>()?));
    }
    if !has_common {
        return Err(ServiceError::refused(
            "nothing is selected: name runs, or give a filter such as --flow or --state",
        ));
    }
    let continues = matches!(action, BulkAction::Rerun { again: BulkRerun::Continue, .. });
    if continues && begin.state == Some(RunState::Completed) {
        return Err(ServiceError::refused(
            "a completed run has no failed step to continue from; use --all or --steps",
        ));
    }
    let group = match &begin.group {
        Some(group) => Some(errors::find_group(reader, group)?.group),
        None => None,
    };
    let labels = run_filter::find_labels(reader, flows, &begin.labels)?;
    let flow: Option<Arc<str>> = begin.flow.as_deref().map(Arc::from);
    let which = TargetFilter { acknowledged: begin.include_acknowledged, needs_person: begin.needs_person };
    let state = begin.state.map(convert::to_core_run_state);
    let common = BulkFilter { flow: flow.clone(), labels, state, which };
    let by_error = match action {
        BulkAction::Resume { .. } | BulkAction::Acknowledge => true,
        BulkAction::Cancel | BulkAction::Skip { .. } | BulkAction::Complete { .. } => {
            group.is_some() || begin.policy.is_some()
        }
        BulkAction::Rerun { .. }
        | BulkAction::Choose { .. }
        | BulkAction::Signal { .. }
        | BulkAction::Forget
        | BulkAction::ApplyPolicies { .. } => false,
    };
    if !by_error {
        if begin.policy.is_some() {
            let verb = action.verb();
            return Err(ServiceError::refused(format!(
                "--policy selects steps in error, which `{verb}` does not act on; leave it out"
            )));
        }
        return Ok(Selection::Common { common, group });
    }
    let policy = begin.policy.as_deref().map(|name| find_policy_id(handle, name)).transpose()?;
    Ok(Selection::Errors {
        filter: OpenErrorFilter { group, flow, policy, ..OpenErrorFilter::default() },
        common,
    })
}

/// Finds the id of a policy by its name.
fn find_policy_id(handle: &Handle, name: &str) -> Result<Arc<str>, ServiceError> {
    let policies = handle.policies()?;
    let found = policies.by_name_or_id(name).map(|policy| policy.id.clone());
    found.ok_or_else(|| {
        ServiceError::not_found(format!("there is no policy `{name}`; `unstuck policy list` lists them"))
            .named("policy", name)
    })
}

/// Describes what is selected, for people.
fn describe_selection(begin: &NewBulk) -> String {
    match begin.runs.as_slice() {
        [] => {}
        [run] => return run.clone(),
        runs => return format!("{} runs", runs.len()),
    }
    let part = |what: &str, given: Option<&str>| given.map(|given| format!("{what} {given}"));
    let labels = begin.labels.iter().map(|(name, value)| Some(format!("label {name}={value}")));
    let parts = [
        part("group", begin.group.as_deref()),
        part("flow", begin.flow.as_deref()),
        part("policy", begin.policy.as_deref()),
        part("state", begin.state.map(RunState::word)),
        begin.needs_person.then(|| "needs a person".to_owned()),
        begin.include_acknowledged.then(|| "including acknowledged".to_owned()),
        begin.max.map(|max| format!("at most {max}")),
    ];
    parts.into_iter().chain(labels).flatten().collect::<Vec<_>>().join(", ")
}
