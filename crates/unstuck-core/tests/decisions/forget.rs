//! Forgetting: only what is final, and only as a whole.

use crate::flows::{child, flow, step};
use crate::support::{World, done};
use unstuck_core::decide::check_forget;

#[test]
fn a_run_is_forgotten_when_it_is_final_and_nobodys_child() {
    let flows = vec![flow("f", vec![child("c", "inner")]), flow("inner", vec![step("a")])];
    let mut world = World::new(flows);
    let run = world.start("f");
    let inner = world.child(run);
    let told = |world: &World, id, with_parent| {
        check_forget(&world.runs[&id], with_parent).map_err(|refusal| refusal.to_string())
    };
    let belongs = Err(format!("{inner} belongs to {run}; forget {run}, which removes {inner} too"));
    let going = |hint: &str| Err(format!("the run is running, so it cannot be forgotten; {hint}"));
    assert_eq!(told(&world, run, false), going("cancel it first, or wait until it ends"));
    assert_eq!(told(&world, inner, true), going("it ends soon; repeat the command then"));
    assert_eq!(told(&world, inner, false), belongs);
    world.attempt(inner, "a", done());
    assert_eq!(told(&world, run, false), Ok(()));
    assert_eq!(told(&world, inner, true), Ok(()));
    assert_eq!(told(&world, inner, false), belongs);
}
