//! What may be asked, as it travels: queries, and requests that change runs, policies and bulk actions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bulk::ResultKind;
use crate::http::StartBody;
use crate::policies::PolicyDocument;
use crate::runs::RunState;

/// A question or an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Something that changes nothing.
    Query(Query),
    /// Something that changes a run.
    Change(RunRequest),
    /// Something that changes policies, or what they have scheduled.
    Policies(PolicyRequest),
    /// Something that is done to many runs, or to what does it.
    Bulk(BulkRequest),
    /// A run to start.
    Start(Box<StartRequest>),
    /// Flows to apply or delete.
    Flows(FlowRequest),
    /// Something that changes tokens of the API.
    Tokens(TokenRequest),
    /// Something that is done to the schedule of a flow.
    Schedule(ScheduleRequest),
}

/// A run to start, and who asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRequest {
    pub by: String,
    pub start: StartBody,
}

/// Something that is asked about flows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowRequest {
    pub by: String,
    pub reason: Option<String>,
    pub what: FlowOperation,
}

/// What is asked about flows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FlowOperation {
    /// Apply a file, as a whole or not at all.
    Apply {
        text: String,
        /// Its name, for problems.
        file: String,
        /// The folder that relative paths of local processes start from.
        directory: String,
        /// Whether nothing is changed.
        dry_run: bool,
    },
    /// A flow, or a version of it, can be started no more.
    Delete { flow: String, version: Option<String> },
    /// Runs are moved to another version.
    Migrate(MigrateFlow),
}

/// Which runs of a flow are moved to which version.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrateFlow {
    pub flow: String,
    /// The newest that can be started, where there is none.
    pub to: Option<String>,
    /// Only runs of this version.
    pub from: Option<String>,
    /// Only these runs; all that are open where there are none.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// How many runs are looked at.
    pub limit: usize,
    /// The end of the page before, as it was given there.
    pub after: Option<String>,
}

/// What can be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Query {
    /// The process that has the store open.
    Owner,
    /// That process, and the run that it executes.
    Executing,
    /// The run that has a key, unless its input was another one, or starting it is to do something else.
    Key {
        flow: String,
        key: String,
        input: String,
        #[serde(default)]
        on_duplicate: OnDuplicate,
    },
    /// What needs a person, who executes, what comes next.
    Status,
    /// A page of runs.
    Runs(Box<RunsQuery>),
    Counts(Box<CountsQuery>),
    /// The run document.
    Show {
        run: String,
        #[serde(default)]
        options: DocumentOptions,
    },
    /// A page of the items of `forEach` steps.
    Items(ItemsQuery),
    /// An input or output of a run, a step or an item, as it is: `input`, `output`, `fetch.input`, `fetch[3].output`.
    Payload {
        run: String,
        of: String,
    },
    /// An explanation, for programs.
    Explain {
        run: String,
    },
    /// An explanation, for people.
    ExplainPage {
        run: String,
        #[serde(default)]
        columns: Option<usize>,
        /// Without what happened, for somebody who has watched the run.
        #[serde(default)]
        without_happened: bool,
    },
    /// A page of a run's history.
    History {
        run: String,
        after: u64,
        limit: usize,
    },
    /// What the attempts of a run printed; of one step, if so wanted.
    Logs {
        run: String,
        step: Option<String>,
    },
    /// The policies, in the order in which they match, and what they have done.
    Policies,
    /// One of them, and what was changed of it.
    Policy {
        name: String,
    },
    /// Policies as they are kept; all of them, or those of these names.
    Kept {
        names: Vec<String>,
    },
    /// A page of what was changed of policies.
    Audit {
        name: Option<String>,
        before: Option<u64>,
        limit: usize,
    },
    /// What a policy would do, or would have done.
    Trial(TrialQuery),
    /// Groups of errors.
    Errors(ErrorsQuery),
    /// One of them, and what is in error now.
    ErrorGroup {
        group: String,
    },
    /// A page of what is in error now in a group.
    OpenErrors {
        group: String,
        after: Option<String>,
        limit: usize,
    },
    /// A page of the errors that a group has had, newest first.
    ErrorRecords(ErrorRecordsQuery),
    /// Whether the second of two names is a step of the run that the first names, or another run.
    Names {
        first: String,
        second: String,
    },
    /// Schedules, in order of the names of their flows.
    Schedules {
        after: Option<String>,
        limit: usize,
    },
    /// The schedule of a flow.
    Schedule {
        flow: String,
    },
    /// Bulk actions, newest first.
    Bulks {
        open_only: bool,
        after: Option<String>,
        limit: usize,
    },
    /// One of them, as it stands.
    Bulk {
        bulk: String,
    },
    /// A page of its targets; those with one result, if so wanted.
    BulkTargets {
        bulk: String,
        #[serde(default)]
        result: Option<ResultKind>,
        from: u64,
        limit: usize,
    },
    /// The flows that can be started, by name.
    Flows {
        after: Option<String>,
        limit: usize,
    },
    /// A version of a flow: the newest, or the one that is named.
    Flow {
        flow: String,
        version: Option<String>,
    },
    /// Tokens of the API; without `all`, those that let somebody in.
    Tokens {
        all: bool,
    },
}

/// How much of a run its document has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentOptions {
    /// A generation before this one, as it ended.
    #[serde(default)]
    pub generation: Option<u32>,
    /// The first so many items of each `forEach`; all where there is no number.
    #[serde(default)]
    pub items: Option<u32>,
    /// Without what flows and workers have put into the run.
    #[serde(default)]
    pub leaves_out_payloads: bool,
}

/// Which items of a run to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemsQuery {
    pub run: String,
    /// Of this step; of all that have items where none is named.
    pub step: Option<String>,
    /// In any of these states.
    pub states: Vec<String>,
    pub limit: usize,
    /// The end of the page before, as it was given there.
    pub after: Option<String>,
    /// Without what flows and workers have put into the run.
    #[serde(default)]
    pub leaves_out_payloads: bool,
}

impl Query {
    /// The whole document of a run.
    pub fn show(run: impl Into<String>) -> Query {
        Query::Show { run: run.into(), options: DocumentOptions::default() }
    }
}

/// Something that is asked about tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRequest {
    pub by: String,
    pub reason: Option<String>,
    pub what: TokenOperation,
}

/// What is asked about tokens, each by its name or id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TokenOperation {
    Create(NewTokenRequest),
    Revoke {
        token: String,
    },
    /// The old secret is good for so long.
    Rotate {
        token: String,
        overlap_ms: u64,
    },
}

/// A token to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTokenRequest {
    pub name: String,
    pub role: String,
    #[serde(default)]
    pub actions: Vec<String>,
    #[serde(default)]
    pub flows: Vec<String>,
    pub origin: Option<String>,
    /// Whether it may read payloads; it may unless this says otherwise.
    pub payloads: Option<bool>,
    pub expires_in_ms: Option<u64>,
}

/// Something that is asked about the schedule of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRequest {
    pub by: String,
    pub flow: String,
    pub reason: Option<String>,
    pub what: ScheduleOperation,
}

/// What is asked about a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScheduleOperation {
    Pause,
    Unpause,
    /// Start a run now.
    Fire,
}

/// Something that is asked about bulk actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkRequest {
    pub by: String,
    pub what: BulkOperation,
}

/// What is asked about bulk actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkOperation {
    Begin(Box<NewBulk>),
    Pause { bulk: String },
    Unpause { bulk: String },
    Cancel { bulk: String },
}

/// An order for many runs: named, or by what they have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewBulk {
    pub action: BulkVerb,
    pub runs: Vec<String>,
    pub group: Option<String>,
    pub flow: Option<String>,
    pub policy: Option<String>,
    pub state: Option<RunState>,
    #[serde(default)]
    pub include_acknowledged: bool,
    /// Only what needs a person.
    #[serde(default)]
    pub needs_person: bool,
    /// Only runs with these labels, as in [`RunsQuery`].
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    #[serde(default)]
    pub max: Option<u64>,
    pub rate: Option<u32>,
    pub canary: Option<u32>,
    pub reason: Option<String>,
    pub dry_run: bool,
}

/// What is done to each. Inputs, outputs and payloads are the texts of some JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkVerb {
    Resume {
        input: Option<String>,
        step_input: Option<String>,
    },
    Acknowledge,
    Cancel,
    Rerun {
        again: RerunScope,
        input: Option<String>,
        step_input: Option<String>,
    },
    /// Every held step, or those of one name.
    Choose {
        choice: Choice,
        step: Option<String>,
    },
    Signal {
        name: String,
        payload: String,
    },
    Skip {
        step: String,
    },
    Complete {
        step: String,
        output: String,
    },
    Forget,
}

/// Which policies to try on which errors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialQuery {
    pub policies: PolicyToTry,
    /// The span of time of a backtest; without it, a preview on what is in error now.
    pub past: Option<PastErrors>,
}

/// Errors of a span of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastErrors {
    #[serde(with = "crate::json_form::time")]
    pub since: Timestamp,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub until: Option<Timestamp>,
}

/// Policies that are tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyToTry {
    /// As they were written.
    Drafts(Vec<PolicyDocument>),
    /// One that is kept.
    Named(String),
}

/// Which groups of errors to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorsQuery {
    pub flow: Option<String>,
    pub action: Option<String>,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub since: Option<Timestamp>,
    /// Only groups with a step that is in error now and that nobody has acknowledged.
    #[serde(default)]
    pub open_only: bool,
    pub limit: usize,
    /// The end of the page before, as it was given there.
    pub after: Option<String>,
}

/// Which errors of a group to list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRecordsQuery {
    pub group: String,
    /// At this time or later.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub since: Option<Timestamp>,
    /// Before this time.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub until: Option<Timestamp>,
    pub limit: usize,
    /// The end of the page before, as it was given there.
    pub after: Option<String>,
}

/// Something that is asked about policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRequest {
    pub by: String,
    /// Whether nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
    pub what: PolicyOperation,
}

/// What is asked about policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyOperation {
    Load {
        /// As they were written: what is left out is up to the store.
        drafts: Vec<PolicyDocument>,
        replace: bool,
    },
    /// These, and no others.
    Set {
        drafts: Vec<PolicyDocument>,
    },
    /// All of them, the first to match first.
    Order {
        names: Vec<String>,
    },
    Enable {
        names: Vec<String>,
    },
    Disable {
        names: Vec<String>,
    },
    Delete {
        names: Vec<String>,
    },
    Pause {
        reason: String,
    },
    /// What has waited resumes at most so many times a second.
    Unpause {
        rate: u32,
    },
    /// All of them, where there are no names; so many steps a second.
    Apply {
        names: Vec<String>,
        rate: u32,
        #[serde(default)]
        reason: Option<String>,
    },
}

/// Which runs to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunsQuery {
    /// In any of these states, or with a step in them.
    pub states: Vec<RunState>,
    pub flow: Option<String>,
    pub key: Option<String>,
    /// With a key that begins with one of these.
    #[serde(default)]
    pub key_prefixes: Vec<String>,
    /// By name and value, of the run or else of its flow; of several values of one name any, of several names all.
    pub labels: Vec<(String, String)>,
    /// Of one of these versions of its flow.
    #[serde(default)]
    pub versions: Vec<String>,
    /// With a step of one of these kinds.
    #[serde(default)]
    pub has: Vec<StepMark>,
    /// Whose next automatic resume one of these policies has scheduled, by name or id.
    #[serde(default)]
    pub policies: Vec<String>,
    /// With an attempt of one of these actions that is queued, active or in error, by short or full name.
    #[serde(default)]
    pub actions: Vec<String>,
    /// With an attempt that one of these workers holds.
    #[serde(default)]
    pub workers: Vec<String>,
    /// Children and handlers of this run.
    #[serde(default)]
    pub parent: Option<String>,
    /// All runs below this one.
    #[serde(default)]
    pub root: Option<String>,
    /// Changed at this time or later.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub updated_since: Option<Timestamp>,
    /// Started at this time or later.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub since: Option<Timestamp>,
    /// Started before this time.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub until: Option<Timestamp>,
    /// With an error of this group, open or past.
    pub group: Option<String>,
    /// With an error whose cause contains this.
    pub cause: Option<String>,
    /// Children and handlers too.
    pub all: bool,
    pub limit: usize,
    #[serde(default)]
    pub sort: RunSort,
    /// Where the page before says that the list goes on; by start also a run.
    pub after: Option<String>,
}

/// What a step of a run may be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepMark {
    Error,
    Held,
    /// In error, and acknowledged.
    Acknowledged,
    /// In error, and a policy has scheduled its resume.
    Scheduled,
}

impl StepMark {
    pub const ALL: [StepMark; 4] =
        [StepMark::Error, StepMark::Held, StepMark::Acknowledged, StepMark::Scheduled];

    pub fn word(self) -> &'static str {
        match self {
            StepMark::Error => "error",
            StepMark::Held => "held",
            StepMark::Acknowledged => "acknowledged",
            StepMark::Scheduled => "scheduled",
        }
    }
}

/// The order of a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunSort {
    /// Started last first.
    #[default]
    #[serde(rename = "-created")]
    Created,
    /// Changed last first.
    #[serde(rename = "-updated")]
    Updated,
    /// Resumed first first; only those that a policy resumes.
    #[serde(rename = "nextAutoResume")]
    NextAutoResume,
}

impl RunSort {
    pub const ALL: [RunSort; 3] = [RunSort::Created, RunSort::Updated, RunSort::NextAutoResume];

    pub fn word(self) -> &'static str {
        match self {
            RunSort::Created => "-created",
            RunSort::Updated => "-updated",
            RunSort::NextAutoResume => "nextAutoResume",
        }
    }
}

/// Which runs to count, and by what. Of the filters, order and page mean nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountsQuery {
    pub filter: RunsQuery,
    pub by: CountBy,
}

/// What runs are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CountBy {
    State,
    Flow,
    /// The groups of their open errors: a run counts in each.
    Group,
    /// The full names of actions with an attempt that is queued, active or in error: a run counts in each.
    Action,
}

impl CountBy {
    pub const ALL: [CountBy; 4] = [CountBy::State, CountBy::Flow, CountBy::Group, CountBy::Action];

    pub fn word(self) -> &'static str {
        match self {
            CountBy::State => "state",
            CountBy::Flow => "flow",
            CountBy::Group => "group",
            CountBy::Action => "action",
        }
    }
}

/// Something that is asked of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// However the run was named.
    pub run: String,
    pub by: String,
    pub what: RunOperation,
}

/// What is asked of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOperation {
    Choose {
        step: String,
        choice: Choice,
    },
    /// Inputs are the texts of some JSON.
    Resume {
        step: Option<String>,
        reason: Option<String>,
        input: Option<String>,
        step_input: Option<String>,
    },
    Acknowledge {
        step: Option<String>,
        reason: String,
    },
    /// The output is the text of some JSON.
    Complete {
        step: String,
        output: String,
        reason: Option<String>,
    },
    Skip {
        step: String,
        reason: Option<String>,
    },
    Pause {
        reason: Option<String>,
    },
    Unpause,
    Cancel {
        reason: Option<String>,
    },
    Amend(AmendRequest),
    /// To a version of its flow; to the newest where there is none.
    Migrate {
        to: Option<String>,
        dry_run: bool,
        reason: Option<String>,
    },
    /// The payload is the text of some JSON.
    Signal {
        name: String,
        payload: String,
    },
    /// Inputs are the texts of some JSON.
    Rerun {
        again: RerunScope,
        #[serde(default)]
        input: Option<String>,
        #[serde(default)]
        step_input: Option<String>,
        #[serde(default)]
        options: RerunOptions,
    },
    Forget,
}

/// How a run is rerun.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RerunOptions {
    /// A run that is under way is cancelled first.
    pub cancel_first: bool,
    /// How long it may take, or until when, if not as its flow says.
    pub deadline: Option<String>,
    /// Whether nothing is changed.
    pub dry_run: bool,
}

/// What is changed of a run that is under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AmendRequest {
    pub priority: Option<i32>,
    /// By name: the new value, or none where the label is removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// How long from now on, until when, or `none`.
    pub deadline: Option<String>,
    pub reason: Option<String>,
}

/// What an operator may choose for a held step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice {
    /// One more attempt in the same round.
    Retry,
    /// Leave it failed.
    None,
}

/// What a start does when its key has a run already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDuplicate {
    /// Returns that run.
    #[default]
    Return,
    /// Returns that run, or starts its next generation if it is final.
    RestartIfFinal,
    /// Refuses it.
    Refuse,
}

/// What a rerun does again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RerunScope {
    Continue,
    All,
    Steps(Vec<String>),
}

impl Request {
    /// Returns who asks, if it changes something.
    pub fn by(&self) -> Option<&str> {
        match self {
            Request::Query(_) => None,
            Request::Change(request) => Some(&request.by),
            Request::Policies(request) => Some(&request.by),
            Request::Bulk(request) => Some(&request.by),
            Request::Tokens(request) => Some(&request.by),
            Request::Start(request) => Some(&request.by),
            Request::Flows(request) => Some(&request.by),
            Request::Schedule(request) => Some(&request.by),
        }
    }

    /// Returns whether handling the request may take long because of its size, even on an idle engine.
    pub fn takes_long(&self) -> bool {
        let applies = |request: &PolicyRequest| {
            matches!(request.what, PolicyOperation::Apply { .. } | PolicyOperation::Unpause { .. })
        };
        match self {
            Request::Query(query) => matches!(query, Query::Trial(_)),
            Request::Policies(request) => applies(request),
            Request::Bulk(request) => matches!(request.what, BulkOperation::Begin(_)),
            Request::Flows(request) => matches!(request.what, FlowOperation::Migrate(_)),
            Request::Change(_) | Request::Start(_) | Request::Tokens(_) | Request::Schedule(_) => false,
        }
    }

    /// Returns whether the request can safely be sent again if its outcome is unknown.
    pub fn may_be_repeated(&self) -> bool {
        match self {
            Request::Query(_) | Request::Flows(_) => true,
            // With a key it is the same run.
            Request::Start(request) => request.start.key.is_some(),
            Request::Policies(request) if request.dry_run => true,
            Request::Policies(request) => match request.what {
                PolicyOperation::Set { .. }
                | PolicyOperation::Order { .. }
                | PolicyOperation::Enable { .. }
                | PolicyOperation::Disable { .. }
                | PolicyOperation::Pause { .. }
                | PolicyOperation::Unpause { .. }
                | PolicyOperation::Apply { .. } => true,
                PolicyOperation::Load { .. } | PolicyOperation::Delete { .. } => false,
            },
            Request::Tokens(request) => matches!(request.what, TokenOperation::Revoke { .. }),
            Request::Schedule(request) => request.what != ScheduleOperation::Fire,
            Request::Bulk(request) => match &request.what {
                BulkOperation::Begin(begin) => begin.dry_run,
                BulkOperation::Pause { .. }
                | BulkOperation::Unpause { .. }
                | BulkOperation::Cancel { .. } => true,
            },
            Request::Change(change) => match &change.what {
                RunOperation::Rerun { options, .. } => options.dry_run,
                RunOperation::Pause { .. }
                | RunOperation::Unpause
                | RunOperation::Cancel { .. }
                | RunOperation::Amend(_)
                | RunOperation::Migrate { .. }
                | RunOperation::Acknowledge { .. }
                | RunOperation::Complete { .. }
                | RunOperation::Skip { .. } => true,
                RunOperation::Choose { .. }
                | RunOperation::Resume { .. }
                | RunOperation::Signal { .. }
                | RunOperation::Forget => false,
            },
        }
    }
}
