//! What attempts printed: kept apart from the run, whatever has become of the attempt; ignored report lines are an event.

use crate::flows::{flow, step};
use crate::support::{World, done, local, stall};
use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::decide::Decision;
use unstuck_core::event::{Actor, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::log::{AttemptLog, IgnoredLine, MAX_LOG_BYTES, MAX_TAIL_BYTES, Tail};
use unstuck_core::refusal::Refusal;

fn world() -> (World, RunId, AttemptId) {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(3), 5)])]);
    let run = world.start("f");
    let attempt = world.claim(run, "a", &local("process")).expect("claimed");
    (world, run, attempt)
}

fn printed(text: &str) -> AttemptLog {
    let stderr = Tail { text: text.into(), bytes: text.len() as u64, cut: false };
    AttemptLog { stderr, ..AttemptLog::default() }
}

fn with_ignored() -> AttemptLog {
    let ignored = vec![IgnoredLine { line: 2, text: "x".into(), why: "no JSON".into() }];
    AttemptLog { ignored, more_ignored: 7, ..printed("boom") }
}

fn tell(world: &mut World, attempt: AttemptId, log: AttemptLog) -> Result<Decision, Refusal> {
    let says = Report::Log(Box::new(log));
    world.decide_on(attempt.run, Command::Report { attempt, report: says }, None)
}

#[test]
fn a_log_is_kept_apart_from_the_run_and_is_no_event() {
    let (mut world, _, attempt) = world();
    let decision = tell(&mut world, attempt, printed("boom")).expect("kept");
    let record = decision.log.expect("a log");
    assert_eq!((record.attempt, record.at, &record.log), (attempt, world.now, &printed("boom")));
    assert!(decision.event.is_none() && decision.lease.is_none(), "it is no sign of life");
}

#[test]
fn the_log_of_an_attempt_that_has_ended_is_kept_too() {
    type Ends = fn(&mut World, AttemptId);
    let cases: [(&str, Ends); 5] = [
        ("completed", |world, attempt| {
            world.say(attempt, done()).expect("heard");
        }),
        ("stalled", |world, attempt| {
            world.say(attempt, stall("x")).expect("heard");
        }),
        ("released", |world, attempt| {
            world.say(attempt, Report::Release).expect("heard");
        }),
        ("cancelled", |world, attempt| {
            let by = Actor::User("ada".into());
            world.ask(attempt.run, Command::Cancel { by, reason: None }).expect("cancelled");
        }),
        ("of an earlier generation", |world, attempt| {
            world.say(attempt, done()).expect("heard");
            let rerun = Command::rerun(Rerun::All, Actor::User("ada".into()));
            world.ask(attempt.run, rerun).expect("reruns");
        }),
    ];
    for (name, end) in cases {
        let (mut world, _, attempt) = world();
        end(&mut world, attempt);
        let before = world.runs.clone();
        let decision = tell(&mut world, attempt, with_ignored()).expect(name);
        assert_eq!(decision.log.map(|record| record.log), Some(with_ignored()), "{name}");
        assert_eq!(world.runs, before, "{name}: what it says late changes nothing");
    }
}

#[test]
fn ignored_report_lines_of_a_live_attempt_are_an_event() {
    let (mut world, run, attempt) = world();
    let decision = tell(&mut world, attempt, with_ignored()).expect("kept");
    let event = decision.event.expect("an event");
    let lines = with_ignored().ignored;
    let wanted = Fact::unit(attempt.unit, UnitFact::ReportIgnored { attempt: 1, lines, more: 7 });
    assert_eq!(event.facts, [wanted]);
    assert!(decision.log.is_some());
    world.say(attempt, done()).expect("the attempt is as it was");
    assert!(world.runs[&run].is_final());
}

#[test]
fn a_log_of_no_attempt_or_without_bounds_is_refused() {
    let (mut world, _, attempt) = world();
    let before = world.runs.clone();
    let wrong = [
        AttemptId { attempt: 2, ..attempt },
        AttemptId { attempt: 0, ..attempt },
        AttemptId { generation: 2, ..attempt },
    ];
    for wrong in wrong {
        let refusal = tell(&mut world, wrong, printed("x")).expect_err("refused");
        assert_eq!(refusal.code(), "void-token", "{wrong:?}");
    }
    let refusal = tell(&mut world, attempt, printed(&"x".repeat(MAX_LOG_BYTES + 1))).expect_err("refused");
    assert!(refusal.to_string().contains("the log"), "{refusal}");
    let full = "x".repeat(MAX_TAIL_BYTES);
    let largest = AttemptLog { stdout: printed(&full).stderr, ..printed(&full) };
    tell(&mut world, attempt, largest).expect("two full tails fit");
    assert_eq!(world.runs, before);
}
