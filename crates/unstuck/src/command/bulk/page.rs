//! A bulk action as text: what it does, its progress, and the results of its targets.

use unstuck_service::local_time;

use crate::view::changed;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::bulk::{BulkView, CauseCount, ResultKind};

/// How many commands to continue runs are listed.
const SHOWN: usize = 3;

/// Shows the state of a bulk action, its results, and what can be done now.
pub(crate) fn show_bulk(page: &BulkView, stdout: &mut Output, option: &str) {
    let name = stdout.look.paint(style::BOLD, &page.bulk);
    let state = stdout.look.paint(style::style_of_word(&page.state), describe_state(page));
    stdout.line(&format!("{name}  {} of {}: {state}", page.action, text::visible(&page.selection)));
    let by = format!("{}, {}", page.by, local_time::format_full_and_relative(page.created_at));
    let by = match &page.reason {
        Some(reason) => format!("{by}: {reason}"),
        None => by,
    };
    let speed = match page.canary {
        Some(canary) => {
            format!("{} a second, in waves that start with {canary}; wave {}", page.rate, page.wave)
        }
        None => format!("{} a second", page.rate),
    };
    let targets = match describe_left_out(&page.action, page.left_out) {
        Some(words) => format!("{}; {words}", page.total),
        None => page.total.to_string(),
    };
    for (name, value) in [("by", by), ("pace", speed), ("targets", targets)] {
        let name = stdout.look.paint(style::DIM, format!("{name:8}"));
        stdout.line(&format!("  {name} {}", text::visible(&value)));
    }
    stdout.line("");
    for counted in &page.results {
        stdout.line(&format!("{:>8}  {}", counted.count, result_word(&page.action, counted.result)));
        for CauseCount { cause, count, run } in &counted.causes {
            let one = if *count == 1 { run.clone() } else { format!("{count}, such as {run}") };
            stdout.line(&text::visible(&format!("            {cause} ({one})")));
        }
    }
    show_next_steps(page, stdout, option);
}

/// Summarises the results on one line.
pub(crate) fn summarize_results(page: &BulkView) -> String {
    let parts: Vec<String> = page
        .results
        .iter()
        .map(|counted| format!("{} {}", counted.count, result_word(&page.action, counted.result)))
        .collect();
    parts.join(", ")
}

/// Returns the word for the result of a target of this command.
pub(crate) fn result_word(action: &str, result: ResultKind) -> &'static str {
    match (action, result) {
        // A rerun is about the whole run, not a step.
        ("rerun", ResultKind::Passed) => "completed",
        _ => result.word(),
    }
}

/// Describes how many runs a command left out, and why.
pub(crate) fn describe_left_out(action: &str, count: u64) -> Option<String> {
    let runs = if count == 1 { "run" } else { "runs" };
    let why = match action {
        "forget" => "not final",
        "signal" => "not waiting for this signal",
        "skip" | "complete" => "their step is not in error, held, waiting or queued",
        _ => "not final, or superseded",
    };
    (count > 0).then(|| format!("{count} {runs} left out: {why}"))
}

/// Describes the state of a bulk action in words.
fn describe_state(page: &BulkView) -> String {
    match page.state.as_str() {
        "acted" => "done with every target; waiting for results".to_owned(),
        "running" if !page.acts => "waiting for the results of its wave".to_owned(),
        state => state.to_owned(),
    }
}

/// Shows what happens next, or what an operator can do.
fn show_next_steps(page: &BulkView, stdout: &mut Output, option: &str) {
    let bulk = &page.bulk;
    if let Some(why) = &page.why {
        stdout.line("");
        changed::write_wrapped(stdout, &format!("Stopped: {why}."));
        stdout.line("Continue anyway, or leave out the rest:");
        stdout.line(&text::visible(&format!("  unstuck bulk unpause {bulk}{option}")));
        stdout.line(&text::visible(&format!("  unstuck bulk cancel {bulk}{option}")));
    }
    if page.state == "paused" {
        stdout.line("");
        stdout.line(&text::visible(&format!("To continue it: unstuck bulk unpause {bulk}{option}")));
    }
    if !page.go_on.is_empty() {
        let of = if page.action == "resume" { "The runs of resumed steps" } else { "These runs" };
        let sentence =
            format!("{of} are idle: no process is executing them. Each of these commands continues one:");
        stdout.line("");
        changed::write_wrapped(stdout, &sentence);
        for command in page.go_on.iter().take(SHOWN) {
            stdout.line(&format!("  {}", text::visible(command)));
        }
        if page.go_on.len() > SHOWN {
            stdout.line(&format!(
                "and {} more. To continue all of them, one after the other:",
                page.go_on.len() - SHOWN
            ));
            let all = format!("unstuck bulk show {bulk} -o json{option} | jq -r '.goOn[]' | sh");
            stdout.line(&format!("  {}", text::visible(&all)));
        }
        if page.not_looked_at > 0 {
            let more = page.not_looked_at;
            let done = if page.action == "resume" { "resumed steps" } else { "targets" };
            stdout.line(&format!("Only the first {done} were checked; {more} more were not."));
        }
    }
}
