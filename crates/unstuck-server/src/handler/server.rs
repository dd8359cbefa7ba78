//! The server itself: its version, its name, its limits and who is asking.

use jiff::Timestamp;
use serde::Serialize;

use crate::answer::Answer;
use crate::call::Call;
use crate::route::Answered;

/// What clients ask first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerView {
    version: &'static str,
    api: &'static str,
    name: String,
    #[serde(with = "unstuck_api::json_form::time")]
    now: Timestamp,
    #[serde(with = "unstuck_api::json_form::time")]
    started_at: Timestamp,
    limits: LimitsView,
    you: CallerView,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitsView {
    body: usize,
    items: usize,
    json_depth: usize,
    flow_file: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallerView {
    name: String,
    role: &'static str,
}

pub(crate) fn show(call: &Call) -> Answered {
    let limits = &call.app.settings.limits;
    Answer::view(&ServerView {
        version: env!("CARGO_PKG_VERSION"),
        api: "v1",
        name: call.app.settings.name.to_string(),
        now: Timestamp::now(),
        started_at: call.app.started_at,
        limits: LimitsView {
            body: limits.body,
            items: limits.items,
            json_depth: limits.json_depth,
            flow_file: limits.flow_file,
        },
        you: CallerView { name: call.by(), role: call.caller.role.word() },
    })
}
