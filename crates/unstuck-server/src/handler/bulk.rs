//! Bulk actions: begun, listed, shown, and changed.

use axum::http::StatusCode;
use unstuck_api::bulk::ResultKind;
use unstuck_api::http::{BulkAction, BulkBody, ReasonBody, RerunWhat};
use unstuck_api::request::{BulkOperation, BulkRequest, BulkVerb, NewBulk, Query, Request, RerunScope};

use super::change_run::{text_of, text_or_null};
use super::runs::PAGE;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

/// Targets on a page, where nobody says otherwise.
const TARGETS_PAGE: usize = 100;

/// Begins a bulk action, or says what it would do.
pub(crate) fn begin(call: &Call) -> Answered {
    let body: BulkBody = call.json()?;
    let dry_run = call.parameters.flag("dryRun").unwrap_or(false);
    let new = build_order(body, dry_run)?;
    let status = if dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(change(call, BulkOperation::Begin(Box::new(new)), None)?.with_status(status))
}

fn build_order(body: BulkBody, dry_run: bool) -> Result<NewBulk, Problem> {
    let action = build_verb(&body)?;
    Ok(NewBulk {
        action,
        runs: body.runs,
        group: body.group,
        flow: body.flow,
        policy: body.policy,
        state: body.state,
        include_acknowledged: body.include_acknowledged,
        needs_person: body.needs_person,
        labels: body.labels.into_iter().collect(),
        max: body.max,
        rate: body.rate,
        canary: body.canary,
        reason: body.reason,
        dry_run,
    })
}

fn build_verb(body: &BulkBody) -> Result<BulkVerb, Problem> {
    let step = |action: &str| {
        body.step.clone().ok_or_else(|| Problem::bad_field("step", format!("`{action}` needs a step")))
    };
    let input = body.input.as_deref().map(text_of);
    let step_input = body.step_input.as_deref().map(text_of);
    Ok(match body.action {
        BulkAction::Resume => BulkVerb::Resume { input, step_input },
        BulkAction::Ack => BulkVerb::Acknowledge,
        BulkAction::Cancel => BulkVerb::Cancel,
        BulkAction::Rerun => {
            let again = match body.what.unwrap_or(RerunWhat::Continue) {
                RerunWhat::Continue => RerunScope::Continue,
                RerunWhat::All => RerunScope::All,
                RerunWhat::Steps => RerunScope::Steps(body.steps.clone()),
            };
            BulkVerb::Rerun { again, input, step_input }
        }
        BulkAction::Choose => BulkVerb::Choose {
            choice: body
                .choice
                .ok_or_else(|| Problem::bad_field("choice", "`choose` needs a choice: `retry` or `none`"))?,
            step: body.step.clone(),
        },
        BulkAction::Signal => BulkVerb::Signal {
            name: body
                .name
                .clone()
                .ok_or_else(|| Problem::bad_field("name", "`signal` needs the name of the signal"))?,
            payload: text_or_null(body.payload.clone()),
        },
        BulkAction::Skip => BulkVerb::Skip { step: step("skip")? },
        BulkAction::Complete => {
            BulkVerb::Complete { step: step("complete")?, output: text_or_null(body.output.clone()) }
        }
        BulkAction::Forget => BulkVerb::Forget,
    })
}

pub(crate) fn list(call: &Call) -> Answered {
    let given = &call.parameters;
    call.query(&Query::Bulks {
        open_only: given.flag("open").unwrap_or(false),
        after: given.owned("after"),
        limit: call.limit(PAGE),
    })
}

pub(crate) fn show(call: &Call) -> Answered {
    call.query(&Query::Bulk { bulk: call.part("bulk").to_owned() })
}

pub(crate) fn targets(call: &Call) -> Answered {
    let from = call.parameters.number("after").unwrap_or(0);
    call.query(&Query::BulkTargets {
        bulk: call.part("bulk").to_owned(),
        result: call.parameters.text("result").and_then(ResultKind::of_code),
        from,
        limit: call.limit(TARGETS_PAGE),
    })
}

pub(crate) fn pause(call: &Call) -> Answered {
    let (ReasonBody { reason }, bulk) = (call.json()?, call.part("bulk").to_owned());
    change(call, BulkOperation::Pause { bulk }, reason)
}

pub(crate) fn unpause(call: &Call) -> Answered {
    let (ReasonBody { reason }, bulk) = (call.json()?, call.part("bulk").to_owned());
    change(call, BulkOperation::Unpause { bulk }, reason)
}

pub(crate) fn cancel(call: &Call) -> Answered {
    let (ReasonBody { reason }, bulk) = (call.json()?, call.part("bulk").to_owned());
    change(call, BulkOperation::Cancel { bulk }, reason)
}

fn change(call: &Call, what: BulkOperation, reason: Option<String>) -> Answered {
    call.change_because(&Request::Bulk(BulkRequest { by: call.by(), what }), reason)
}
