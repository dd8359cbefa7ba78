//! Steps in error that a policy resumes, that are acknowledged, or that can be ended by hand.

use unstuck_core::command::Command;
use unstuck_core::policy::{Policies, PoliciesPaused, Policy, PolicySwitch, SwitchState};
use unstuck_core::time::Millis;

use crate::flows::{flow, step};
use crate::saying::{decisions, policy};
use crate::states::told;
use crate::support::{World, operator, stall};

#[test]
fn in_error_with_policies_and_acknowledged() {
    let steps = || ["a", "b", "c", "d"].map(|id| step(id).needs(&[])).into_iter().collect();
    let in_error = |acknowledged: &'static [&'static str]| {
        told(vec![flow("f", steps())], |world, run| {
            world.policies = Policies::new(vec![policy("p", "reset", 60)]).expect("fine");
            world.attempt(run, "a", stall("connection reset"));
            world.pass(Millis::seconds(10));
            for (step, cause) in [("b", "reset by peer"), ("c", "disk full"), ("d", "disk is full")] {
                world.attempt(run, step, stall(cause));
            }
            for step in acknowledged {
                let unit = Some(world.unit_ref(run, step));
                world
                    .ask(run, Command::Acknowledge { unit, by: operator(), reason: None })
                    .expect("acknowledged");
            }
            run
        })
    };
    let cases: [(&[&str], &str); 5] = [
        (
            &[],
            "an operator must resume `c` (\"disk full\") and `d`; policy `p` resumes `a` (\"connection reset\") in 50s \
             (and 1 more)",
        ),
        (
            &["c"],
            "an operator must resume `d` (\"disk is full\"); policy `p` resumes `a` (\"connection reset\") in 50s \
             (and 1 more); `c` (\"disk full\") is acknowledged",
        ),
        (
            &["a", "c", "d"],
            "policy `p` resumes `b` (\"reset by peer\") in 1m; `a` (\"connection reset\"), `c` and `d` are \
             acknowledged",
        ),
        (&["a", "b", "c", "d"], "`a` (\"connection reset\"), `b`, `c` and `d` are acknowledged"),
        (
            &["a", "b"],
            "an operator must resume `c` (\"disk full\") and `d`; `a` (\"connection reset\") and `b` are acknowledged",
        ),
    ];
    for (acknowledged, wanted) in cases {
        let lines = in_error(acknowledged);
        assert_eq!(lines[0], format!("= FIRST of flow `f` is in error: {wanted}"), "{acknowledged:?}");
        let offers = |part: &str| lines.iter().any(|line| line.starts_with(part));
        assert_eq!(
            offers("$ unstuck ack FIRST --reason known: "),
            acknowledged.len() < 4,
            "{acknowledged:?}"
        );
        assert!(offers("$ unstuck resume FIRST: "), "{acknowledged:?}");
    }
}

#[test]
fn one_step_in_error_can_be_ended_by_hand() {
    let lines = told(vec![flow("f", vec![step("a"), step("b")])], |world, run| {
        world.policies = Policies::new(vec![policy("p", "reset", 60)]).expect("fine");
        world.attempt(run, "a", stall("connection reset"));
        run
    });
    let offered: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ unstuck ")).collect();
    assert_eq!(
        offered,
        [
            "resume FIRST a: retry in a new round with full budgets",
            "ack FIRST a --reason known: leave it in error: no policy resumes it, and it no longer counts as open",
            "complete FIRST a --output null: mark it completed by hand; give the output that it would have had",
            "skip FIRST a: continue without it; its output is null",
            "pause FIRST: let running attempts finish and start nothing new",
            "cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
        ]
    );
}

#[test]
fn a_resume_that_waits_because_policies_are_paused_says_so() {
    let paused = |after: Millis| {
        told(vec![flow("f", vec![step("a")])], |world, run| {
            world.policies = Policies::new(vec![policy("p", "reset", 60)]).expect("fine");
            world.attempt(run, "a", stall("connection reset"));
            world.pass(Millis::seconds(10));
            let (since, by, reason) = (world.now, operator(), "the provider is down".into());
            let state = SwitchState::Paused(PoliciesPaused { since, by, reason });
            let policies = std::mem::take(&mut world.policies);
            world.policies = policies.with_switch(PolicySwitch { version: 1, state });
            world.now = world.now + after;
            run
        })
    };
    let headline = "= FIRST of flow `f` is in error: policy `p` resumes `a` (\"connection reset\") once automatic \
                    resumes are unpaused; they are paused by operator since 08:00:10 UTC (\"the provider is down\")";
    let cases = [
        (Millis::seconds(20), "> in 30s: policy `p` resumes `a`, if automatic resumes are unpaused by then"),
        (
            Millis::seconds(60),
            "> when automatic resumes are unpaused (due since 08:01:00): policy `p` resumes `a`",
        ),
    ];
    for (after, next) in cases {
        let lines = paused(after);
        assert_eq!(lines[0], headline, "{after}");
        assert!(lines.contains(&next.to_owned()), "{after}: {lines:?}");
        let unpause =
            "$ unstuck policy unpause: let policies resume errors again, in this run and all others";
        assert!(lines.contains(&unpause.to_owned()), "{after}: {lines:?}");
    }
}

/// A step that has stalled once, with policies that each take it or not.
fn decided(policies: Vec<Policy>) -> String {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    world.policies = Policies::new(policies).expect("they do not collide");
    let run = world.start("f");
    world.attempt(run, "a", stall("connection reset"));
    decisions(&world, run).pop().expect("a decision")
}

#[test]
fn a_decision_names_the_policies_that_are_used_up_or_disabled() {
    let spent = || Policy { max_attempts: 1, ..policy("spent", "reset", 60) };
    let off = || Policy { enabled: false, ..policy("off", "connection", 60) };
    let cases = [
        (
            vec![spent()],
            "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: \
             connection reset. Needs an operator: policy `spent` is used up (1 of 1 round); no retry, other policy \
             or exception handler applies; a manual resume resets the rounds of the policy",
        ),
        (
            vec![off()],
            "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: \
             connection reset. Needs an operator: policy `off` is disabled; no retry, other policy or exception \
             handler applies",
        ),
        (
            vec![
                Policy { priority: 90, ..spent() },
                Policy { priority: 80, ..off() },
                policy("p", "con", 60),
            ],
            "a#1 | resumePolicy | resume policy `p`, version 1 | attempt 1 stalled: connection reset. Policy `p` \
             resumes it in 1m (round 1 of 3), at 2027-01-15T08:01:00.000Z: no retry strategy; policy `spent` is used \
             up (1 of 1 round)",
        ),
        (
            vec![Policy { enabled: false, ..policy("about", "something else", 60) }],
            "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: \
             connection reset. Needs an operator: no retry, policy or exception handler applies",
        ),
    ];
    for (policies, wanted) in cases {
        assert_eq!(decided(policies), wanted);
    }
}
