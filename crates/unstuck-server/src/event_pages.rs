//! Pages of events that are told once for all streams that are at the end of the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use unstuck_api::history::StreamChangeView;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_service::ServiceError;
use unstuck_service::change_teller::{EventClass, tell_change, tell_firing};
use unstuck_service::event_teller::EventTeller;
use unstuck_store::contract::{Reader, StoreError, TailError, TailPage};

use crate::event_cursor::EventCursor;

/// Events in a page, at most.
const PAGE: usize = 256;
/// Pages that are kept for streams that are a little behind.
const KEPT: usize = 64;

/// Some of what happened, told.
#[derive(Debug)]
pub(crate) struct EventPage {
    pub(crate) events: Vec<PageEvent>,
    pub(crate) next: EventCursor,
    /// Whether that was all there was when it was read.
    is_end: bool,
    /// How many commits there had been before it was read, at least.
    commits: u64,
}

impl EventPage {
    /// Returns whether nothing follows that was there after so many commits. A page that somebody else has read is kept for a
    /// while, and what has happened since then follows it.
    pub(crate) fn is_end_at(&self, commits: u64) -> bool {
        self.is_end && self.commits >= commits
    }
}

/// An event as streams send it, with what they filter by.
#[derive(Debug)]
pub(crate) struct PageEvent {
    pub(crate) class: EventClass,
    pub(crate) at: Time,
    /// What it happened to, by id or name: of several events of it only the last matters to a screen.
    pub(crate) thing: String,
    /// The run and those above it.
    pub(crate) line: Vec<RunId>,
    pub(crate) flow: String,
    pub(crate) state: String,
    /// The full names of actions.
    pub(crate) actions: Vec<Arc<str>>,
    pub(crate) facts: Vec<String>,
    pub(crate) json: String,
}

/// What streams at the end of the log share.
#[derive(Default)]
pub(crate) struct EventPages(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    teller: EventTeller,
    pages: VecDeque<(EventCursor, Arc<EventPage>)>,
    /// Where the next shared page begins.
    head: Option<EventCursor>,
}

impl EventPages {
    /// Returns the page after a cursor, as it is after so many commits or was before. A stream that is far behind reads for itself,
    /// with a teller of its own.
    pub(crate) fn page(
        &self,
        reader: &dyn Reader,
        flows: &ReadFlows,
        after: &EventCursor,
        commits: u64,
        own: &mut EventTeller,
    ) -> Result<Arc<EventPage>, TailError> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = shared.pages.iter().find(|(begin, _)| begin == after) {
            return Ok(page.clone());
        }
        let is_ahead = shared.head.as_ref().is_none_or(|head| after.is_at_or_after(head));
        if !is_ahead {
            drop(shared);
            return read_page(reader, flows, after, commits, own).map(Arc::new);
        }
        // Whoever else waits for this page waits for the lock, and finds it.
        let page = Arc::new(read_page(reader, flows, after, commits, &mut shared.teller)?);
        if page.next != *after {
            shared.pages.push_back((after.clone(), page.clone()));
            if shared.pages.len() > KEPT {
                shared.pages.pop_front();
            }
        }
        shared.head = Some(page.next.clone());
        Ok(page)
    }
}

fn read_page(
    reader: &dyn Reader,
    flows: &ReadFlows,
    after: &EventCursor,
    commits: u64,
    teller: &mut EventTeller,
) -> Result<EventPage, TailError> {
    let page = reader.tail(&after.log, PAGE)?;
    let changes = reader.audit_after(after.audit, PAGE)?;
    let mut events = tell_runs(reader, flows, &page, teller)?;
    let audit = changes.last().map_or(after.audit, |(id, _)| *id);
    for entry in &changes {
        events.extend(tell_change(entry).and_then(|(class, view)| change_event(class, entry.1.at, view)));
    }
    let is_end = page.is_end && changes.len() < PAGE;
    Ok(EventPage { events, next: EventCursor { log: page.next, audit }, is_end, commits })
}

/// Tells what has happened to runs.
fn tell_runs(
    reader: &dyn Reader,
    flows: &ReadFlows,
    page: &TailPage,
    teller: &mut EventTeller,
) -> Result<Vec<PageEvent>, TailError> {
    let mut events = Vec::with_capacity(page.events.len());
    for (run, event) in &page.events {
        let told = match teller.tell(reader, flows, *run, event) {
            Ok(Some(told)) => told,
            // What cannot be told at all is told by the history of the run.
            Ok(None) | Err(ServiceError::Refused(_)) => continue,
            // What cannot be told now must not be left out: the reader comes back for it.
            Err(ServiceError::Unavailable(_) | ServiceError::Stopped) => {
                return Err(TailError::Store(StoreError::Closed));
            }
        };
        let firing = tell_firing(&told);
        let Ok(json) = serde_json::to_string(&told.view) else { continue };
        events.push(PageEvent {
            class: EventClass::Run,
            at: event.at,
            thing: told.view.run,
            line: told.line,
            flow: told.view.flow,
            state: told.view.state,
            actions: told.actions,
            facts: told.view.facts,
            json,
        });
        events.extend(firing.and_then(|view| change_event(EventClass::Schedule, event.at, view)));
    }
    Ok(events)
}

/// Makes the event of a change that is not one of a run.
fn change_event(class: EventClass, at: Time, view: StreamChangeView) -> Option<PageEvent> {
    let json = serde_json::to_string(&view).ok()?;
    let thing = view.flow.clone().or(view.policy).or(view.bulk).unwrap_or_default();
    Some(PageEvent {
        class,
        at,
        thing,
        line: Vec::new(),
        flow: view.flow.unwrap_or_default(),
        state: String::new(),
        actions: Vec::new(),
        facts: view.facts,
        json,
    })
}
