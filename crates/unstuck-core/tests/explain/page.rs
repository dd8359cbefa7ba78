//! An explanation as it is printed: readable at 80 columns, what to do next to the prompt.

use unstuck_core::event::Choice;
use unstuck_core::model::flow::Kind;
use unstuck_core::time::Millis;

use crate::flows::{flow, step, step_of};
use crate::saying::{choose, explained, lacking_gpu, named};
use crate::support::{World, done, fatal, remote, stall};

const PAGE: &str = "\
run_7 of flow `media` is running: 1 attempt is under way
(`make-thumbnails-of-all-pages`); `encode` is held.

What happened (UTC)
  2027-01-15
  08:00:00  run_7 of flow `media` starts
            fetch: attempt 1 stalled: connection reset
            fetch: tried again in 2s (retryStrategy retry, attempt 2 of 3)
  08:00:02  fetch: attempt 2 was deferred: no GPU; tried again in 30s
  2027-01-16
  04:00:02  fetch: attempt 3 completed
            encode: attempt 1 failed: codec `av2` is not installed on this
            machine
            encode: 1 of 3 attempts of this round is used (2 left): held until
            an operator chooses retry or none
            encode: operator chose retry: one more attempt in the same round
            encode: attempt 2 failed: codec `av2` is not installed on this
            machine
            encode: 2 of 3 attempts of this round are used (1 left): held until
            an operator chooses retry or none

Where its steps are, and why
  encode    held       attempt 2 failed: codec `av2` is not installed on this
                       machine; 2 of 3 attempts of this round are used (1 left):
                       held until an operator chooses retry or none (for 9s now)
  make-thumbnails-of-all-pages
            active     attempt 1 was handed to worker w1 9s ago, and has not
                       started
  approval  waiting    signal `approved` has not come yet (for 9s now)
  completed: fetch
  pending: upload, announce

What comes next
  - in 21s, at 04:00:32: if worker w1 has not started
    `make-thumbnails-of-all-pages` by then (startTimeout 30s), it is stuck (1 of
    3) and tried anew
  - in 11h 59m, at 16:00:02: if signal `approved` has not come by then,
    `approval` is stalled
  - `encode` stays held until an operator chooses
  - when worker w1 starts attempt 1 of `make-thumbnails-of-all-pages`, it is
    active
  - when signal `approved` comes, `approval` is completed

What you can do
  unstuck choose run_7 encode retry
      one more attempt in the same round
  unstuck choose run_7 encode none
      gives it up: the run is failed
  unstuck signal run_7 approved
      completes `approval`; JSON after the name becomes its output
  unstuck complete run_7 encode --output null
      counts it as done by hand; give what it would have put out
  unstuck skip run_7 encode
      goes on without it: its output is null
  unstuck pause run_7
      attempts under way finish, nothing more is dispatched
  unstuck cancel run_7
      ends the run for good: its attempts are void, its children are cancelled
";

#[test]
fn a_page_for_somebody_who_was_woken_up() {
    let steps = vec![
        step("fetch").retry(Some(3), 2),
        step("encode").hold(Some(3)),
        step("make-thumbnails-of-all-pages").needs(&["fetch"]),
        step_of("approval", Kind::Signal("approved".into())).needs(&["fetch"]),
        step("upload").needs(&["encode", "approval"]),
        step("announce"),
    ];
    let mut world = World::new(vec![flow("media", steps)]);
    let run = world.start("media");
    world.attempt(run, "fetch", stall("connection reset"));
    world.pass(Millis::seconds(2));
    world.attempt(run, "fetch", lacking_gpu());
    world.pass(Millis::hours(20));
    world.attempt(run, "fetch", done());
    world.attempt(run, "encode", fatal("codec `av2` is not installed on this machine"));
    choose(&mut world, run, "encode", Choice::Retry);
    world.attempt(run, "encode", fatal("codec `av2` is not installed on this machine"));
    world.claim(run, "make-thumbnails-of-all-pages", &remote("w1")).expect("claimed");
    world.pass(Millis::seconds(9));
    let page = named(&explained(&world, run).to_string(), &[(run, "run_7")]);
    assert_eq!(page, PAGE);
}

#[test]
fn a_long_history_is_told_from_its_end() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(None, 1)])]);
    let run = world.start("f");
    for _ in 0..30 {
        world.attempt(run, "a", stall("reset"));
        world.pass(Millis::seconds(1));
    }
    let explanation = explained(&world, run);
    assert_eq!((explanation.happened.len(), explanation.earlier), (20, 41));
    assert!(explanation.to_string().contains("... 41 left out"));
}
