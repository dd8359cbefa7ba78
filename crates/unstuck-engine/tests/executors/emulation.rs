//! Emulated steps: what each behaviour says, and when.

use std::path::Path;
use std::time::Instant;

use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt, Emulation, EmulationPlan, WaitUntil};
use unstuck_core::model::flow::{Kind, ProcessCommand, StepIndex};
use unstuck_core::model::recovery::Limits;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::executor::emulation::{EmulationExecutor, ScriptLine, script, script_of_attempt};
use unstuck_engine::executor::{Executor, ExecutorReport, Job};

use super::support::{Ear, emulation, flow, job_of, line, outcome};

const ALL: [Behaviour; 8] = [
    Behaviour::Pass,
    Behaviour::Stall,
    Behaviour::Fail,
    Behaviour::Crash,
    Behaviour::Drag,
    Behaviour::Stick,
    Behaviour::Choke,
    Behaviour::Wait { until: WaitUntil::After(Millis(50)) },
];

fn job(emulation: &Emulation, limits: Limits, attempt: u32) -> Job {
    let flow = flow(Kind::Emulate(emulation.clone()), limits, Path::new(""));
    let mut job = job_of(&flow, 1, "{\"n\":1}");
    job.attempt.attempt = attempt;
    job
}

/// A script as text: `100 heartbeat, 200 completed 1`.
fn text(emulation: &Emulation, job: &Job, now: Time) -> String {
    let lines: Vec<String> = script(emulation, job, now)
        .map(|(after, said)| match said {
            ScriptLine::Report(says) => {
                format!("{} {}", after.0, line(&ExecutorReport::Report(job.attempt, says)))
            }
            ScriptLine::Lost => format!("{} lost", after.0),
        })
        .collect();
    lines.join(", ")
}

#[test]
fn each_behaviour_has_its_script() {
    let emulation = Emulation { duration: Millis(40), drag: Millis(2_500), ..emulation(&ALL) };
    let expected = [
        "40 completed {\"n\":1}",
        "40 stalled emulated stall",
        "40 failed emulated failure",
        "40 lost",
        "1000 heartbeat, 2000 heartbeat, 2500 completed {\"n\":1}",
        "",
        "40 deferred - emulated lack of resources",
        "50 completed {\"n\":1}",
        "50 completed {\"n\":1}",
    ];
    for (attempt, expected) in (1..).zip(expected) {
        let job = job(&emulation, Limits::default(), attempt);
        assert_eq!(text(&emulation, &job, Time(0)), expected, "attempt {attempt}");
    }
}

#[test]
fn a_crash_loses_a_worker_and_ends_a_process_by_a_signal() {
    let process = Kind::Process(ProcessCommand::Shell("true".to_owned()));
    let turn = EmulatedAttempt {
        after: Millis(40),
        cause: Some("of other errors".into()),
        context: Some("the end of stderr".into()),
        ..EmulatedAttempt::of(Behaviour::Crash)
    };
    let said = |kind: Kind| {
        let job = job_of(&flow(kind, Limits::default(), Path::new("")), 1, "1");
        script_of_attempt(&turn, &job, Time(0)).collect::<Vec<_>>()
    };
    let lines = said(process);
    let [(Millis(40), ScriptLine::Report(Report::Fail { error, fatal: false }))] = lines.as_slice() else {
        panic!("a process is stalled: {lines:?}");
    };
    assert_eq!(&*error.cause, "killed by signal 9 (SIGKILL)");
    assert_eq!(error.context.as_deref(), Some("the end of stderr"));
    assert_eq!(error.details.text(), r#"{"signal":9}"#);
    for kind in [Kind::Action("a".into()), Kind::Emulate(emulation(&[Behaviour::Crash]))] {
        assert!(matches!(said(kind)[..], [(Millis(40), ScriptLine::Lost)]));
    }
}

#[test]
fn a_script_follows_the_settings() {
    let limits = |lease| Limits { heartbeat_timeout: Some(Millis(lease)), ..Limits::default() };
    let at = |time| Behaviour::Wait { until: WaitUntil::At(Time(time)) };
    let given = |behaviour| Emulation {
        cause: Some("the disk is full".to_owned()),
        output: Some(Json::parse("[7]").expect("valid")),
        ..emulation(&[behaviour])
    };
    let cases = [
        (given(Behaviour::Pass), limits(9), "0 completed [7]"),
        (given(Behaviour::Stall), limits(9), "0 stalled the disk is full"),
        (given(Behaviour::Fail), limits(9), "0 failed the disk is full"),
        (given(Behaviour::Drag), limits(120), "40 heartbeat, 80 heartbeat, 100 completed [7]"),
        (given(Behaviour::Drag), limits(300), "100 completed [7]"),
        (given(Behaviour::Drag), limits(90_000), "100 completed [7]"),
        (given(at(5_700)), limits(9), "700 completed [7]"),
        (given(at(4_000)), limits(9), "0 completed [7]"),
    ];
    for (emulation, limits, expected) in cases {
        let job = job(&emulation, limits, 1);
        assert_eq!(text(&emulation, &job, Time(5_000)), expected, "{:?}", emulation.plan);
    }
}

#[test]
fn chance_with_a_seed_is_the_same_in_every_run_and_not_shared_between_units() {
    let odds = vec![(Behaviour::Pass, 1.0), (Behaviour::Stall, 1.0)];
    let luck = |seed: Option<u64>, run: u64, generation: u32, item: Option<u32>| -> String {
        let plan = EmulationPlan::Odds { odds: odds.clone(), seed };
        let emulation = Emulation { plan, ..emulation(&[]) };
        let mut job = job(&emulation, Limits::default(), 1);
        let unit = UnitRef { step: StepIndex(0), item };
        let mut of = |attempt| {
            job.attempt = AttemptId { run: unstuck_core::id::RunId(run), generation, unit, attempt };
            if text(&emulation, &job, Time(0)).contains("completed") { 'p' } else { 's' }
        };
        (1..=32).map(&mut of).collect()
    };
    let units = [(1, None), (2, None), (1, Some(0)), (1, Some(1)), (2, Some(1))];
    let lucks = units.map(|(generation, item)| luck(Some(7), 1, generation, item));
    for (place, one) in lucks.iter().enumerate() {
        assert!(one.contains('p') && one.contains('s'), "{one}");
        assert!(!lucks[..place].contains(one), "{lucks:?}");
    }
    assert_eq!(luck(Some(7), 2, 1, Some(1)), lucks[3], "with a seed, every run is like every other");
    assert_ne!(luck(Some(8), 1, 1, Some(1)), lucks[3]);
    assert_ne!(luck(None, 1, 1, None), luck(None, 2, 1, None), "without one, each run has its own luck");
    assert_eq!(luck(None, 1, 1, None), luck(None, 1, 1, None));
}

#[test]
fn a_script_is_played_in_real_time() {
    let mut executor = EmulationExecutor::new(8);
    let emulation = Emulation { duration: Millis(30), ..emulation(&ALL) };
    let limits = Limits { heartbeat_timeout: Some(Millis(120)), ..Limits::default() };
    let expected = [
        (1, 30, 0, "completed {\"n\":1}"),
        (2, 30, 0, "stalled emulated stall"),
        (4, 30, 0, "lost"),
        (5, 100, 2, "completed {\"n\":1}"),
        (8, 50, 0, "completed {\"n\":1}"),
    ];
    for (attempt, at_least, beats, last) in expected {
        let begun = Instant::now();
        let (heartbeats, word) = outcome(&mut executor, job(&emulation, limits, attempt));
        assert!(begun.elapsed() >= Millis(at_least).duration(), "attempt {attempt}: {:?}", begun.elapsed());
        assert_eq!((heartbeats.len(), line(&word).as_str()), (beats, last), "attempt {attempt}");
    }
}

#[test]
fn a_thousand_at_once_need_one_thread() {
    let mut executor = EmulationExecutor::new(1_000);
    let ear = Ear::new();
    let emulation = Emulation { duration: Millis(50), ..emulation(&[Behaviour::Pass]) };
    let flow = flow(Kind::Emulate(emulation), Limits::default(), Path::new(""));
    for run in 0..1_000 {
        executor.execute(job_of(&flow, run, "1"), &ear.answers);
    }
    let mut ended: Vec<u64> =
        (0..1_000).map(|_| ear.last().ended_attempt().expect("a last word").run.0).collect();
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..1_000));
}

#[test]
fn what_sticks_is_freed_when_interrupted_and_given_back_at_a_stop() {
    let mut executor = EmulationExecutor::new(8);
    let ear = Ear::new();
    let later = Behaviour::Wait { until: WaitUntil::After(Millis(u64::MAX)) };
    for (attempt, behaviour) in (1..).zip([Behaviour::Stick, later, Behaviour::Stick, later]) {
        executor.execute(job(&emulation(&[behaviour]), Limits::default(), attempt), &ear.answers);
    }
    assert!(ear.is_silent());
    let attempt = |attempt| job(&emulation(&ALL), Limits::default(), attempt).attempt;
    for number in [1, 2, 2] {
        executor.interrupt(attempt(number), "a test");
    }
    let words: Vec<String> = (0..2).map(|_| line(&ear.word())).collect();
    assert_eq!(words, ["freed", "freed"]);
    executor.stop();
    let words: Vec<String> = (0..2).map(|_| line(&ear.word())).collect();
    assert_eq!(words, ["released", "released"]);
    executor.stop();
    assert!(ear.is_silent());
}
