//! What may be read, as it travels.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bulk::ResultKind;
use crate::policies::PolicyDocument;
use crate::request::OnDuplicate;
use crate::runs::RunState;

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

impl Query {
    /// The whole document of a run.
    pub fn show(run: impl Into<String>) -> Query {
        Query::Show { run: run.into(), options: DocumentOptions::default() }
    }
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
