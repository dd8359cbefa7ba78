//! Repeats of requests: answered from the present state with what was made or changed the first time.

use unstuck_api::bulk::{BulkBegunView, ChangedBulkView};
use unstuck_api::flows::{AppliedFlowView, FlowsAppliedView};
use unstuck_api::policies::{AppliedView, PolicyChangeView, PolicyChangesView, SwitchView};
use unstuck_api::request::{PolicyOperation, Request, TokenOperation};
use unstuck_api::runs::ForgottenView;
use unstuck_api::schedules::ChangedScheduleView;
use unstuck_api::tokens::TokenChangedView;
use unstuck_core::id::{BulkId, FlowId, TokenId};
use unstuck_engine::call::Call;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{AuditId, CallOutcome, FlowChangeKind, Reader};

use crate::service::{Service, ServiceError, now, to_json};
use crate::{bulk, change_run, policies, schedules, tokens};

/// Finds what was done before under the key of a request; a key that stands for another request is an error.
pub fn find_outcome(reader: &dyn Reader, call: &Call) -> Result<Option<CallOutcome>, ServiceError> {
    let Some(key) = &call.idempotency else { return Ok(None) };
    let known = reader.idempotency(&key.scope, &key.key)?.filter(|known| !known.is_expired(now()));
    match known {
        None => Ok(None),
        Some(known) if known.key.digest == key.digest => Ok(Some(known.outcome)),
        Some(_) => Err(EngineError::KeyReused(key.key.clone()).into()),
    }
}

/// Answers a repeat of this request as JSON, in the shape of the first answer.
pub(crate) fn answer_repeat(
    service: &Service,
    reader: &dyn Reader,
    request: &Request,
    outcome: CallOutcome,
) -> Result<String, ServiceError> {
    match outcome {
        CallOutcome::Started { run, already } | CallOutcome::Changed { run, already } => {
            to_json(&change_run::describe_run(service, reader, run, already)?)
        }
        CallOutcome::Forgotten { runs } => {
            to_json(&ForgottenView { forgotten: runs.iter().map(ToString::to_string).collect() })
        }
        CallOutcome::BulkBegun { bulk, .. } if is_apply(request) => to_json(&describe_applied(reader, bulk)?),
        CallOutcome::BulkBegun { bulk, left_out } => to_json(&describe_begun(reader, bulk, left_out)?),
        CallOutcome::BulkChanged { bulk, already } => {
            let page = bulk::show_bulk(service, reader, &bulk.to_string())?;
            to_json(&ChangedBulkView { already, page })
        }
        CallOutcome::ScheduleChanged { flow, already } => {
            let schedule = schedules::show_schedule(reader, &service.flows, &flow)?;
            to_json(&ChangedScheduleView { already, schedule })
        }
        CallOutcome::FlowsApplied { flows } => to_json(&describe_flows(reader, &flows)?),
        CallOutcome::FlowsDeleted { flows } => {
            let flows: Vec<(FlowId, FlowChangeKind)> =
                flows.into_iter().map(|flow| (flow, FlowChangeKind::Unchanged)).collect();
            to_json(&describe_flows(reader, &flows)?)
        }
        CallOutcome::PoliciesChanged { changes, unchanged } => {
            let unchanged = unchanged.iter().map(ToString::to_string).collect();
            describe_policies(reader, request, &changes, unchanged)
        }
        CallOutcome::Token { token } => to_json(&describe_token(reader, request, token)?),
    }
}

fn is_apply(request: &Request) -> bool {
    matches!(request, Request::Policies(request) if matches!(request.what, PolicyOperation::Apply { .. }))
}

/// Counts what has come of applying policies, by the bulk action that did it.
fn describe_applied(reader: &dyn Reader, id: Option<BulkId>) -> Result<AppliedView, ServiceError> {
    let counts = id.map(|id| reader.bulk(id)).transpose()?.flatten().map(|bulk| bulk.counts);
    let counts = counts.unwrap_or_default();
    Ok(AppliedView {
        dry_run: false,
        bulk: id.map(|id| id.to_string()),
        moved: counts.passed,
        unscheduled: counts.unscheduled,
        unchanged: counts.unchanged + counts.refused,
        outranked: Vec::new(),
        exhausted: Vec::new(),
        disabled: Vec::new(),
        policies_paused: policies::load_pause(reader)?,
    })
}

fn describe_begun(
    reader: &dyn Reader,
    id: Option<BulkId>,
    left_out: u64,
) -> Result<BulkBegunView, ServiceError> {
    let bulk = id.map(|id| reader.bulk(id)).transpose()?.flatten();
    Ok(BulkBegunView {
        bulk: id.map(|id| id.to_string()),
        dry_run: false,
        selection: bulk.as_ref().map_or_else(String::new, |bulk| bulk.selection.to_string()),
        total: bulk.as_ref().map_or(0, |bulk| bulk.total),
        runs: None,
        left_out,
        action: bulk.map_or_else(String::new, |bulk| bulk.action.verb().to_owned()),
        targets: Vec::new(),
    })
}

/// Builds the view of flows that were applied.
pub fn describe_flows(
    reader: &dyn Reader,
    flows: &[(FlowId, FlowChangeKind)],
) -> Result<FlowsAppliedView, ServiceError> {
    let mut applied = Vec::new();
    for (id, what) in flows {
        let record = reader.flow(*id)?;
        applied.extend(record.map(|record| AppliedFlowView {
            flow: record.name.to_string(),
            version: record.version.to_string(),
            id: id.to_string(),
            what: what.word().to_owned(),
            next: None,
            migration: None,
        }));
    }
    Ok(FlowsAppliedView { flows: applied, warnings: Vec::new(), dry_run: false })
}

fn describe_policies(
    reader: &dyn Reader,
    request: &Request,
    changes: &[AuditId],
    unchanged: Vec<String>,
) -> Result<String, ServiceError> {
    let is_switch = matches!(request, Request::Policies(request)
        if matches!(request.what, PolicyOperation::Pause { .. } | PolicyOperation::Unpause { .. }));
    if is_switch {
        let policies_paused = policies::load_pause(reader)?;
        return to_json(&SwitchView { already: changes.is_empty(), policies_paused, was: None, due: 0 });
    }
    let mut views = Vec::new();
    for id in changes {
        let page = reader.policy_audit(Some(AuditId(id.0.saturating_add(1))), 1)?;
        views.extend(page.into_iter().filter(|(found, _)| found == id).map(|(_, audit)| PolicyChangeView {
            policy: audit.name.to_string(),
            id: Some(audit.policy.to_string()),
            what: audit.what.word().to_owned(),
            version: audit.after.as_ref().map(|policy| policy.version),
        }));
    }
    to_json(&PolicyChangesView { changes: views, unchanged, ..PolicyChangesView::default() })
}

/// A secret is shown once, so that a repeat cannot show it.
fn describe_token(
    reader: &dyn Reader,
    request: &Request,
    id: TokenId,
) -> Result<TokenChangedView, ServiceError> {
    let what = match request {
        Request::Tokens(request) => match request.what {
            TokenOperation::Create(_) => "created",
            TokenOperation::Rotate { .. } => "rotated",
            TokenOperation::Revoke { .. } => "revoked",
        },
        Request::Query(_)
        | Request::Change(_)
        | Request::Policies(_)
        | Request::Bulk(_)
        | Request::Start(_)
        | Request::Schedule(_)
        | Request::Flows(_) => "unchanged",
    };
    let view = tokens::show_token(reader, id)?;
    Ok(TokenChangedView { what: what.to_owned(), token: None, view })
}
