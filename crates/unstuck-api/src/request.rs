//! What may be asked, as it travels: queries, which are in a file of their own, and requests that change something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::http::StartBody;
use crate::policies::PolicyDocument;
use crate::runs::RunState;

pub use crate::query::{
    CountBy, CountsQuery, DocumentOptions, ErrorRecordsQuery, ErrorsQuery, ItemsQuery, PastErrors,
    PolicyToTry, Query, RunSort, RunsQuery, StepMark, TrialQuery,
};

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
        /// Whether runs of earlier versions are moved to these.
        #[serde(default)]
        migrate: bool,
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
            Request::Flows(request) => {
                matches!(request.what, FlowOperation::Migrate(_) | FlowOperation::Apply { migrate: true, .. })
            }
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
