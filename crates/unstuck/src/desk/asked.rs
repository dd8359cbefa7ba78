//! What may be asked, as it travels.

use serde::{Deserialize, Serialize};
use unstuck_core::command::OnDuplicate;
use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Time;

/// A question or an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Asked {
    /// Something that changes nothing.
    Read(Reading),
    /// Something that changes a run.
    Change(Change),
    /// Something that changes policies, or what they have scheduled.
    Policies(PolicyWish),
    /// Something that is done to many runs, or to what does it.
    Bulk(BulkWish),
}

/// What can be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reading {
    /// The process that has the store open.
    Owner,
    /// That process, and the run that it executes.
    Driven,
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
    Runs(Wanted),
    /// The run document.
    Show { run: String },
    /// An explanation, for programs.
    Explain { run: String },
    /// An explanation, for people.
    ExplainPage {
        run: String,
        #[serde(default)]
        columns: Option<usize>,
    },
    /// A page of a run's history.
    History { run: String, after: u64, limit: usize },
    /// What the attempts of a run printed; of one step, if so wanted.
    Logs { run: String, step: Option<String> },
    /// The policies, in the order in which they match, and what they have done.
    Policies,
    /// One of them, and what was changed of it.
    Policy { name: String },
    /// Policies as they are kept; all of them, or those of these names.
    Kept { names: Vec<String> },
    /// A page of what was changed of policies.
    Audit { name: Option<String>, before: Option<u64>, limit: usize },
    /// What a policy would do, or would have done.
    Trial(TrialOf),
    /// Groups of errors.
    Errors(WantedErrors),
    /// One of them, and what is in error now.
    ErrorGroup { group: String },
    /// Whether the second of two names is a step of the run that the first names, or another run.
    Names { first: String, second: String },
    /// Bulk actions, newest first.
    Bulks { open_only: bool, limit: usize },
    /// One of them, as it stands.
    Bulk { bulk: String },
    /// A page of its targets.
    BulkTargets { bulk: String, from: u64, limit: usize },
}

/// Something that is asked about bulk actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkWish {
    /// Who asks.
    pub(crate) by: String,
    pub(crate) what: BulkWhat,
}

/// What is asked about bulk actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum BulkWhat {
    Begin(Box<BulkBegin>),
    Pause { bulk: String },
    Unpause { bulk: String },
    Cancel { bulk: String },
}

/// An order for many runs: named, or by what they have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkBegin {
    pub(crate) action: BulkAct,
    pub(crate) runs: Vec<String>,
    pub(crate) group: Option<String>,
    pub(crate) flow: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) state: Option<unstuck_core::model::run::RunState>,
    #[serde(default)]
    pub(crate) include_acknowledged: bool,
    /// Only what needs a person.
    #[serde(default)]
    pub(crate) needs_person: bool,
    /// Only runs whose flow has all of these, by name and value.
    #[serde(default)]
    pub(crate) labels: Vec<(String, String)>,
    #[serde(default)]
    pub(crate) max: Option<u64>,
    pub(crate) rate: Option<u32>,
    pub(crate) canary: Option<u32>,
    pub(crate) reason: Option<String>,
    pub(crate) dry_run: bool,
}

/// What is done to each. Inputs, outputs and payloads are the texts of some JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum BulkAct {
    Resume {
        input: Option<String>,
        step_input: Option<String>,
    },
    Acknowledge,
    Cancel,
    Rerun {
        again: Again,
        input: Option<String>,
        step_input: Option<String>,
    },
    /// Every held step, or those of one name.
    Choose {
        choice: unstuck_core::event::Choice,
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
pub(crate) struct TrialOf {
    pub(crate) policies: Tried,
    /// The span of time of a backtest; without it, a preview on what is in error now.
    pub(crate) past: Option<(Time, Option<Time>)>,
}

/// Policies that are tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Tried {
    /// As they were written.
    Drafts(Vec<PolicyDraft>),
    /// One that is kept.
    Named(String),
}

/// Which groups of errors to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WantedErrors {
    pub(crate) flow: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) since: Option<Time>,
    pub(crate) limit: usize,
}

/// Something that is asked about policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyWish {
    /// Who asks.
    pub(crate) by: String,
    pub(crate) what: PolicyWhat,
}

/// What is asked about policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PolicyWhat {
    Load {
        drafts: Vec<PolicyDraft>,
        replace: bool,
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
        pace: u32,
    },
}

/// Which runs to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    /// In any of these states, or with a step in them.
    pub(crate) states: Vec<unstuck_core::model::run::RunState>,
    pub(crate) flow: Option<String>,
    pub(crate) key: Option<String>,
    /// All of these, by name and value.
    pub(crate) labels: Vec<(String, String)>,
    /// Started at this time or later.
    pub(crate) since: Option<Time>,
    /// Started before this time.
    pub(crate) until: Option<Time>,
    /// With an error of this group, open or past.
    pub(crate) group: Option<String>,
    /// With an error whose cause contains this.
    pub(crate) cause: Option<String>,
    /// Children and handlers too.
    pub(crate) all: bool,
    pub(crate) limit: usize,
    /// The last run of the page before.
    pub(crate) after: Option<String>,
}

/// Something that is asked of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// However the run was named.
    pub(crate) run: String,
    /// Who asks.
    pub(crate) by: String,
    pub(crate) what: What,
}

/// What is asked of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum What {
    Choose {
        step: String,
        choice: unstuck_core::event::Choice,
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
    /// The payload is the text of some JSON.
    Signal {
        name: String,
        payload: String,
    },
    /// Inputs are the texts of some JSON.
    Rerun {
        again: Again,
        #[serde(default)]
        input: Option<String>,
        #[serde(default)]
        step_input: Option<String>,
    },
    Forget,
}

/// What a rerun does again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Again {
    Continue,
    All,
    Steps(Vec<String>),
}

impl Asked {
    /// Whether it may take long, however fast whoever is asked may be.
    pub(crate) fn takes_long(&self) -> bool {
        let applies =
            |wish: &PolicyWish| matches!(wish.what, PolicyWhat::Apply { .. } | PolicyWhat::Unpause { .. });
        match self {
            Asked::Read(reading) => matches!(reading, Reading::Trial(_)),
            Asked::Policies(wish) => applies(wish),
            Asked::Bulk(wish) => matches!(wish.what, BulkWhat::Begin(_)),
            Asked::Change(_) => false,
        }
    }

    /// Whether it does no harm to ask again where nobody knows whether it was done.
    pub(crate) fn may_be_repeated(&self) -> bool {
        match self {
            Asked::Read(_) => true,
            Asked::Policies(wish) => match wish.what {
                PolicyWhat::Enable { .. }
                | PolicyWhat::Disable { .. }
                | PolicyWhat::Pause { .. }
                | PolicyWhat::Unpause { .. }
                | PolicyWhat::Apply { .. } => true,
                PolicyWhat::Load { .. } | PolicyWhat::Delete { .. } => false,
            },
            Asked::Bulk(wish) => match &wish.what {
                BulkWhat::Begin(begin) => begin.dry_run,
                BulkWhat::Pause { .. } | BulkWhat::Unpause { .. } | BulkWhat::Cancel { .. } => true,
            },
            Asked::Change(change) => match change.what {
                What::Pause { .. }
                | What::Unpause
                | What::Cancel { .. }
                | What::Acknowledge { .. }
                | What::Complete { .. }
                | What::Skip { .. } => true,
                What::Choose { .. }
                | What::Resume { .. }
                | What::Signal { .. }
                | What::Rerun { .. }
                | What::Forget => false,
            },
        }
    }
}
