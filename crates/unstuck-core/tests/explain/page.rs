//! An explanation as it is printed: readable at 80 columns, what to do next to the prompt.

use unstuck_core::event::Choice;
use unstuck_core::model::flow::Kind;
use unstuck_core::time::Millis;

use crate::flows::{flow, step, step_of};
use crate::saying::{choose, explained, lacking_gpu, named};
use crate::support::{World, done, fatal, remote, stall};

const PAGE: &str = "\
run_7 of flow `media` is running: 1 active attempt
(`make-thumbnails-of-all-pages`); `encode` is held.

What happened (UTC)
  2027-01-15
  08:00:00  run_7 of flow `media` started
            fetch: attempt 1 stalled: connection reset
            fetch: retrying in 2s (attempt 2 of 3)
  08:00:02  fetch: attempt 2 was deferred: no GPU. Retrying in 30s
  2027-01-16
  04:00:02  fetch: attempt 3 completed
            encode: attempt 1 failed: codec `av2` is not installed on this
            machine
            encode: held until an operator chooses retry or none: 1 of 3
            attempts used in this round (2 left)
            encode: one more attempt in this round: operator chose retry
            encode: attempt 2 failed: codec `av2` is not installed on this
            machine
            encode: held until an operator chooses retry or none: 2 of 3
            attempts used in this round (1 left)

Where its steps are, and why
  encode    held       attempt 2 failed: codec `av2` is not installed on this
                       machine. Held until an operator chooses retry or none: 2
                       of 3 attempts used in this round (1 left). Held for 9s
  make-thumbnails-of-all-pages
            active     attempt 1 was handed to worker w1 9s ago but has not
                       started
  approval  waiting    signal `approved` has not arrived yet (for 9s)
  completed: fetch
  pending: upload, announce

What comes next
  - in 21s, at 04:00:32: if worker w1 has not started
    `make-thumbnails-of-all-pages` by then (startTimeout 30s), it is stuck (1 of
    3) and retried
  - in 11h 59m, at 16:00:02: if signal `approved` has not arrived by then,
    `approval` stalls
  - `encode` stays held until an operator chooses retry or none
  - when worker w1 starts attempt 1 of `make-thumbnails-of-all-pages`, it is
    running
  - when signal `approved` arrives, `approval` completes

What you can do
  unstuck choose run_7 encode retry
      retry once more in this round
  unstuck choose run_7 encode none
      stop retrying; the run fails
  unstuck signal run_7 approved
      complete `approval`; JSON after the name becomes its output
  unstuck complete run_7 encode --output null
      mark it completed by hand; give the output that it would have had
  unstuck skip run_7 encode
      continue without it; its output is null
  unstuck pause run_7
      let running attempts finish and start nothing new
  unstuck cancel run_7
      cancel the run: running attempts are stopped, children are cancelled
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
