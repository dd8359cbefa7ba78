//! Flows: applied as files, listed, shown, and deleted.

use axum::http::StatusCode;
use unstuck_api::http::MigrateFlowBody;
use unstuck_api::request::{FlowOperation, FlowRequest, MigrateFlow, Request};
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_core::id::FlowId;
use unstuck_service::apply_flows::{list_flows, list_versions, show_flow};
use unstuck_service::service::name_similar_flow;

use super::runs::{PAGE, read_label};
use crate::answer::{Answer, Content};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

/// Applies a file of flows, as a whole or not at all.
pub(crate) fn apply(call: &Call) -> Answered {
    let app = &call.app;
    let text = call.body_text()?.to_owned();
    let most = app.settings.limits.flow_file;
    if text.len() > most {
        let mut problem = ProblemDocument::new(
            ProblemType::TooLarge,
            format!("the file has {} bytes, and {most} is the maximum", text.len()),
        );
        problem.about.what = Some("flow file".to_owned());
        problem.about.bytes = u64::try_from(text.len()).ok();
        problem.about.max = u64::try_from(most).ok();
        return Err(Problem::from(problem));
    }
    let dry_run = call.parameters.flag("dryRun").unwrap_or(false);
    let migrate = call.parameters.flag("migrate").unwrap_or(false);
    let directory = app.settings.directory.to_string();
    change(call, FlowOperation::Apply { text, file: "body".to_owned(), directory, dry_run, migrate })
}

fn change(call: &Call, what: FlowOperation) -> Answered {
    let reason = call.parameters.owned("reason");
    call.change_once(&Request::Flows(FlowRequest { by: call.by(), reason, what }))
}

pub(crate) fn list(call: &Call) -> Answered {
    let after = call.parameters.text("after");
    let labels: Vec<_> = call.parameters.all("label").map(read_label).collect::<Result<_, _>>()?;
    let flows = &call.app.service.flows;
    Answer::view(&list_flows(call.app.reader(), flows, &labels, after, call.limit(PAGE))?)
}

/// Shows a version of a flow.
pub(crate) fn show(call: &Call) -> Answered {
    let (name, version) = (call.part("flow"), call.parameters.text("version"));
    let reader = call.app.reader();
    let view = show_flow(reader, &call.app.service.flows, name, version)
        .map_err(|error| name_similar_flow(reader, error))?;
    call.answer_if_changed(&format!("\"{}\"", view.id), || Answer::view(&view))
}

pub(crate) fn versions(call: &Call) -> Answered {
    let before = match call.parameters.text("after") {
        None => None,
        Some(text) => Some(text.parse::<FlowId>().map_err(|_| {
            Problem::new(
                ProblemType::BadCursor,
                format!("`{text}` is not the end of a page; give `next` as it was told"),
            )
        })?),
    };
    Answer::view(&list_versions(call.app.reader(), call.part("flow"), before, call.limit(PAGE))?)
}

/// Moves runs of a flow to another version of it.
pub(crate) fn migrate(call: &Call) -> Answered {
    let MigrateFlowBody { to, from, runs, reason } = call.json()?;
    let what = FlowOperation::Migrate(MigrateFlow {
        flow: call.part("flow").to_owned(),
        to,
        from,
        runs,
        dry_run: call.parameters.flag("dryRun").unwrap_or(false),
        limit: call.limit(MIGRATED),
        after: call.parameters.owned("after"),
    });
    let request = Request::Flows(FlowRequest { by: call.by(), reason: reason.clone(), what });
    call.change_because(&request, reason)
}

/// Runs that one call looks at, where nobody says otherwise.
const MIGRATED: usize = 100;

/// Deletes a flow or a version of it: it can be started no more.
pub(crate) fn delete(call: &Call) -> Answered {
    let (flow, version) = (call.part("flow").to_owned(), call.parameters.owned("version"));
    change(call, FlowOperation::Delete { flow, version })?;
    Ok(Answer::new(StatusCode::NO_CONTENT, Content::Nothing))
}
