//! Lists, searches and counts over HTTP with many runs in the store, while the engine of the server works at half of its rate.

use std::path::Path;
use std::time::{Duration, Instant};

use super::calls::{Call, Outcome, Plan};
use super::process::{Failure, Served, begin, end};
use super::speed::{Measured, Patience};
use crate::aims::Aim;

/// A step that a server carries out by itself.
const WORK: &str = "flow: work\nsteps:\n  - {id: a, emulate: pass}\n  - {id: b, emulate: pass}\n";
/// Runs in a request, and such requests at once.
const BATCH: u64 = 64;
const AT_ONCE: u32 = 8;
/// Connections that ask.
const READERS: u32 = 2;
/// A page of any list.
const AIM: Duration = Duration::from_millis(50);
/// Of runs that have ended, as the server counts attempts.
const ENDED: &str = "unstuck_attempts_total";
/// Attempts of a run.
const STEPS: f64 = 2.0;

/// Measures a server on the store in this folder.
pub fn measure_lists(store: &Path, patience: Patience, aims: &mut Vec<Aim>) -> Result<(), Failure> {
    let begun = Instant::now();
    let served = Served::store(store, &[])?;
    println!("  it listens after {:.2?}", begun.elapsed());
    served.call(&Call::apply(WORK))?;
    let questions = questions(&served)?;
    let full = full_rate(&served, patience)?;
    println!("  the engine alone completes {full:.0} runs/s of two emulated steps");
    let quiet = Measured::take(&served, &asking(&served, &questions, patience))?.outcome;
    let offered = full / 2.0;
    let alone = at_half(&served, offered, patience, None)?;
    let beside = at_half(&served, offered, patience, Some(asking(&served, &questions, patience)))?;
    print_answers(&quiet, beside.asked.as_ref(), aims);
    let part = beside.completed / alone.completed;
    println!(
        "  at half of its rate ({offered:.0} runs/s): {:.0} runs/s alone, {:.0} beside readers ({part:.2}); a request of {BATCH} starts p99 {:.1?}, {:.1?} beside readers",
        alone.completed, beside.completed, alone.starts.answers[0].p99, beside.starts.answers[0].p99
    );
    aims.push(Aim::new("the engine at 0.9 of its speed beside readers", format!("{part:.2}"), part / 0.9));
    Ok(())
}

fn asking(served: &Served, questions: &[Call], patience: Patience) -> Plan {
    let (address, time) = (served.address, patience.time * 3);
    Plan { address, connections: READERS, time, pace: None, calls: questions.to_vec() }
}

fn starting(served: &Served, pace: Option<f64>, time: Duration) -> Plan {
    let calls = vec![Call::start_many("work", BATCH)];
    Plan { address: served.address, connections: AT_ONCE, time, pace, calls }
}

/// How many runs the engine completes in a second when more are started than that.
fn full_rate(served: &Served, patience: Patience) -> Result<f64, Failure> {
    let mut best = 0.0_f64;
    for _ in 0..patience.rounds {
        let (before, begin) = (served.metric(ENDED)?, Instant::now());
        let outcome = Measured::take(served, &starting(served, None, patience.time))?.outcome;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let started = (outcome.count() * BATCH) as f64;
        drain(served, before + started * STEPS)?;
        best = best.max(started / begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Waits until so many attempts have ended.
fn drain(served: &Served, wanted: f64) -> Result<(), Failure> {
    let begin = Instant::now();
    while served.metric(ENDED)? < wanted {
        if begin.elapsed() > Duration::from_mins(2) {
            return Err("the engine did not come to the end of its work".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What came of working at half of the rate.
struct AtHalf {
    /// Runs completed in a second.
    completed: f64,
    starts: Outcome,
    asked: Option<Outcome>,
}

/// Lets the engine work at a pace, with readers beside it or without.
fn at_half(
    served: &Served,
    offered: f64,
    patience: Patience,
    asking: Option<Plan>,
) -> Result<AtHalf, Failure> {
    let time = patience.time * 3;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let pace = offered / BATCH as f64;
    let starts = begin("client", &starting(served, Some(pace), time + Duration::from_secs(1)))?;
    // Only what happens while it works counts.
    std::thread::sleep(Duration::from_millis(500));
    let (before, begun) = (served.metric(ENDED)?, Instant::now());
    let asked = if let Some(plan) = asking {
        Some(Measured::take(served, &plan)?.outcome)
    } else {
        std::thread::sleep(time);
        None
    };
    let completed = (served.metric(ENDED)? - before) / STEPS / begun.elapsed().as_secs_f64();
    let starts: Outcome = end(starts)?;
    if let Some((count, first)) = &starts.refused {
        return Err(format!("{count} starts were refused, the first: {first}").into());
    }
    Ok(AtHalf { completed, starts, asked })
}

fn print_answers(quiet: &Outcome, beside: Option<&Outcome>, aims: &mut Vec<Aim>) {
    let Some(beside) = beside else { return };
    let mut worst = Duration::ZERO;
    println!(
        "\n  {READERS} connections, pages of 50 {:>26} while nothing else is done      at half of its rate",
        ""
    );
    for (quiet, beside) in quiet.answers.iter().zip(&beside.answers) {
        let verdict = if beside.p99 <= AIM { "met   " } else { "missed" };
        println!(
            "  {verdict} {:<40} {:>6} times p50 {:>8.2?} p99 {:>8.2?}   {:>6} times p50 {:>8.2?} p99 {:>8.2?}",
            beside.name, quiet.count, quiet.median, quiet.p99, beside.count, beside.median, beside.p99
        );
        worst = worst.max(beside.p99);
    }
    aims.push(Aim::new(
        "lists, searches and counts under 50 ms at p99",
        format!("{worst:.1?} at most"),
        AIM.as_secs_f64() / worst.as_secs_f64(),
    ));
}

/// What readers ask: by every filter, with few, many and no runs that fit.
fn questions(served: &Served) -> Result<Vec<Call>, Failure> {
    let one = served.json(&Call::get("runs", "/v1/runs?flow=nobody&limit=1"))?;
    let run = one["runs"][0]["id"].as_str().ok_or("some wait")?.to_owned();
    let at = one["runs"][0]["createdAt"].as_str().ok_or("it was created")?.replace(':', "%3A");
    let groups = served.json(&Call::get("errors", "/v1/errors?limit=1"))?;
    let group = groups["groups"][0]["group"].as_str().ok_or("some are in error")?.to_owned();
    let lists = [
        ("all", String::new()),
        ("all, before one in the middle", format!("until={at}")),
        ("children too", "all=true".to_owned()),
        ("state completed", "state=completed".to_owned()),
        ("state cancelled (few)", "state=cancelled".to_owned()),
        ("state waiting", "state=waiting".to_owned()),
        ("state queued or running", "state=queued&state=running".to_owned()),
        ("state error (few)", "state=error".to_owned()),
        ("state held (none)", "state=held".to_owned()),
        ("flow, nearly all", "flow=bare".to_owned()),
        ("flow, few", "flow=failing".to_owned()),
        ("flow and state", "flow=later&state=cancelled".to_owned()),
        ("flow and state, none", "flow=bare&state=failed".to_owned()),
        ("key, none", "key=nobody".to_owned()),
        ("beginning of a key, none", "keyPrefix=nobody".to_owned()),
        ("label, none", "label=team:nobody".to_owned()),
        ("has error (few)", "has=error".to_owned()),
        ("has acknowledged, none", "has=acknowledged".to_owned()),
        ("policy, none", "policy=nobody".to_owned()),
        ("action (few)", "action=failing.a".to_owned()),
        ("worker, none", "worker=nobody".to_owned()),
        ("parent, none", format!("parent={run}")),
        ("root, none", format!("root={run}")),
        ("since", format!("since={at}")),
        ("updated since", format!("updatedSince={at}")),
        ("group of errors", format!("group={group}")),
        ("part of a cause (few)", "cause=HTTP".to_owned()),
        ("part of a cause, none", "cause=nobody".to_owned()),
        ("changed last first", "sort=-updated".to_owned()),
        ("changed last first, cancelled (few)", "sort=-updated&state=cancelled".to_owned()),
        ("resumed first first", "sort=nextAutoResume".to_owned()),
    ];
    let page = |(name, filter): &(&str, String)| {
        let and = if filter.is_empty() { "" } else { "&" };
        Call::get(name, &format!("/v1/runs?limit=50{and}{filter}"))
    };
    let mut questions: Vec<Call> = lists.iter().map(page).collect();
    questions.push(Call::get("one run", &format!("/v1/runs/{run}")));
    questions.push(Call::get("history of one run", &format!("/v1/runs/{run}/history")));
    questions.push(Call::get("why it is where it is", &format!("/v1/runs/{run}/explain")));
    for by in ["state", "flow", "group", "action"] {
        questions.push(Call::get(&format!("counts by {by}"), &format!("/v1/runs/counts?by={by}")));
    }
    let counts = format!("/v1/runs/counts?by=state&since={at}");
    questions.push(Call::get("counts since", &counts));
    questions.push(Call::get("counts of a cause", "/v1/runs/counts?by=flow&cause=HTTP"));
    questions.push(Call::get("groups of errors", "/v1/errors?limit=50"));
    questions.push(Call::get("status", "/v1/status"));
    Ok(questions)
}
