//! Decides what a command does to a run: the only entry point for every change.

mod acknowledge;
mod amend;
mod apply_policies;
mod cancel;
mod child;
mod choose;
mod complete_or_skip;
mod draft;
mod expire;
mod forget;
mod migrate;
mod pause;
mod report;
mod rerun;
mod resume;
pub(crate) mod signal;
mod start;

use std::collections::HashMap;

use crate::command::{Command, Notice, NoticeBody};
use crate::downtime::Downtime;
use crate::errors::ErrorRecord;
use crate::event::{Actor, Event};
use crate::home::Homes;
use crate::id::{Ids, PayloadId, RunId};
use crate::json::Json;
use crate::model::attempt::{AttemptId, Worker};
use crate::model::flow::Flow;
use crate::model::log::LogRecord;
use crate::model::run::Run;
use crate::model::unit::UnitRef;
use crate::offer::Offers;
use crate::policy::{Policies, ResumePacer};
use crate::random::Random;
use crate::refusal::Refusal;
use crate::time::Time;

pub use child::notice_of_refused_child;
pub(crate) use draft::Draft;
pub use draft::unit_name;
pub use forget::check_forget;
pub use migrate::check_migration;
pub use rerun::{RerunPreview, check_rerun, preview_rerun};
pub use start::check_same_input;

/// The largest input, output or signal.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;
/// The longest key of a run, and the longest value of a flow's `concurrency.key`.
pub const MAX_KEY_BYTES: usize = 512;
/// The longest name: of a flow, a step, an action, a signal, a policy, a label.
pub const MAX_NAME_BYTES: usize = 200;

/// The longest reason that a person gives, in characters.
pub const MAX_REASON_CHARACTERS: usize = 1_000;

/// Refuses a user name or a reason that is too long: both are stored with every event.
pub fn check_texts(by: &Actor, reason: Option<&str>) -> Result<(), Refusal> {
    if let Actor::User(name) = by
        && name.len() > MAX_NAME_BYTES
    {
        return Err(Refusal::BadName {
            what: "the name of the user",
            bytes: name.len(),
            max: MAX_NAME_BYTES,
        });
    }
    // A text has at most as many characters as bytes, so that most need no counting.
    let reason = reason.filter(|reason| reason.len() > MAX_REASON_CHARACTERS);
    let characters = reason.map_or(0, |reason| reason.chars().count());
    if characters > MAX_REASON_CHARACTERS {
        return Err(Refusal::LongReason { characters, max: MAX_REASON_CHARACTERS });
    }
    Ok(())
}

/// All that a decision depends on besides the run and the command.
pub struct Context<'a> {
    /// The time of the batch.
    pub now: Time,
    /// The id of the run, whether it exists or not.
    pub run: RunId,
    /// The run's flow version.
    pub flow: &'a Flow,
    /// The version that it is moved to, where that is asked for.
    pub next_flow: Option<&'a Flow>,
    /// The stored payloads that [`needs`](crate::needs::needs) listed.
    pub payloads: &'a HashMap<PayloadId, Json>,
    /// Where new ids come from.
    pub ids: &'a mut Ids,
    /// Where chance comes from.
    pub random: &'a mut Random,
    /// The executors that wait for work.
    pub offers: &'a mut Offers,
    /// When the engine could not take answers lately, in order.
    pub downtimes: &'a [Downtime],
    /// What all corrections of the clock come to, in milliseconds.
    pub clock: i64,
    /// The resume policies in force, and whether they resume anything.
    pub policies: &'a Policies,
    /// The turns of resumes that have waited while policies were paused.
    pub turns: &'a mut ResumePacer,
    /// How deep children and handlers may be nested.
    pub max_nesting: u32,
    /// The homes that the engine drives.
    pub homes: &'a Homes,
}

/// What a command does: everything here is made durable together, and only then answered and performed.
#[derive(Debug, Default)]
pub struct Decision {
    /// What happened, if anything did.
    pub event: Option<Event>,
    /// New payloads, to be kept apart from the run.
    pub payloads: Vec<(PayloadId, Json)>,
    /// Notices for other things, in order.
    pub notices: Vec<Notice>,
    /// What to do after commit, in order.
    pub effects: Vec<Effect>,
    /// A lease that a heartbeat has moved, which is no event.
    pub lease: Option<LeaseMove>,
    /// What an attempt printed, which is no event.
    pub log: Option<Box<LogRecord>>,
    /// What is due and not done now: what it waits for.
    pub withheld: Option<Withheld>,
    /// What went wrong, to be recorded apart from the run.
    pub errors: Vec<ErrorRecord>,
    /// Which wakeups may have changed.
    pub touched: Touched,
    /// The answer to the caller.
    pub answer: Answer,
}

/// What something that is due waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// An engine that drives the home of its run.
    ForHome,
    /// That policies are unpaused, and that it gets a turn.
    ForTurn,
}

/// Which wakeups of a run may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// All of them.
    pub all: bool,
    /// These units.
    pub units: Vec<UnitRef>,
}

/// The answer to a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    #[default]
    Done,
    /// It had been done already.
    Already,
    /// The run was started.
    Started(RunId),
    /// The key has this run.
    Exists(RunId),
    /// A policy will resume the step at this time.
    Scheduled(Time),
    /// No policy resumes the step any more.
    Unscheduled,
}

/// What to do after commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hand an attempt to the worker that it was claimed for.
    Dispatch {
        attempt: AttemptId,
        worker: Worker,
        /// How much of the worker it takes.
        load: u32,
    },
    /// Tell a worker that an attempt is no longer its own.
    Interrupt { attempt: AttemptId, worker: Worker, why: String },
}

/// A lease that was moved by a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseMove {
    pub unit: UnitRef,
    /// The sign of life.
    pub heard: Time,
    /// When its attempt is given up on now.
    pub due: Time,
}

/// Decides one command on a run, applies the decision to it, and returns what to store, perform and answer. A refused
/// command leaves the run unchanged.
pub fn decide(
    run: &mut Option<Run>,
    command: Command,
    context: &mut Context<'_>,
) -> Result<Decision, Refusal> {
    let (decision, new) = decide_in_place(run.as_mut(), command, context)?;
    if let Some(new) = new {
        *run = Some(*new);
    }
    Ok(decision)
}

/// As [`decide`], for a boxed run, which is changed in place rather than moved.
pub fn decide_boxed(
    run: &mut Option<Box<Run>>,
    command: Command,
    context: &mut Context<'_>,
) -> Result<Decision, Refusal> {
    let (decision, new) = decide_in_place(run.as_deref_mut(), command, context)?;
    if new.is_some() {
        *run = new;
    }
    Ok(decision)
}

/// Dispatches a command to the function of its verb, on a borrowed run. Returns the decision, and the new run where the
/// command has started one.
fn decide_in_place(
    run: Option<&mut Run>,
    command: Command,
    context: &mut Context<'_>,
) -> Result<(Decision, Option<Box<Run>>), Refusal> {
    let before = run.as_ref().map(|run| (run.generation, run.state()));
    let by = command.actor();
    check_texts(&by, command.reason())?;
    let mut draft = Draft::new(run, context);
    // Corrects the times in the run first, so that the decision uses the clock as it is now.
    let corrected = draft.correct_clock();
    let answer = match command {
        Command::Start(start) => start::start_run(&mut draft, *start),
        Command::Admit => crate::slot::admit_run(&mut draft),
        Command::Claim { unit, worker } => report::claim_attempt(&mut draft, unit, worker),
        Command::Report { attempt, report: says } => report::apply_report(&mut draft, attempt, says),
        Command::Lost { attempt, with_others } => expire::lose_worker(&mut draft, attempt, with_others),
        Command::Due { unit, heard } => expire::fire_due(&mut draft, unit, heard),
        Command::Choose { unit, choice, bulk, .. } => {
            choose::choose_for_held_step(&mut draft, unit, choice, bulk)
        }
        Command::Resume { unit, reason, changes, .. } => {
            resume::resume_steps(&mut draft, unit, reason.as_ref(), *changes)
        }
        Command::Acknowledge { unit, reason, .. } => {
            acknowledge::acknowledge_errors(&mut draft, unit, reason.as_ref())
        }
        Command::Complete { unit, output, reason, .. } => {
            complete_or_skip::complete_by_hand(&mut draft, unit, output, reason)
        }
        Command::Skip { unit, reason, .. } => complete_or_skip::skip_step(&mut draft, unit, reason),
        Command::ApplyPolicies { unit, only, after, .. } => {
            apply_policies::apply_policies(&mut draft, unit, only.as_deref(), after)
        }
        Command::Pause { reason, .. } => pause::pause(&mut draft, reason),
        Command::Unpause { .. } => pause::unpause(&mut draft),
        Command::Cancel { reason, .. } => cancel::cancel_run(&mut draft, reason),
        Command::Amend { changes, reason, .. } => amend::amend_by_operator(&mut draft, &changes, reason),
        Command::Migrate { to, reason, .. } => migrate::migrate_run(&mut draft, to, reason),
        Command::Signal { name, payload, .. } => signal::accept_signal(&mut draft, &name, payload),
        Command::Rerun { what, changes, .. } => rerun::rerun_by_operator(&mut draft, &what, *changes),
        Command::Notice(notice) => decide_notice(&mut draft, *notice),
    };
    match answer {
        Ok(answer) => Ok(draft.finish(answer, before, by)),
        Err(refusal) => {
            draft.undo_clock_correction(corrected);
            Err(refusal)
        }
    }
}

/// Dispatches a notice from another run to the function that handles it.
fn decide_notice(draft: &mut Draft<'_, '_>, notice: NoticeBody) -> Result<Answer, Refusal> {
    match notice {
        NoticeBody::StartChild(child) => start::start_child(draft, *child),
        NoticeBody::ContinueChild { serves, priority } => rerun::continue_child(draft, serves, priority),
        NoticeBody::CancelChild { serves } => cancel::cancel_child(draft, serves),
        NoticeBody::PauseChild => pause::pause_child(draft),
        NoticeBody::UnpauseChild => pause::unpause_child(draft),
        NoticeBody::AmendChild { priority } => amend::amend_child(draft, priority),
        NoticeBody::ChildChanged { child, state } => child::record_child_state(draft, &child, state),
        NoticeBody::ChildEnded { child, how } => child::handle_child_end(draft, &child, how),
        // A run has no targets: whoever sent it meant somebody else.
        NoticeBody::TargetEnded { .. } => Ok(Answer::Already),
    }
}
