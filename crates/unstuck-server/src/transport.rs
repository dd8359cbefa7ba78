//! A connection that is given up when its peer says nothing at first, or takes nothing of an answer, for too long.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// So many bytes tell which version of HTTP is spoken. Until then nobody else watches the time.
const GREETING: usize = 24;

/// A connection with bounds on its peer's silence.
pub(crate) struct BoundedStream<S> {
    inner: S,
    received: usize,
    /// Until it is known what is spoken.
    greeting: Option<Pin<Box<Sleep>>>,
    /// While the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    longest_stall: Duration,
}

impl<S> BoundedStream<S> {
    /// Expects a first word within `idle_time`, and that something is taken of an answer within `longest_stall`.
    pub(crate) fn new(inner: S, idle_time: Duration, longest_stall: Duration) -> BoundedStream<S> {
        let greeting = Some(Box::pin(sleep(idle_time)));
        BoundedStream { inner, received: 0, greeting, stalled: None, longest_stall }
    }

    /// Passes on what came of a write, unless it has been waiting for too long.
    fn after_write<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            (self.greeting, self.stalled) = (None, None);
            return wrote;
        }
        let longest = self.longest_stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(longest)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.received = self.received.saturating_add(buffer.filled().len() - before);
        if self.received >= GREETING {
            self.greeting = None;
        }
        match &mut self.greeting {
            Some(greeting) if read.is_pending() => {
                greeting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            Some(_) | None => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.after_write(wrote, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.after_write(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
