//! Reads the recovery fields of a step: limits, deferral, retry strategy, back-off, and what a failure means.
//!
//! A value that cannot be read is reported and replaced by its default: the file is refused anyway, and reading on
//! finds all other problems at once.

use unstuck_core::model::recovery::{BackOff, Defer, Limits, RetryStrategy};

use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::step_fields::StepFields;
use crate::tree::Content;

/// The default of `maxAttempts` for `retry`.
const RETRY_ATTEMPTS: u32 = 2;

/// Reads the timeouts and `maxStuck`.
pub(crate) fn read_limits(given: &StepFields<'_, '_>, problems: &mut Problems<'_>) -> Limits {
    let default = Limits::default();
    let default_timeout = match given.kind {
        "flow" | "wait" | "signal" => None,
        "http" => Some(Limits::HTTP_TIMEOUT),
        _ => default.timeout,
    };
    let max_stuck =
        given.spot("maxStuck").and_then(|spot| spot.read_whole(1, "a whole number of at least 1", problems));
    Limits {
        start_timeout: given
            .read_positive_duration("startTimeout", problems)
            .unwrap_or(default.start_timeout),
        heartbeat_timeout: given.read_positive_duration("heartbeatTimeout", problems),
        timeout: given.read_positive_duration("timeout", problems).or(default_timeout),
        queue_timeout: given.read_positive_duration("queueTimeout", problems),
        max_stuck: max_stuck.unwrap_or(default.max_stuck),
        minimum_delay: given.read_duration("minimumDelay", problems).unwrap_or(default.minimum_delay),
    }
}

/// Reads how long deferrals wait.
pub(crate) fn read_defer(given: &StepFields<'_, '_>, problems: &mut Problems<'_>) -> Defer {
    let default = Defer::default();
    let Some(spot) = given.spot("defer") else { return default };
    let Some(object) = Object::read(&spot, fields::DEFER, "`defer`", problems) else { return default };
    let delay =
        object.spot("delay").and_then(|spot| spot.read_positive_duration(problems)).unwrap_or(default.delay);
    let limit = object.spot("limit").and_then(|spot| spot.read_duration(problems)).unwrap_or(default.limit);
    let multiplier = object.spot("multiplier").and_then(|spot| spot.read_number(1.0, problems));
    let max_delay = object.spot("maxDelay").and_then(|spot| {
        let max_delay = spot.read_duration(problems)?;
        if max_delay < delay {
            spot.refuse(problems, format!("`maxDelay` ({max_delay}) is below `delay` ({delay})"));
        }
        Some(max_delay)
    });
    Defer {
        delay,
        multiplier: multiplier.unwrap_or(default.multiplier),
        // A first delay above the default cap raises the cap.
        max_delay: max_delay.unwrap_or(default.max_delay.max(delay)),
        limit,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Strategy {
    None,
    Retry,
    Hold,
}

/// Reads the retry strategy with `maxAttempts` and `backOff`; warns about fields that the strategy does not use.
pub(crate) fn read_retry_strategy(given: &StepFields<'_, '_>, problems: &mut Problems<'_>) -> RetryStrategy {
    let words = [("none", Strategy::None), ("retry", Strategy::Retry), ("hold", Strategy::Hold)];
    let strategy = given.spot("retryStrategy").and_then(|spot| spot.read_word(&words, problems));
    let attempts = given.spot("maxAttempts").map(|spot| (read_max_attempts(&spot, problems), spot));
    let back_off = given.spot("backOff").and_then(|spot| read_back_off(&spot, problems));
    match strategy.unwrap_or(Strategy::None) {
        Strategy::None => {
            // If the strategy itself could not be read, its other fields get no warning.
            if strategy.is_some() || !given.is_own("retryStrategy") {
                warn_without_effect(
                    given,
                    "maxAttempts",
                    "nothing is retried with `retryStrategy: none`",
                    problems,
                );
                warn_without_effect(
                    given,
                    "backOff",
                    "nothing is retried with `retryStrategy: none`",
                    problems,
                );
            }
            RetryStrategy::None
        }
        Strategy::Retry => {
            if let Some((Some(Attempts::Unlimited), spot)) = &attempts
                && given.spot("backOff").is_none()
            {
                spot.refuse(problems, "unlimited attempts need a `backOff`")
                    .hint("add for example `backOff: {delay: 10s, multiplier: 2, maxDelay: 10m}`");
            }
            if let Some((Some(Attempts::AtMost(1)), spot)) = &attempts
                && given.is_own("maxAttempts")
            {
                problems
                    .warning(spot.node.at, &spot.path, "with one attempt nothing is retried")
                    .hint("2 means one try and one retry");
            }
            RetryStrategy::Retry {
                max_attempts: attempts_limit(attempts.as_ref(), Some(RETRY_ATTEMPTS)),
                back_off,
            }
        }
        Strategy::Hold => {
            warn_without_effect(given, "backOff", "a held step waits for an operator", problems);
            RetryStrategy::Hold { max_attempts: attempts_limit(attempts.as_ref(), None) }
        }
    }
}

enum Attempts {
    AtMost(u32),
    Unlimited,
}

/// Returns the limit that was given: `None` is unlimited; the default where nothing valid was given.
fn attempts_limit(given: Option<&(Option<Attempts>, LocatedNode<'_>)>, default: Option<u32>) -> Option<u32> {
    match given {
        Some((Some(Attempts::AtMost(n)), _)) => Some(*n),
        Some((Some(Attempts::Unlimited), _)) => None,
        Some((None, _)) | None => default,
    }
}

/// Reads `maxAttempts`: a positive number, or -1 for no limit.
fn read_max_attempts(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Attempts> {
    if matches!(&spot.node.content, Content::Number(number) if number.as_i64() == Some(-1)) {
        return Some(Attempts::Unlimited);
    }
    spot.read_whole(1, "a whole number of at least 1, or -1 for no limit", problems).map(Attempts::AtMost)
}

/// Warns about a field of the step that has no effect; a default is not the step's fault.
fn warn_without_effect(given: &StepFields<'_, '_>, name: &str, why: &str, problems: &mut Problems<'_>) {
    if let Some(entry) = given.own.get(name) {
        problems
            .warning(entry.at, format!("{}.{name}", given.own.path), format!("`{name}` has no effect: {why}"))
            .hint("set `retryStrategy: retry`, or remove it");
    }
}

/// Reads a back-off: a duration, or an object with its parts.
pub(crate) fn read_back_off(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<BackOff> {
    if !matches!(spot.node.content, Content::Map(_)) {
        return spot.read_duration(problems).map(BackOff::fixed);
    }
    let object = Object::read(spot, fields::BACK_OFF, "`backOff`", problems)?;
    let random = object.spot("random").and_then(|spot| spot.read_boolean(problems)).unwrap_or(false);
    let multiplier = object.spot("multiplier").and_then(|spot| spot.read_number(1.0, problems));
    let max_delay = object.spot("maxDelay").and_then(|spot| spot.read_duration(problems));
    let Some(delay) = object.spot("delay") else {
        spot.refuse(problems, "`backOff` needs a `delay`").hint("for example `delay: 10s`");
        return None;
    };
    let delay = delay.read_duration(problems)?;
    if let (Some(max_delay), Some(spot)) = (max_delay, object.spot("maxDelay"))
        && max_delay < delay
    {
        spot.refuse(problems, format!("`maxDelay` ({max_delay}) is below `delay` ({delay})"));
    }
    if random && object.get("maxDelay").is_none() {
        let at = object.get("random").map_or(object.at, |entry| entry.at);
        problems
            .error(at, format!("{}.random", object.path), "`random` needs a `maxDelay`")
            .hint("the delay is chosen at random between `delay` and `maxDelay`");
    }
    if let Some(entry) = object.get("multiplier")
        && random
    {
        let path = format!("{}.multiplier", object.path);
        problems.warning(entry.at, path, "`multiplier` has no effect together with `random: true`");
    }
    Some(BackOff { delay, max_delay, multiplier, random })
}

/// Reads `failOnError` and the exception handler. What the step gives itself overrules a default that contradicts it.
pub(crate) fn read_failure_handling<'a>(
    given: &StepFields<'a, '_>,
    problems: &mut Problems<'_>,
) -> (bool, Option<LocatedNode<'a>>) {
    let fail_on_error =
        given.spot("failOnError").and_then(|spot| spot.read_boolean(problems)).unwrap_or(true);
    let handler = given.spot("exceptionHandler");
    let named = handler.as_ref().and_then(|spot| spot.read_name("flow name", problems));
    let Some(spot) = handler.filter(|_| named.is_some()) else { return (fail_on_error, None) };
    if fail_on_error {
        return (true, Some(spot));
    }
    match (given.is_own("failOnError"), given.is_own("exceptionHandler")) {
        (true, false) => (false, None),
        (false, true) => (true, Some(spot)),
        (true, true) | (false, false) => {
            spot.refuse(
                problems,
                "the exception handler would never run: `failOnError: false` ignores the error",
            )
            .hint("remove one of the two");
            (false, None)
        }
    }
}
