//! What may be asked of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bulk::{BulkRef, TargetResult};
use crate::event::{Actor, Choice};
use crate::id::{FlowId, RunId};
use crate::json::{Json, Payload};
use crate::model::attempt::{AttemptId, Worker};
use crate::model::error::{Error, RunError};
use crate::model::labels::Labels;
use crate::model::log::AttemptLog;
use crate::model::nesting::Nesting;
use crate::model::run::{Origin, ParentAttempt, RunState};
use crate::model::unit::UnitRef;
use crate::thing::ThingRef;
use crate::time::{Millis, Time};

/// Something that is asked of one run.
#[derive(Clone, Debug)]
pub enum Command {
    /// Start it.
    Start(Box<Start>),
    /// Give it a slot under its flow's `concurrency`.
    Admit,
    /// Hand the queued attempt of a unit to a worker.
    Claim {
        unit: UnitRef,
        worker: Worker,
    },
    /// What a worker says about an attempt.
    Report {
        /// The attempt, from its token.
        attempt: AttemptId,
        /// What it says.
        report: Report,
    },
    /// The worker of this attempt is gone.
    Lost {
        attempt: AttemptId,
        /// Whether the worker was lost with other attempts too.
        with_others: bool,
    },
    /// A timer of this place has come due: do what is due by now.
    Due {
        /// The unit, or the run itself (its deadline).
        unit: Option<UnitRef>,
        /// The last sign of life of its attempt, if a heartbeat has moved the lease.
        heard: Option<Time>,
    },
    /// Choose for a held step.
    Choose {
        unit: UnitRef,
        choice: Choice,
        /// Who chose.
        by: Actor,
        /// The bulk action that it belongs to, which wants to know how one more attempt comes out.
        bulk: Option<BulkRef>,
    },
    /// Resume a step in error.
    Resume {
        /// Which; all of the run's if none.
        unit: Option<UnitRef>,
        by: Actor,
        reason: Option<Arc<str>>,
        /// What is changed before it is tried again.
        changes: Box<Changes>,
    },
    /// Leave a step in error alone: no policy resumes it, and it counts no more.
    Acknowledge {
        /// Which; all of the run's if none.
        unit: Option<UnitRef>,
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// A step was done by hand: it counts as completed.
    Complete {
        unit: UnitRef,
        /// What it put out.
        output: Json,
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// A step is not needed: what needs it goes on.
    Skip {
        unit: UnitRef,
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// Match a step in error with the policies again.
    ApplyPolicies {
        unit: UnitRef,
        /// Only with the policies of these names; with all if none.
        only: Option<Vec<Arc<str>>>,
        /// What would be due already is resumed so long after this is decided: a length of time, for whoever asks may have
        /// another clock, or the same one before it was set.
        after: Millis,
        by: Actor,
    },
    Pause {
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// Go on.
    Unpause {
        by: Actor,
    },
    Cancel {
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// Change its priority, labels or deadline.
    Amend {
        changes: Box<Amendment>,
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// Move it to another version of its flow.
    Migrate {
        /// Comes with the [context](crate::decide::Context) too.
        to: FlowId,
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// An external event.
    Signal {
        name: Arc<str>,
        /// What it carries.
        payload: Json,
        /// Who sent it.
        by: Actor,
    },
    /// Start the next generation of a final run.
    Rerun {
        /// What runs again.
        what: Rerun,
        /// What is changed before it does.
        changes: Box<Changes>,
        by: Actor,
    },
    /// Something another run has to say.
    Notice(Box<NoticeBody>),
}

/// What comes with a resume or a rerun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The input of the run.
    pub input: Option<Json>,
    /// The input of the step that is resumed, or of the one that is to run again.
    pub step_input: Option<Json>,
    /// The bulk action that it belongs to, which wants to know how it comes out.
    pub bulk: Option<BulkRef>,
    /// Of a rerun: a run that is under way is cancelled first, in the same decision.
    pub cancel_first: bool,
    /// Of a rerun: its deadline, if not the flow's.
    pub deadline: Option<NewDeadline>,
}

/// What is changed of a run that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendment {
    pub priority: Option<i32>,
    /// Its own labels by name: the new value, or none where the label is removed. Others stay.
    pub labels: BTreeMap<String, Option<String>>,
    pub deadline: Option<NewDeadline>,
}

/// A deadline that takes the place of the one that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewDeadline {
    /// So long from now on.
    After(Millis),
    At(Time),
    /// It has none any more.
    None,
}

/// The start of a run.
#[derive(Clone, Debug)]
pub struct Start {
    /// The id that it gets if it is new.
    pub run: RunId,
    /// Unique in its flow, if given.
    pub key: Option<Arc<str>>,
    pub input: StartInput,
    /// Its own labels. A run that the key has already keeps those that it was started with.
    pub labels: Option<Arc<Labels>>,
    pub priority: i32,
    /// Its deadline, if not the flow's.
    pub deadline: Option<Time>,
    /// Where it comes from.
    pub origin: Origin,
    /// The flow of the root run; `None` for a root run.
    pub root_flow: Option<Arc<str>>,
    /// Where it stands below its root run; nothing for a root.
    pub nesting: Option<Arc<Nesting>>,
    /// Where its local steps are executed, if not wherever the store is served.
    pub home: Option<Arc<str>>,
    /// What to do when the key has a run already.
    pub on_duplicate: OnDuplicate,
    /// Who started it.
    pub by: Actor,
}

/// The input of a new run.
#[derive(Clone, Debug)]
pub enum StartInput {
    /// From outside: checked, and kept where it is large.
    New(Json),
    /// From another run: already kept.
    Kept(Payload),
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

/// What a worker says about its attempt.
#[derive(Clone, Debug)]
pub enum Report {
    /// Work has begun.
    Start,
    /// It is alive, and how far it is.
    Heartbeat {
        /// How far, if it tells.
        progress: Option<Json>,
    },
    /// It is done.
    Complete { output: Json },
    /// It went wrong.
    Fail {
        error: Box<Error>,
        /// Whether trying again is pointless.
        fatal: bool,
    },
    /// Resources are lacking.
    Defer {
        /// For how long, if it knows.
        asked: Option<Millis>,
        lacking: Option<Arc<str>>,
    },
    /// The worker stops in good order and gives it back.
    Release,
    /// What it printed: for people, and no news about how it goes. It may come after the attempt has ended.
    Log(Box<AttemptLog>),
}

impl Report {
    /// Returns whether it is the last report about its attempt.
    pub fn ends_attempt(&self) -> bool {
        match self {
            Report::Start | Report::Heartbeat { .. } | Report::Log(_) => false,
            Report::Complete { .. } | Report::Fail { .. } | Report::Defer { .. } | Report::Release => true,
        }
    }
}

/// What a rerun of a final run does again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rerun {
    /// Goes on from the point of failure.
    Continue,
    /// Everything.
    All,
    /// These steps, with everything that depends on them.
    Steps(Vec<crate::model::flow::StepIndex>),
}

/// A message from a run to another thing, decided in the transaction of the first and delivered at least once.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Notice {
    /// Whom it is for.
    pub to: ThingRef,
    /// What it says.
    pub body: NoticeBody,
}

impl Notice {
    /// The run that it begins a child or handler for, if it begins one.
    pub fn begins_child_of(&self) -> Option<RunId> {
        match &self.body {
            NoticeBody::StartChild(child) => child.origin.parent(),
            NoticeBody::ContinueChild { .. }
            | NoticeBody::CancelChild { .. }
            | NoticeBody::PauseChild
            | NoticeBody::UnpauseChild
            | NoticeBody::AmendChild { .. }
            | NoticeBody::ChildChanged { .. }
            | NoticeBody::ChildEnded { .. }
            | NoticeBody::TargetEnded { .. } => None,
        }
    }
}

/// What runs tell each other, and bulk actions. Each is recognised when it comes twice.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum NoticeBody {
    /// To a run that does not exist yet: start.
    StartChild(Box<StartChild>),
    /// To a child: go on as the next generation.
    ContinueChild {
        /// For this attempt.
        serves: ParentAttempt,
        /// The priority that it has then; the one that it had, in notices of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i32>,
    },
    /// To a child: cancel, if it still works for this attempt.
    CancelChild { serves: ParentAttempt },
    /// To a child: pause.
    PauseChild,
    /// To a child: go on.
    UnpauseChild,
    /// To a child: the priority that it has now.
    AmendChild { priority: i32 },
    /// To a parent: what the child is doing now.
    ChildChanged { child: ChildRef, state: RunState },
    /// To a parent: the child has ended.
    ChildEnded { child: ChildRef, how: ChildEnd },
    /// To a bulk action: how a target came out that it had set going.
    TargetEnded {
        /// The place of the target.
        place: u64,
        result: TargetResult,
    },
}

/// The start of a child or handler.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StartChild {
    /// The name of its flow; the newest version of it.
    pub flow: Arc<str>,
    pub input: Payload,
    /// Where it comes from.
    pub origin: Origin,
    /// The flow of the root run.
    pub root_flow: Arc<str>,
    /// Where it stands below its root run; nothing for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nesting: Option<Arc<Nesting>>,
    /// Where its local steps are executed, if not wherever the store is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Arc<str>>,
    pub priority: i32,
}

/// A child as its parent knows it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ChildRef {
    pub run: RunId,
    /// Where the parent keeps it.
    pub origin: Origin,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum ChildEnd {
    /// With this output.
    Completed(Payload),
    /// With this error.
    Failed(Box<RunError>),
    /// It was cancelled.
    Cancelled,
}

impl Command {
    /// A rerun that changes no input.
    pub fn rerun(what: Rerun, by: Actor) -> Command {
        Command::Rerun { what, changes: Box::default(), by }
    }

    /// Why, in the words of a person.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Command::Resume { reason, .. }
            | Command::Acknowledge { reason, .. }
            | Command::Complete { reason, .. }
            | Command::Skip { reason, .. }
            | Command::Pause { reason, .. }
            | Command::Amend { reason, .. }
            | Command::Migrate { reason, .. }
            | Command::Cancel { reason, .. } => reason.as_deref(),
            Command::Start(_)
            | Command::Admit
            | Command::Claim { .. }
            | Command::Lost { .. }
            | Command::Due { .. }
            | Command::Notice(_)
            | Command::Report { .. }
            | Command::Choose { .. }
            | Command::ApplyPolicies { .. }
            | Command::Unpause { .. }
            | Command::Signal { .. }
            | Command::Rerun { .. } => None,
        }
    }

    /// Who is behind it.
    pub fn actor(&self) -> Actor {
        match self {
            Command::Start(start) => start.by.clone(),
            Command::Admit
            | Command::Claim { .. }
            | Command::Lost { .. }
            | Command::Due { .. }
            | Command::Notice(_) => Actor::Engine,
            Command::Report { .. } => Actor::Worker,
            Command::Choose { by, .. }
            | Command::Resume { by, .. }
            | Command::Acknowledge { by, .. }
            | Command::Complete { by, .. }
            | Command::Skip { by, .. }
            | Command::ApplyPolicies { by, .. }
            | Command::Pause { by, .. }
            | Command::Unpause { by }
            | Command::Cancel { by, .. }
            | Command::Amend { by, .. }
            | Command::Migrate { by, .. }
            | Command::Signal { by, .. }
            | Command::Rerun { by, .. } => by.clone(),
        }
    }
}
