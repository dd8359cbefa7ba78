//! Server-sent events: a view of the durable log from a cursor on. A slow reader loses nothing, and one that takes nothing is hung
//! up on.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use http_body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use unstuck_api::ProblemType;
use unstuck_core::id::RunId;
use unstuck_service::event_teller::EventTeller;
use unstuck_service::run_name::find_run;
use unstuck_store::contract::{Cursor, TailError};

use super::handler::runs::read_state;
use crate::answer::{Answer, Content};
use crate::app::App;
use crate::call::Call;
use crate::dispatch::{run_blocking, take_turn};
use crate::event_pages::{EventPage, PageEvent};
use crate::problem::Problem;
use crate::route::{Answered, BoxFuture};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A line that says nothing is sent this often, so that proxies keep the connection.
const BETWEEN_SIGNS: Duration = Duration::from_secs(15);
/// A reader that takes nothing for so long is hung up on.
const MOST_SILENCE: Duration = Duration::from_mins(1);
/// Pieces that wait to be sent; the reader is read for again when there is room.
const PIECES: usize = 4;

/// Which events a stream sends: all that is given must hold.
struct EventFilter {
    run: Option<RunId>,
    flows: Vec<String>,
    states: Vec<String>,
    facts: Vec<String>,
}

impl EventFilter {
    fn accepts(&self, event: &PageEvent) -> bool {
        self.run.is_none_or(|run| event.line.contains(&run))
            && (self.flows.is_empty() || self.flows.contains(&event.flow))
            && (self.states.is_empty() || self.states.contains(&event.state))
            && (self.facts.is_empty() || event.facts.iter().any(|fact| self.facts.contains(fact)))
    }
}

/// Begins a stream.
pub(crate) fn stream(call: Call) -> BoxFuture<Answered> {
    Box::pin(async move {
        let app = call.app.clone();
        let place = OpenStream::take(&app)?;
        let turn = take_turn(&app, &app.queries).await?;
        let (cursor, filter) =
            run_blocking(turn, move || Ok((find_begin(&call)?, build_filter(&call)?))).await?;
        let (sender, receiver) = channel(PIECES);
        tokio::spawn(follow(app, cursor, filter, sender, place));
        Ok(Answer::new(StatusCode::OK, Content::Events(Body::new(EventBody(receiver))))
            .with_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
    })
}

/// Reads where the stream begins: where the caller has stopped reading, or now.
fn find_begin(call: &Call) -> Result<Cursor, Problem> {
    let given = match call.header(&LAST_EVENT_ID)? {
        Some(given) => Some(given),
        None => call.parameters.text("after"),
    };
    match given {
        Some(text) => {
            text.parse().map_err(|error: TailError| Problem::new(ProblemType::BadCursor, error.to_string()))
        }
        None => Ok(call.app.reader().cursor()?),
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
    Ok(EventFilter { run, flows: texts("flow"), states: texts("state"), facts: texts("fact") })
}

/// One of the streams that may be open at once.
struct OpenStream(Arc<AtomicUsize>);

impl OpenStream {
    fn take(app: &App) -> Result<OpenStream, Problem> {
        let place = OpenStream(app.streams.clone());
        if place.0.fetch_add(1, Ordering::AcqRel) >= app.settings.limits.streams {
            return Err(Problem::new(
                ProblemType::Overloaded,
                format!("{} event streams are open, which is the maximum", app.settings.limits.streams),
            ));
        }
        Ok(place)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Sends what happens until nobody reads it any more, or the server stops.
async fn follow(
    app: Arc<App>,
    begin: Cursor,
    filter: EventFilter,
    sender: Sender<Bytes>,
    _place: OpenStream,
) {
    let (mut cursor, mut teller, mut is_caught_up) = (begin, EventTeller::default(), false);
    let (mut commits, mut stopping) = (app.commits.clone(), app.stopping.subscribe());
    let hello = format!("retry: 2000\nevent: hello\ndata: {{\"cursor\":\"{cursor}\"}}\n\n");
    if send(&sender, hello).await.is_err() {
        return;
    }
    loop {
        let seen = *commits.borrow_and_update();
        let (read, returned) = read_page(app.clone(), cursor.clone(), seen, teller).await;
        teller = returned;
        let page = match read {
            Ok(page) => page,
            Err(error) => return end_stream(&sender, &error).await,
        };
        let text = format_page(&page, &cursor, &filter);
        cursor = page.next.clone();
        if !text.is_empty() && send(&sender, text).await.is_err() {
            return;
        }
        if !page.is_end_at(seen) {
            continue;
        }
        if !is_caught_up {
            is_caught_up = true;
            if send(&sender, format!("event: caughtUp\ndata: {{\"cursor\":\"{cursor}\"}}\n\n")).await.is_err()
            {
                return;
            }
        }
        let is_stopping = loop {
            tokio::select! {
                changed = commits.changed() => break changed.is_err(),
                () = stops(&mut stopping) => break true,
                () = sender.closed() => return,
                () = tokio::time::sleep(BETWEEN_SIGNS) => {
                    if send(&sender, ": still here\n\n".to_owned()).await.is_err() {
                        return;
                    }
                }
            }
        };
        if is_stopping {
            let _ =
                send(&sender, "event: bye\ndata: {\"why\":\"the server stops; reconnect\"}\n\n".to_owned())
                    .await;
            return;
        }
    }
}

/// Returns when the server stops.
async fn stops(stopping: &mut tokio::sync::watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = stopping.wait_for(|stops| *stops).await.is_ok();
}

/// Reads the next page on a thread that may block, when it is the stream's turn: streams come after those who ask.
async fn read_page(
    app: Arc<App>,
    cursor: Cursor,
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

/// Writes the events that fit. The end of a page has an id even if no event in it fits, so that a reader that comes back does not
/// begin before it.
fn format_page(page: &EventPage, before: &Cursor, filter: &EventFilter) -> String {
    let mut text = String::new();
    for event in page.events.iter().filter(|event| filter.accepts(event)) {
        let _ = write!(text, "event: run\ndata: {}\n\n", event.json);
    }
    if page.next != *before {
        let _ = write!(text, "id: {}\n\n", page.next);
    }
    text
}

async fn end_stream(sender: &Sender<Bytes>, error: &TailError) {
    let text = match error {
        TailError::Gone | TailError::NoCursor => {
            "event: reset\ndata: {\"why\":\"the cursor is of another store, or of this one before it was restored; list again\"}\n\n"
        }
        TailError::Store(_) => "event: bye\ndata: {\"why\":\"the store cannot be read now; reconnect\"}\n\n",
    };
    let _ = send(sender, text.to_owned()).await;
}

/// Sends a piece, unless the reader takes nothing for too long.
async fn send(sender: &Sender<Bytes>, text: String) -> Result<(), ()> {
    match timeout(MOST_SILENCE, sender.send(text.into())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

/// The pieces of a stream as they come.
struct EventBody(Receiver<Bytes>);

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
