//! Server-sent events: a view of the durable log from a cursor on. A slow reader loses nothing, and one that takes nothing is hung
//! up on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use unstuck_api::ProblemType;
use unstuck_core::id::RunId;
use unstuck_service::event_teller::EventTeller;
use unstuck_service::run_name::find_run;
use unstuck_store::contract::TailError;

use super::handler::runs::read_state;
use crate::answer::{Answer, Content};
use crate::app::App;
use crate::call::Call;
use crate::dispatch::{run_blocking, take_turn};
use crate::event_cursor::EventCursor;
use crate::event_outbox::{EventOutbox, MOST_UNSENT, PIECE, StreamEnd};
use crate::event_pages::{EventPage, PageEvent};
use crate::open_streams::OpenStream;
use crate::problem::Problem;
use crate::route::{Answered, BoxFuture};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A line that says nothing is sent this often, so that proxies keep the connection.
const BETWEEN_SIGNS: Duration = Duration::from_secs(15);
/// Streams that send only the last event of each thing keep so many at most before they send them.
const MOST_KEPT: usize = 4_096;
/// The longest interval of such a stream.
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);

/// Which events a stream sends: all that is given must hold.
struct EventFilter {
    classes: Vec<String>,
    run: Option<RunId>,
    flows: Vec<String>,
    states: Vec<String>,
    /// By short or full name.
    actions: Vec<String>,
    facts: Vec<String>,
}

impl EventFilter {
    fn accepts(&self, event: &PageEvent) -> bool {
        let is_one = |words: &[String], word: &str| words.is_empty() || words.iter().any(|one| one == word);
        is_one(&self.classes, event.class.word())
            && self.run.is_none_or(|run| event.line.contains(&run))
            && is_one(&self.flows, &event.flow)
            && is_one(&self.states, &event.state)
            && (self.actions.is_empty() || event.actions.iter().any(|action| self.accepts_action(action)))
            && (self.facts.is_empty() || event.facts.iter().any(|fact| self.facts.contains(fact)))
    }

    fn accepts_action(&self, full: &str) -> bool {
        let short = full.split_once('.').map_or(full, |(_, short)| short);
        self.actions.iter().any(|action| action == full || action == short)
    }
}

/// Begins a stream.
pub(crate) fn stream(call: Call) -> BoxFuture<Answered> {
    Box::pin(async move {
        let app = call.app.clone();
        let most = app.settings.limits.streams;
        let place = app.streams.open(most).ok_or_else(|| {
            let sentence = format!("{most} event streams are open, which is the maximum");
            Problem::new(ProblemType::Overloaded, sentence)
        })?;
        let turn = take_turn(&app, &app.queries).await?;
        let interval = call.parameters.duration("coalesce").map(|interval| interval.min(LONGEST_INTERVAL));
        let (cursor, filter) =
            run_blocking(turn, move || Ok((find_begin(&call)?, build_filter(&call)?))).await?;
        let (outbox, body) = EventOutbox::new();
        let kept = interval.map(|_| KeptEvents::default());
        let stream = EventStream { app, cursor, filter, outbox, kept, place, teller: EventTeller::default() };
        tokio::spawn(stream.follow(interval.unwrap_or_default()));
        Ok(Answer::new(StatusCode::OK, Content::Events(body))
            .with_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
    })
}

/// Reads where the stream begins: where the caller has stopped reading, or now.
fn find_begin(call: &Call) -> Result<EventCursor, Problem> {
    let given = match call.header(&LAST_EVENT_ID)? {
        Some(given) => Some(given),
        None => call.parameters.text("after"),
    };
    match given {
        Some(text) => EventCursor::read(text, call.app.reader())
            .map_err(|error| Problem::new(ProblemType::BadCursor, error.to_string())),
        None => Ok(EventCursor::end(call.app.reader())?),
    }
}

fn build_filter(call: &Call) -> Result<EventFilter, Problem> {
    let given = &call.parameters;
    let texts = |name| given.all(name).map(str::to_owned).collect::<Vec<_>>();
    for state in given.all("state") {
        read_state(state)?;
    }
    let run = match given.text("run") {
        Some(name) => Some(find_run(call.app.reader(), &call.app.service.flows, name)?),
        None => None,
    };
    Ok(EventFilter {
        classes: texts("class"),
        run,
        flows: texts("flow"),
        states: texts("state"),
        actions: texts("action"),
        facts: texts("fact"),
    })
}

/// What a stream that sends only the last event of each thing has not sent yet.
#[derive(Default)]
struct KeptEvents {
    /// In the order in which the things first came.
    texts: Vec<String>,
    places: HashMap<(&'static str, String), usize>,
    bytes: usize,
}

impl KeptEvents {
    fn keep(&mut self, event: &PageEvent) {
        let text = format_event(event);
        self.bytes += text.len();
        match self.places.entry((event.class.word(), event.thing.clone())) {
            Entry::Occupied(place) => {
                let before = std::mem::replace(&mut self.texts[*place.get()], text);
                self.bytes -= before.len();
            }
            Entry::Vacant(place) => {
                place.insert(self.texts.len());
                self.texts.push(text);
            }
        }
    }

    /// Whether what is kept has to be sent before more is.
    fn is_full(&self) -> bool {
        self.texts.len() >= MOST_KEPT || self.bytes >= MOST_UNSENT
    }
}

/// One stream, and how far it has come.
struct EventStream {
    app: Arc<App>,
    cursor: EventCursor,
    filter: EventFilter,
    outbox: EventOutbox,
    place: OpenStream,
    /// Where only the last event of each thing is sent.
    kept: Option<KeptEvents>,
    teller: EventTeller,
}

impl EventStream {
    /// Sends what happens until nobody reads it any more, or the server stops; all of it at once after each interval, if there is
    /// one.
    async fn follow(mut self, interval: Duration) {
        // Whichever way it ends, there is nothing more to do.
        let _ = self.send_all(interval).await;
    }

    async fn send_all(&mut self, interval: Duration) -> Result<(), StreamEnd> {
        let (mut commits, mut stopping) = (self.app.commits.clone(), self.app.stopping.subscribe());
        let (epoch, cursor) = (self.cursor.log.epoch(), &self.cursor);
        let hello =
            format!("retry: 2000\nevent: hello\ndata: {{\"epoch\":{epoch},\"cursor\":\"{cursor}\"}}\n\n");
        self.outbox.send(&hello).await?;
        let mut is_caught_up = false;
        loop {
            let next_turn = Instant::now() + interval;
            self.send_up_to_now(&mut commits).await?;
            if !is_caught_up {
                is_caught_up = true;
                let cursor = &self.cursor;
                let caught_up = format!("event: caughtUp\ndata: {{\"cursor\":\"{cursor}\"}}\n\n");
                self.outbox.send(&caught_up).await?;
            }
            let is_stopping = self.wait_for_more(&mut commits, &mut stopping).await?;
            if !is_stopping {
                tokio::select! {
                    () = sleep_until(next_turn) => continue,
                    () = stops(&mut stopping) => {}
                    () = self.outbox.closed() => return Err(StreamEnd),
                }
                // What has become durable before is told first.
                self.send_up_to_now(&mut commits).await?;
            }
            let bye = "event: bye\ndata: {\"why\":\"the server stops; reconnect\"}\n\n";
            return self.outbox.send(bye).await;
        }
    }

    /// Sends all that is durable now, page by page.
    async fn send_up_to_now(&mut self, commits: &mut watch::Receiver<u64>) -> Result<(), StreamEnd> {
        loop {
            let seen = *commits.borrow_and_update();
            let teller = std::mem::take(&mut self.teller);
            let (read, teller) = read_page(self.app.clone(), self.cursor.clone(), seen, teller).await;
            self.teller = teller;
            let page = match read {
                Ok(page) => page,
                Err(error) => {
                    self.outbox.send(describe_end(&error)).await?;
                    return Err(StreamEnd);
                }
            };
            let is_end = page.is_end_at(seen);
            self.place.set_behind(page.events.first().map(|event| event.at));
            self.send_page(&page, is_end).await?;
            self.cursor = page.next.clone();
            if is_end {
                self.place.set_behind(None);
                return Ok(());
            }
        }
    }

    /// Sends the events that fit, or keeps them. The end of a page has an id even if no event in it fits, so that a reader that
    /// comes back does not begin before it; but not while something before it is kept.
    async fn send_page(&mut self, page: &EventPage, is_end: bool) -> Result<(), StreamEnd> {
        let fitting = page.events.iter().filter(|event| self.filter.accepts(event));
        let mut text = String::new();
        match &mut self.kept {
            None => {
                for event in fitting {
                    text += &format_event(event);
                    if text.len() >= PIECE {
                        self.outbox.send(&text).await?;
                        text.clear();
                    }
                }
            }
            Some(kept) => {
                fitting.for_each(|event| kept.keep(event));
                if !is_end && !kept.is_full() {
                    return Ok(());
                }
                text = std::mem::take(kept).texts.concat();
            }
        }
        if page.next != self.cursor || !text.is_empty() {
            let _ = write!(text, "id: {}\n\n", page.next);
        }
        self.outbox.send(&text).await
    }

    /// Waits until something has become durable, and says now and then that it still waits. Returns whether the server stops.
    async fn wait_for_more(
        &self,
        commits: &mut watch::Receiver<u64>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<bool, StreamEnd> {
        loop {
            tokio::select! {
                changed = commits.changed() => return Ok(changed.is_err()),
                () = stops(stopping) => return Ok(true),
                () = self.outbox.closed() => return Err(StreamEnd),
                () = sleep(BETWEEN_SIGNS) => self.outbox.send(": still here\n\n").await?,
            }
        }
    }
}

fn format_event(event: &PageEvent) -> String {
    format!("event: {}\ndata: {}\n\n", event.class.word(), event.json)
}

/// Returns when the server stops.
async fn stops(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = stopping.wait_for(|stops| *stops).await.is_ok();
}

/// Reads the next page on a thread that may block, when it is the stream's turn: streams come after those who ask.
async fn read_page(
    app: Arc<App>,
    cursor: EventCursor,
    commits: u64,
    mut teller: EventTeller,
) -> (Result<Arc<EventPage>, TailError>, EventTeller) {
    let Ok(turn) = app.queries.clone().acquire_owned().await else {
        return (Err(TailError::Store(unstuck_store::contract::StoreError::Closed)), teller);
    };
    let read = tokio::task::spawn_blocking(move || {
        let page = app.event_pages.page(app.reader(), &app.service.flows, &cursor, commits, &mut teller);
        drop(turn);
        (page, teller)
    });
    read.await.unwrap_or_else(|_| {
        (Err(TailError::Store(unstuck_store::contract::StoreError::Closed)), EventTeller::default())
    })
}

fn describe_end(error: &TailError) -> &'static str {
    match error {
        TailError::Gone | TailError::NoCursor => {
            "event: reset\ndata: {\"why\":\"the cursor is of another store, or of this one before it was restored; list again\"}\n\n"
        }
        TailError::Store(_) => "event: bye\ndata: {\"why\":\"the store cannot be read now; reconnect\"}\n\n",
    }
}
