//! What the runs of a batch have to tell each other, and what others have told them before.

use unstuck_core::command::{Command, Notice, NoticeBody};
use unstuck_core::decide::notice_of_refused_child;
use unstuck_core::id::RunId;
use unstuck_core::thing::ThingRef;
use unstuck_store::contract::{NoticeId, StoreError};

use super::{Batch, BatchContext, Deferred, Undecided};
use crate::request::EngineError;

/// So many notices are delivered in the batch that made them; the rest is stored for the next. Who interrupts waits for the
/// batches under way, so none may take long.
const MAX_DELIVERIES: usize = 2_000;

/// What came of a notice.
enum Delivery {
    Done,
    /// Its run, or something that it needs, was not loaded.
    Lacking,
    /// Its receiver is busy or set aside, or its flow cannot be used.
    Waits,
}

impl Batch {
    /// Delivers a notice that was stored.
    pub(crate) fn deliver_stored(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: NoticeId,
        notice: Notice,
    ) -> Result<(), StoreError> {
        let to = notice.to;
        match to {
            ThingRef::Run(_) => {}
            ThingRef::Bulk(bulk) => {
                self.queue_result(bulk, Some(id), notice.body);
                return Ok(());
            }
            // Nothing is told to a schedule.
            ThingRef::Schedule(_) => {
                self.delivered.push(id);
                return Ok(());
            }
        }
        if self.postponed.iter().any(|(_, earlier)| *earlier == to) {
            return Ok(());
        }
        match self.deliver(tools, notice.clone())? {
            Delivery::Done => self.delivered.push(id),
            Delivery::Lacking => drop(self.defer(Deferred::Notice(id, notice))),
            // One that is set aside is not tried by time.
            Delivery::Waits if to.run().is_some_and(|run| tools.aside.contains_key(&run)) => {}
            Delivery::Waits => self.postponed.push((id, to)),
        }
        Ok(())
    }

    /// A stored notice that begins a child cannot be delivered: the parent is told why.
    pub(crate) fn refuse_stored(&mut self, id: NoticeId, notice: &Notice, why: &str) {
        if let (NoticeBody::StartChild(child), Some(to)) = (&notice.body, notice.to.run()) {
            self.deliveries.extend(notice_of_refused_child(to, child, why));
        }
        self.delivered.push(id);
    }

    /// Delivers what the runs of this batch have to tell each other, as far as that goes.
    pub(crate) fn deliver_all(&mut self, tools: &mut BatchContext<'_>) -> Result<(), StoreError> {
        if self.stores_notices {
            return Ok(());
        }
        for _ in 0..MAX_DELIVERIES {
            let Some(notice) = self.deliveries.pop_front() else { break };
            if let ThingRef::Bulk(bulk) = notice.to {
                self.queue_result(bulk, None, notice.body);
                continue;
            }
            if notice.to.run().is_some_and(|run| self.backlog.contains(&run))
                || self.undelivered_to.contains(&notice.to)
                || !self.deliver_new(tools, &notice)?
            {
                self.undelivered_to.insert(notice.to);
                self.undelivered.push_back(notice);
            }
        }
        Ok(())
    }

    /// What was missing is loaded: what could not be delivered is tried again, before what has come since.
    pub(crate) fn deliver_again(&mut self, tools: &mut BatchContext<'_>) -> Result<(), StoreError> {
        self.undelivered_to.clear();
        self.undelivered.append(&mut self.deliveries);
        std::mem::swap(&mut self.undelivered, &mut self.deliveries);
        self.deliver_all(tools)
    }

    /// Delivers a notice of this batch. A child whose id is of this batch too is new: nobody can have locked it.
    fn deliver_new(&mut self, tools: &mut BatchContext<'_>, notice: &Notice) -> Result<bool, StoreError> {
        if matches!(notice.body, NoticeBody::StartChild(_))
            && let Some(to) = notice.to.run()
            && tools.ids.is_given_out_after(self.last_id, to.0)
            && !self.runs.contains_key(&to)
        {
            self.expect_new(to);
        }
        Ok(matches!(self.deliver(tools, notice.clone())?, Delivery::Done))
    }

    /// Delivers one notice. What cannot be done any more is nobody's loss: every notice is recognised when it is stale.
    fn deliver(&mut self, tools: &mut BatchContext<'_>, notice: Notice) -> Result<Delivery, StoreError> {
        let Notice { to: ThingRef::Run(to), body } = notice else { return Ok(Delivery::Done) };
        if !tools.aside.is_empty() && tools.aside.contains_key(&to) {
            return Ok(Delivery::Waits);
        }
        let (flow, child) = match &body {
            NoticeBody::StartChild(child) => match tools.flows.newest(tools.store, &child.flow) {
                Ok(flow) => (Some(flow), Some(child.clone())),
                Err(EngineError::Store(error)) => return Err(error),
                Err(error) => {
                    self.deliveries.extend(notice_of_refused_child(to, child, &error.to_string()));
                    return Ok(Delivery::Done);
                }
            },
            NoticeBody::ContinueChild { .. }
            | NoticeBody::CancelChild { .. }
            | NoticeBody::PauseChild
            | NoticeBody::UnpauseChild
            | NoticeBody::AmendChild { .. }
            | NoticeBody::ChildChanged { .. }
            | NoticeBody::ChildEnded { .. }
            | NoticeBody::TargetEnded { .. } => (None, None),
        };
        match self.decide(tools, to, Command::Notice(Box::new(body)), flow) {
            Ok(_) => Ok(Delivery::Done),
            Err(Undecided::Lacking) => Ok(Delivery::Lacking),
            Err(Undecided::Busy | Undecided::Aside) => Ok(Delivery::Waits),
            Err(Undecided::Error(EngineError::Store(error))) => Err(error),
            Err(Undecided::Error(error)) if error.is_unusable_flow() => Ok(Delivery::Waits),
            Err(Undecided::Error(error)) => {
                if let Some(child) = child {
                    self.deliveries.extend(notice_of_refused_child(to, &child, &error.to_string()));
                }
                Ok(Delivery::Done)
            }
        }
    }

    /// Runs that are told to end by a notice that is to be stored.
    pub(crate) fn runs_told_to_end(&self) -> impl Iterator<Item = RunId> {
        let ends = |notice: &&Notice| matches!(notice.body, NoticeBody::CancelChild { .. });
        self.undelivered.iter().chain(&self.deliveries).filter(ends).filter_map(|notice| notice.to.run())
    }
}
