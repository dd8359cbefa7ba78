//! What may be asked, as it travels.

use serde::{Deserialize, Serialize};

/// A question or an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Asked {
    /// Something that changes nothing.
    Read(Reading),
    /// Something that changes a run.
    Change(Change),
}

/// What can be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reading {
    /// The process that has the store open.
    Owner,
    /// A page of runs.
    Runs(Wanted),
    /// The run document.
    Show { run: String },
    /// An explanation, for programs.
    Explain { run: String },
    /// An explanation, for people.
    ExplainPage { run: String },
    /// A page of a run's history.
    History { run: String, after: u64, limit: usize },
}

/// Which runs to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    pub(crate) state: Option<unstuck_core::model::run::RunState>,
    pub(crate) flow: Option<String>,
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
    Resume {
        step: Option<String>,
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
    Rerun(Again),
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
    /// Whether it does no harm to ask again where nobody knows whether it was done.
    pub(crate) fn may_be_repeated(&self) -> bool {
        match self {
            Asked::Read(_) => true,
            Asked::Change(change) => match change.what {
                What::Pause { .. } | What::Unpause | What::Cancel { .. } => true,
                What::Choose { .. }
                | What::Resume { .. }
                | What::Signal { .. }
                | What::Rerun(_)
                | What::Forget => false,
            },
        }
    }
}
