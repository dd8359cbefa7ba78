//! The server itself: its version, its name, its limits and who is asking.

use std::sync::Arc;

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
    /// The kind of its store.
    store: &'static str,
    /// What is switched on here and not everywhere.
    features: Vec<&'static str>,
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
    /// The id of the token, where there is one.
    token: Option<String>,
    role: &'static str,
    /// What a worker may take; anything, where it is empty.
    actions: Vec<String>,
    /// What a client may start; anything, where it is empty.
    flows: Vec<String>,
}

pub(crate) fn show(call: &Call) -> Answered {
    let limits = &call.app.settings.limits;
    Answer::view(&ServerView {
        version: env!("CARGO_PKG_VERSION"),
        api: "v1",
        name: call.app.settings.name.to_string(),
        now: Timestamp::now(),
        started_at: call.app.started_at,
        store: "embedded",
        features: features(call),
        limits: LimitsView {
            body: limits.body,
            items: limits.items,
            json_depth: limits.json_depth,
            flow_file: limits.flow_file,
        },
        you: describe_caller(call),
    })
}

fn features(call: &Call) -> Vec<&'static str> {
    let settings = &call.app.settings;
    let all = [
        (call.app.service.allow_run, "run"),
        (settings.store_tool.copies.is_some(), "copies"),
        (settings.requires_reason, "requireReason"),
    ];
    all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, word)| word).collect()
}

fn describe_caller(call: &Call) -> CallerView {
    let token = call.caller.token.as_deref();
    let texts = |names: Option<&[Arc<str>]>| -> Vec<String> {
        names.unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    CallerView {
        name: call.by(),
        token: token.map(|token| token.id.to_string()),
        role: call.caller.role.word(),
        actions: texts(token.map(|token| &*token.actions)),
        flows: texts(token.map(|token| &*token.flows)),
    }
}
