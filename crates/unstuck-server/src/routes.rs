//! The whole table of routes: what may be called, by whom, with what, and what comes back.

use unstuck_api::bulk::ResultKind;
use unstuck_core::api_token::Role;
use unstuck_service::change_teller::EventClass;

use crate::access::Access;
use crate::body::BodyKind;
use crate::handler::{
    audit, bulk, change_run, errors, flows, policies, runs, schedules, server, start, store, tokens,
};
use crate::parameter::{Parameter, ParameterKind};
use crate::route::Handler::{Async, Change, Direct, Query};
use crate::route::Verb::{Delete, Get, Patch, Post, Put};
use crate::route::{Handler, OtherAnswer, Route, Verb};
use crate::{events, health, metrics, openapi, pages};

const READERS: Access = Access::Roles(&[Role::Viewer]);
const RUN_READERS: Access = Access::Roles(&[Role::Viewer, Role::Client]);
const CLIENTS: Access = Access::Roles(&[Role::Client]);
const OPERATORS: Access = Access::Roles(&[Role::Operator]);
const ADMINS: Access = Access::Roles(&[Role::Admin]);

const LIMIT: Parameter =
    parameter("limit", ParameterKind::Number(1, 1_000), "How many at most; 20 where it is not given.");
const AFTER: Parameter = parameter("after", ParameterKind::Text, "`next` of the page before.");
const WAIT: Parameter = parameter(
    "wait",
    ParameterKind::Duration,
    "Answer when the run rests, or after this time; at most 60 s.",
);

/// A place in a list. Nothing that we count exceeds what a double can hold.
const PLACE: ParameterKind = ParameterKind::Number(0, (1 << 53) - 1);

const fn parameter(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
    Parameter::new(name, kind, about)
}

const VERSION: Parameter =
    parameter("version", ParameterKind::Text, "This version; the newest where it is not given.");
const DRY: Parameter = parameter("dryRun", ParameterKind::Flag, "Whether nothing is changed.");
const REASON: Parameter = parameter("reason", ParameterKind::Text, "Why.");

/// The filters of runs, and more parameters after them.
macro_rules! run_filters {
    ($($more:expr),* $(,)?) => {
        &[
            parameter("state", ParameterKind::Text, "In this state, or with a step in it.").repeated(),
            parameter("flow", ParameterKind::Text, "Of this flow."),
            parameter("version", ParameterKind::Text, "Of this version of its flow.").repeated(),
            parameter("key", ParameterKind::Text, "With this key."),
            parameter("keyPrefix", ParameterKind::Text, "With a key that begins so.").repeated(),
            parameter("label", ParameterKind::Text, "With this label, of its own or of its flow, as `team:billing`.").repeated(),
            parameter("has", ParameterKind::OneOf(MARKS), "With a step that is so.").repeated(),
            parameter("policy", ParameterKind::Text, "Whose next automatic resume this policy has scheduled.").repeated(),
            parameter("action", ParameterKind::Text, "With an attempt of this action that is queued, active or in error.").repeated(),
            parameter("worker", ParameterKind::Text, "With an attempt that this worker holds.").repeated(),
            parameter("parent", ParameterKind::Text, "Children and handlers of this run."),
            parameter("root", ParameterKind::Text, "All runs below this one."),
            parameter("since", ParameterKind::Time, "Started then or later."),
            parameter("until", ParameterKind::Time, "Started before then."),
            parameter("updatedSince", ParameterKind::Time, "Changed then or later."),
            parameter("group", ParameterKind::Text, "With an error of this group, open or past."),
            parameter("cause", ParameterKind::Text, "With an error whose cause contains this."),
            parameter("all", ParameterKind::Flag, "Children and handlers too."),
            $($more),*
        ]
    };
}

const ITEM_STATES: &[&str] = &[
    "pending",
    "ready",
    "active",
    "waiting",
    "held",
    "error",
    "completed",
    "skipped",
    "failed",
    "dropped",
    "cancelled",
];
const MARKS: &[&str] = &["error", "held", "acknowledged", "scheduled"];
const SORTS: &[&str] = &["-created", "-updated", "nextAutoResume"];
const COUNTED: &[&str] = &["state", "flow", "group", "action"];
const RUN_FILTERS: &[Parameter] = run_filters![
    parameter("sort", ParameterKind::OneOf(SORTS), "The order; `-created` where it is not given."),
    LIMIT,
    AFTER,
];
const COUNT_FILTERS: &[Parameter] = run_filters![parameter(
    "by",
    ParameterKind::OneOf(COUNTED),
    "What they are counted by; `state` where it is not given."
)];

const fn route(
    verb: Verb,
    path: &'static str,
    access: Access,
    operation: &'static str,
    handler: Handler,
) -> Route {
    Route::new(verb, path, access, operation, handler)
}

const UNCHANGED: OtherAnswer = OtherAnswer { status: 304, media: "", schema: None };
const UNREADY: OtherAnswer = OtherAnswer { status: 503, media: "application/json", schema: Some("health") };
const DRY_RUN: OtherAnswer =
    OtherAnswer { status: 200, media: "application/json", schema: Some("bulkBegun") };
const MIGRATION: OtherAnswer =
    OtherAnswer { status: 200, media: "application/json", schema: Some("migration") };
const RERUN_PREVIEW: OtherAnswer =
    OtherAnswer { status: 200, media: "application/json", schema: Some("rerunPreview") };
const ALREADY: OtherAnswer = OtherAnswer { status: 200, media: "application/json", schema: Some("started") };
const TEXT: OtherAnswer = page_of("text/plain");
const HTML: OtherAnswer = page_of("text/html");
const METRICS: OtherAnswer = page_of("application/openmetrics-text");
const YAML: OtherAnswer = page_of("application/yaml");
const EVENTS: OtherAnswer = page_of("text/event-stream");
const JSON: OtherAnswer = page_of("application/json");

const fn page_of(media: &'static str) -> OtherAnswer {
    OtherAnswer { status: 200, media, schema: None }
}

/// Every route.
pub(crate) static ROUTES: &[Route] = &[
    route(Get, "/health/live", Access::Public, "checkLive", Direct(health::live)).about("Whether the process answers.").gives(200, "health"),
    route(Get, "/health/ready", Access::Public, "checkReady", Query(health::ready))
        .about("Whether the server makes progress: 200, or 503.")
        .gives(200, "health")
        .or(&[UNREADY]),
    route(Get, "/health", READERS, "checkHealth", Query(health::details))
        .about("What was looked at, and what is wrong.")
        .gives(200, "health")
        .or(&[UNREADY]),
    route(Get, "/metrics", READERS, "getMetrics", Query(metrics::show))
        .about("Counters and gauges, for Prometheus.")
        .or(&[METRICS]),
    route(Get, "/openapi.json", Access::Public, "describeApi", Direct(openapi::show))
        .about("This description of the API.")
        .or(&[JSON]),
    route(Get, "/docs", Access::Public, "readDocs", Direct(pages::docs)).about("The same for people.").or(&[HTML]),
    route(Get, "/problems/{type}", Access::Public, "readProblem", Direct(pages::problem))
        .about("What a type of problem means.")
        .or(&[HTML]),
    route(Get, "/v1/server", RUN_READERS, "getServer", Direct(server::show))
        .about("Version, limits, and who is asking.")
        .gives(200, "server"),
    route(Get, "/v1/status", READERS, "getStatus", Query(runs::status))
        .about("What needs a person, what comes next, and how many runs there are.")
        .gives(200, "status"),
    route(Get, "/v1/store", ADMINS, "getStore", Query(store::info))
        .about("Where the store is and what it holds.")
        .gives(200, "storeInfo"),
    route(Post, "/v1/store/checks", ADMINS, "checkStore", Change(store::check))
        .about("Begins a check of all that the data alone can prove.")
        .gives(202, "storeJob"),
    route(Post, "/v1/store/copies", ADMINS, "copyStore", Change(store::copy))
        .about("Begins a copy of the store, in the folder that is configured for copies.")
        .takes(BodyKind::Json, "storeCopyBody")
        .gives(202, "storeJob"),
    route(Get, "/v1/store/jobs/{job}", ADMINS, "getStoreJob", Direct(store::job))
        .about("How far a check or a copy is, and what came of it.")
        .gives(200, "storeJob"),
    route(Get, "/v1/tokens", ADMINS, "listTokens", Query(tokens::list))
        .about("Tokens of the API, newest first, without their secrets.")
        .with(&[parameter("all", ParameterKind::Flag, "Revoked and expired ones too.")])
        .gives(200, "tokens"),
    route(Post, "/v1/tokens", ADMINS, "createToken", Change(tokens::create))
        .about("Makes a token. It is shown once.")
        .takes(BodyKind::Json, "tokenBody")
        .gives(201, "tokenChanged"),
    route(Delete, "/v1/tokens/{token}", ADMINS, "revokeToken", Change(tokens::revoke))
        .about("Revokes a token, by its name or id.")
        .with(&[REASON])
        .gives(200, "tokenChanged"),
    route(Post, "/v1/tokens/{token}/rotate", ADMINS, "rotateToken", Change(tokens::rotate))
        .about("Gives a token another secret; the old one is good for a while.")
        .takes(BodyKind::OptionalJson, "rotateBody")
        .gives(200, "tokenChanged"),
    route(Get, "/v1/audit", ADMINS, "listAudit", Query(audit::list))
        .about("Who changed what, when, why and from where, newest first.")
        .with(&[
            parameter("by", ParameterKind::Text, "By this token, or this user of the machine."),
            parameter("what", ParameterKind::Text, "Such as `run.cancel`, or `policy.` for all that begins so."),
            parameter("run", ParameterKind::Text, "Done to this run."),
            parameter("since", ParameterKind::Time, "Then or later."),
            LIMIT,
            AFTER,
        ])
        .gives(200, "auditEntries"),
    // Flows.
    route(Post, "/v1/flows", ADMINS, "applyFlows", Change(flows::apply))
        .about("Applies a file of flows, as a whole or not at all.")
        .with(&[
            DRY,
            parameter("migrate", ParameterKind::Flag, "Whether runs of earlier versions are moved to these, the first 100 of each flow."),
            REASON,
        ])
        .takes(BodyKind::File, "flowFile")
        .gives(200, "flowsApplied"),
    route(Get, "/v1/flows", RUN_READERS, "listFlows", Query(flows::list))
        .about("The flows that can be started, by name.")
        .with(&[
            parameter("label", ParameterKind::Text, "With this label, as `team:billing`.").repeated(),
            LIMIT,
            AFTER,
        ])
        .gives(200, "flows"),
    route(Get, "/v1/flows/{flow}", RUN_READERS, "getFlow", Query(flows::show))
        .about("A version of a flow: the newest, or the one that is named.")
        .with(&[VERSION])
        .gives(200, "flow")
        .or(&[UNCHANGED]),
    route(Get, "/v1/flows/{flow}/versions", READERS, "listVersions", Query(flows::versions))
        .about("The versions of a flow, newest first, deleted ones too.")
        .with(&[LIMIT, AFTER])
        .gives(200, "flowVersionList"),
    route(Post, "/v1/flows/{flow}/migrate", OPERATORS, "migrateFlow", Change(flows::migrate))
        .about("Moves runs that are under way to another version of their flow, some in each call.")
        .with(&[
            parameter("dryRun", ParameterKind::Flag, "Whether nothing is changed."),
            parameter("limit", ParameterKind::Number(1, 1_000), "How many are looked at; 100 where it is not given."),
            AFTER,
        ])
        .takes(BodyKind::OptionalJson, "migrateFlowBody")
        .gives(200, "migration"),
    route(Delete, "/v1/flows/{flow}", ADMINS, "deleteFlow", Change(flows::delete))
        .about("Deletes a flow, or a version of it: it can be started no more.")
        .with(&[VERSION, REASON])
        .gives_nothing(),
    // Runs.
    route(Post, "/v1/runs", CLIENTS, "startRun", Async(start::start))
        .about("Starts a run. 201 for a new one, 200 where its key has it already.")
        .with(&[WAIT])
        .takes(BodyKind::Json, "startBody")
        .gives(201, "started")
        .or(&[ALREADY]),
    route(Post, "/v1/runs/batch", CLIENTS, "startRuns", Async(start::start_many))
        .about("Starts up to 1,000 runs, each decided by itself, in order.")
        .takes(BodyKind::Json, "startManyBody")
        .gives(200, "startedMany"),
    route(Get, "/v1/runs", RUN_READERS, "listRuns", Query(runs::list))
        .about("Runs, newest first or in another order.")
        .with(RUN_FILTERS)
        .gives(200, "runs"),
    route(Get, "/v1/runs/counts", READERS, "countRuns", Query(runs::count))
        .about("How many runs there are of each kind.")
        .with(COUNT_FILTERS)
        .gives(200, "counts"),
    route(Get, "/v1/runs/{run}", RUN_READERS, "getRun", Async(runs::show))
        .about("The run document.")
        .with(&[
            WAIT,
            parameter("until", ParameterKind::OneOf(&["rest", "final"]), "What `wait` waits for."),
            parameter("generation", ParameterKind::Number(1, u32::MAX as u64), "A generation before this one, as it ended."),
            parameter("items", ParameterKind::Number(0, u32::MAX as u64), "The first so many items of each `forEach`; all where it is not given."),
            parameter("payloads", ParameterKind::Flag, "`false` leaves out what flows and workers have put into it."),
        ])
        .gives(200, "run")
        .or(&[UNCHANGED]),
    route(Get, "/v1/runs/{run}/items", READERS, "listItems", Query(runs::items))
        .about("Items of `forEach` steps, in order; those that have not started yet, too.")
        .with(&[
            parameter("step", ParameterKind::Text, "Of this step only."),
            parameter("state", ParameterKind::OneOf(ITEM_STATES), "In this state.").repeated(),
            LIMIT,
            AFTER,
        ])
        .gives(200, "items"),
    route(Get, "/v1/runs/{run}/signals", READERS, "listSignals", Query(runs::signals))
        .about("Signals that wait until a step consumes them.")
        .gives(200, "signals"),
    route(Get, "/v1/runs/{run}/payload", RUN_READERS, "getPayload", Query(runs::payload))
        .about("An input or output, as it is.")
        .with(&[parameter("of", ParameterKind::Text, "`input`, `output`, or of a step or item: `fetch.input`, `fetch[3].output`.")])
        .or(&[JSON]),
    route(Get, "/v1/flows/{flow}/keys/{key}", RUN_READERS, "getRunOfKey", Query(runs::show_by_key))
        .about("The document of the run that has this key.")
        .gives(200, "run")
        .or(&[UNCHANGED]),
    route(Get, "/v1/runs/{run}/history", READERS, "getHistory", Query(runs::history))
        .about("Events of a run, in order.")
        .with(&[
            parameter("after", PLACE, "After the event of this number."),
            parameter("limit", ParameterKind::Number(1, 10_000), "How many at most; 100 where it is not given."),
        ])
        .gives(200, "history"),
    route(Get, "/v1/runs/{run}/explain", READERS, "explainRun", Query(runs::explain))
        .about("Why a run is where it is and what comes next. `Accept: text/plain` gives a page for people.")
        .with(&[
            parameter("columns", ParameterKind::Number(1, 500), "How wide a page for people is."),
            parameter("happened", ParameterKind::Flag, "Whether a page for people tells what happened; it does where this is not given."),
        ])
        .gives(200, "explanation")
        .or(&[TEXT]),
    route(Get, "/v1/runs/{run}/logs", READERS, "getLogs", Query(runs::logs))
        .about("What the attempts of a run printed.")
        .with(&[parameter("step", ParameterKind::Text, "Of this step only.")])
        .gives(200, "logs"),
    act("/v1/runs/{run}/resume", "resumeRun", change_run::resume, "resumeBody")
        .about("Resumes a step in error, or all of them."),
    route(Post, "/v1/runs/{run}/ack", OPERATORS, "acknowledgeErrors", Change(change_run::acknowledge))
        .about("Takes errors out of automatic resumption and out of the counts.")
        .takes(BodyKind::Json, "acknowledgeBody")
        .gives(200, "changed"),
    route(Post, "/v1/runs/{run}/choose", OPERATORS, "chooseForStep", Change(change_run::choose))
        .about("Chooses for a held step: one more attempt, or none.")
        .takes(BodyKind::Json, "chooseBody")
        .gives(200, "changed"),
    route(Post, "/v1/runs/{run}/complete", OPERATORS, "completeStep", Change(change_run::complete))
        .about("Completes a step by hand.")
        .takes(BodyKind::Json, "completeBody")
        .gives(200, "changed"),
    route(Post, "/v1/runs/{run}/skip", OPERATORS, "skipStep", Change(change_run::skip))
        .about("Skips a step.")
        .takes(BodyKind::Json, "skipBody")
        .gives(200, "changed"),
    act("/v1/runs/{run}/pause", "pauseRun", change_run::pause, "reasonBody").about("Pauses a run."),
    act("/v1/runs/{run}/unpause", "unpauseRun", change_run::unpause, "reasonBody").about("Lets a paused run continue."),
    act("/v1/runs/{run}/cancel", "cancelRun", change_run::cancel, "reasonBody").about("Cancels a run for good."),
    act("/v1/runs/{run}/rerun", "rerunRun", change_run::rerun, "rerunBody")
        .about("Runs a final run again, as its next generation; a dry run says which steps.")
        .with(&[parameter("dryRun", ParameterKind::Flag, "Whether nothing is changed.")])
        .or(&[RERUN_PREVIEW]),
    act("/v1/runs/{run}/migrate", "migrateRun", change_run::migrate, "migrateBody")
        .about("Moves a run that is under way to another version of its flow; a dry run says whether it could be.")
        .with(&[parameter("dryRun", ParameterKind::Flag, "Whether nothing is changed.")])
        .or(&[MIGRATION]),
    route(Post, "/v1/runs/{run}/signal", CLIENTS, "signalRun", Change(change_run::signal))
        .about("Sends a signal to a run.")
        .takes(BodyKind::Json, "signalBody")
        .gives(200, "changed"),
    route(Post, "/v1/signals", CLIENTS, "signalKey", Change(change_run::signal_key))
        .about("Sends a signal to the run of a key.")
        .takes(BodyKind::Json, "keySignalBody")
        .gives(200, "changed"),
    route(Patch, "/v1/runs/{run}", OPERATORS, "amendRun", Change(change_run::amend))
        .about("Changes the priority, labels or deadline of a run that is under way.")
        .takes(BodyKind::Json, "amendBody")
        .gives(200, "changed"),
    route(Delete, "/v1/runs/{run}", OPERATORS, "forgetRun", Change(change_run::forget))
        .about("Removes a final run for good, with its children.")
        .gives(200, "forgotten"),
    route(Get, "/v1/events", READERS, "streamEvents", Async(events::stream))
        .about("Everything that happens, as server-sent events, from a cursor on.")
        .with(&[
            parameter("after", ParameterKind::Text, "From this cursor on; `Last-Event-ID` wins over it. Now, where there is neither."),
            parameter("class", ParameterKind::OneOf(EventClass::WORDS), "Of this class only.").repeated(),
            parameter("run", ParameterKind::Text, "Of this run and all below it."),
            parameter("flow", ParameterKind::Text, "Of runs of this flow, and of the flow itself.").repeated(),
            parameter("action", ParameterKind::Text, "About a step with this action, by its short or full name.").repeated(),
            parameter("state", ParameterKind::Text, "That leave their run in this state.").repeated(),
            parameter("fact", ParameterKind::Text, "With a fact of this type, such as `step.held`.").repeated(),
            parameter("coalesce", ParameterKind::Duration, "Only the last event of each run, or other thing, in each such interval; at most 60 s."),
        ])
        .or(&[EVENTS]),
    // Errors and policies.
    route(Get, "/v1/errors", READERS, "listErrors", Query(errors::list))
        .about("Groups of errors, the last seen first.")
        .with(&[
            parameter("flow", ParameterKind::Text, "Of this flow."),
            parameter("action", ParameterKind::Text, "Of this action, by its full name."),
            parameter("since", ParameterKind::Time, "Seen then or later."),
            parameter("open", ParameterKind::Flag, "Only those with a step in error now that nobody has acknowledged."),
            LIMIT,
            AFTER,
        ])
        .gives(200, "errorGroups"),
    route(Get, "/v1/errors/{group}", READERS, "getErrorGroup", Query(errors::show))
        .about("A group, and what is in error now.")
        .gives(200, "errorGroup"),
    route(Get, "/v1/errors/{group}/open", READERS, "listOpenErrors", Query(errors::open))
        .about("What is in error now in a group, in the order of the runs.")
        .with(&[LIMIT, AFTER])
        .gives(200, "openErrors"),
    route(Get, "/v1/errors/{group}/records", READERS, "listErrorRecords", Query(errors::records))
        .about("The errors that a group has had, newest first, without those of forgotten runs.")
        .with(&[
            parameter("since", ParameterKind::Time, "Then or later."),
            parameter("until", ParameterKind::Time, "Before then."),
            LIMIT,
            AFTER,
        ])
        .gives(200, "errorRecords"),
    route(Post, "/v1/errors/{group}/suggest", READERS, "suggestPolicy", Query(errors::suggest))
        .about("A policy for a group of errors, and what it would do. Nothing is stored.")
        .gives(200, "suggestion"),
    route(Get, "/v1/policies", READERS, "listPolicies", Query(policies::list))
        .about("The policies, in the order in which they match. `Accept: application/yaml` gives the file.")
        .gives(200, "policies")
        .or(&[YAML, UNCHANGED]),
    route(Put, "/v1/policies", OPERATORS, "replacePolicies", Change(policies::replace_all))
        .about("Replaces all policies, as a whole or not at all: those that are not given are deleted.")
        .with(&[DRY, REASON])
        .takes(BodyKind::File, "policyFile")
        .gives(200, "policyChanges"),
    route(Put, "/v1/policies/order", OPERATORS, "orderPolicies", Change(policies::order))
        .about("Sets the order in which policies match: all of them, the first to match first.")
        .with(&[DRY])
        .takes(BodyKind::Json, "namesBody")
        .gives(200, "policyChanges"),
    route(Post, "/v1/policies", OPERATORS, "loadPolicies", Change(policies::load_file))
        .about("Adds policies, as a whole or not at all; with `replace`, also in place of those of the same name.")
        .with(&[parameter("replace", ParameterKind::Flag, "Whether policies of the same name or id are replaced."), DRY, REASON])
        .takes(BodyKind::File, "policyFile")
        .gives(200, "policyChanges"),
    route(Get, "/v1/policies/audit", READERS, "listPolicyChanges", Query(policies::audit))
        .about("What was changed of policies, newest first.")
        .with(&[
            parameter("name", ParameterKind::Text, "Of this policy."),
            parameter("after", PLACE, "`next` of the page before."),
            LIMIT,
        ])
        .gives(200, "policyAudit"),
    route(Post, "/v1/policies/preview", READERS, "previewPolicies", Query(policies::preview))
        .about("What policies would do to what is in error now. Nothing is changed.")
        .takes(BodyKind::Json, "trialBody")
        .gives(200, "trials"),
    route(Post, "/v1/policies/backtest", READERS, "backtestPolicies", Query(policies::backtest))
        .about("What policies would have done to the errors of a past period. Nothing is changed.")
        .takes(BodyKind::Json, "trialBody")
        .gives(200, "trials"),
    route(Post, "/v1/policies/apply", OPERATORS, "applyPolicies", Change(policies::apply))
        .about("Applies policies to what is in error already, paced.")
        .with(&[DRY])
        .takes(BodyKind::OptionalJson, "applyBody")
        .gives(200, "policyApplied"),
    route(Post, "/v1/policies/pause", OPERATORS, "pausePolicies", Change(policies::pause))
        .about("Pauses all automatic resumes.")
        .takes(BodyKind::Json, "pausePoliciesBody")
        .gives(200, "policyPause"),
    route(Post, "/v1/policies/unpause", OPERATORS, "unpausePolicies", Change(policies::unpause))
        .about("Lets automatic resumes continue, paced.")
        .takes(BodyKind::OptionalJson, "unpausePoliciesBody")
        .gives(200, "policyPause"),
    route(Post, "/v1/policies/enable", OPERATORS, "enablePolicies", Change(policies::enable_many))
        .about("Enables policies, as a whole or not at all.")
        .takes(BodyKind::Json, "namesBody")
        .gives(200, "policyChanges"),
    route(Post, "/v1/policies/disable", OPERATORS, "disablePolicies", Change(policies::disable_many))
        .about("Disables policies, as a whole or not at all.")
        .takes(BodyKind::Json, "namesBody")
        .gives(200, "policyChanges"),
    route(Post, "/v1/policies/delete", OPERATORS, "deletePolicies", Change(policies::delete_many))
        .about("Deletes policies, as a whole or not at all.")
        .takes(BodyKind::Json, "namesBody")
        .gives(200, "policyChanges"),
    route(Get, "/v1/policies/{name}", READERS, "getPolicy", Query(policies::show))
        .about("A policy, its place among the others, and what was changed of it. `Accept: application/yaml` gives the file.")
        .gives(200, "policy")
        .or(&[YAML, UNCHANGED]),
    route(Put, "/v1/policies/{name}", OPERATORS, "replacePolicy", Change(policies::replace_one))
        .about("Adds a policy, or replaces the one that has its name.")
        .with(&[DRY, REASON])
        .takes(BodyKind::File, "policyFile")
        .gives(200, "policyChanges"),
    route(Delete, "/v1/policies/{name}", OPERATORS, "deletePolicy", Change(policies::delete))
        .about("Deletes a policy.")
        .with(&[REASON])
        .gives(200, "policyChanges"),
    route(Post, "/v1/policies/{name}/enable", OPERATORS, "enablePolicy", Change(policies::enable))
        .about("Enables a policy.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "policyChanges"),
    route(Post, "/v1/policies/{name}/disable", OPERATORS, "disablePolicy", Change(policies::disable))
        .about("Disables a policy.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "policyChanges"),
    // Schedules.
    route(Get, "/v1/schedules", READERS, "listSchedules", Query(schedules::list))
        .about("The schedules of flows, by name, each with its next ten times.")
        .with(&[LIMIT, AFTER])
        .gives(200, "schedules"),
    route(Get, "/v1/schedules/{flow}", READERS, "getSchedule", Query(schedules::show))
        .about("The schedule of a flow.")
        .gives(200, "schedule"),
    route(Post, "/v1/schedules/{flow}/pause", OPERATORS, "pauseSchedule", Change(schedules::pause))
        .about("Pauses a schedule: it starts nothing.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "changedSchedule"),
    route(Post, "/v1/schedules/{flow}/unpause", OPERATORS, "unpauseSchedule", Change(schedules::unpause))
        .about("Lets a schedule continue, with its next time from now.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "changedSchedule"),
    route(Post, "/v1/schedules/{flow}/fire", OPERATORS, "fireSchedule", Change(schedules::fire))
        .about("Starts a run of a schedule now.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(201, "changed"),
    // Bulk actions.
    route(Post, "/v1/bulk", OPERATORS, "beginBulk", Change(bulk::begin))
        .about("Begins a bulk action; a dry run says what it would do.")
        .with(&[DRY])
        .takes(BodyKind::Json, "bulkBody")
        .gives(202, "bulkBegun")
        .or(&[DRY_RUN]),
    route(Get, "/v1/bulk", READERS, "listBulks", Query(bulk::list))
        .about("Bulk actions, newest first.")
        .with(&[parameter("open", ParameterKind::Flag, "Only those that are not settled."), LIMIT, AFTER])
        .gives(200, "bulks"),
    route(Get, "/v1/bulk/{bulk}", READERS, "getBulk", Query(bulk::show))
        .about("A bulk action as it stands.")
        .gives(200, "bulk"),
    route(Get, "/v1/bulk/{bulk}/targets", READERS, "listTargets", Query(bulk::targets))
        .about("What became of each target, in order.")
        .with(&[
            parameter("result", ParameterKind::OneOf(ResultKind::CODES), "Only those that this became of."),
            LIMIT,
            parameter("after", PLACE, "`next` of the page before."),
        ])
        .gives(200, "targets"),
    route(Post, "/v1/bulk/{bulk}/pause", OPERATORS, "pauseBulk", Change(bulk::pause))
        .about("Pauses a bulk action.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "changedBulk"),
    route(Post, "/v1/bulk/{bulk}/unpause", OPERATORS, "unpauseBulk", Change(bulk::unpause))
        .about("Lets a bulk action continue.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "changedBulk"),
    route(Post, "/v1/bulk/{bulk}/cancel", OPERATORS, "cancelBulk", Change(bulk::cancel))
        .about("Stops a bulk action; what is done stays done.")
        .takes(BodyKind::OptionalJson, "reasonBody")
        .gives(200, "changedBulk"),
];

/// A change of one run by an operator, whose body may be left out.
const fn act(
    path: &'static str,
    operation: &'static str,
    handler: fn(&crate::call::Call) -> crate::route::Answered,
    body: &'static str,
) -> Route {
    route(Post, path, OPERATORS, operation, Change(handler))
        .takes(BodyKind::OptionalJson, body)
        .gives(200, "changed")
}
