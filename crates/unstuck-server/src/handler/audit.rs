//! The audit: who changed what, when, why and from where.

use jiff::Timestamp;
use unstuck_api::ProblemType;
use unstuck_core::event::Actor;
use unstuck_core::id::AuditEntryId;
use unstuck_service::audit::list_audit;
use unstuck_service::convert::to_core_time;
use unstuck_service::run_name::find_run;
use unstuck_store::contract::AuditFilter;

use super::runs::PAGE;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

pub(crate) fn list(call: &Call) -> Answered {
    let (given, reader) = (&call.parameters, call.app.reader());
    let run = given.text("run").map(|run| find_run(reader, &call.app.service.flows, run)).transpose()?;
    let filter = AuditFilter {
        by: given.text("by").map(|by| Actor::User(by.into())),
        what: given.text("what").map(Into::into),
        run,
        since: given.time("since", Timestamp::now()).map(to_core_time),
    };
    let after = given.text("after").map(|text| {
        text.parse::<AuditEntryId>().map_err(|_| {
            Problem::new(
                ProblemType::BadCursor,
                format!("`{text}` is not the end of a page; give `next` as it was told"),
            )
        })
    });
    Answer::view(&list_audit(reader, &filter, after.transpose()?, call.limit(PAGE))?)
}
