//! What may be done in a plan: by callers, by operators, by those who talk nonsense, and by fate.

use std::fmt;

use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Millis;

use crate::simulate::plan::PlannedFlow;
use crate::simulate::plan::policies::words;

/// A clock that is off by more than this is off by years.
const MONTH: Millis = Millis::hours(24 * 31);

/// Something that is done. Whatever it is done to is named relatively: the `nth` of those that it fits.
#[derive(Clone, Debug)]
pub enum PlannedAct {
    /// Somebody starts a run.
    Start(StartPlan),
    /// An operator does something to a run.
    Operate(OperatorAct, u64),
    /// Policies are loaded, in the place of those with the same names or not.
    LoadPolicies(Vec<PolicyDraft>, bool),
    /// A policy is enabled.
    EnablePolicy(&'static str),
    /// A policy is disabled.
    DisablePolicy(&'static str),
    /// A policy is deleted.
    DeletePolicy(&'static str),
    /// Automatic resumes are paused.
    PausePolicies,
    /// They are unpaused; what has waited resumes at most so many times a second.
    UnpausePolicies(u32),
    /// A bulk action for what it fits, all of it or the first few: which, and the number of the first wave.
    Bulk(OperatorAct, Option<u32>),
    /// A bulk action is paused, goes on, or is cancelled: the last one, where the number is as large as can be.
    ChangeBulk(OperatorAct, u64),
    /// A new version of a flow.
    NewVersion(PlannedFlow),
    /// Something that must be refused, and change nothing.
    Nonsense(Nonsense, u64),
    /// Something breaks.
    Fault(Fault),
}

/// A start.
#[derive(Clone, Debug)]
pub struct StartPlan {
    /// The name of the flow.
    pub flow: std::sync::Arc<str>,
    /// Its key, if it has one.
    pub key: Option<u64>,
    /// Which of a few inputs.
    pub input: u64,
    pub priority: i32,
    /// Its deadline, if it has one of its own.
    pub deadline: Option<Millis>,
    /// Whether a final run of its key starts again.
    pub restart_if_final: bool,
}

/// What an operator does to a run, or a step of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorAct {
    /// One more attempt of what is held.
    ChooseRetry,
    /// No more attempts of what is held.
    ChooseNone,
    /// Resume what is in error.
    Resume,
    /// The same, with another input.
    ResumeChanged,
    /// Acknowledge what is in error.
    Acknowledge,
    /// Complete a step by hand.
    Complete,
    /// Skip a step.
    Skip,
    /// Match with the policies again.
    Apply,
    Pause,
    /// Go on.
    Unpause,
    Cancel,
    /// Send a signal.
    Signal,
    /// Run again what is left to do.
    Continue,
    /// Run everything again.
    RunAll,
    /// Run one step again, and what depends on it.
    RunStep,
    /// Forget a final run.
    Forget,
}

impl OperatorAct {
    /// Every act.
    pub const ALL: [OperatorAct; 16] = [
        OperatorAct::ChooseRetry,
        OperatorAct::ChooseNone,
        OperatorAct::Resume,
        OperatorAct::ResumeChanged,
        OperatorAct::Acknowledge,
        OperatorAct::Complete,
        OperatorAct::Skip,
        OperatorAct::Apply,
        OperatorAct::Pause,
        OperatorAct::Unpause,
        OperatorAct::Cancel,
        OperatorAct::Signal,
        OperatorAct::Continue,
        OperatorAct::RunAll,
        OperatorAct::RunStep,
        OperatorAct::Forget,
    ];

    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            OperatorAct::ChooseRetry => "choose retry",
            OperatorAct::ChooseNone => "choose none",
            OperatorAct::Resume => "resume",
            OperatorAct::ResumeChanged => "resume with changes",
            OperatorAct::Acknowledge => "acknowledge",
            OperatorAct::Complete => "complete",
            OperatorAct::Skip => "skip",
            OperatorAct::Apply => "apply policies",
            OperatorAct::Pause => "pause",
            OperatorAct::Unpause => "unpause",
            OperatorAct::Cancel => "cancel",
            OperatorAct::Signal => "signal",
            OperatorAct::Continue => "rerun: continue",
            OperatorAct::RunAll => "rerun: all",
            OperatorAct::RunStep => "rerun: steps",
            OperatorAct::Forget => "forget",
        }
    }
}

/// What must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nonsense {
    /// Something is asked of a run that is not there.
    UnknownRun,
    /// Something is asked of a step that is not there.
    UnknownUnit,
    /// An answer for an attempt that never was, or is over.
    VoidToken,
    /// A sign of life for an attempt that another one has followed.
    VoidBeat,
    /// A run of a flow that is not there.
    UnknownFlow,
    /// A signal that is too large.
    TooLarge,
    /// A policy that says nothing.
    BadPolicy,
    /// A bulk action that is not there.
    UnknownBulk,
}

impl Nonsense {
    /// All of it.
    pub const ALL: [Nonsense; 8] = [
        Nonsense::UnknownRun,
        Nonsense::UnknownUnit,
        Nonsense::VoidToken,
        Nonsense::VoidBeat,
        Nonsense::UnknownFlow,
        Nonsense::TooLarge,
        Nonsense::BadPolicy,
        Nonsense::UnknownBulk,
    ];

    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Nonsense::UnknownRun => "nonsense: an unknown run",
            Nonsense::UnknownUnit => "nonsense: an unknown step",
            Nonsense::VoidToken => "nonsense: a void token",
            Nonsense::VoidBeat => "nonsense: a sign of life with a void token",
            Nonsense::UnknownFlow => "nonsense: an unknown flow",
            Nonsense::TooLarge => "nonsense: a signal that is too large",
            Nonsense::BadPolicy => "nonsense: a policy that says nothing",
            Nonsense::UnknownBulk => "nonsense: an unknown bulk action",
        }
    }
}

/// What breaks.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The process dies.
    Crash {
        /// At which point.
        at: Crash,
        /// How long nobody is there.
        down: Millis,
        /// How often the next one dies too, right after it has begun.
        again: u64,
    },
    /// The process stops in good order.
    Stop {
        /// How long nobody is there.
        down: Millis,
    },
    /// The next stage is refused.
    RefuseStage(StoreFault),
    /// The oldest stage on its way to the disk fails, and all on top of it.
    FailStage(StoreFault),
    /// No stage is taken for a while.
    Outage {
        why: StoreFault,
        /// For how long.
        span: Millis,
    },
    /// The clock on the wall is set ahead.
    ClockForward(Millis),
    /// The clock on the wall is set back.
    ClockBack(Millis),
    /// The clock on the wall is set right.
    ClockRight,
    /// The process is stopped for a while; whoever works for it goes on.
    LongPause(Millis),
    /// The disk takes its time for a while.
    SlowSync(Millis),
    /// A worker dies.
    KillWorker {
        nth: u64,
        /// When that is noticed, if it is.
        noticed: Option<Millis>,
        /// When it is there again.
        back: Millis,
        /// Whether it is only cut off, and goes on saying what it has to say.
        cut_off: bool,
    },
    /// A worker starts nothing that it is handed.
    Deafen {
        nth: u64,
        /// For how long.
        span: Millis,
    },
    /// The stage of the batch that hears the next word or loss fails.
    FailHearing(StoreFault),
    /// Somebody else has a run for a while.
    Busy {
        nth: u64,
        /// For so many tries to lock it.
        tries: u32,
    },
    /// Nobody is told what becomes of the next stage, until that is looked up.
    LoseAnswer(LostAnswer),
    /// The process gets to its work seconds late, again and again, for a while.
    FallBehind(Millis),
    /// A worker stops in good order, and comes back.
    Release {
        nth: u64,
        /// When it is there again.
        back: Millis,
    },
}

/// A commit whose answer is lost.
#[derive(Clone, Copy, Debug)]
pub struct LostAnswer {
    /// Whether it happens.
    pub happens: bool,
    /// How long it takes until that is looked up.
    pub span: Millis,
    /// When the process dies before that, if it does.
    pub dies: Option<Millis>,
}

/// The points around a commit at which a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Requests are in line, nothing is staged.
    BeforeStage,
    /// Staged; so many of the stages are durable.
    Staged(u64),
    /// All is durable, and nobody has been told.
    Untold,
}

/// What may be wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// There is no room.
    Full,
    /// It cannot be reached.
    Away,
    /// A collision.
    Conflict,
    /// It has stopped for good.
    Broken,
}

impl PlannedAct {
    /// Whether it is done by the engine's time at once, and not put in line.
    pub(crate) fn needs_the_time(&self) -> bool {
        matches!(
            self,
            PlannedAct::LoadPolicies(..)
                | PlannedAct::EnablePolicy(_)
                | PlannedAct::DisablePolicy(_)
                | PlannedAct::DeletePolicy(_)
                | PlannedAct::PausePolicies
                | PlannedAct::UnpausePolicies(_)
                | PlannedAct::Bulk(..)
                | PlannedAct::Nonsense(Nonsense::BadPolicy, _)
        )
    }

    /// Whether it is something that breaks.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, PlannedAct::Fault(_))
    }

    /// Whether it sets the clock on the wall.
    pub(crate) fn sets_the_clock(&self) -> bool {
        matches!(self, PlannedAct::Fault(Fault::ClockForward(_) | Fault::ClockBack(_) | Fault::ClockRight))
    }

    /// The words that it is counted under.
    pub fn words(&self) -> &'static str {
        match self {
            PlannedAct::Start(_) => "start",
            PlannedAct::Operate(act, _) => act.words(),
            PlannedAct::LoadPolicies(..) => "load policies",
            PlannedAct::EnablePolicy(_) => "enable a policy",
            PlannedAct::DisablePolicy(_) => "disable a policy",
            PlannedAct::DeletePolicy(_) => "delete a policy",
            PlannedAct::PausePolicies => "pause policies",
            PlannedAct::UnpausePolicies(_) => "unpause policies",
            PlannedAct::Bulk(OperatorAct::Acknowledge, _) => "bulk: acknowledge",
            PlannedAct::Bulk(OperatorAct::Cancel, _) => "bulk: cancel",
            PlannedAct::Bulk(OperatorAct::Continue, _) => "bulk: rerun: continue",
            PlannedAct::Bulk(OperatorAct::RunAll, _) => "bulk: rerun: all",
            PlannedAct::Bulk(OperatorAct::ChooseRetry, _) => "bulk: choose retry",
            PlannedAct::Bulk(OperatorAct::ChooseNone, _) => "bulk: choose none",
            PlannedAct::Bulk(OperatorAct::Signal, _) => "bulk: signal",
            PlannedAct::Bulk(OperatorAct::Skip, _) => "bulk: skip",
            PlannedAct::Bulk(OperatorAct::Complete, _) => "bulk: complete",
            PlannedAct::Bulk(OperatorAct::Forget, _) => "bulk: forget",
            PlannedAct::Bulk(..) => "bulk: resume",
            PlannedAct::ChangeBulk(OperatorAct::Pause, _) => "bulk: pause",
            PlannedAct::ChangeBulk(OperatorAct::Unpause, _) => "bulk: unpause",
            PlannedAct::ChangeBulk(..) => "bulk: stop",
            PlannedAct::NewVersion(_) => "a new version of a flow",
            PlannedAct::Nonsense(nonsense, _) => nonsense.words(),
            PlannedAct::Fault(fault) => fault.words(),
        }
    }
}

impl Fault {
    /// The words that it is counted under.
    pub fn words(self) -> &'static str {
        match self {
            Fault::Crash { at: Crash::BeforeStage, .. } => "crash before the stage",
            Fault::Crash { at: Crash::Staged(_), .. } => "crash with stages on their way",
            Fault::Crash { at: Crash::Untold, .. } => "crash before anybody is told",
            Fault::Stop { .. } => "stop in good order",
            Fault::RefuseStage(StoreFault::Full | StoreFault::Broken) => "stage refused: full",
            Fault::RefuseStage(StoreFault::Away) => "stage refused: away",
            Fault::RefuseStage(StoreFault::Conflict) => "stage refused: conflict",
            Fault::FailStage(StoreFault::Full | StoreFault::Conflict) => "stage failed: full",
            Fault::FailStage(StoreFault::Away) => "stage failed: away",
            Fault::FailStage(StoreFault::Broken) => "stage failed: broken",
            Fault::Outage { why: StoreFault::Away, .. } => "store away for a while",
            Fault::Outage { .. } => "disk full for a while",
            Fault::ClockForward(span) if span > MONTH => "clock jumps ahead by years",
            Fault::ClockForward(_) => "clock jumps ahead",
            Fault::ClockBack(span) if span > MONTH => "clock jumps back by years",
            Fault::ClockBack(_) => "clock jumps back",
            Fault::ClockRight => "clock set right",
            Fault::LongPause(_) => "long pause",
            Fault::SlowSync(_) => "the disk is slow",
            Fault::FallBehind(_) => "a server falls behind",
            Fault::KillWorker { cut_off: false, .. } => "worker dies",
            Fault::KillWorker { cut_off: true, .. } => "worker cut off",
            Fault::Deafen { .. } => "worker deaf",
            Fault::FailHearing(_) => "stage failed: with a word or a loss",
            Fault::Busy { .. } => "run busy",
            Fault::LoseAnswer(LostAnswer { happens: true, .. }) => "commit unknown, and it happened",
            Fault::LoseAnswer(_) => "commit unknown, and it did not happen",
            Fault::Release { .. } => "worker stops in good order",
        }
    }
}

impl fmt::Display for PlannedAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())?;
        match self {
            PlannedAct::Start(start) => {
                let StartPlan { flow, key, input, priority, deadline, restart_if_final } = start;
                write!(f, " {flow} with input {input}, priority {priority}")?;
                if let Some(key) = key {
                    write!(f, ", key {key}")?;
                }
                if let Some(deadline) = deadline {
                    write!(f, ", within {deadline}")?;
                }
                if *restart_if_final { f.write_str(", restarts if final") } else { Ok(()) }
            }
            PlannedAct::Operate(_, nth) | PlannedAct::ChangeBulk(_, nth) | PlannedAct::Nonsense(_, nth) => {
                write!(f, ", number {nth}")
            }
            PlannedAct::LoadPolicies(drafts, replace) => {
                let drafts: Vec<String> = drafts.iter().map(words).collect();
                let replacing = if *replace { " in the place of others" } else { "" };
                write!(f, "{replacing}: {}", drafts.join("; "))
            }
            PlannedAct::EnablePolicy(name)
            | PlannedAct::DisablePolicy(name)
            | PlannedAct::DeletePolicy(name) => {
                write!(f, ": {name}")
            }
            PlannedAct::PausePolicies => Ok(()),
            PlannedAct::UnpausePolicies(rate) => write!(f, ", {rate} a second"),
            PlannedAct::Bulk(_, canary) => canary.map_or(Ok(()), |first| write!(f, ", {first} first")),
            PlannedAct::NewVersion(flow) => write!(f, ": {flow}"),
            PlannedAct::Fault(fault) => write!(f, ": {fault:?}"),
        }
    }
}
