//! The rule behind a decision, as it is written in a flow file.

use crate::model::attempt::StuckLimit;
use crate::model::expression::Template;
use crate::model::flow::{Concurrency, Deadline, Flow, Step};
use crate::model::recovery::{BackOff, Limits, RetryStrategy};
use crate::model::run::Run;
use crate::reason::phrases::shorten_to_line;

/// An output template is cut here.
const LONGEST_OUTPUT: usize = 80;

/// Formats the retry strategy of a step.
pub(super) fn retry(step: &Step) -> String {
    match step.retry {
        RetryStrategy::None => "retryStrategy: none".to_owned(),
        RetryStrategy::Retry { max_attempts, back_off } => {
            let max = max_attempts.map_or("-1".to_owned(), |max| max.to_string());
            let back_off =
                back_off.map_or(String::new(), |given| format!(", backOff: {}", back_off_text(&given)));
            format!("retryStrategy: retry, maxAttempts: {max}{back_off}")
        }
        RetryStrategy::Hold { max_attempts: None } => "retryStrategy: hold".to_owned(),
        RetryStrategy::Hold { max_attempts: Some(max) } => format!("retryStrategy: hold, maxAttempts: {max}"),
    }
}

fn back_off_text(back_off: &BackOff) -> String {
    let BackOff { delay, max_delay, multiplier, random } = back_off;
    if max_delay.is_none() && multiplier.is_none() && !random {
        return delay.to_string();
    }
    let mut parts = vec![format!("delay: {delay}")];
    parts.extend(multiplier.map(|multiplier| format!("multiplier: {multiplier}")));
    parts.extend(max_delay.map(|max| format!("maxDelay: {max}")));
    parts.extend(random.then(|| "random: true".to_owned()));
    format!("{{{}}}", parts.join(", "))
}

/// Formats what a step says about errors where no rung acts.
pub(super) fn nothing_acts(step: &Step) -> String {
    format!("{}, failOnError: {}, no exceptionHandler", retry(step), step.fail_on_error)
}

/// Formats the exception handler.
pub(super) fn handler(flow: &str) -> String {
    format!("exceptionHandler: {flow}")
}

/// Formats `maxStuck` and the limit that the attempt reached.
pub(super) fn stuck(limits: &Limits, limit: Option<StuckLimit>) -> String {
    let max = format!("maxStuck: {}", limits.max_stuck);
    match limit {
        Some(StuckLimit::Start(span)) => format!("startTimeout: {span}, {max}"),
        Some(StuckLimit::Heartbeat(span)) => format!("heartbeatTimeout: {span}, {max}"),
        Some(StuckLimit::Total(span)) => format!("timeout: {span}, {max}"),
        Some(StuckLimit::Gone) | None => max,
    }
}

/// Formats the deferral settings of a step.
pub(super) fn defer(step: &Step) -> String {
    let defer = &step.defer;
    format!(
        "defer: {{delay: {}, multiplier: {}, maxDelay: {}, limit: {}}}",
        defer.delay, defer.multiplier, defer.max_delay, defer.limit
    )
}

/// Formats the `if` of a step.
pub(super) fn condition(step: &Step) -> String {
    step.node.when.as_ref().map_or("if".to_owned(), |condition| format!("if: {}", condition.source))
}

/// Formats the concurrency limit of a flow.
pub(super) fn concurrency(flow: &Flow) -> String {
    match &flow.concurrency {
        None => "concurrency".to_owned(),
        Some(Concurrency { limit, key: None, strict: false }) => format!("concurrency: {limit}"),
        Some(Concurrency { limit, key, strict }) => {
            let mut parts = vec![format!("limit: {limit}")];
            parts.extend(key.as_ref().map(|key| format!("key: {}", key.source)));
            parts.extend(strict.then(|| "strict: true".to_owned()));
            format!("concurrency: {{{}}}", parts.join(", "))
        }
    }
}

/// Formats the deadline: the flow's, or the one given when the run was started.
pub(super) fn deadline(flow: &Flow, run: Option<&Run>) -> String {
    let given = run.and_then(|run| run.deadline);
    match (flow.deadline, run, given) {
        (Some(Deadline::After(span)), Some(run), Some(given))
            if run.generation > 1 || given == run.created_at + span =>
        {
            format!("deadline: {span}")
        }
        (Some(Deadline::At(time)), _, Some(given)) if given == time => format!("deadline: {time}"),
        (_, _, Some(given)) => format!("deadline: {given} (set at the start)"),
        (_, _, None) => "deadline".to_owned(),
    }
}

/// Formats the output of a flow.
pub(super) fn output(flow: &Flow) -> String {
    match &flow.output {
        None => "output: default (the outputs of the last steps)".to_owned(),
        Some(Template::Fixed(json)) => format!("output: {}", shorten_to_line(json.text(), LONGEST_OUTPUT)),
        Some(Template::Computed(expression)) => {
            format!("output: {}", shorten_to_line(&expression.source, LONGEST_OUTPUT))
        }
    }
}
