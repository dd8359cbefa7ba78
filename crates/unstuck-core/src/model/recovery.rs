//! The settings of recovery that a step carries: strategies, back-off, deferral, limits.

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// How long to wait before trying again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// The base.
    pub delay: Millis,
    /// The cap, and the upper end of `random`.
    pub max_delay: Option<Millis>,
    /// `delay * multiplier * tries`.
    pub multiplier: Option<f64>,
    /// Uniform in `delay..=max_delay`.
    pub random: bool,
}

impl BackOff {
    /// The same delay every time.
    pub const fn fixed(delay: Millis) -> BackOff {
        BackOff { delay, max_delay: None, multiplier: None, random: false }
    }
}

/// What a step does about its own errors, before policies and handlers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RetryStrategy {
    /// Nothing is retried.
    None,
    /// Runs again after `back_off`, until `max_attempts` attempts of the round have stalled.
    Retry {
        /// `None` is unlimited.
        max_attempts: Option<u32>,
        /// `None` is the minimum delay.
        back_off: Option<BackOff>,
    },
    /// Waits for an operator's choice.
    Hold {
        /// After this many failures in the round it is no longer held; `None` is unlimited.
        max_attempts: Option<u32>,
    },
}

/// How a deferred attempt waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defer {
    /// The first wait, where the worker gives none.
    pub delay: Millis,
    /// How the wait grows.
    pub multiplier: f64,
    /// How far it grows.
    pub max_delay: Millis,
    /// The most time of deferral in one round.
    pub limit: Millis,
}

impl Default for Defer {
    fn default() -> Defer {
        Defer {
            delay: Millis::seconds(30),
            multiplier: 2.0,
            max_delay: Millis::minutes(10),
            limit: Millis::hours(24),
        }
    }
}

/// When an attempt is given up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From `dequeued` to `active`.
    pub start_timeout: Millis,
    /// From one sign of life to the next. `None`: the executor's own default decides (a worker 30 s, a local
    /// process as long as it lives).
    pub heartbeat_timeout: Option<Millis>,
    /// From the start to the end. `None` only for a child, a wait or a signal.
    pub timeout: Option<Millis>,
    /// From ready to dequeued.
    pub queue_timeout: Option<Millis>,
    /// How often in one round an attempt may be stuck.
    pub max_stuck: u32,
    /// Between two attempts of a step.
    pub minimum_delay: Millis,
}

impl Limits {
    /// The lease of a worker that gets no other.
    pub const HEARTBEAT_TIMEOUT: Millis = Millis::seconds(30);
    /// The default timeout of an attempt.
    pub const TIMEOUT: Millis = Millis::hours(12);
    /// The default timeout of an HTTP request: who answers later than that rarely answers at all.
    pub const HTTP_TIMEOUT: Millis = Millis::minutes(5);
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            start_timeout: Millis::seconds(30),
            heartbeat_timeout: None,
            timeout: Some(Limits::TIMEOUT),
            queue_timeout: None,
            max_stuck: 3,
            minimum_delay: Millis::seconds(1),
        }
    }
}
