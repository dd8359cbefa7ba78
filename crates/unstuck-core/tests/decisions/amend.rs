//! Changes of a run that is under way: its priority, its labels, its deadline; and a rerun of such a run.

use std::collections::BTreeMap;

use crate::flows::{child, flow, flow_with, step, step_of};
use crate::support::{BEGIN, World, done, operator};
use unstuck_core::command::{Amendment, Changes, Command, NewDeadline, Rerun};
use unstuck_core::decide::{Answer, preview_rerun};
use unstuck_core::event::Fact;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Deadline, Kind, StepIndex, WaitFor};
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;
use unstuck_core::wakeup::wakeup;

fn amend(world: &mut World, run: RunId, changes: Amendment) -> Result<Answer, Refusal> {
    world.ask(run, Command::Amend { changes: Box::new(changes), by: operator(), reason: Some("now".into()) })
}

fn priority(priority: i32) -> Amendment {
    Amendment { priority: Some(priority), ..Amendment::default() }
}

fn deadline(deadline: NewDeadline) -> Amendment {
    Amendment { deadline: Some(deadline), ..Amendment::default() }
}

fn labels(all: &[(&str, Option<&str>)]) -> Amendment {
    let all = all.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
    Amendment { labels: all.collect(), ..Amendment::default() }
}

/// A run whose only step is queued, with a deadline of ten hours.
fn queued() -> (World, RunId) {
    let after = |flow: &mut unstuck_core::model::flow::Flow| {
        flow.deadline = Some(Deadline::After(Millis::hours(10)));
    };
    let mut world = World::new(vec![flow_with("f", vec![step("a"), step("b")], after)]);
    let run = world.start("f");
    (world, run)
}

#[test]
fn a_new_priority_moves_what_is_queued() {
    let (mut world, run) = queued();
    assert_eq!(world.wakeup(run, "a").ready.expect("it is queued").priority, 0);
    assert_eq!(amend(&mut world, run, priority(7)), Ok(Answer::Done));
    assert_eq!(world.wakeup(run, "a").ready.expect("it is queued").priority, 7);
    let seq = world.runs[&run].seq;
    assert_eq!(amend(&mut world, run, priority(7)), Ok(Answer::Already));
    assert_eq!(world.runs[&run].seq, seq, "it is so already, and nothing happens");
    world.attempt(run, "a", done());
    assert_eq!(world.wakeup(run, "b").ready.expect("it is queued").priority, 7);
}

#[test]
fn a_new_deadline_moves_its_timer() {
    for (new, due, is_relative) in [
        (NewDeadline::After(Millis::minutes(5)), Some(BEGIN + Millis::minutes(5)), true),
        (NewDeadline::At(BEGIN + Millis::hours(20)), Some(BEGIN + Millis::hours(20)), false),
        (NewDeadline::None, None, false),
    ] {
        let (mut world, run) = queued();
        assert_eq!(amend(&mut world, run, deadline(new)), Ok(Answer::Done));
        let state = &world.runs[&run];
        assert_eq!((state.deadline, state.deadline_is_relative), (due, is_relative), "{new:?}");
        assert_eq!(wakeup(state, &world.flow_of(state), None).due, due, "{new:?}");
        world.pass(Millis::hours(11));
        let wanted = if new == NewDeadline::After(Millis::minutes(5)) { "failed" } else { "running" };
        assert_eq!(world.state(run).word(), wanted, "{new:?}");
    }
}

#[test]
fn labels_are_set_changed_and_removed_one_by_one() {
    let (mut world, run) = queued();
    for (changes, wanted) in [
        (vec![("team", Some("a")), ("tier", Some("gold"))], vec![("team", "a"), ("tier", "gold")]),
        (vec![("team", Some("b"))], vec![("team", "b"), ("tier", "gold")]),
        (vec![("tier", None), ("more", Some("x"))], vec![("more", "x"), ("team", "b")]),
        (vec![("more", None), ("team", None)], vec![]),
    ] {
        assert_eq!(amend(&mut world, run, labels(&changes)), Ok(Answer::Done), "{changes:?}");
        let has = world.runs[&run].labels.as_deref().cloned().unwrap_or_default();
        let wanted: BTreeMap<String, String> =
            wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(has, wanted, "{changes:?}");
    }
    assert_eq!(world.runs[&run].labels, None);
    assert_eq!(amend(&mut world, run, labels(&[("team", None)])), Ok(Answer::Already));
}

#[test]
fn what_cannot_be_changed_is_refused_and_changes_nothing() {
    let (mut world, run) = queued();
    let many: Vec<String> = (0..33).map(|n| format!("l{n}")).collect();
    let many: Vec<(&str, Option<&str>)> = many.iter().map(|name| (name.as_str(), Some("x"))).collect();
    for (changes, wanted) in [
        (
            labels(&[("team", Some(" "))]),
            "the value of a label is blank; give at least one letter, or leave it out",
        ),
        (labels(&many), "the run has too many labels (33, at most 32); leave some out"),
        (
            deadline(NewDeadline::At(BEGIN)),
            "the deadline 2027-01-15T08:00:00.000Z has passed already (it is 2027-01-15T08:00:00.000Z); give a later one, or cancel the run",
        ),
    ] {
        let before = world.runs[&run].clone();
        let refused = amend(&mut world, run, changes).expect_err("it cannot be");
        assert_eq!(refused.to_string(), wanted);
        assert_eq!(world.runs[&run], before);
    }
    world.cancel(run).expect("cancelled");
    assert_eq!(amend(&mut world, run, priority(1)), Err(Refusal::Final(RunState::Cancelled)));
}

#[test]
fn children_follow_the_priority_of_their_run() {
    let flows = vec![
        flow("f", vec![child("c", "inner").change(|step| step.priority = 2)]),
        flow("inner", vec![child("d", "leaf")]),
        flow("leaf", vec![step("x")]),
    ];
    let mut world = World::new(flows);
    let run = world.start("f");
    let inner = world.child(run);
    let leaf = world.child(inner);
    let refused = amend(&mut world, inner, priority(1)).expect_err("it is a child");
    assert_eq!(refused, Refusal::AmendOfChild { run: inner, parent: run });
    assert_eq!(amend(&mut world, run, priority(5)), Ok(Answer::Done));
    world.deliver();
    assert_eq!((world.runs[&inner].priority, world.runs[&leaf].priority), (7, 7));
    assert_eq!(world.wakeup(leaf, "x").ready.expect("it is queued").priority, 7);
}

#[test]
fn a_run_under_way_is_cancelled_and_rerun_in_one_decision() {
    let steps = vec![step("a"), step_of("w", Kind::Wait(WaitFor::Span(Millis::seconds(20))))];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "a", done());
    let rerun = |cancel_first: bool, deadline: Option<NewDeadline>| Command::Rerun {
        what: Rerun::Continue,
        changes: Box::new(Changes { cancel_first, deadline, ..Changes::default() }),
        by: operator(),
    };
    let refused = world.ask(run, rerun(false, None)).expect_err("it is under way");
    assert_eq!(refused.to_string(), "the run is waiting, so it cannot be rerun; cancel it first");
    let flow = world.flow_of(&world.runs[&run]);
    let preview = preview_rerun(&world.runs[&run], &flow, &Rerun::Continue, true).expect("it can be");
    assert_eq!(
        (preview.generation, preview.again, preview.kept),
        (2, vec![StepIndex(1)], vec![StepIndex(0)])
    );
    let past = world.ask(run, rerun(true, Some(NewDeadline::At(BEGIN)))).expect_err("that is over");
    assert!(matches!(past, Refusal::PastDeadline { .. }), "{past:?}");
    assert_eq!(world.state(run), RunState::Waiting, "what is refused changes nothing");
    let events = world.history[&run].len();
    let after = NewDeadline::After(Millis::hours(2));
    assert_eq!(world.ask(run, rerun(true, Some(after))), Ok(Answer::Started(run)));
    assert_eq!(world.history[&run].len(), events + 1, "it is one event");
    let facts = &world.history[&run][events].facts;
    assert!(facts.iter().any(|fact| matches!(fact, Fact::RunCancelled { .. })), "{facts:?}");
    let state = &world.runs[&run];
    assert_eq!((state.generation, state.deadline), (2, Some(BEGIN + Millis::hours(2))));
    assert!(state.deadline_is_relative);
    assert_eq!(world.steps(run, ["a", "w"]), ["completed", "waiting"]);
}
