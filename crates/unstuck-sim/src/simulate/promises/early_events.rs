//! Where several servers share a store: what is durable is known before the server that did it has told whoever asked. Each
//! such event is put down to a request that is not answered yet, and the answer must fit.

use std::collections::BTreeMap;

use unstuck_core::command::Command;
use unstuck_core::decide::Answer;
use unstuck_core::event::{Event, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::run::Run;
use unstuck_engine::request::{Request, Ticket};

use super::ledger::matches_request;
use super::matching::matches_says;
use super::{Broken, Promise};

/// Requests that are not answered yet, with the session that was asked.
type OpenRequests = BTreeMap<Ticket, (u64, Request)>;

/// What has become durable before whoever asked was told.
#[derive(Debug, Default)]
pub(super) struct EarlyEvents {
    is_used: bool,
    events: Vec<EarlyEvent>,
}

/// An event, and the request that it is put down to.
#[derive(Debug)]
pub(super) struct EarlyEvent {
    ticket: Ticket,
    session: u64,
    run: RunId,
    cause: Cause,
}

/// What an event is put down to.
#[derive(Debug)]
pub(super) enum Attribution {
    /// This request, for it can be no other.
    To(Box<Request>),
    /// One of several that are alike.
    ToOneOfSeveral,
}

/// Whose event it is.
#[derive(Debug)]
enum Cause {
    User { event: Event, before: Option<Box<Run>> },
    Worker { attempt: AttemptId, fact: UnitFact },
}

impl EarlyEvent {
    pub(super) fn of_user(session: u64, run: RunId, event: &Event, before: Option<&Run>) -> EarlyEvent {
        let cause = Cause::User { event: event.clone(), before: before.cloned().map(Box::new) };
        EarlyEvent { ticket: 0, session, run, cause }
    }

    pub(super) fn of_worker(session: u64, attempt: AttemptId, fact: &UnitFact) -> EarlyEvent {
        let cause = Cause::Worker { attempt, fact: fact.clone() };
        EarlyEvent { ticket: 0, session, run: attempt.run, cause }
    }

    fn is_behind(&self, request: &Request) -> bool {
        match (&self.cause, request) {
            (Cause::User { event, before }, _) => {
                matches_request(request, self.run, event, before.as_deref())
            }
            (
                Cause::Worker { attempt, fact },
                Request::Command { command: Command::Report { attempt: of, report }, .. },
            ) => of == attempt && matches_says(report, fact),
            (Cause::Worker { .. }, _) => false,
        }
    }

    /// Whether an answer is one that such an event may have.
    fn fits(&self, session: u64, request: &Request, answer: Answer) -> bool {
        let is_its = !matches!(answer, Answer::Started(run) if run != self.run);
        is_its && self.session == session && self.is_behind(request)
    }
}

impl EarlyEvents {
    /// From now on.
    pub(super) fn begin(&mut self) {
        self.is_used = true;
    }

    /// Whether several servers share the store.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Puts an event down to a request that is not answered yet. Gives that, where it can be no other.
    pub(super) fn attribute(
        &mut self,
        event: impl FnOnce() -> EarlyEvent,
        open: &OpenRequests,
    ) -> Option<Attribution> {
        let mut event = self.is_used.then(event)?;
        let found: Vec<(Ticket, &Request)> = self.free(&event, open).take(2).collect();
        let (first, request) = *found.first()?;
        event.ticket = first;
        self.events.push(event);
        let is_only = found.len() == 1;
        Some(if is_only { Attribution::To(Box::new(request.clone())) } else { Attribution::ToOneOfSeveral })
    }

    /// The requests that may be behind an event and have none.
    fn free<'a>(
        &self,
        event: &EarlyEvent,
        open: &'a OpenRequests,
    ) -> impl Iterator<Item = (Ticket, &'a Request)> {
        let of_session = open.iter().filter(move |(_, (asked, _))| *asked == event.session);
        let free = of_session.filter(|(ticket, _)| !self.events.iter().any(|other| other.ticket == **ticket));
        free.filter(|(_, (_, request))| event.is_behind(request))
            .map(|(ticket, (_, request))| (*ticket, request))
    }

    /// A request is answered; `None` is a refusal. Gives whether its event is known.
    pub(super) fn replied(
        &mut self,
        ticket: Ticket,
        session: u64,
        request: &Request,
        answer: Option<Answer>,
        open: &OpenRequests,
    ) -> Result<bool, Broken> {
        let own = self.events.iter().position(|event| event.ticket == ticket);
        let done = answer.filter(|answer| {
            matches!(answer, Answer::Done | Answer::Started(_) | Answer::Scheduled(_) | Answer::Unscheduled)
        });
        if let Some(answer) = done {
            let fits = |event: &EarlyEvent| event.fits(session, request, answer);
            let place = own.filter(|place| fits(&self.events[*place]));
            let Some(place) = place.or_else(|| self.events.iter().position(fits)) else { return Ok(false) };
            let taken = self.events.swap_remove(place);
            // What this one was put down for is another one's.
            if let Some(other) = self.events.iter_mut().find(|event| event.ticket == ticket) {
                other.ticket = taken.ticket;
            }
            return Ok(true);
        }
        let Some(place) = own else { return Ok(false) };
        let other = self.free(&self.events[place], open).next().map(|(ticket, _)| ticket);
        let Some(other) = other else {
            let what = format!("answered with {answer:?}, and it was done: {request:?}");
            return Err(Broken::of(Promise::Refused, self.events[place].run, what));
        };
        self.events[place].ticket = other;
        Ok(false)
    }

    /// Nobody will be answered for this. Gives whether what was asked is known to be done.
    pub(super) fn forget(&mut self, ticket: Ticket) -> bool {
        let before = self.events.len();
        self.events.retain(|event| event.ticket != ticket);
        self.events.len() < before
    }
}
