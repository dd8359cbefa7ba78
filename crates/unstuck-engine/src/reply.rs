//! Replies: whoever asks is called back, once, whatever becomes of the engine.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::request::EngineError;

/// Where the answer to a request goes. It is called on the engine's thread, and must not block; nobody waits in a thread of
/// its own unless it wants to.
pub(crate) struct ReplyTo<T>(Option<Callback<T>>);

type Callback<T> = Box<dyn FnOnce(Result<T, EngineError>) + Send>;

impl<T> ReplyTo<T> {
    pub(crate) fn new(callback: impl FnOnce(Result<T, EngineError>) + Send + 'static) -> ReplyTo<T> {
        ReplyTo(Some(Box::new(callback)))
    }

    /// For somebody who waits.
    pub(crate) fn channel() -> (ReplyTo<T>, Receiver<Result<T, EngineError>>)
    where
        T: Send + 'static,
    {
        let (sender, receiver) = sync_channel(1);
        let callback = move |result| {
            // Whoever has stopped waiting does not mind.
            let _ = sender.send(result);
        };
        (ReplyTo::new(callback), receiver)
    }

    pub(crate) fn send(mut self, result: Result<T, EngineError>) {
        if let Some(callback) = self.0.take() {
            callback(result);
        }
    }
}

impl<T> Drop for ReplyTo<T> {
    /// An engine that stops answers by dropping what it has not answered.
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            callback(Err(EngineError::Stopped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_is_answered_once_and_told_when_the_engine_has_stopped() {
        let (reply, receiver) = ReplyTo::channel();
        reply.send(Ok(7));
        assert_eq!((receiver.recv(), receiver.recv().is_err()), (Ok(Ok(7)), true));
        let (reply, receiver) = ReplyTo::<u8>::channel();
        drop(reply);
        assert_eq!((receiver.recv(), receiver.recv().is_err()), (Ok(Err(EngineError::Stopped)), true));
    }
}
