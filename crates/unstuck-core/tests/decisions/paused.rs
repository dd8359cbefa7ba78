//! Automatic resumes are paused as a whole: what comes due waits, and after the unpause takes turns.

use crate::flows::{flow, step};
use crate::support::{World, stall};
use unstuck_core::command::Command as Asked;
use unstuck_core::decide::{Answer, Withheld};
use unstuck_core::event::{Actor, Fact, UnitFact};
use unstuck_core::home::Homes;
use unstuck_core::id::RunId;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::unit::UnitState;
use unstuck_core::policy::{
    Criteria, DueVerdict, Policies, PoliciesPaused, PoliciesUnpaused, Policy, PolicySwitch, SwitchState,
};
use unstuck_core::time::{Millis, Time};

/// Resumes everything of flow `f` a minute later.
fn policy(name: &str, text: &str) -> Policy {
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        criteria: Criteria { error_substring: Some(text.into()), ..Criteria::default() },
        max_attempts: 9,
        priority: 50,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(60)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age: 0,
    }
}

fn paused(since: Time) -> SwitchState {
    let (by, reason) = (Actor::User("ada".into()), "the provider is down".into());
    SwitchState::Paused(PoliciesPaused { since, by, reason })
}

fn unpaused(at: Time, rate: u32) -> SwitchState {
    SwitchState::Unpaused(PoliciesUnpaused { at, clock: 0, rate })
}

fn turn(world: &mut World, state: SwitchState) {
    let policies = std::mem::take(&mut world.policies);
    world.policies = policies.with_switch(PolicySwitch { version: 1, state });
}

/// Runs in error, which a policy resumes in a minute.
fn in_error(runs: usize) -> (World, Vec<RunId>) {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    world.policies = Policies::new(vec![policy("p", "reset")]).expect("one policy");
    let runs: Vec<RunId> = (0..runs).map(|_| world.start("f")).collect();
    for run in &runs {
        world.attempt(*run, "a", stall("reset"));
    }
    (world, runs)
}

/// What a due timer does to the step of a run.
fn due(world: &mut World, run: RunId) -> (Answer, Option<Withheld>, &'static str) {
    let unit = Some(world.unit_ref(run, "a"));
    let decision = world.decide_on(run, Asked::Due { unit, heard: None }, None).expect("decided");
    (decision.answer, decision.withheld, world.step(run, "a"))
}

#[test]
fn a_due_resume_is_decided_by_the_switch() {
    let begin = Time(1_000_000);
    let (due, later) = (begin + Millis(10), begin + Millis(20));
    let cases = [
        ("nobody has ever paused", SwitchState::On, 0, DueVerdict::Resumes),
        ("paused before it was due", paused(begin), 0, DueVerdict::Waits),
        ("paused after it was due", paused(later), 0, DueVerdict::Waits),
        ("unpaused after it was due", unpaused(later, 7), 0, DueVerdict::TakesTurn(7)),
        ("unpaused when it was due", unpaused(due, 7), 0, DueVerdict::TakesTurn(7)),
        ("unpaused before it was due", unpaused(begin, 7), 0, DueVerdict::Resumes),
        // Its schedule has moved with the clock, and what was due at the unpause has too.
        ("the clock was set forward since", unpaused(Time(begin.0 - 50), 7), 60, DueVerdict::TakesTurn(7)),
        ("the clock was set back since", unpaused(later, 7), -11, DueVerdict::Resumes),
    ];
    for (what, state, clock, wanted) in cases {
        let switch = PolicySwitch { version: 1, state };
        assert_eq!(switch.judge(due, clock), wanted, "{what}");
    }
}

#[test]
fn while_paused_nothing_resumes_and_errors_are_scheduled_all_the_same() {
    let (mut world, runs) = in_error(1);
    let since = world.now;
    turn(&mut world, paused(since));
    world.now = world.now + Millis::seconds(61);
    assert_eq!(due(&mut world, runs[0]), (Answer::Already, Some(Withheld::ForTurn), "error"));
    let events = world.history[&runs[0]].len();
    assert_eq!(due(&mut world, runs[0]), (Answer::Already, Some(Withheld::ForTurn), "error"));
    assert_eq!(world.history[&runs[0]].len(), events, "what waits leaves no trace");
    // A new error is matched and scheduled.
    let run = world.start("f");
    world.attempt(run, "a", stall("reset"));
    let state = &world.unit(run, "a").state;
    let UnitState::Error { resume: Some(resume), .. } = state else { panic!("{state:?}") };
    assert_eq!((resume.due, &*resume.policy.name), (world.now + Millis::seconds(60), "p"));
}

#[test]
fn a_manual_resume_works_while_paused() {
    let (mut world, runs) = in_error(1);
    let since = world.now;
    turn(&mut world, paused(since));
    assert_eq!(world.resume(runs[0], "a"), Ok(Answer::Done));
    assert_eq!(world.step(runs[0], "a"), "ready");
}

#[test]
fn what_has_waited_takes_turns_and_what_is_due_later_does_not() {
    let (mut world, runs) = in_error(4);
    let since = world.now;
    turn(&mut world, paused(since));
    world.now = world.now + Millis::seconds(61);
    let at = world.now;
    turn(&mut world, unpaused(at, 2));
    let waits = (Answer::Already, Some(Withheld::ForTurn), "error");
    let resumed = (Answer::Done, None, "ready");
    assert_eq!(due(&mut world, runs[0]), waits, "the engine before may have given the last turn just now");
    world.now = world.now + Millis(500);
    assert_eq!(due(&mut world, runs[0]), resumed);
    assert_eq!(waited(&world, runs[0]), Some(Millis(1_500)), "why it is late is recorded");
    assert_eq!(due(&mut world, runs[1]), waits, "two a second");
    world.now = world.now + Millis(499);
    assert_eq!(due(&mut world, runs[1]), waits);
    world.now = world.now + Millis(1);
    assert_eq!(due(&mut world, runs[1]), resumed);
    // A time in which nobody took a turn earns none.
    world.now = world.now + Millis::seconds(30);
    assert_eq!(due(&mut world, runs[2]), resumed);
    assert_eq!(due(&mut world, runs[3]), waits);
    // What was not due by the unpause goes on as ever.
    world.attempt(runs[0], "a", stall("reset"));
    world.now = world.now + Millis::seconds(60);
    assert_eq!(due(&mut world, runs[3]), resumed);
    assert_eq!(due(&mut world, runs[0]), resumed);
    assert_eq!(waited(&world, runs[0]), None);
}

/// How long after it was due a policy has resumed a run last, as its history says.
fn waited(world: &World, run: RunId) -> Option<Millis> {
    let facts = world.history[&run].iter().flat_map(|event| &event.facts);
    let mut resumed = facts.filter_map(|fact| match fact {
        Fact::Unit { fact: UnitFact::Resumed { waited, .. }, .. } => Some(*waited),
        _ => None,
    });
    resumed.next_back().expect("it was resumed")
}

#[test]
fn a_home_that_nobody_drives_comes_first_and_takes_no_turn() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    world.policies = Policies::new(vec![policy("p", "reset")]).expect("one policy");
    world.try_start("f", |start| start.home = Some("desk".into())).expect("starts");
    let run = *world.runs.keys().next().expect("a run");
    world.attempt(run, "a", stall("reset"));
    world.now = world.now + Millis::seconds(60);
    let at = world.now;
    turn(&mut world, unpaused(at, 1));
    world.homes = Homes::of(Some("desk".into()));
    assert_eq!(due(&mut world, run).1, Some(Withheld::ForTurn));
    world.homes = Homes::default();
    world.now = world.now + Millis::seconds(1);
    assert_eq!(due(&mut world, run), (Answer::Already, Some(Withheld::ForHome), "error"));
    world.homes = Homes::of(Some("desk".into()));
    assert_eq!(due(&mut world, run), (Answer::Done, None, "ready"), "the turn is still there");
}

#[test]
fn what_is_matched_anew_needs_no_turn() {
    let (mut world, runs) = in_error(2);
    world.now = world.now + Millis::seconds(61);
    let off = Policy { enabled: false, ..policy("p", "reset") };
    world.policies = Policies::new(vec![off, policy("other", "res")]).expect("two policies");
    let at = world.now;
    turn(&mut world, unpaused(at, 1));
    for run in runs {
        assert_eq!(due(&mut world, run), (Answer::Done, None, "error"));
        let state = &world.unit(run, "a").state;
        let UnitState::Error { resume: Some(resume), .. } = state else { panic!("{state:?}") };
        assert_eq!((resume.due, &*resume.policy.name), (world.now + Millis::seconds(60), "other"));
    }
}
