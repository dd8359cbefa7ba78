//! The ledger: what was asked, what was answered, and which event belongs to which request.
//!
//! Every event of a person or a worker has exactly one request behind it, which was not refused; and every request that
//! was answered with "done" has exactly one event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event, Fact};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::{INLINE_BYTES, Payload};
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::run::Run;
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{EngineError, Request, Ticket};

use super::early_events::{Attribution, EarlyEvent, EarlyEvents};
use super::matching::{StoredPolicies, matches_command, matches_says, worker_fact};
use super::{Broken, Promise};

/// What was asked and answered.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By ticket, with the session that was asked.
    open: BTreeMap<Ticket, (u64, Request)>,
    /// Answered with "done": its event must come.
    owed: Vec<(Request, Answer)>,
    /// What workers have said that has not become an event; most of it never will.
    words: BTreeMap<AttemptId, Vec<Report>>,
    /// Not answered before the process of this session died: it may have been done or not.
    unknown: Vec<(u64, Request)>,
    /// What has become durable before whoever asked was told.
    pub(super) early: EarlyEvents,
    /// Everybody who has ever asked for something.
    actors: BTreeSet<Arc<str>>,
    /// What was said to have been done before, or to exist.
    claims: Vec<Claim>,
    /// Payloads that must be kept as they were given.
    pub(super) kept: Vec<StoredPolicies>,
}

/// What an answer claims about what is there.
#[derive(Debug)]
pub(super) enum Claim {
    /// The worker had said so before.
    Already(AttemptId, Report),
    /// A start has this run.
    HasKey { flow: Arc<str>, key: Option<Arc<str>>, run: RunId, input: unstuck_core::json::Json },
    /// The key is another run's, with another input.
    KeyTaken { key: Arc<str>, run: RunId, theirs: Arc<str> },
}

/// What a reply means for the other checks.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    Nothing,
    /// These runs are gone.
    Forgotten(Vec<RunId>),
    /// A sign of life is known.
    Alive(AttemptId),
    /// A sign of life was not taken.
    Unheard(AttemptId),
    /// A last word was not taken.
    UnheardEnd(AttemptId),
    /// A bulk action was changed so.
    Bulk(BulkId, BulkCommand),
}

impl Ledger {
    pub(super) fn asked(&mut self, session: u64, request: &Request) {
        match request {
            Request::Start { ticket, .. }
            | Request::Command { ticket, .. }
            | Request::Forget { ticket, .. }
            | Request::Bulk { ticket, .. }
            | Request::Schedule { ticket, .. } => {
                if let Some(Actor::User(name)) = actor_of(request) {
                    self.actors.insert(name);
                }
                self.open.insert(*ticket, (session, request.clone()));
            }
            Request::Executor(ExecutorReport::Report(attempt, says)) => {
                self.words.entry(*attempt).or_default().push(says.clone());
            }
            Request::Executor(ExecutorReport::Lost(_) | ExecutorReport::Freed(_)) | Request::Lost { .. } => {}
        }
    }

    /// Whether somebody has asked to forget this run, and was not answered.
    pub(super) fn may_be_forgotten(&self, run: RunId) -> bool {
        let names = |request: &Request| matches!(request, Request::Forget { runs, .. } if runs.iter().any(|(id, _)| *id == run));
        self.open.values().chain(&self.unknown).any(|(_, request)| names(request))
    }

    pub(super) fn replied(
        &mut self,
        ticket: Ticket,
        result: &Result<Answer, EngineError>,
    ) -> Result<Meaning, Broken> {
        let Some((session, request)) = self.open.remove(&ticket) else {
            let what = format!("ticket {ticket} is answered twice, or was never asked");
            return Err(Broken { promise: Promise::Kept, run: None, what });
        };
        let is_paid =
            self.early.replied(ticket, session, &request, result.as_ref().ok().copied(), &self.open)?;
        let answer = match result {
            Ok(answer) => *answer,
            Err(error) => return self.refused(&request, error),
        };
        match (&request, answer) {
            (Request::Forget { runs, .. }, _) => {
                return Ok(Meaning::Forgotten(runs.iter().map(|(run, _)| *run).collect()));
            }
            (Request::Bulk { bulk, command, .. }, _) => return Ok(Meaning::Bulk(*bulk, *command)),
            (
                Request::Command { command: Command::Report { attempt, report: says }, .. },
                Answer::Already,
            ) => {
                self.claims.push(Claim::Already(*attempt, says.clone()));
            }
            (
                Request::Command {
                    command: Command::Report { attempt, report: Report::Heartbeat { .. } },
                    ..
                },
                _,
            ) => {
                let attempt = *attempt;
                // It becomes an event where it tells something, or begins the attempt.
                if !self.early.is_used() {
                    self.owed.push((request, answer));
                }
                return Ok(Meaning::Alive(attempt));
            }
            (Request::Command { .. }, Answer::Already | Answer::Exists(_)) => {}
            (Request::Start { start, .. }, Answer::Exists(run) | Answer::Started(run)) => {
                let (flow, key, input) = (start.flow.clone(), start.key.clone(), start.input.clone());
                self.claims.push(Claim::HasKey { flow, key, run, input });
                if matches!(answer, Answer::Started(_)) && !is_paid {
                    self.owed.push((request, answer));
                }
            }
            (
                Request::Start { .. },
                Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled,
            ) => {
                let what = format!("a start is answered with {answer:?}, which names no run");
                return Err(Broken { promise: Promise::Kept, run: None, what });
            }
            (
                Request::Command { .. },
                Answer::Done | Answer::Started(_) | Answer::Scheduled(_) | Answer::Unscheduled,
            ) if is_paid => {}
            (
                Request::Command { .. },
                Answer::Done | Answer::Started(_) | Answer::Scheduled(_) | Answer::Unscheduled,
            ) => self.owed.push((request, answer)),
            (Request::Executor(_) | Request::Lost { .. } | Request::Schedule { .. }, _) => {}
        }
        Ok(Meaning::Nothing)
    }

    /// A refusal is a sentence, and what it says of others is so.
    fn refused(&mut self, request: &Request, error: &EngineError) -> Result<Meaning, Broken> {
        let said = error.to_string();
        if said.len() < 10 || !said.contains(' ') {
            let what = format!("it is refused, and not told why: `{said}`");
            return Err(Broken { promise: Promise::Refused, run: run_of(request), what });
        }
        if let EngineError::Refused(unstuck_core::refusal::Refusal::KeyTaken { key, run, theirs, .. }) = error
        {
            self.claims.push(Claim::KeyTaken { key: key.clone(), run: *run, theirs: theirs.clone() });
        }
        if let Request::Command {
            command: Command::Report { attempt, report: Report::Heartbeat { .. } },
            ..
        } = request
        {
            return Ok(Meaning::Unheard(*attempt));
        }
        if let Request::Command { command: Command::Report { attempt, .. }, .. } = request {
            return Ok(Meaning::UnheardEnd(*attempt));
        }
        Ok(Meaning::Nothing)
    }

    /// Finds what is behind an event of a run that is as `before`, of this session. Gives the request, where it is known which
    /// it was.
    pub(super) fn attribute(
        &mut self,
        session: u64,
        run: RunId,
        event: &Event,
        before: Option<&Run>,
    ) -> Result<Option<Request>, Broken> {
        match &event.by {
            Actor::Engine => Ok(None),
            Actor::Worker => self.attribute_to_worker(session, run, event, before).map(|()| None),
            Actor::User(name) => {
                let is_behind = |request: &Request| matches_request(request, run, event, before);
                // A start says which run it has started.
                let is_its = |answer: &Answer| !matches!(answer, Answer::Started(started) if *started != run);
                if let Some(place) =
                    self.owed.iter().position(|(request, answer)| is_its(answer) && is_behind(request))
                {
                    let (request, _) = self.owed.remove(place);
                    self.remember_payload(&request, event);
                    return Ok(Some(request));
                }
                let early = || EarlyEvent::of_user(session, run, event, before);
                match self.early.attribute(early, &self.open) {
                    Some(Attribution::To(request)) => {
                        self.remember_payload(&request, event);
                        return Ok(Some(*request));
                    }
                    Some(Attribution::ToOneOfSeveral) => return Ok(None),
                    None => {}
                }
                let is_its = |(asked, request): &(u64, Request)| *asked == session && is_behind(request);
                if let Some(place) = self.unknown.iter().position(is_its) {
                    // Which of several that are alike it was is not known.
                    self.unknown.remove(place);
                    return Ok(None);
                }
                // What somebody does to many runs at once is not asked for one by one.
                if !self.actors.contains(name) {
                    return Ok(None);
                }
                let what = format!(
                    "event {} is {name}'s, who asked for no such thing, or was refused: {:?}",
                    event.seq,
                    event.facts.first()
                );
                Err(Broken::of(Promise::Refused, run, what))
            }
        }
    }

    fn remember_payload(&mut self, request: &Request, event: &Event) {
        if let Some(kept) = StoredPolicies::of(request, event) {
            self.kept.push(kept);
        }
    }

    fn attribute_to_worker(
        &mut self,
        session: u64,
        run: RunId,
        event: &Event,
        before: Option<&Run>,
    ) -> Result<(), Broken> {
        let Some((unit, fact)) = worker_fact(event) else {
            return Err(Broken::of(
                Promise::Fenced,
                run,
                format!("event {} is a worker's, and about no attempt", event.seq),
            ));
        };
        let live = before.and_then(|run| run.unit(unit)?.state.live());
        let Some(live) = live.filter(|_| before.is_some_and(|run| !run.is_final())) else {
            return Err(Broken::of(
                Promise::Fenced,
                run,
                format!("event {}: a worker is believed, and it has no attempt", event.seq),
            ));
        };
        let id = AttemptId { run, generation: event.generation, unit, attempt: live.attempt };
        let says_it = |request: &Request| matches!(request, Request::Command { command: Command::Report { attempt, report }, .. } if *attempt == id && matches_says(report, fact));
        if let Some(place) = self.owed.iter().position(|(request, _)| says_it(request)) {
            let (request, _) = self.owed.remove(place);
            self.remember_payload(&request, event);
            return Ok(());
        }
        let early = || EarlyEvent::of_worker(session, id, fact);
        match self.early.attribute(early, &self.open) {
            Some(Attribution::To(request)) => {
                self.remember_payload(&request, event);
                return Ok(());
            }
            Some(Attribution::ToOneOfSeveral) => return Ok(()),
            None => {}
        }
        if let Some(words) = self.words.get_mut(&id)
            && let Some(place) = words.iter().position(|says| matches_says(says, fact))
        {
            let says = words.remove(place);
            self.kept.extend(StoredPolicies::of_says(run, &says, event));
            return Ok(());
        }
        if let Some(place) = self.unknown.iter().position(|(_, request)| says_it(request)) {
            self.unknown.remove(place);
            return Ok(());
        }
        let what = format!(
            "event {}: attempt {} holds, and its worker has not said {fact:?}",
            event.seq, id.attempt
        );
        Err(Broken::of(Promise::Fenced, run, what))
    }

    /// Everything that became durable was heard: nothing is owed.
    pub(super) fn check_owed(&mut self) -> Result<(), Broken> {
        self.owed.retain(|(request, _)| {
            !matches!(
                request,
                Request::Command { command: Command::Report { report: Report::Heartbeat { .. }, .. }, .. }
            )
        });
        let Some((request, answer)) = self.owed.first() else { return Ok(()) };
        let what = format!("answered with {answer:?}, and nothing has happened: {request:?}");
        Err(Broken { promise: Promise::Kept, run: run_of(request), what })
    }

    /// What answers have claimed since the last time.
    pub(super) fn claims(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.claims)
    }

    /// Changes of bulk actions that may have been made when the process died.
    pub(super) fn unknown_bulk_commands(&self) -> Vec<(BulkId, BulkCommand)> {
        let command = |request: &Request| match request {
            Request::Bulk { bulk, command, .. } => Some((*bulk, *command)),
            _ => None,
        };
        self.unknown.iter().filter_map(|(_, request)| command(request)).collect()
    }

    /// The process died: who was not answered does not know.
    pub(super) fn crashed(&mut self) {
        self.unknown = std::mem::take(&mut self.open).into_values().collect();
    }

    /// The server with this session died: who asked it and was not answered does not know.
    pub(super) fn died(&mut self, session: u64) {
        let is_its = |_: &Ticket, (asked, _): &mut (u64, Request)| *asked == session;
        for (ticket, asked) in self.open.extract_if(.., is_its) {
            if !self.early.forget(ticket) {
                self.unknown.push(asked);
            }
        }
    }

    /// All that was on its way is durable or gone: what was not done by now will not be.
    pub(super) fn all_durable(&mut self) {
        self.unknown.clear();
    }

    /// What had been done before the crash was found: the rest is gone, the words of workers too.
    pub(super) fn give_up_unknown(&mut self) {
        self.unknown.clear();
        self.words.clear();
    }
}

pub(super) fn matches_request(request: &Request, run: RunId, event: &Event, before: Option<&Run>) -> bool {
    if actor_of(request).as_ref() != Some(&event.by) {
        return false;
    }
    match request {
        Request::Start { start, .. } => match event.facts.first() {
            Some(Fact::Started(started)) => {
                let is_input = match &started.input {
                    Payload::Inline(input) => *input == start.input,
                    // Whether a stored one is the same is looked up later.
                    Payload::Stored(_) => start.input.text().len() > INLINE_BYTES,
                };
                started.key == start.key && started.root_flow == start.flow && is_input
            }
            Some(Fact::Reran { .. }) => {
                start.key.is_some()
                    && before.is_some_and(|run| run.key == start.key && run.root_flow == start.flow)
            }
            _ => false,
        },
        Request::Command { run: asked, command, .. } => *asked == run && matches_command(command, event),
        Request::Forget { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. }
        | Request::Executor(_)
        | Request::Lost { .. } => false,
    }
}

fn actor_of(request: &Request) -> Option<Actor> {
    match request {
        Request::Start { start, .. } => Some(start.by.clone()),
        Request::Command { command, .. } => Some(command.actor()),
        Request::Forget { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. }
        | Request::Executor(_)
        | Request::Lost { .. } => None,
    }
}

fn run_of(request: &Request) -> Option<RunId> {
    match request {
        Request::Command { run, .. } => Some(*run),
        Request::Start { .. }
        | Request::Forget { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. }
        | Request::Executor(_)
        | Request::Lost { .. } => None,
    }
}
