//! Groups of errors, and a policy for one of them.

use jiff::Timestamp;
use unstuck_api::request::{ErrorRecordsQuery, ErrorsQuery, Query};
use unstuck_service::errors::suggest_for_group;

use super::runs::PAGE;
use crate::answer::Answer;
use crate::call::Call;
use crate::route::Answered;

pub(crate) fn list(call: &Call) -> Answered {
    let given = &call.parameters;
    call.query(&Query::Errors(ErrorsQuery {
        flow: given.owned("flow"),
        action: given.owned("action"),
        since: given.time("since", Timestamp::now()),
        open_only: given.flag("open").unwrap_or(false),
        limit: call.limit(PAGE),
        after: given.owned("after"),
    }))
}

pub(crate) fn open(call: &Call) -> Answered {
    call.query(&Query::OpenErrors {
        group: call.part("group").to_owned(),
        after: call.parameters.owned("after"),
        limit: call.limit(PAGE),
    })
}

pub(crate) fn records(call: &Call) -> Answered {
    let (given, now) = (&call.parameters, Timestamp::now());
    call.query(&Query::ErrorRecords(ErrorRecordsQuery {
        group: call.part("group").to_owned(),
        since: given.time("since", now),
        until: given.time("until", now),
        limit: call.limit(PAGE),
        after: given.owned("after"),
    }))
}

pub(crate) fn show(call: &Call) -> Answered {
    call.query(&Query::ErrorGroup { group: call.part("group").to_owned() })
}

/// Suggests a policy for a group of errors. Nothing is stored.
pub(crate) fn suggest(call: &Call) -> Answered {
    Answer::view(&suggest_for_group(call.app.reader(), call.part("group"))?)
}
