//! Steps in error that a policy resumes, that are acknowledged, or that can be ended by hand.

use unstuck_core::command::Command;
use unstuck_core::policy::Policies;
use unstuck_core::time::Millis;

use crate::flows::{flow, step};
use crate::saying::policy;
use crate::states::told;
use crate::support::{operator, stall};

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
            "somebody must resume `c` (\"disk full\") and `d`; policy `p` resumes `a` (\"connection reset\") in 50s \
             (and 1 more)",
        ),
        (
            &["c"],
            "somebody must resume `d` (\"disk is full\"); policy `p` resumes `a` (\"connection reset\") in 50s \
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
            "somebody must resume `c` (\"disk full\") and `d`; `a` (\"connection reset\") and `b` are acknowledged",
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
            "resume FIRST a: tries it again in a new round, with every budget anew",
            "ack FIRST a --reason known: leaves it in error: no policy resumes it, and it is not counted any more",
            "complete FIRST a --output null: counts it as done by hand; give what it would have put out",
            "skip FIRST a: goes on without it: its output is null",
            "pause FIRST: attempts under way finish, nothing more is dispatched",
            "cancel FIRST: ends the run for good: its attempts are void, its children are cancelled",
        ]
    );
}
