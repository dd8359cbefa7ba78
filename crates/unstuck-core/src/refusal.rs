//! Why a command was not carried out: what is wrong, and what to do. A refused command changes nothing.

use std::fmt;
use std::sync::Arc;

use crate::id::RunId;
use crate::model::attempt::Worker;
use crate::model::run::RunState;
use crate::reason::phrases;
use crate::time::Time;

/// A refused command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such run.
    UnknownRun(RunId),
    /// The run has no such step or item.
    UnknownUnit(String),
    /// The run is final and never changes.
    Final(RunState),
    /// The token is void.
    Void(Box<Void>),
    /// The step is not in a state in which this can be done.
    WrongState {
        unit: String,
        is: &'static str,
        /// The state it would have to be in.
        wanted: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The run is not in a state in which this can be done.
    WrongRunState {
        is: RunState,
        /// What the command would do.
        asked: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The run belongs to another one, with which this is done.
    BelongsTo {
        run: RunId,
        /// The other one.
        parent: RunId,
    },
    /// The run is a child, which runs again when its parent does.
    RerunOfChild { run: RunId, parent: RunId },
    /// The run is a child or handler, whose priority and deadline follow from its parent's.
    AmendOfChild { run: RunId, parent: RunId },
    /// The run cannot be moved to another version of its flow.
    CannotMigrate(Box<CannotMigrate>),
    /// The deadline has passed already.
    PastDeadline { deadline: Time, now: Time },
    /// The key belongs to a run with another input.
    KeyTaken {
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
        /// The digest of that run's input.
        theirs: Arc<str>,
        /// The digest of the input that was given.
        ours: Arc<str>,
    },
    /// The key has a run already, and a second start was to be refused.
    KeyExists {
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// The key, or another name that was given, is blank or too long.
    BadName {
        /// What it would name.
        what: &'static str,
        /// How long it is, without blanks around it.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// The run would have too many labels.
    TooManyLabels {
        labels: usize,
        /// How many it may have.
        max: usize,
    },
    /// The reason is too long.
    LongReason {
        /// How many characters it has.
        characters: usize,
        /// How many it may have.
        max: usize,
    },
    /// The input does not fit the flow.
    BadInput(Vec<String>),
    /// Too many signals wait to be consumed.
    TooManySignals {
        /// Their name.
        name: Arc<str>,
        /// How many there may be.
        max: usize,
    },
    /// Signals of too many names wait to be consumed.
    TooManySignalNames {
        /// The one that is too many.
        name: Arc<str>,
        /// How many there may be.
        max: usize,
    },
    /// The value is over a limit.
    TooLarge {
        what: &'static str,
        /// How large.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
}

/// What keeps a run from being moved to another version of its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotMigrate {
    /// The step, unless the whole version is at fault.
    pub step: Option<String>,
    /// What it has or is that does not go with the version, as the end of a sentence.
    pub why: String,
    /// The version.
    pub version: Arc<str>,
}

/// A token that is no longer worth anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Void {
    pub unit: String,
    /// The attempt that it named.
    pub attempt: u32,
    /// When it lost the attempt, if that is still known.
    pub since: Option<Time>,
    pub why: String,
    /// The attempt that holds now, and its worker.
    pub holds_now: Option<(u32, Option<Worker>)>,
}

impl Refusal {
    /// Refuses a name that is blank or longer than `max` bytes.
    pub(crate) fn unless_named(what: &'static str, name: &str, max: usize) -> Result<(), Refusal> {
        let bytes = name.trim().len();
        if bytes == 0 {
            return Err(Refusal::BadName { what, bytes, max });
        }
        if name.len() > max {
            return Err(Refusal::BadName { what, bytes: name.len(), max });
        }
        Ok(())
    }

    /// Returns the problem type for programs: one of a closed list.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::UnknownRun(_) | Refusal::UnknownUnit(_) => "not-found",
            Refusal::Final(_) => "final",
            Refusal::Void(_) => "void-token",
            Refusal::WrongState { .. } | Refusal::WrongRunState { .. } => "wrong-state",
            Refusal::BelongsTo { .. } | Refusal::RerunOfChild { .. } | Refusal::AmendOfChild { .. } => {
                "belongs-to-run"
            }
            Refusal::KeyTaken { .. } | Refusal::KeyExists { .. } => "key-taken",
            Refusal::BadName { .. }
            | Refusal::TooManyLabels { .. }
            | Refusal::LongReason { .. }
            | Refusal::PastDeadline { .. } => "bad-request",
            Refusal::BadInput(_) | Refusal::CannotMigrate(_) => "invalid",
            Refusal::TooManySignals { .. } | Refusal::TooManySignalNames { .. } => "too-many-signals",
            Refusal::TooLarge { .. } => "too-large",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownRun(run) => write!(f, "there is no run {run}"),
            Refusal::UnknownUnit(unit) => write!(f, "the run has no step `{unit}`"),
            Refusal::Final(state) => {
                write!(f, "the run is {} and final; a rerun starts its next generation", state.word())
            }
            Refusal::Void(void) => write!(f, "{void}"),
            Refusal::WrongState { unit, is, wanted, hint } => {
                let is = if *is == "error" { "in error" } else { is };
                write!(f, "step `{unit}` is {is}, not {wanted}; {hint}")
            }
            Refusal::WrongRunState { is, asked, hint } => {
                write!(f, "the run is {}, so it cannot {asked}; {hint}", phrases::state(*is))
            }
            Refusal::BelongsTo { run, parent } => {
                write!(f, "{run} belongs to {parent}; forget {parent}, which removes {run} too")
            }
            Refusal::RerunOfChild { run, parent } => f.write_str(&rerun_of_child(*run, *parent)),
            Refusal::AmendOfChild { run, parent } => f.write_str(&amend_of_child(*run, *parent)),
            Refusal::CannotMigrate(cannot) => write!(f, "{cannot}"),
            Refusal::PastDeadline { deadline, now } => f.write_str(&past_deadline(*deadline, *now)),
            Refusal::KeyTaken { key, run, theirs, ours } => write!(
                f,
                "key `{key}` already belongs to {run}, which has a different input (its digest is {theirs}, yours is \
                 {ours}); use another key or the same input"
            ),
            Refusal::KeyExists { key, run } => {
                write!(
                    f,
                    "key `{key}` already belongs to {run}, and onDuplicate is `refuse`; use another key"
                )
            }
            Refusal::BadName { what, bytes: 0, .. } => {
                write!(f, "{what} is blank; give at least one letter, or leave it out")
            }
            Refusal::BadName { what, bytes, max } => {
                write!(
                    f,
                    "{what} is too long ({bytes} bytes, at most {max}); use a shorter one, such as a digest"
                )
            }
            Refusal::TooManyLabels { labels, max } => {
                write!(f, "the run has too many labels ({labels}, at most {max}); leave some out")
            }
            Refusal::LongReason { characters, max } => write!(
                f,
                "the reason is too long ({characters} characters, at most {max}); shorten it and link to the details"
            ),
            Refusal::BadInput(problems) => {
                write!(f, "the input does not match the flow: {}", problems.join("; "))
            }
            Refusal::TooManySignals { name, max } => {
                write!(
                    f,
                    "{max} signals `{name}` are waiting already; send more after the run has consumed some"
                )
            }
            Refusal::TooManySignalNames { name, max } => f.write_str(&too_many_names(name, *max)),
            Refusal::TooLarge { what, bytes, max } => {
                write!(
                    f,
                    "{what} is too large ({bytes} bytes, at most {max}); store it elsewhere and pass a reference"
                )
            }
        }
    }
}

fn rerun_of_child(run: RunId, parent: RunId) -> String {
    format!("{run} is a child of {parent}, which decides when it runs again; rerun {parent} instead")
}

fn amend_of_child(run: RunId, parent: RunId) -> String {
    format!(
        "{run} belongs to {parent}, which gives it its priority and waits for it; change {parent} instead"
    )
}

fn past_deadline(deadline: Time, now: Time) -> String {
    format!("the deadline {deadline} has passed already (it is {now}); give a later one, or cancel the run")
}

fn too_many_names(name: &str, max: usize) -> String {
    format!(
        "signals of {max} names are waiting already, and no step of the flow waits for `{name}`; check the name"
    )
}

impl fmt::Display for CannotMigrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run cannot be moved to version `{}`: ", self.version)?;
        match &self.step {
            Some(step) => write!(f, "step `{step}` {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of step `{}` is no longer yours", self.attempt, self.unit)?;
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        write!(f, ": {}. ", self.why)?;
        match &self.holds_now {
            None => f.write_str("No other attempt is queued or running"),
            Some((attempt, None)) => write!(f, "Attempt {attempt} is next"),
            Some((attempt, Some(worker))) => write!(f, "Attempt {attempt} is running on {}", worker.name),
        }
    }
}

impl std::error::Error for Refusal {}
