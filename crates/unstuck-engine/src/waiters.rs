//! Who waits for an answer: one request each, or several that are answered together.

use std::collections::HashMap;

use unstuck_core::decide::Answer;

use crate::reply::ReplyTo;
use crate::request::{EngineError, Ticket};

type Reply = Result<Answer, EngineError>;

/// Those who wait, by the tickets of their requests.
#[derive(Default)]
pub(crate) struct Waiters {
    waiters: HashMap<Ticket, Waiter>,
    /// By the ticket of the last request of each.
    groups: HashMap<Ticket, Group>,
}

enum Waiter {
    One(ReplyTo<Answer>),
    /// The group, and the place in it.
    OfGroup(Ticket, usize),
}

/// Requests that are answered when the last of them is.
struct Group {
    results: Vec<Reply>,
    left: usize,
    reply: ReplyTo<Vec<Reply>>,
}

impl Waiters {
    pub(crate) fn wait(&mut self, ticket: Ticket, reply: ReplyTo<Answer>) {
        self.waiters.insert(ticket, Waiter::One(reply));
    }

    /// Waits for all of these; gives them back. Where there are none, the answer is empty, and given at once.
    pub(crate) fn wait_for_all(&mut self, tickets: Vec<Ticket>, reply: ReplyTo<Vec<Reply>>) -> Vec<Ticket> {
        let Some(group) = tickets.last().copied() else {
            reply.send(Ok(Vec::new()));
            return tickets;
        };
        for (place, ticket) in tickets.iter().enumerate() {
            self.waiters.insert(*ticket, Waiter::OfGroup(group, place));
        }
        let results = vec![Err(EngineError::Stopped); tickets.len()];
        self.groups.insert(group, Group { results, left: tickets.len(), reply });
        tickets
    }

    /// A request is answered. Nobody may wait for it any more.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Reply) {
        match self.waiters.remove(&ticket) {
            None => {}
            Some(Waiter::One(reply)) => reply.send(result),
            Some(Waiter::OfGroup(group, place)) => self.answer_in_group(group, place, result),
        }
    }

    fn answer_in_group(&mut self, group: Ticket, place: usize, result: Reply) {
        let Some(waiting) = self.groups.get_mut(&group) else { return };
        waiting.results[place] = result;
        waiting.left -= 1;
        if waiting.left == 0
            && let Some(done) = self.groups.remove(&group)
        {
            done.reply.send(Ok(done.results));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_answered_once_when_the_last_of_it_is() {
        let mut waiters = Waiters::default();
        let (reply, receiver) = ReplyTo::channel();
        assert_eq!(waiters.wait_for_all(vec![4, 5, 6], reply), [4, 5, 6]);
        waiters.answer(6, Ok(Answer::Done));
        waiters.answer(4, Err(EngineError::Busy));
        waiters.answer(77, Ok(Answer::Done));
        assert!(receiver.try_recv().is_err(), "one is not answered yet");
        waiters.answer(5, Ok(Answer::Already));
        let results = vec![Err(EngineError::Busy), Ok(Answer::Already), Ok(Answer::Done)];
        assert_eq!(receiver.try_recv(), Ok(Ok(results)));
        assert!(waiters.waiters.is_empty() && waiters.groups.is_empty());
        let (reply, receiver) = ReplyTo::channel();
        waiters.wait_for_all(Vec::new(), reply);
        assert_eq!(receiver.try_recv(), Ok(Ok(Vec::new())));
        let (reply, receiver) = ReplyTo::channel();
        waiters.wait_for_all(vec![7, 8], reply);
        waiters.answer(7, Ok(Answer::Done));
        drop(waiters);
        assert_eq!(receiver.try_recv(), Ok(Err(EngineError::Stopped)), "whoever stops answers by hanging up");
    }
}
