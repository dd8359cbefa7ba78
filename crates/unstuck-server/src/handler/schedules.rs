//! Schedules: listed, shown, paused, and fired by hand.

use axum::http::StatusCode;
use unstuck_api::http::ReasonBody;
use unstuck_api::request::{Query, Request, ScheduleOperation, ScheduleRequest};

use super::runs::PAGE;
use crate::call::Call;
use crate::route::Answered;

pub(crate) fn list(call: &Call) -> Answered {
    call.query(&Query::Schedules { after: call.parameters.owned("after"), limit: call.limit(PAGE) })
}

pub(crate) fn show(call: &Call) -> Answered {
    call.query(&Query::Schedule { flow: call.part("flow").to_owned() })
}

pub(crate) fn pause(call: &Call) -> Answered {
    change(call, ScheduleOperation::Pause)
}

pub(crate) fn unpause(call: &Call) -> Answered {
    change(call, ScheduleOperation::Unpause)
}

/// Starts a run now, beside those that the clock starts.
pub(crate) fn fire(call: &Call) -> Answered {
    Ok(change(call, ScheduleOperation::Fire)?.with_status(StatusCode::CREATED))
}

fn change(call: &Call, what: ScheduleOperation) -> Answered {
    let ReasonBody { reason } = call.json()?;
    let flow = call.part("flow").to_owned();
    let request = ScheduleRequest { by: call.by(), flow, reason: reason.clone(), what };
    call.change_because(&Request::Schedule(request), reason)
}
