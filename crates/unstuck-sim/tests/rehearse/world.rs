//! What happens beside steps: outages, deaths, signals, an operator, many runs, and when it all ends.

use unstuck_core::time::Millis;
use unstuck_sim::rehearse::{Broken, EndKind, Rehearsal};

use crate::{end, rehearsal, rehearse, told};

const RETRIED: &str = "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: -1, backOff: 10m}]\ndeadline: 30d\n";

#[test]
fn an_outage_strikes_what_starts_in_it_and_what_it_finds_under_way() {
    let cases = [
        // It is down when the step starts, and up again at the fourth try.
        ("{outages: [{steps: one, to: 25m}]}", 1_800),
        // It goes down in the middle of an attempt of an hour.
        ("{steps: {one: {duration: 1h}}, outages: [{steps: one, from: 20m, to: 30m}]}", 1_800 + 3_600),
        ("{steps: {one: {duration: 10m}}, outages: [{steps: one, from: 20m, to: 30m}]}", 600),
        // By the clock, which starts at midnight.
        ("{outages: [{actions: a, from: 23:50, to: 00:20}]}", 1_200),
        // What is silent meanwhile is noticed by its lease, and tried again.
        ("{outages: [{steps: one, to: 40s, does: stick}]}", 62),
    ];
    for (plan, wanted) in cases {
        let (played, report) = rehearse(&rehearsal(RETRIED, plan, ""));
        assert_eq!(end(&report), ("completed", wanted), "{plan}\n{:#?}", told(&played));
    }
}

#[test]
fn a_worker_dies_with_all_that_it_has_and_comes_back() {
    let flow = "flow: f\nsteps: [{id: one, action: a}, {id: two, action: a, needs: []}]\n";
    let plan = "{steps: {'*': {duration: 10m}}, workers: {count: 1, restartAfter: 20s, deaths: {at: 5m}}}";
    let (played, report) = rehearse(&rehearsal(flow, plan, ""));
    let told = told(&played);
    for line in [
        "300 worker-1 dies; it was running 2 attempts",
        "320 worker-1 is back; its earlier attempts are lost",
    ] {
        assert!(told.iter().any(|known| known == line), "{line} in {told:#?}");
    }
    // Lost together: free for both.
    assert_eq!((end(&report), report.worker_deaths), (("completed", 921), 1), "{told:#?}");
    // One that stays away for longer than the lease is noticed by that.
    let plan =
        "{steps: {one: {duration: 10m}}, workers: {count: 2, deaths: {at: 5m, worker: 1, restartAfter: 1h}}}";
    let (played, report) = rehearse(&rehearsal("flow: f\nsteps: [{id: one, action: a}]\n", plan, ""));
    let (how, after) = end(&report);
    assert!(how == "completed" && (910..=931).contains(&after), "{after}: {:#?}", crate::told(&played));
}

#[test]
fn deaths_alone_keep_nothing_going() {
    let plan = "{steps: {one: {duration: 10h}}, workers: {count: 1, deaths: {every: 3h, restartAfter: 1s}}}";
    let flow = "flow: f\nsteps: [{id: one, action: a, maxStuck: 2}]\n";
    let (_, report) = rehearse(&rehearsal(flow, plan, ""));
    assert_eq!((end(&report).0, report.worker_deaths, report.broken), ("failed", 2, None));
}

#[test]
fn what_waits_for_a_person_or_a_signal_rests_unless_the_plan_has_one() {
    let held = "flow: f\nsteps: [{id: one, action: a, retryStrategy: hold}]\n";
    let signal = "flow: f\nsteps: [{id: ok, signal: approval}]\n";
    let rests = "flow: f\nsteps: [{id: one, action: a}]\n";
    let cases = [
        (held, "steps: {one: [stall, pass]}", "held", 0),
        (
            held,
            "{steps: {one: [stall, stall, pass]}, operator: {after: 2h, choose: retry}}",
            "completed",
            14_400,
        ),
        (held, "{steps: {one: stall}, operator: {after: 2h, choose: none}}", "failed", 7_200),
        (held, "{steps: {one: stall}, operator: {after: 1h, choose: retry, times: 3}}", "held", 10_800),
        (rests, "{steps: {one: [stall, pass]}, operator: {after: 1h, resume: true}}", "completed", 3_600),
        (signal, "{}", "waiting", 0),
        (signal, "{signals: {name: approval, after: 3h}}", "completed", 10_800),
        (signal, "{signals: asAwaited}", "completed", 0),
    ];
    for (flow, plan, wanted, after) in cases {
        let (played, report) = rehearse(&rehearsal(flow, plan, ""));
        assert_eq!(end(&report), (wanted, after), "{plan}\n{:#?}", told(&played));
    }
    let why = rehearse(&rehearsal(signal, "{}", "")).1.each[0].why.clone();
    assert_eq!(why.as_deref(), Some("`ok` waits for signal `approval`"));
}

#[test]
fn it_ends_where_nothing_more_happens_or_where_it_is_broken_off() {
    let forever = rehearsal(
        "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: -1, backOff: 1h}]\n",
        "{steps: {one: stall}, until: 1d}",
        "",
    );
    let (_, report) = rehearse(&forever);
    assert_eq!(report.broken, Some(Broken::Until(Millis::hours(24))));
    assert_eq!((report.each[0].end, report.attempts.stalled), (EndKind::GoingOn, 25));
    let (_, report) = rehearse(&Rehearsal { max_events: 20, ..forever });
    assert_eq!(report.broken, Some(Broken::Events(20)));
}

#[test]
fn many_runs_start_as_the_plan_says_and_the_same_seed_gives_the_same() {
    let flow = "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: 4, backOff: 1m}, {id: two, action: b, timeout: 1h}]\n";
    let plan = "{every: 10m, steps: {'*': {odds: {pass: 6, stall: 2, crash: 1, stick: 1, choke: 1}, duration: [1s, 10m]}}}";
    let with = |seed: u64| {
        let many = Rehearsal { runs: 60, seed, ..rehearsal(flow, plan, "") };
        let (played, report) = rehearse(&many);
        let told: Vec<String> = (1..=60)
            .flat_map(|number| {
                let timeline = unstuck_sim::rehearse::timeline(&played, number).expect("it was kept");
                timeline
                    .lines
                    .into_iter()
                    .map(|line| format!("{} {}", line.at, line.what))
                    .collect::<Vec<_>>()
            })
            .collect();
        (serde_json::to_string(&report).expect("it is JSON"), told, report)
    };
    let (first, told, report) = with(1);
    let (again, told_again, _) = with(1);
    assert!(first == again && told == told_again, "the same seed gives the same");
    assert_ne!(told, with(2).1, "another seed gives something else");
    assert_eq!(report.ends.iter().map(|end| end.runs).sum::<u32>(), 60);
    assert!(report.ends.len() > 1 && report.recovery.is_some() && report.worker_deaths > 0, "{first}");
}

#[test]
fn an_input_that_the_flow_refuses_is_told() {
    let flow = "flow: f\ninput: {type: object, required: [title]}\nsteps: [{id: one, action: a}]\n";
    let trouble =
        unstuck_sim::rehearse::execute_plan(&rehearsal(flow, "{}", "")).err().expect("it is refused");
    assert!(trouble.to_string().contains("title"), "{trouble}");
}
