//! Requests as HTTP calls, and what is answered as the views of these requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use unstuck_api::ProblemDocument;
use unstuck_api::bulk::ResultKind;
use unstuck_api::http::{
    AcknowledgeBody, AmendBody, ApplyBody, BulkAction, BulkBody, ChooseBody, CompleteBody, MigrateBody,
    MigrateFlowBody, NamesBody, PausePoliciesBody, ReasonBody, RerunBody, RerunWhat, ResumeBody, RotateBody,
    SignalBody, SkipBody, TokenBody, TrialBody, UnpausePoliciesBody,
};
use unstuck_api::policies::RefusedDraft;
use unstuck_api::request::{
    AmendRequest, BulkOperation, BulkVerb, ErrorsQuery, FlowOperation, ItemsQuery, MigrateFlow, NewBulk,
    PolicyOperation, PolicyRequest, PolicyToTry, Query, Request, RerunScope, RunOperation, RunsQuery,
    ScheduleOperation, TokenOperation, TrialQuery,
};

use crate::client::{HttpAnswer, read_problem};

/// What may stand in a path as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'@');

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpCall {
    pub(crate) method: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
    pub(crate) accept: &'static str,
    pub(crate) content: &'static str,
    pub(crate) body: Option<String>,
}

impl HttpCall {
    fn new(method: &'static str, parts: &[&str]) -> HttpCall {
        let path = parts.iter().fold(String::new(), |path, part| path + "/" + &encode_part(part));
        let (accept, content) = ("application/json", "application/json");
        HttpCall { method, path, query: Vec::new(), accept, content, body: None }
    }

    pub(crate) fn get(parts: &[&str]) -> HttpCall {
        HttpCall::new("GET", parts)
    }

    fn delete(parts: &[&str]) -> HttpCall {
        HttpCall::new("DELETE", parts)
    }

    fn put(parts: &[&str], body: &impl Serialize) -> HttpCall {
        HttpCall { method: "PUT", ..HttpCall::post(parts, body) }
    }

    pub(crate) fn post(parts: &[&str], body: &impl Serialize) -> HttpCall {
        HttpCall { body: serde_json::to_string(body).ok(), ..HttpCall::new("POST", parts) }
    }

    /// Adds a parameter, if there is one.
    pub(crate) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> HttpCall {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// The same, for an answer of another type than JSON.
    pub(crate) fn accepting(self, accept: &'static str) -> HttpCall {
        HttpCall { accept, ..self }
    }

    /// Returns whether it names something by nothing, for which there is no path.
    pub(crate) fn has_empty_name(&self) -> bool {
        self.path.contains("//") || self.path.ends_with('/')
    }

    /// Returns path and query, as the first line of a request has them.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish();
        format!("{}?{query}", self.path)
    }
}

fn encode_part(part: &str) -> String {
    utf8_percent_encode(part, PLAIN).to_string()
}

/// Builds the call of a request; none where it takes several.
pub(crate) fn build_call(request: &Request) -> Option<HttpCall> {
    Some(match request {
        Request::Query(query) => return call_of_query(query),
        Request::Change(change) => call_of_change(&change.run, &change.what),
        Request::Policies(request) => {
            call_of_policies(&request.what).with("dryRun", request.dry_run.then_some(true))
        }
        Request::Bulk(request) => call_of_bulk(&request.what),
        Request::Schedule(request) => {
            let verb = match request.what {
                ScheduleOperation::Pause => "pause",
                ScheduleOperation::Unpause => "unpause",
                ScheduleOperation::Fire => "fire",
            };
            let body = ReasonBody { reason: request.reason.clone() };
            HttpCall::post(&["v1", "schedules", &request.flow, verb], &body)
        }
        Request::Start(request) => HttpCall::post(&["v1", "runs"], &request.start),
        Request::Flows(request) => call_of_flows(&request.what, request.reason.clone()),
        Request::Tokens(request) => call_of_tokens(&request.what, request.reason.clone()),
    })
}

fn call_of_query(query: &Query) -> Option<HttpCall> {
    let get = |parts: &[&str]| HttpCall::get(parts);
    Some(match query {
        // Which process that is does not matter to somebody on another machine.
        Query::Owner | Query::Executing | Query::Names { .. } | Query::Key { .. } => return None,
        Query::Status => get(&["v1", "status"]),
        Query::Runs(wanted) => with_filters(HttpCall::get(&["v1", "runs"]), wanted)
            .with("sort", Some(wanted.sort.word()))
            .with("limit", Some(wanted.limit.min(1_000)))
            .with("after", wanted.after.as_ref()),
        Query::Counts(wanted) => {
            let call = HttpCall::get(&["v1", "runs", "counts"]);
            with_filters(call, &wanted.filter).with("by", Some(wanted.by.word()))
        }
        Query::Show { run, options } => get(&["v1", "runs", run])
            .with("generation", options.generation)
            .with("items", options.items)
            .with("payloads", options.leaves_out_payloads.then_some(false)),
        Query::Items(wanted) => call_of_items(wanted),
        Query::Payload { run, of } => get(&["v1", "runs", run, "payload"]).with("of", Some(of)),
        Query::Explain { run } => get(&["v1", "runs", run, "explain"]),
        Query::ExplainPage { run, columns, without_happened } => {
            let call = get(&["v1", "runs", run, "explain"])
                .with("columns", *columns)
                .with("happened", without_happened.then_some(false));
            call.accepting("text/plain")
        }
        Query::History { run, after, limit } => get(&["v1", "runs", run, "history"])
            .with("after", Some(after))
            .with("limit", Some((*limit).min(10_000))),
        Query::Logs { run, step } => get(&["v1", "runs", run, "logs"]).with("step", step.as_ref()),
        Query::Policies | Query::Kept { .. } => get(&["v1", "policies"]),
        Query::Policy { name } => get(&["v1", "policies", name]),
        Query::Audit { name, before, limit } => get(&["v1", "policies", "audit"])
            .with("name", name.as_ref())
            .with("after", *before)
            .with("limit", Some((*limit).min(1_000))),
        Query::Trial(of) => call_of_trial(of),
        Query::Errors(wanted) => call_of_errors(wanted),
        Query::ErrorGroup { group } => get(&["v1", "errors", group]),
        Query::OpenErrors { group, after, limit } => get(&["v1", "errors", group, "open"])
            .with("after", after.as_ref())
            .with("limit", Some((*limit).min(1_000))),
        Query::ErrorRecords(wanted) => get(&["v1", "errors", &wanted.group, "records"])
            .with("since", wanted.since)
            .with("until", wanted.until)
            .with("after", wanted.after.as_ref())
            .with("limit", Some(wanted.limit.min(1_000))),
        Query::Schedules { after, limit } => {
            get(&["v1", "schedules"]).with("after", after.as_ref()).with("limit", Some((*limit).min(1_000)))
        }
        Query::Schedule { flow } => get(&["v1", "schedules", flow]),
        Query::Bulks { open_only, after, limit } => get(&["v1", "bulk"])
            .with("open", open_only.then_some(true))
            .with("after", after.as_ref())
            .with("limit", Some((*limit).min(1_000))),
        Query::Bulk { bulk } => get(&["v1", "bulk", bulk]),
        Query::BulkTargets { bulk, result, from, limit } => get(&["v1", "bulk", bulk, "targets"])
            .with("result", result.map(ResultKind::code))
            .with("after", Some(from))
            .with("limit", Some((*limit).min(1_000))),
        Query::Flows { after, limit } => {
            get(&["v1", "flows"]).with("after", after.as_ref()).with("limit", Some((*limit).min(1_000)))
        }
        Query::Tokens { all } => get(&["v1", "tokens"]).with("all", all.then_some(true)),
        Query::Flow { flow, version } => get(&["v1", "flows", flow]).with("version", version.as_ref()),
    })
}

/// Adds the filters of lists and counts.
fn with_filters(mut call: HttpCall, wanted: &RunsQuery) -> HttpCall {
    let texts = [
        ("version", &wanted.versions),
        ("keyPrefix", &wanted.key_prefixes),
        ("policy", &wanted.policies),
        ("action", &wanted.actions),
        ("worker", &wanted.workers),
    ];
    for (name, values) in texts {
        for value in values {
            call = call.with(name, Some(value));
        }
    }
    for mark in &wanted.has {
        call = call.with("has", Some(mark.word()));
    }
    for state in &wanted.states {
        call = call.with("state", Some(state.word()));
    }
    for (name, value) in &wanted.labels {
        call = call.with("label", Some(format!("{name}:{value}")));
    }
    call.with("flow", wanted.flow.as_ref())
        .with("key", wanted.key.as_ref())
        .with("parent", wanted.parent.as_ref())
        .with("root", wanted.root.as_ref())
        .with("since", wanted.since)
        .with("until", wanted.until)
        .with("updatedSince", wanted.updated_since)
        .with("group", wanted.group.as_ref())
        .with("cause", wanted.cause.as_ref())
        .with("all", wanted.all.then_some(true))
}

fn call_of_items(wanted: &ItemsQuery) -> HttpCall {
    let call = HttpCall::get(&["v1", "runs", &wanted.run, "items"]).with("step", wanted.step.as_ref());
    let states = wanted.states.iter().fold(call, |call, state| call.with("state", Some(state)));
    states.with("limit", Some(wanted.limit.min(1_000))).with("after", wanted.after.as_ref())
}

fn call_of_errors(wanted: &ErrorsQuery) -> HttpCall {
    HttpCall::get(&["v1", "errors"])
        .with("flow", wanted.flow.as_ref())
        .with("action", wanted.action.as_ref())
        .with("since", wanted.since)
        .with("open", wanted.open_only.then_some(true))
        .with("limit", Some(wanted.limit.min(1_000)))
        .with("after", wanted.after.as_ref())
}

fn call_of_trial(of: &TrialQuery) -> HttpCall {
    let (policies, names) = match &of.policies {
        PolicyToTry::Drafts(drafts) => (drafts.clone(), Vec::new()),
        PolicyToTry::Named(name) => (Vec::new(), vec![name.clone()]),
    };
    let past = of.past.as_ref();
    let body = TrialBody {
        policies,
        names,
        since: past.map(|past| past.since.to_string()),
        until: past.and_then(|past| past.until).map(|until| until.to_string()),
    };
    let what = if past.is_some() { "backtest" } else { "preview" };
    HttpCall::post(&["v1", "policies", what], &body)
}

fn call_of_change(run: &str, what: &RunOperation) -> HttpCall {
    match what {
        RunOperation::Choose { step, choice } => {
            act(run, "choose", &ChooseBody { step: step.clone(), choice: *choice, reason: None })
        }
        RunOperation::Resume { step, reason, input, step_input } => act(
            run,
            "resume",
            &ResumeBody {
                step: step.clone(),
                input: raw(input.as_deref()),
                step_input: raw(step_input.as_deref()),
                reason: reason.clone(),
            },
        ),
        RunOperation::Acknowledge { step, reason } => {
            act(run, "ack", &AcknowledgeBody { step: step.clone(), reason: reason.clone() })
        }
        RunOperation::Complete { step, output, reason } => act(
            run,
            "complete",
            &CompleteBody { step: step.clone(), output: raw(Some(output)), reason: reason.clone() },
        ),
        RunOperation::Skip { step, reason } => {
            act(run, "skip", &SkipBody { step: step.clone(), reason: reason.clone() })
        }
        RunOperation::Pause { reason } => act(run, "pause", &ReasonBody { reason: reason.clone() }),
        RunOperation::Unpause => act(run, "unpause", &ReasonBody { reason: None }),
        RunOperation::Cancel { reason } => act(run, "cancel", &ReasonBody { reason: reason.clone() }),
        RunOperation::Amend(AmendRequest { priority, labels, deadline, reason }) => {
            let (labels, deadline, reason) = (labels.clone(), deadline.clone(), reason.clone());
            let body = AmendBody { priority: *priority, labels, deadline, reason };
            HttpCall { method: "PATCH", ..HttpCall::post(&["v1", "runs", run], &body) }
        }
        RunOperation::Migrate { to, dry_run, reason } => {
            let body = MigrateBody { to: to.clone(), reason: reason.clone() };
            act(run, "migrate", &body).with("dryRun", dry_run.then_some(true))
        }
        RunOperation::Signal { name, payload } => {
            act(run, "signal", &SignalBody { name: name.clone(), payload: raw(Some(payload)) })
        }
        RunOperation::Rerun { again, input, step_input, options } => {
            let (what, steps) = rerun_scope(again);
            let body = RerunBody {
                what: Some(what),
                steps,
                input: raw(input.as_deref()),
                step_input: raw(step_input.as_deref()),
                cancel_first: options.cancel_first,
                deadline: options.deadline.clone(),
                reason: None,
            };
            act(run, "rerun", &body).with("dryRun", options.dry_run.then_some(true))
        }
        RunOperation::Forget => HttpCall::delete(&["v1", "runs", run]),
    }
}

fn act(run: &str, verb: &str, body: &impl Serialize) -> HttpCall {
    HttpCall::post(&["v1", "runs", run, verb], body)
}

fn rerun_scope(again: &RerunScope) -> (RerunWhat, Vec<String>) {
    match again {
        RerunScope::Continue => (RerunWhat::Continue, Vec::new()),
        RerunScope::All => (RerunWhat::All, Vec::new()),
        RerunScope::Steps(steps) => (RerunWhat::Steps, steps.clone()),
    }
}

/// Turns the text of some JSON into a value that is sent as it is; a text that is no JSON is refused before it comes here.
fn raw(text: Option<&str>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(text.to_owned()).ok())
}

fn call_of_policies(what: &PolicyOperation) -> HttpCall {
    match what {
        PolicyOperation::Load { drafts, replace } => {
            HttpCall::post(&["v1", "policies"], drafts).with("replace", replace.then_some(true))
        }
        PolicyOperation::Set { drafts } => HttpCall::put(&["v1", "policies"], drafts),
        PolicyOperation::Order { names } => {
            HttpCall::put(&["v1", "policies", "order"], &NamesBody { names: names.clone(), reason: None })
        }
        PolicyOperation::Enable { names } => policy_names("enable", names),
        PolicyOperation::Disable { names } => policy_names("disable", names),
        PolicyOperation::Delete { names } => policy_names("delete", names),
        PolicyOperation::Pause { reason } => {
            HttpCall::post(&["v1", "policies", "pause"], &PausePoliciesBody { reason: reason.clone() })
        }
        PolicyOperation::Unpause { rate } => {
            HttpCall::post(&["v1", "policies", "unpause"], &UnpausePoliciesBody { rate: Some(*rate) })
        }
        PolicyOperation::Apply { names, rate, reason } => HttpCall::post(
            &["v1", "policies", "apply"],
            &ApplyBody { names: names.clone(), rate: Some(*rate), reason: reason.clone() },
        ),
    }
}

fn policy_names(verb: &str, names: &[String]) -> HttpCall {
    HttpCall::post(&["v1", "policies", verb], &NamesBody { names: names.to_vec(), reason: None })
}

fn call_of_bulk(what: &BulkOperation) -> HttpCall {
    let post = |bulk: &str, verb: &str| HttpCall::post(&["v1", "bulk", bulk, verb], &json!({}));
    match what {
        BulkOperation::Begin(new) => {
            HttpCall::post(&["v1", "bulk"], &bulk_body(new)).with("dryRun", new.dry_run.then_some(true))
        }
        BulkOperation::Pause { bulk } => post(bulk, "pause"),
        BulkOperation::Unpause { bulk } => post(bulk, "unpause"),
        BulkOperation::Cancel { bulk } => post(bulk, "cancel"),
    }
}

fn bulk_body(new: &NewBulk) -> BulkBody {
    let mut body = BulkBody {
        runs: new.runs.clone(),
        group: new.group.clone(),
        flow: new.flow.clone(),
        policy: new.policy.clone(),
        state: new.state,
        labels: new.labels.iter().cloned().collect(),
        include_acknowledged: new.include_acknowledged,
        needs_person: new.needs_person,
        max: new.max,
        rate: new.rate,
        canary: new.canary,
        reason: new.reason.clone(),
        ..BulkBody::new(BulkAction::Cancel)
    };
    match &new.action {
        BulkVerb::Resume { input, step_input } => {
            body.action = BulkAction::Resume;
            (body.input, body.step_input) = (raw(input.as_deref()), raw(step_input.as_deref()));
        }
        BulkVerb::Acknowledge => body.action = BulkAction::Ack,
        BulkVerb::Cancel => body.action = BulkAction::Cancel,
        BulkVerb::Rerun { again, input, step_input } => {
            body.action = BulkAction::Rerun;
            let (what, steps) = rerun_scope(again);
            (body.what, body.steps) = (Some(what), steps);
            (body.input, body.step_input) = (raw(input.as_deref()), raw(step_input.as_deref()));
        }
        BulkVerb::Choose { choice, step } => {
            body.action = BulkAction::Choose;
            (body.choice, body.step) = (Some(*choice), step.clone());
        }
        BulkVerb::Signal { name, payload } => {
            body.action = BulkAction::Signal;
            (body.name, body.payload) = (Some(name.clone()), raw(Some(payload)));
        }
        BulkVerb::Skip { step } => {
            body.action = BulkAction::Skip;
            body.step = Some(step.clone());
        }
        BulkVerb::Complete { step, output } => {
            body.action = BulkAction::Complete;
            (body.step, body.output) = (Some(step.clone()), raw(Some(output)));
        }
        BulkVerb::Forget => body.action = BulkAction::Forget,
    }
    body
}

fn call_of_flows(what: &FlowOperation, reason: Option<String>) -> HttpCall {
    match what {
        FlowOperation::Apply { text, dry_run, migrate, .. } => HttpCall {
            body: Some(text.clone()),
            content: "application/yaml",
            ..HttpCall::new("POST", &["v1", "flows"])
        }
        .with("dryRun", dry_run.then_some(true))
        .with("migrate", migrate.then_some(true)),
        FlowOperation::Delete { flow, version } => {
            HttpCall::delete(&["v1", "flows", flow]).with("version", version.as_ref())
        }
        FlowOperation::Migrate(MigrateFlow { flow, to, from, runs, dry_run, limit, after }) => {
            let body = MigrateFlowBody { to: to.clone(), from: from.clone(), runs: runs.clone(), reason };
            HttpCall::post(&["v1", "flows", flow, "migrate"], &body)
                .with("dryRun", dry_run.then_some(true))
                .with("limit", Some((*limit).min(1_000)))
                .with("after", after.as_ref())
        }
    }
}

fn call_of_tokens(what: &TokenOperation, reason: Option<String>) -> HttpCall {
    // Lengths of time travel as numbers of seconds.
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    match what {
        TokenOperation::Create(new) => HttpCall::post(
            &["v1", "tokens"],
            &TokenBody {
                name: new.name.clone(),
                role: new.role.clone(),
                actions: new.actions.clone(),
                flows: new.flows.clone(),
                origin: new.origin.clone(),
                payloads: new.payloads,
                expires_in: new.expires_in_ms.map(seconds),
                reason,
            },
        ),
        TokenOperation::Revoke { token } => HttpCall::delete(&["v1", "tokens", token]).with("reason", reason),
        TokenOperation::Rotate { token, overlap_ms } => HttpCall::post(
            &["v1", "tokens", token, "rotate"],
            &RotateBody { overlap: Some(seconds(*overlap_ms)), reason },
        ),
    }
}

/// Leaves out what a policy has without being told: a file that is exported says no more than the one that was loaded.
fn remove_defaults(policy: &mut Value) {
    let Some(fields) = policy.as_object_mut() else { return };
    for (name, default) in [("enabled", true), ("includeFatal", false)] {
        if fields.get(name) == Some(&Value::Bool(default)) {
            fields.remove(name);
        }
    }
}

/// Returns what is wrong with each policy that was to be loaded, if that is the problem.
fn refused_drafts(problem: &ProblemDocument) -> Option<Vec<RefusedDraft>> {
    let parts = problem.about.problems.iter();
    let refused = parts.map(|part| {
        let (field, message) = (part.field.clone(), part.message.clone());
        let hint = part.hint.clone().unwrap_or_default();
        part.place.map(|place| RefusedDraft { place, field, message, hint })
    });
    refused.collect::<Option<Vec<_>>>().filter(|refused| !refused.is_empty())
}

/// Reads an answer as the view that the service would have given.
pub(crate) fn read_view(request: &Request, answer: HttpAnswer) -> Result<String, Box<ProblemDocument>> {
    if answer.status >= 300 {
        let problem = read_problem(&answer);
        let is_load =
            matches!(request, Request::Policies(PolicyRequest { what: PolicyOperation::Load { .. }, .. }));
        // The service says of each policy what is wrong with it, so that it can be shown where it stands in its file.
        return match refused_drafts(&problem).filter(|_| is_load) {
            Some(refused) => {
                Ok(json!({"changes": [], "unchanged": [], "shadowed": [], "refused": refused}).to_string())
            }
            None => Err(Box::new(problem)),
        };
    }
    let body = answer.body;
    let read = || serde_json::from_str::<Value>(&body).unwrap_or_default();
    Ok(match request {
        // The service has the run beside the command that continues it.
        Request::Query(Query::Show { .. }) => {
            let go_on = read()["goOn"].clone();
            format!(r#"{{"run":{body},"goOn":{go_on}}}"#)
        }
        Request::Query(Query::ExplainPage { .. }) => json!(body).to_string(),
        Request::Query(Query::Kept { names }) => {
            let mut policies = read()["policies"].take();
            if let Some(policies) = policies.as_array_mut() {
                let is_named = |policy: &Value| {
                    names.iter().any(|name| policy["name"] == *name || policy["id"] == *name)
                };
                policies.retain(|policy| names.is_empty() || is_named(policy));
                policies.iter_mut().for_each(remove_defaults);
            }
            policies.to_string()
        }
        // Nothing is answered where nothing is left to say.
        Request::Flows(_) if body.is_empty() => "null".to_owned(),
        Request::Query(_)
        | Request::Change(_)
        | Request::Policies(_)
        | Request::Bulk(_)
        | Request::Start(_)
        | Request::Flows(_)
        | Request::Schedule(_)
        | Request::Tokens(_) => body,
    })
}
