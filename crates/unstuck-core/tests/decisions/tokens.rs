//! Void tokens: whoever comes back late is told when and why it lost the attempt, and who holds now.

use crate::flows::{flow, flow_with, step};
use crate::support::{BEGIN, World, done, fatal, lacking, local, output, remote, stall};
use unstuck_core::command::{Report, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::{Deadline, StepIndex};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::{Millis, Time};

fn world() -> (World, RunId) {
    let steps = vec![step("a").retry(Some(3), 5).needs(&[]), step("b").needs(&[])];
    let flow = flow_with("f", steps, |flow| flow.deadline = Some(Deadline::After(Millis::hours(1))));
    let mut world = World::new(vec![flow]);
    let run = world.start("f");
    (world, run)
}

/// Everything that a worker may say.
fn anything() -> Vec<Report> {
    vec![
        Report::Start,
        Report::Heartbeat { progress: None },
        Report::Heartbeat { progress: Some(Json::NULL) },
        done(),
        stall("late"),
        fatal("late"),
        lacking(),
        Report::Release,
    ]
}

type Lose = Box<dyn Fn(&mut World, AttemptId)>;

/// Its worker says so itself.
fn says(says: Report) -> Lose {
    Box::new(move |world, attempt| {
        world.say(attempt, says.clone()).expect("heard");
    })
}

/// Something else happens.
fn then(lose: impl Fn(&mut World, AttemptId) + 'static) -> Lose {
    Box::new(lose)
}

/// How the attempt is lost, the second since when it is, why, and who holds then.
type Case = (&'static str, Lose, Option<u64>, &'static str, &'static str);

fn cases() -> Vec<Case> {
    const UNSTARTED: &str =
        "it was stuck: not started within 30s (startTimeout), last heard from at 2027-01-15T08:00:00.000Z";
    const GONE: &str = "it was stuck: its worker is gone, last heard from at 2027-01-15T08:00:00.000Z";
    const NOBODY: &str = "No other attempt is queued or running";
    const NEXT: &str = "Attempt 2 is next";
    let is_cancelled = |world: &mut World, attempt: AttemptId| {
        world.cancel(attempt.run).expect("cancelled");
    };
    let is_taken = |world: &mut World, attempt: AttemptId| {
        world.pass(Millis::seconds(31));
        world.claim(attempt.run, "a", &remote("other")).expect("claimed");
    };
    let is_late = |world: &mut World, attempt: AttemptId| {
        // Alive all the time, or it would be stuck sooner.
        while world.now < BEGIN + Millis::hours(1) {
            world.say(attempt, Report::Heartbeat { progress: None }).expect("alive");
            world.pass(Millis::seconds(20));
        }
    };
    let is_rerun = move |world: &mut World, attempt: AttemptId| {
        is_cancelled(world, attempt);
        world.rerun(attempt.run, Rerun::All).expect("reran");
        world.claim(attempt.run, "a", &local("other")).expect("claimed");
    };
    let other = "it is of generation 1, and the run is now at generation 2";
    vec![
        ("stuck", then(|world, _| world.pass(Millis::seconds(30))), Some(30), UNSTARTED, NEXT),
        ("taken by another", then(is_taken), Some(30), UNSTARTED, "Attempt 2 is running on other"),
        ("lost", then(|world, attempt| world.lose(attempt, false)), Some(0), GONE, NEXT),
        ("cancelled", then(is_cancelled), Some(0), "the run was cancelled", NOBODY),
        ("over the deadline", then(is_late), Some(3_600), "the run missed its deadline", NOBODY),
        ("released", says(Report::Release), Some(0), "its worker released it", NEXT),
        ("deferred", says(lacking()), Some(0), "it was deferred", NEXT),
        ("completed", says(done()), Some(0), "it completed", NOBODY),
        ("stalled", says(stall("reset")), Some(0), "it stalled: reset", NEXT),
        ("failed", says(fatal("gone")), Some(0), "it failed: gone", NOBODY),
        ("of another generation", then(is_rerun), None, other, "Attempt 1 is running on other"),
    ]
}

#[test]
fn a_void_token_is_refused_with_when_and_why_and_who_holds_now() {
    for (name, lose, since_s, why, holds) in cases() {
        let (mut world, run) = world();
        let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
        lose(&mut world, attempt);
        let since = since_s.map_or(String::new(), |s| format!(" since {}", BEGIN + Millis::seconds(s)));
        let sentence = format!("attempt 1 of step `a` is no longer yours{since}: {why}. {holds}");
        let before = world.runs.clone();
        for says in anything() {
            match world.say(attempt, says.clone()) {
                Err(refusal) => assert_eq!(refusal.to_string(), sentence, "{name}: {says:?}"),
                // It may say again what it has said before.
                Ok(answer) => assert_eq!(answer, Answer::Already, "{name}: {says:?}"),
            }
            assert_eq!(world.runs, before, "{name}: {says:?} changes nothing");
        }
    }
}

#[test]
fn a_token_that_nobody_was_given_is_refused_too() {
    let (mut world, run) = world();
    let given = world.claim(run, "a", &remote("r")).expect("claimed");
    let unit = |step: u16, item| UnitRef { step: StepIndex(step), item };
    let cases = [
        AttemptId { attempt: 2, ..given },
        AttemptId { attempt: 0, ..given },
        AttemptId { generation: 2, ..given },
        AttemptId { unit: unit(1, None), ..given },
        AttemptId { unit: unit(0, Some(3)), ..given },
        AttemptId { unit: unit(77, None), ..given },
    ];
    let before = world.runs.clone();
    for attempt in cases {
        for says in anything() {
            let refusal = world.say(attempt, says).expect_err("refused");
            assert_eq!(refusal.code(), "void-token", "{attempt:?}: {refusal}");
        }
    }
    let unknown = AttemptId { run: RunId(7), ..given };
    assert_eq!(world.say(unknown, done()), Err(Refusal::UnknownRun(RunId(7))));
    assert_eq!(world.runs, before);
    world.say(given, done()).expect("the one that was given is as good as before");
}

#[test]
fn an_answer_may_be_repeated_safely() {
    let rows: [(&str, Report); 5] = [
        ("complete", output("1")),
        ("stall", stall("x")),
        ("fail", fatal("x")),
        ("defer", lacking()),
        ("release", Report::Release),
    ];
    for (name, says) in rows {
        let (mut world, run) = world();
        let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
        assert_eq!(world.say(attempt, Report::Start), Ok(Answer::Done));
        assert_eq!(world.say(attempt, Report::Start), Ok(Answer::Already));
        assert_eq!(world.say(attempt, says.clone()), Ok(Answer::Done), "{name}");
        // Also much later, when the step has gone on.
        let before = world.runs.clone();
        for _ in 0..2 {
            assert_eq!(world.say(attempt, says.clone()), Ok(Answer::Already), "{name}");
            assert_eq!(world.runs, before, "{name}");
        }
    }
}

#[test]
fn a_late_answer_cannot_take_a_later_attempts_place() {
    let (mut world, run) = world();
    let late = world.claim(run, "a", &remote("late")).expect("claimed");
    world.pass(Millis::seconds(31));
    let next = world.claim(run, "a", &remote("next")).expect("claimed");
    world.say(next, Report::Start).expect("started");
    let refusal = world.say(late, output("\"late\"")).expect_err("refused");
    let Refusal::Void(void) = &refusal else { panic!("{refusal}") };
    assert_eq!((void.attempt, void.since), (1, Some(Time(BEGIN.0 + 30_000))));
    assert_eq!(void.holds_now, Some((2, Some(remote("next")))));
    world.say(next, output("\"next\"")).expect("completed");
    world.attempt(run, "b", done());
    assert_eq!(world.output(run), r#"{"a":"next","b":null}"#);
}

#[test]
fn an_attempt_that_is_forgotten_by_the_run_is_refused_without_a_when() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let first = world.attempt(run, "a", Report::Release);
    for _ in 0..20 {
        world.attempt(run, "a", Report::Release);
    }
    let refusal = world.say(first, done()).expect_err("refused");
    assert_eq!(
        refusal.to_string(),
        "attempt 1 of step `a` is no longer yours: it is not running; see the history of the run. Attempt 22 is next"
    );
}
