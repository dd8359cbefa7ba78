//! What an event stream has ready for its reader: so many bytes at most, however slow the reader is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Frame;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bytes that wait for a reader, at most. Until there is room again nothing more is read for it.
pub(crate) const MOST_UNSENT: usize = 256 << 10;
/// Bytes that are sent at once, at most: the connection takes a piece as a whole.
pub(crate) const PIECE: usize = 16 << 10;
/// A reader that takes nothing for so long is hung up on.
const MOST_SILENCE: Duration = Duration::from_mins(1);

/// A stream has ended: nobody reads it any more, or it has said why.
#[derive(Debug)]
pub(crate) struct StreamEnd;

/// The side of a stream that is written to.
pub(crate) struct EventOutbox {
    /// It has no bound of its own: each piece has taken its room before.
    sender: UnboundedSender<Piece>,
    room: Arc<Semaphore>,
}

/// Some bytes, and their room, which is given back when the connection takes them.
struct Piece(Bytes, OwnedSemaphorePermit);

impl EventOutbox {
    /// Makes the two ends of a stream.
    pub(crate) fn new() -> (EventOutbox, Body) {
        let (sender, receiver) = unbounded_channel();
        let room = Arc::new(Semaphore::new(MOST_UNSENT));
        (EventOutbox { sender, room }, Body::new(EventBody(receiver)))
    }

    /// Sends a text in pieces, each when there is room for it, unless the reader takes nothing for too long.
    pub(crate) async fn send(&self, text: &str) -> Result<(), StreamEnd> {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let room = tokio::select! {
                room = timeout(MOST_SILENCE, self.room.clone().acquire_many_owned(bytes)) => room,
                () = self.sender.closed() => return Err(StreamEnd),
            };
            let Ok(Ok(room)) = room else { return Err(StreamEnd) };
            let piece = Piece(Bytes::copy_from_slice(piece.as_bytes()), room);
            self.sender.send(piece).map_err(|_| StreamEnd)?;
            rest = after;
        }
        Ok(())
    }

    /// Returns when nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// The pieces of a stream as they come.
struct EventBody(UnboundedReceiver<Piece>);

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|Piece(bytes, _room)| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body::Body as _;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;

    /// Takes all that waits in a body.
    fn take_waiting(body: &mut Body) -> Vec<Bytes> {
        let mut context = Context::from_waker(Waker::noop());
        let mut taken = Vec::new();
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut *body).poll_frame(&mut context) {
            taken.extend(frame.into_data());
        }
        taken
    }

    #[test]
    fn no_more_than_the_bound_waits_for_a_reader_and_all_of_it_comes() {
        // Characters of three bytes, which are not cut into.
        let text = "\u{2713}".repeat(MOST_UNSENT);
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("it can be made").block_on(async {
            let (outbox, mut body) = EventOutbox::new();
            let sending = tokio::spawn({
                let text = text.clone();
                async move { outbox.send(&text).await.is_ok() }
            });
            let (mut received, mut rounds) = (Vec::new(), 0);
            while received.len() < text.len() {
                // There is one thread: it sends until it has to wait.
                yield_now().await;
                let pieces = take_waiting(&mut body);
                let bytes: usize = pieces.iter().map(Bytes::len).sum();
                assert!(bytes <= MOST_UNSENT, "{bytes}");
                for piece in pieces {
                    assert!(piece.len() <= PIECE && std::str::from_utf8(&piece).is_ok());
                    received.extend_from_slice(&piece);
                }
                rounds += 1;
            }
            assert_eq!(received, text.as_bytes());
            assert!(rounds >= 3, "{rounds}");
            assert!(sending.await.expect("it ends"));
        });
    }

    #[test]
    fn a_reader_that_has_gone_ends_the_stream() {
        let runtime = Builder::new_current_thread().enable_time().build().expect("it can be made");
        runtime.block_on(async {
            let (outbox, body) = EventOutbox::new();
            outbox.send("event: hello\n\n").await.expect("there is room");
            drop(body);
            outbox.closed().await;
            assert!(outbox.send(&"x".repeat(2 * MOST_UNSENT)).await.is_err());
        });
    }
}
