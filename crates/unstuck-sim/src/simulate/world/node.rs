//! A server of the world: a process, or none at the moment, with clocks of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unstuck_core::time::Time;

use super::host::{Clocks, Host};
use crate::simulate::plan::LostAnswer;
use crate::simulate::trace::BEGIN;

/// A server.
pub(super) struct Node<S> {
    pub(super) process: Process<S>,
    /// The machine that it is on.
    pub(super) host: Arc<str>,
    /// How far the wall is off.
    pub(super) skew: i64,
    /// What the machine shows of both clocks.
    pub(super) clocks: Clocks,
    /// Since when the process is stopped, if it is.
    pub(super) frozen: Option<Time>,
    /// Since when the engine waits for its disk.
    pub(super) blocked: Option<Time>,
    /// Until when it gets to its work late.
    pub(super) lags_until: Time,
    /// Whether a word is in line that nobody would repeat.
    pub(super) is_word_in_line: bool,
    /// The power went while policies were changed.
    pub(super) is_unsure_of_policies: bool,
    /// The answer to its next stage is lost.
    pub(super) loses_answer: Option<LostAnswer>,
    /// A batch will be given what it has asked for.
    pub(super) load_is_planned: bool,
    pub(super) step_is_planned: bool,
    /// Another server has changed something.
    pub(super) news: Arc<AtomicBool>,
}

#[expect(clippy::large_enum_variant, reason = "there are few, and they are up nearly all the time")]
pub(super) enum Process<S> {
    Up(Host<S>),
    Down(S),
    /// Between the two.
    Changing,
}

impl<S> Node<S> {
    /// One that has not been started.
    pub(super) fn new(store: S, host: Arc<str>) -> Node<S> {
        Node {
            process: Process::Down(store),
            host,
            skew: 0,
            clocks: Clocks::new(BEGIN),
            frozen: None,
            blocked: None,
            lags_until: BEGIN,
            is_word_in_line: false,
            is_unsure_of_policies: false,
            loses_answer: None,
            load_is_planned: false,
            step_is_planned: false,
            news: Arc::default(),
        }
    }

    /// The process, if there is one.
    pub(super) fn running_host(&mut self) -> Option<&mut Host<S>> {
        match &mut self.process {
            Process::Up(host) => Some(host),
            Process::Down(_) | Process::Changing => None,
        }
    }

    /// Whether there is a process that does something.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.process, Process::Up(_)) && self.frozen.is_none() && self.blocked.is_none()
    }

    /// When it wakes up by itself, if it does.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        match &self.process {
            Process::Up(host) if self.is_up() => host.wakes_at,
            Process::Up(_) | Process::Down(_) | Process::Changing => None,
        }
    }

    /// Whether another server has changed something since this was asked.
    pub(super) fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }
}
