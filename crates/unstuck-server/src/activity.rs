//! Whether a connection is in use: one that has had no request for too long is closed, whatever else its peer sends on it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Version;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::sleep;

/// What is known of the requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    /// Not answered, or with an answer that has not been sent to its end.
    open: usize,
    /// Whether HTTP/1 is spoken: there hyper watches the time between requests. Over HTTP/2 it only expects that its pings are
    /// answered.
    is_http1: bool,
}

/// The requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Activity(watch::Sender<Requests>);

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity(watch::channel(Requests::default()).0)
    }

    /// A request has come; it is open as long as what is returned is kept. Nothing is counted over HTTP/1.
    pub(crate) fn begin_request(&self, version: Version) -> Option<OpenRequest> {
        if version < Version::HTTP_2 {
            self.0.send_if_modified(|requests| !std::mem::replace(&mut requests.is_http1, true));
            return None;
        }
        self.0.send_modify(|requests| requests.open += 1);
        Some(OpenRequest(self.0.clone()))
    }

    /// Returns when no request has been open for so long.
    pub(crate) async fn wait_until_idle(&self, idle_time: Duration) {
        let mut requests = self.0.subscribe();
        loop {
            let is_unused = |requests: &Requests| requests.open == 0 && !requests.is_http1;
            // It cannot fail, because the sender is here.
            let _ = requests.wait_for(is_unused).await.is_ok();
            tokio::select! {
                () = sleep(idle_time) => return,
                _ = requests.changed() => {}
            }
        }
    }
}

/// A request that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest(watch::Sender<Requests>);

impl OpenRequest {
    /// Keeps the request open until the body of its answer has been sent, or is given up.
    pub(crate) fn keep_with(self, response: Response) -> Response {
        response.map(|body| Body::new(CountedBody { body, _request: self }))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|requests| requests.open = requests.open.saturating_sub(1));
    }
}

/// The body of an answer, which ends the request with itself.
struct CountedBody {
    body: Body,
    _request: OpenRequest,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
