//! The bodies of HTTP requests. Absent and `null` mean the same; an unknown field is refused. Payloads travel as the text that
//! came.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::policies::PolicyDocument;
use crate::request::{Choice, OnDuplicate};
use crate::runs::RunState;

/// A run to start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartBody {
    /// The name of its flow.
    pub flow: String,
    /// Its input; an empty object where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// Unique in its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What to do when the key has a run already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_duplicate: Option<OnDuplicate>,
    /// The version of the flow; its newest where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long it may take, such as `2h`, or until when, such as `2030-01-31T08:30:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// By name.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Runs to start, each decided by itself, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartManyBody {
    pub runs: Vec<StartBody>,
}

/// Resumes what is in error: one step, or all of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// A new input of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// A new input of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_input: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Takes errors out of automatic resumption.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcknowledgeBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub reason: String,
}

/// Chooses for a held step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChooseBody {
    pub step: String,
    pub choice: Choice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Completes a step by hand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteBody {
    pub step: String,
    /// What it puts out; `null` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Skips a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkipBody {
    pub step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why something is done, and nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReasonBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Changes a run that is under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AmendBody {
    /// Higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// By name: the new value, or `null` where the label is removed. Others stay.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// How long it may take from now on, such as `2h`, until when, such as `2030-01-31T08:30:00Z`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Moves a run to another version of its flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrateBody {
    /// The newest that can be started, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Moves runs of a flow to another version of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrateFlowBody {
    /// The newest that can be started, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Only runs of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Only these runs; all that are open where there are none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Sends a signal to a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalBody {
    pub name: String,
    /// `null` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
}

/// Sends a signal to the run of a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeySignalBody {
    pub flow: String,
    pub key: String,
    pub name: String,
    /// `null` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
}

/// Runs a final run again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RerunBody {
    /// Where the run is continued, if not from the point of failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<RerunWhat>,
    /// For `steps`: these, and everything that depends on them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// A new input of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// A new input of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_input: Option<Box<RawValue>>,
    /// Whether a run that is under way is cancelled first.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub cancel_first: bool,
    /// How long it may take, such as `2h`, or until when, if not as its flow says; `none` for no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a rerun does again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RerunWhat {
    /// From the point of failure on.
    Continue,
    /// Everything.
    All,
    /// Some steps, and what depends on them.
    Steps,
}

/// What became of runs that were to be started, in the same order: each the run, or the problem.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedManyView {
    pub results: Vec<Box<RawValue>>,
}

/// Which policies to try, on what is in error now or, with `since`, on errors of the past.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialBody {
    /// As they would be written.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyDocument>,
    /// Those that are kept.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// For a backtest: errors of this time and later; an instant, or an age such as `7d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// For a backtest: errors before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Applies policies to what is in error.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyBody {
    /// All of them, where there are none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// So many steps a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Policies by their names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamesBody {
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Pauses all automatic resumes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PausePoliciesBody {
    pub reason: String,
}

/// Lets automatic resumes go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnpausePoliciesBody {
    /// What has waited resumes at most so many times a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// An order for many runs: named, or by what they have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkBody {
    pub action: BulkAction,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Only runs whose flow has all of these.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub include_acknowledged: bool,
    /// Only what needs a person.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub needs_person: bool,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// So many a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// So many first; the others when these have gone well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For `resume` and `rerun`: a new input of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// For `resume` and `rerun`: a new input of each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_input: Option<Box<RawValue>>,
    /// For `rerun`: what is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<RerunWhat>,
    /// For `rerun` of steps: which.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// For `choose`, `skip` and `complete`: the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// For `choose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// For `signal`: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For `signal`: what it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// For `complete`: what the step puts out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
}

impl BulkBody {
    /// This, done to nothing yet.
    pub fn new(action: BulkAction) -> BulkBody {
        BulkBody {
            action,
            runs: Vec::new(),
            group: None,
            flow: None,
            policy: None,
            state: None,
            labels: BTreeMap::new(),
            include_acknowledged: false,
            needs_person: false,
            max: None,
            rate: None,
            canary: None,
            reason: None,
            input: None,
            step_input: None,
            what: None,
            steps: Vec::new(),
            step: None,
            choice: None,
            name: None,
            payload: None,
            output: None,
        }
    }
}

/// What is done to each run of a bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkAction {
    Resume,
    Ack,
    Cancel,
    Rerun,
    Choose,
    Signal,
    Skip,
    Complete,
    Forget,
}

/// A token to make.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenBody {
    pub name: String,
    pub role: String,
    /// The actions that a worker may take; all if none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The flows that a client may start; all if none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<String>,
    /// The name of the server that a peer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether it may read payloads; it may unless this says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads: Option<bool>,
    /// How long it is good, such as `90d`; without end where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Gives a token another secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateBody {
    /// How long the old secret is still good; 24 hours where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Reads `null` as if the field were absent.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
