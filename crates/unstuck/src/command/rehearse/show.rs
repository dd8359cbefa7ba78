//! Shows a rehearsal as text: the timeline, then the summary.

use std::collections::BTreeSet;

use unstuck_core::time::Millis;
use unstuck_sim::rehearse::{Attempts, Broken, EndKind, PolicyUse, Report, Spread, Timeline, TimelineLine};

use crate::view::output::Output;
use crate::view::problems::number_of;
use crate::view::style::{self, Look};
use crate::view::table::{Cell, Table};
use crate::view::text;

/// Shows the whole report.
pub(super) fn show_rehearsal(report: &Report, timelines: &[Timeline], stdout: &mut Output) {
    stdout.line(&format!(
        "Rehearsal of flow {}: {}, {}, seed {}; the clock starts at {}.",
        stdout.look.paint(style::BOLD, format!("`{}`", report.flow)),
        number_of(report.runs as usize, "run"),
        number_of(report.workers as usize, "worker"),
        report.seed,
        report.start
    ));
    for timeline in timelines {
        stdout.line("");
        if report.runs > 1 {
            stdout.line(&section_title(&format!("RUN {} ({})", timeline.number, timeline.run), stdout.look));
        }
        let mut shown = BTreeSet::new();
        for line in &timeline.lines {
            for row in timeline_rows(line, stdout, &mut shown) {
                stdout.line(&row);
            }
        }
    }
    stdout.line("");
    show_summary(report, stdout);
}

fn section_title(title: &str, look: Look) -> String {
    look.paint(style::BOLD, title)
}

/// Formats the time since the start: `0d 02:00:05.000`.
pub(super) fn format_offset(after: Millis) -> String {
    let (seconds, millis) = (after.0 / 1_000, after.0 % 1_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hours, minutes, seconds) = (rest / 3_600, rest % 3_600 / 60, rest % 60);
    format!("{days}d {hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// Formats a line of the timeline, with the rule behind it the first time that rule appears.
fn timeline_rows(line: &TimelineLine, stdout: &Output, shown: &mut BTreeSet<String>) -> Vec<String> {
    let look = stdout.look;
    let time = format!("+{}", format_offset(line.after_ms));
    let indent = text::columns(&time) + 2;
    let room = stdout.width().map_or(110, |width| width.max(40)).saturating_sub(indent);
    let path = if line.path.is_empty() { String::new() } else { format!("{} > ", line.path) };
    let mut rows: Vec<String> = Vec::new();
    for (place, row) in text::wrap(&text::visible(&format!("{path}{}", line.what)), room).iter().enumerate() {
        let start = if place == 0 { look.paint(style::DIM, &time) } else { " ".repeat(indent - 2) };
        rows.push(format!("{start}  {}", look.paint(style_of(line), row)));
    }
    let is_worth_it = |rung: &str, rule: &str| rung != "completed" && rule != "resume";
    if let (Some(rung), Some(rule)) = (line.rung, &line.rule)
        && is_worth_it(rung, rule)
    {
        let rule = if rule.starts_with(rung) { rule.clone() } else { format!("{rung}: {rule}") };
        let whose = line.what.split(':').next().unwrap_or_default();
        if !shown.insert(format!("{path}{whose} {rule}")) {
            return rows;
        }
        for row in text::wrap(&text::visible(&rule), room.saturating_sub(2)) {
            rows.push(format!("{}{}", " ".repeat(indent + 2), look.paint(style::DIM, &row)));
        }
    }
    rows
}

fn style_of(line: &TimelineLine) -> anstyle::Style {
    match line.rung {
        Some("retryStrategy" | "stuck" | "deferral" | "failOnError") => style::LATER,
        Some("rest" | "failed" | "resumePolicy" | "exceptionHandler" | "deadline") => style::BAD,
        Some("completed") => style::GOOD,
        Some(_) | None => anstyle::Style::new(),
    }
}

/// Shows the results of all runs: their ends, times and attempts.
fn show_summary(report: &Report, stdout: &mut Output) {
    let look = stdout.look;
    stdout.line(&section_title("SUMMARY", look));
    let mut table = Table::new(&["", "", ""]);
    let mut row = |name: &str, cell: Cell| {
        table.row(vec![Cell::new(""), Cell::styled(name, style::DIM), cell]);
    };
    for (place, end) in report.ends.iter().enumerate() {
        let first = if report.runs == 1 { String::new() } else { format!("run {}: ", end.first) };
        let why = end.why.as_ref().map_or(String::new(), |why| format!(" ({first}{why})"));
        let said = format!("{} {}{why}", end.runs, end.end.word());
        row(if place == 0 { "runs" } else { "" }, Cell::styled(said, style_of_end(end.end)));
    }
    if let Some(times) = &report.completion {
        row("completed after", Cell::new(describe_spread(times)));
    }
    row("attempts", Cell::new(describe_attempts(&report.attempts)));
    if let Some(times) = &report.recovery {
        let whose = if times.count == 1 { "its" } else { "their" };
        let steps = number_of(usize::try_from(times.count).unwrap_or(usize::MAX), "step");
        row(
            "recovery",
            Cell::new(format!("{steps} recovered after {whose} first error: {}", describe_spread(times))),
        );
    }
    if report.worker_deaths > 0 {
        row("workers", Cell::new(format!("{} died", report.worker_deaths)));
    }
    row("virtual time", Cell::new(describe_duration(report)));
    for line in table.lines(stdout.width(), look) {
        stdout.line(&line);
    }
    show_decisions(report, stdout);
    show_policy_use(&report.policies, stdout);
    show_list("NEVER REACHED", &report.never_reached, anstyle::Style::new(), stdout);
    super::outputs::show_found_examples(&report.outputs, stdout);
    show_list("WARNINGS", &report.warnings, style::LATER, stdout);
}

/// Describes how long the rehearsal took, and why it stopped early if it did.
fn describe_duration(report: &Report) -> String {
    let took = report.took_ms.to_string();
    match report.broken {
        None => format!("{took}; nothing more would happen"),
        Some(Broken::Until(_)) => format!("{took}; stopped there (--until)"),
        Some(Broken::Events(most)) => {
            format!("{took}; stopped after {most} events: probably an endless loop")
        }
    }
}

fn style_of_end(end: EndKind) -> anstyle::Style {
    match end {
        EndKind::Completed => style::GOOD,
        EndKind::Failed | EndKind::Cancelled | EndKind::Error => style::BAD,
        EndKind::Held => style::ASKS,
        EndKind::Waiting | EndKind::Queued | EndKind::GoingOn => style::LATER,
    }
}

fn describe_spread(times: &Spread) -> String {
    if times.count == 1 {
        return times.max_ms.to_string();
    }
    format!("p50 {}, p99 {}, max {}", times.p50_ms, times.p99_ms, times.max_ms)
}

fn describe_attempts(attempts: &Attempts) -> String {
    let counts = [
        (attempts.completed, "completed"),
        (attempts.stalled, "stalled"),
        (attempts.failed, "failed"),
        (attempts.deferred, "deferred"),
        (attempts.stuck, "stuck"),
        (attempts.cancelled, "cancelled"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if counts.is_empty() { "0".to_owned() } else { format!("{} ({})", attempts.total, counts.join(", ")) }
}

/// Shows which decisions were taken at each step, and how often.
fn show_decisions(report: &Report, stdout: &mut Output) {
    if report.rungs.is_empty() {
        return;
    }
    stdout.line("");
    let mut table = Table::new(&["STEP", "DECISIONS"]);
    let mut steps: Vec<(&str, Vec<String>)> = Vec::new();
    for rung in &report.rungs {
        let said = format!("{} {} ({})", rung.times, rung.what, rung.rung);
        match steps.iter_mut().find(|(step, _)| *step == rung.step) {
            Some((_, known)) => known.push(said),
            None => steps.push((&rung.step, vec![said])),
        }
    }
    for (step, said) in steps {
        table.row(vec![Cell::new(step), Cell::new(said.join(", "))]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}

/// Shows how often each policy was used, and with what result.
fn show_policy_use(policies: &[PolicyUse], stdout: &mut Output) {
    if policies.is_empty() {
        return;
    }
    stdout.line("");
    let mut table = Table::new(&["POLICY", "USED", "SPENT", "RUNS", "COMPLETED", ""]);
    for policy in policies {
        let note = match (policy.enabled, policy.used) {
            (false, _) => "disabled",
            (true, 0) => "never matched",
            (true, _) => "",
        };
        table.row(vec![
            Cell::new(&policy.policy),
            Cell::new(policy.used.to_string()),
            Cell::new(policy.spent.to_string()),
            Cell::new(policy.runs.to_string()),
            Cell::new(policy.completed.to_string()),
            Cell::styled(note, style::DIM),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}

/// Shows a list under its title, if it is not empty.
pub(super) fn show_list(title: &str, entries: &[String], style: anstyle::Style, stdout: &mut Output) {
    if entries.is_empty() {
        return;
    }
    stdout.line("");
    stdout.line(&section_title(title, stdout.look));
    let room = stdout.width().map_or(110, |width| width.max(40)).saturating_sub(4);
    for entry in entries {
        for (place, row) in text::wrap(&text::visible(entry), room).iter().enumerate() {
            let start = if place == 0 { "  - " } else { "    " };
            stdout.line(&format!("{start}{}", stdout.look.paint(style, row)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_days_and_a_clock() {
        let cases = [
            (0, "0d 00:00:00.000"),
            (1_500, "0d 00:00:01.500"),
            (7_200_000, "0d 02:00:00.000"),
            (3 * 86_400_000 + 3_661_007, "3d 01:01:01.007"),
        ];
        for (millis, wanted) in cases {
            assert_eq!(format_offset(Millis(millis)), wanted);
        }
    }
}
