//! `--plan auto`: tries every fault at every step, and shows which ones a run does not survive.

use std::process::ExitCode;

use clap::CommandFactory;
use unstuck_sim::rehearse::auto::{
    BadEnd, Demand, FaultKind, Findings, MOST_PAIRS, StepLocation, Tried, WeakPoint, find_weak_points,
};
use unstuck_sim::rehearse::{EndKind, Rehearsal};

use super::{Arguments, outputs, show, to_pretty_json};
use crate::Format;
use crate::error::CommandError;
use crate::exit;
use crate::view::output::Output;
use crate::view::problems::number_of;
use crate::view::style;
use crate::view::text;

/// How many pairs are listed for one step.
const SHOWN_PAIRS: usize = 5;

/// Tries every fault and shows the weak points. Returns the exit code and how many runs were rehearsed.
pub(super) fn execute(
    arguments: &Arguments,
    rehearsal: &Rehearsal,
    format: Format,
) -> Result<(ExitCode, u32), CommandError> {
    let demands: Vec<Demand> =
        arguments.must_survive.iter().flat_map(|word| parse_demand(word.trim(), rehearsal)).collect();
    let max_pairs = arguments.max_pairs.map_or(MOST_PAIRS, |most| most as usize);
    let found = find_weak_points(rehearsal, &demands, max_pairs)
        .map_err(|trouble| CommandError::new(trouble.to_string()))?;
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&to_pretty_json(&found)?),
        Format::Text => show_findings(&found, arguments, &mut stdout),
    }
    stdout.finish()?;
    let runs = 1 + found.once.tried + found.always.tried + found.pairs.tried;
    let code = exit::of(found.not_survived.is_empty());
    Ok((code, u32::try_from(runs).unwrap_or(u32::MAX)))
}

/// Parses a word of `--must-survive`: `stall`, `always-stall`, `stall@encode`, `all` or `pairs`.
fn parse_demand(word: &str, rehearsal: &Rehearsal) -> Vec<Demand> {
    let refuse = |what: String| -> ! {
        crate::error::exit_with_usage_error(
            &crate::Arguments::command().error(clap::error::ErrorKind::InvalidValue, what),
        )
    };
    let (fault, step) = word.split_once('@').map_or((word, None), |(fault, step)| (fault, Some(step)));
    let location = step.map(|step| {
        find_step(step, rehearsal).unwrap_or_else(|| {
            refuse(format!(
                "--must-survive {word}: flow `{}` has no step `{step}` that a worker or a process executes",
                rehearsal.flow
            ))
        })
    });
    if word == "pairs" {
        return vec![Demand::Pairs];
    }
    let (always, kind) = fault.strip_prefix("always-").map_or((false, fault), |kind| (true, kind));
    let kinds: Vec<FaultKind> =
        FaultKind::ALL.into_iter().filter(|known| kind == "all" || known.word() == kind).collect();
    if kinds.is_empty() {
        let words: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.word()).collect();
        refuse(format!(
            "--must-survive {word}: there is no fault `{fault}`; use {}, all or pairs, also as `always-...` and with `@STEP`",
            words.join(", ")
        ));
    }
    kinds.into_iter().map(|kind| Demand::Single { kind, always, location: location.clone() }).collect()
}

/// Finds a step by name: `encode`, or `child.encode`.
fn find_step(step: &str, rehearsal: &Rehearsal) -> Option<StepLocation> {
    let (flow, id) = step.rsplit_once('.').map_or((None, step), |(flow, id)| (Some(flow), id));
    let name = flow.unwrap_or(&rehearsal.flow);
    let of = rehearsal.flows.iter().find(|flow| *flow.name == *name)?;
    let step = of.steps.iter().find(|step| *step.id == *id && unstuck_flow::plan::is_executed(step))?;
    let flow = (of.name != rehearsal.flow).then(|| of.name.clone());
    Some(StepLocation { flow, step: step.id.clone() })
}

/// Shows how many faults were tried and survived, then the weak points.
fn show_findings(found: &Findings, arguments: &Arguments, stdout: &mut Output) {
    let look = stdout.look;
    let name = look.paint(style::BOLD, format!("`{}`", found.flow));
    stdout.line(&format!("Faults at {} of flow {name}, one rehearsal each:", number_of(found.steps, "step")));
    stdout.line(&format!("  once     {}", describe_tally(&found.once, "fault")));
    stdout.line(&format!("  always   {}", describe_tally(&found.always, "fault")));
    stdout.line(&format!("  pairs    {}", describe_tally(&found.pairs, "pair")));
    if found.without_fault.end != EndKind::Completed {
        let why = found.without_fault.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let said = format!(
            "Without any fault the run is {}{why}, so no fault was tried.",
            found.without_fault.end.word()
        );
        stdout.line(&look.paint(style::BAD, said));
        if let Some(missing) = &found.missing {
            outputs::show_missing_examples(missing, arguments, stdout);
        }
    } else if found.weak_points.is_empty() {
        stdout.line(&look.paint(style::GOOD, "No weak points found: every run completed."));
    }
    for (place, points) in group_alike(&found.weak_points).iter().enumerate() {
        stdout.line("");
        show_weak_point(place + 1, points, stdout);
    }
    outputs::show_found_examples(&found.outputs, stdout);
    show::show_list("WARNINGS", &found.warnings, style::LATER, stdout);
    if !arguments.must_survive.is_empty() {
        let sentences: Vec<String> = found.not_survived.iter().map(|lost| lost.what.clone()).collect();
        show::show_list("NOT SURVIVED", &sentences, style::BAD, stdout);
        if sentences.is_empty() {
            stdout.line("");
            stdout.line(&look.paint(style::GOOD, "Every required fault is survived."));
        }
    }
}

/// Describes how many faults were tried and survived.
fn describe_tally(tried: &Tried, word: &str) -> String {
    let lost = tried.tried - tried.survived;
    let left_out = match tried.left_out {
        0 => String::new(),
        n => format!("; {} left out (--max-pairs)", number_of(n, word)),
    };
    format!("{} tried, {} survived, {lost} not{left_out}", number_of(tried.tried, word), tried.survived)
}

/// Groups steps where the same faults lead to the same end, so that they are shown together.
fn group_alike(points: &[WeakPoint]) -> Vec<Vec<&WeakPoint>> {
    let ends = |point: &WeakPoint| -> Vec<(String, EndKind)> {
        point.faults.iter().filter(|bad| !bad.is_pair).map(|bad| (bad.fault.clone(), bad.end)).collect()
    };
    let pairs = |point: &WeakPoint| point.faults.iter().any(|bad| bad.is_pair);
    let mut groups: Vec<Vec<&WeakPoint>> = Vec::new();
    for point in points {
        let fits = |group: &&mut Vec<&WeakPoint>| {
            group.first().is_some_and(|first| {
                ends(first) == ends(point) && first.helps == point.helps && !pairs(first) && !pairs(point)
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(point),
            None => groups.push(vec![point]),
        }
    }
    groups
}

/// Shows a group of steps with the faults that they do not survive.
fn show_weak_point(place: usize, points: &[&WeakPoint], stdout: &mut Output) {
    let look = stdout.look;
    let Some(point) = points.first() else { return };
    let names: Vec<String> = points.iter().map(|point| format!("`{}`", point.step)).collect();
    stdout.line(&format!("{place}. {}", look.paint(style::BOLD, names.join(", "))));
    let pairs = point.faults.iter().filter(|bad| bad.is_pair).count();
    let single = point.faults.iter().filter(|bad| !bad.is_pair && !bad.is_always);
    for bad in single.chain(point.faults.iter().filter(|bad| bad.is_pair).take(SHOWN_PAIRS)) {
        show_bad_end(bad, stdout);
    }
    if pairs > SHOWN_PAIRS {
        stdout.line(&format!("   and {} more", number_of(pairs - SHOWN_PAIRS, "pair")));
    }
    let always = describe_always(&point.faults);
    if !always.is_empty() {
        write_wrapped("   always         ", &always, stdout);
    }
    for help in &point.helps {
        write_wrapped("   fix: ", help, stdout);
    }
}

/// Describes where faults at every attempt lead, grouped by their end.
fn describe_always(faults: &[BadEnd]) -> String {
    let mut ends: Vec<(EndKind, Vec<&str>)> = Vec::new();
    for bad in faults.iter().filter(|bad| bad.is_always) {
        let word = bad.fault.split(' ').next().unwrap_or_default();
        match ends.iter_mut().find(|(end, _)| *end == bad.end) {
            Some((_, words)) => words.push(word),
            None => ends.push((bad.end, vec![word])),
        }
    }
    let parts = ends.iter().map(|(end, words)| format!("{}: {}", words.join(", "), end.word()));
    parts.collect::<Vec<_>>().join("; ")
}

/// Shows one fault with its end, cause and rule.
fn show_bad_end(bad: &BadEnd, stdout: &mut Output) {
    let why = bad.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let end = match bad.end {
        EndKind::GoingOn => bad.end.word().to_owned(),
        end => format!("{} after {}", end.word(), bad.after_ms),
    };
    write_wrapped(&format!("   {:<14} ", bad.fault), &format!("{end}{why}"), stdout);
    for (place, line) in bad.plan.lines().enumerate() {
        let start = if place == 0 { "plan: " } else { "      " };
        let line = format!("{}{start}{line}", " ".repeat(18));
        stdout.line(&stdout.look.paint(style::DIM, line));
    }
}

fn write_wrapped(start: &str, said: &str, stdout: &mut Output) {
    let indent = text::columns(start);
    let room = stdout.width().map_or(110, |width| width.max(40)).saturating_sub(indent);
    for (place, row) in text::wrap(&text::visible(said), room).iter().enumerate() {
        let before = if place == 0 { start.to_owned() } else { " ".repeat(indent) };
        stdout.line(&format!("{before}{row}"));
    }
}
