//! What happens to runs, so that every fact and every decision comes about at least once.

use std::sync::Arc;

use unstuck_core::command::{Amendment, Changes, Command, NewDeadline, Report, Rerun};
use unstuck_core::event::Choice;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::log::{AttemptLog, IgnoredLine};
use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{
    Criteria, Policies, PoliciesPaused, PoliciesUnpaused, Policy, PolicySwitch, SwitchState,
};
use unstuck_core::time::{Millis, Time};

use crate::world::{World, ada, done, fatal, lacking, local, remote, stall};

/// A file of flows, and what happens to a run of the first of them.
type Scene = (&'static str, fn(&mut World, RunId));

/// Every world in which something has happened.
pub(crate) fn all() -> Vec<World> {
    let scenes: [Scene; 18] = [
        (RETRIES, retries),
        (STUCK, stuck),
        (STUCK_FOR_GOOD, stuck_for_good),
        (DEFERRED, deferred),
        (HELD, held),
        (GOES_ON, goes_on),
        (RESTS, rests),
        (RESTS, with_policies),
        (FAILS, fails),
        (HANDLER, handler),
        (HANDLER, handler_fails_too),
        (DEADLINE, deadline),
        (DEADLINE, failing_at_its_deadline),
        (WAITS, waits),
        (ITEMS, items),
        (CHILD, child),
        (LIMITED, limited),
        (OUTPUT, output_fails),
    ];
    scenes.map(|(flows, happens)| play(flows, happens)).into()
}

/// A world in which this has happened to a run.
pub(crate) fn play(flows: &str, happens: impl FnOnce(&mut World, RunId)) -> World {
    let mut world = World::new(flows);
    let run = world.start();
    happens(&mut world, run);
    world
}

/// A policy that resumes what has this in its cause, after a minute, at most twice.
pub(crate) fn policy(name: &str, substring: &str) -> Policy {
    let criteria = Criteria { error_substring: Some(substring.into()), ..Criteria::default() };
    Policy {
        id: name.into(),
        name: name.into(),
        priority: criteria.priority(),
        criteria,
        max_attempts: 3,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::minutes(1)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age: 0,
    }
}

pub(crate) fn set_policies(world: &mut World, policies: Vec<Policy>) {
    world.policies = Policies::new(policies).expect("they do not conflict");
}

/// Nothing resumes automatically any more.
pub(crate) fn pause_policies(world: &mut World) {
    let paused = PoliciesPaused { since: world.now, by: ada(), reason: "the provider is down".into() };
    let switch = PolicySwitch { version: 1, state: SwitchState::Paused(paused) };
    world.policies = std::mem::take(&mut world.policies).with_switch(switch);
}

const RETRIES: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, retryStrategy: retry, maxAttempts: 3, backOff: 2s}
  - {id: encode, action: encode, retryStrategy: retry, maxAttempts: -1, backOff: 1s}
";

fn retries(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", stall("connection reset"));
    world.pass(Millis::seconds(2));
    let attempt = world.claim(run, "fetch", remote());
    world.say(attempt, Report::Start);
    world.say(attempt, Report::Heartbeat { progress: Json::parse("{\"done\": 3}").ok() });
    let large = format!("\"{}\"", "x".repeat(100_000));
    world.say(attempt, Report::Heartbeat { progress: Json::parse(&large).ok() });
    let ignored = |line| IgnoredLine { line, text: "done: 4".into(), why: "no JSON".into() };
    for (ignored, more_ignored) in [(vec![ignored(2)], 0), (vec![ignored(2), ignored(5)], 11)] {
        let log = AttemptLog { ignored, more_ignored, ..AttemptLog::default() };
        world.say(attempt, Report::Log(Box::new(log)));
    }
    world.say(attempt, stall("connection reset"));
    world.pass(Millis::seconds(2));
    world.attempt(run, "fetch", stall("connection reset"));
    world.resume(run, "fetch", Some("the network is back"));
    world.attempt(run, "fetch", stall("connection reset"));
    world.pass(Millis::seconds(2));
    world.attempt(run, "fetch", done());
    world.attempt(run, "encode", stall("no space left"));
    world.pass(Millis::seconds(1));
    world.attempt(run, "encode", Report::Release);
    world.attempt(run, "encode", done());
}

const STUCK: &str = "
flow: media
steps:
  - {id: fetch, action: fetch}
";

fn stuck(world: &mut World, run: RunId) {
    let lost = world.claim(run, "fetch", local());
    world.does(run, Command::Lost { attempt: lost, with_others: true });
    world.pass(Millis::seconds(1));
    let lost = world.claim(run, "fetch", remote());
    world.does(run, Command::Lost { attempt: lost, with_others: false });
    world.pass(Millis::seconds(1));
    let silent = world.claim(run, "fetch", remote());
    world.say(silent, Report::Start);
    world.is_down(Millis::minutes(5));
    world.say(silent, Report::Heartbeat { progress: None });
    world.pass(Millis::seconds(31));
    world.set_clock(-7_200_000);
}

const STUCK_FOR_GOOD: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, maxStuck: 2}
  - {id: encode, action: encode, timeout: 1h, needs: []}
  - {id: upload, action: upload, queueTimeout: 2m, needs: []}
";

fn stuck_for_good(world: &mut World, run: RunId) {
    world.claim(run, "encode", local());
    world.pass(Millis::hours(1));
    for _ in 0..2 {
        world.claim(run, "fetch", remote());
        world.pass(Millis::seconds(40));
    }
}

const DEFERRED: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, defer: {delay: 30s, limit: 1m}}
";

fn deferred(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", lacking(Some("no GPU")));
    world.pass(Millis::seconds(30));
    world.attempt(run, "fetch", lacking(None));
    world.pass(Millis::seconds(30));
    world.attempt(run, "fetch", lacking(Some("no GPU")));
}

const HELD: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, retryStrategy: hold, maxAttempts: 3}
  - {id: encode, action: encode, retryStrategy: hold, needs: []}
  - {id: upload, action: upload, retryStrategy: hold, maxStuck: 1, needs: []}
";

fn held(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", stall("no such codec"));
    world.choose(run, "fetch", Choice::Retry);
    world.claim(run, "upload", remote());
    world.pass(Millis::seconds(31));
    world.attempt(run, "encode", fatal("no such codec"));
    world.choose(run, "encode", Choice::None);
}

const GOES_ON: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, failOnError: false}
  - {id: encode, action: encode, failOnError: false, retryStrategy: retry, maxAttempts: 2}
  - {id: pages, action: pages, failOnError: false, forEach: [1, 2]}
";

fn goes_on(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", stall("connection reset"));
    world.attempt(run, "encode", fatal("no such codec"));
    world.attempt(run, "pages[0]", stall("empty page"));
    world.attempt(run, "pages[1]", done());
}

const RESTS: &str = "
flow: media
steps:
  - {id: fetch, action: fetch}
  - {id: encode, action: encode, retryStrategy: retry, maxAttempts: 1, needs: []}
  - {id: upload, action: upload, needs: []}
  - {id: notify, action: notify, needs: [fetch, encode, upload]}
";

fn rests(world: &mut World, run: RunId) {
    for step in ["fetch", "encode", "upload"] {
        world.attempt(run, step, stall("disk full"));
    }
    let unit = world.unit(run, "fetch");
    world.does(run, Command::Acknowledge { unit: Some(unit), by: ada(), reason: Some("known".into()) });
    world.does(
        run,
        Command::Complete { unit, output: Json::NULL, by: ada(), reason: Some("copied it".into()) },
    );
    let unit = world.unit(run, "encode");
    world.does(run, Command::Skip { unit, by: ada(), reason: None });
    let unit = Some(world.unit(run, "upload"));
    let changes = Box::new(Changes { input: Json::parse("{\"disk\": 2}").ok(), ..Changes::default() });
    world.does(run, Command::Resume { unit, by: ada(), reason: None, changes });
    world.does(run, Command::Pause { by: ada(), reason: Some("maintenance".into()) });
    world.does(run, Command::Unpause { by: ada() });
    amend(world, run);
    migrate(world, run);
    world.attempt(run, "upload", done());
    world.claim(run, "notify", local());
    world.does(run, Command::Cancel { by: ada(), reason: Some("not needed".into()) });
    world.does(run, Command::rerun(Rerun::Continue, ada()));
}

fn migrate(world: &mut World, run: RunId) {
    let mut next = (*world.flow_of(&world.runs[&run])).clone();
    (next.id, next.version) = (FlowId(99), "2".into());
    world.flows.push(Arc::new(next));
    let to = FlowId(99);
    world.does(run, Command::Migrate { to, by: ada(), reason: Some("the upload is mended".into()) });
}

fn amend(world: &mut World, run: RunId) {
    let labels = |all: &[(&str, Option<&str>)]| {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    };
    let deadline = Some(NewDeadline::After(Millis::hours(2)));
    for changes in [
        Amendment { priority: Some(7), labels: labels(&[("team", Some("media"))]), deadline },
        Amendment { labels: labels(&[("team", None)]), deadline: Some(NewDeadline::None), priority: None },
    ] {
        let reason = changes.priority.map(|_| "the customer waits".into());
        world.does(run, Command::Amend { changes: Box::new(changes), by: ada(), reason });
    }
}

fn with_policies(world: &mut World, run: RunId) {
    set_policies(world, vec![policy("resets", "reset")]);
    world.attempt(run, "fetch", stall("connection reset"));
    world.pass(Millis::minutes(1));
    world.attempt(run, "fetch", stall("connection reset"));
    pause_policies(world);
    world.now = world.now + Millis::minutes(10);
    let unpaused = SwitchState::Unpaused(PoliciesUnpaused { at: world.now, clock: 0, rate: 1 });
    let switch = PolicySwitch { version: 2, state: unpaused };
    world.policies = std::mem::take(&mut world.policies).with_switch(switch);
    // An engine hands out its first turn after a wait.
    for _ in 0..2 {
        let unit = Some(world.unit(run, "fetch"));
        world.does(run, Command::Due { unit, heard: None });
        world.now = world.now + Millis::seconds(1);
    }
    world.attempt(run, "fetch", stall("connection reset"));
    let off = Policy { enabled: false, ..policy("disk", "disk") };
    set_policies(world, vec![off.clone()]);
    world.attempt(run, "upload", stall("disk full"));
    set_policies(world, vec![Policy { enabled: true, ..off }]);
    let (unit, only, after) = (world.unit(run, "upload"), None, Millis::seconds(5));
    world.does(run, Command::ApplyPolicies { unit, only, after, by: ada() });
    set_policies(world, Vec::new());
    world.pass(Millis::minutes(10));
}

const FAILS: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, retryStrategy: retry, maxAttempts: 3}
  - {id: encode, action: encode, needs: []}
  - {id: upload, action: upload}
";

fn fails(world: &mut World, run: RunId) {
    let other = world.claim(run, "encode", remote());
    world.attempt(run, "fetch", fatal("no such file"));
    world.say(other, fatal("no such codec"));
}

const HANDLER: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, exceptionHandler: clean}
  - {id: encode, action: encode, needs: []}
  - {id: upload, action: upload}
---
flow: clean
steps:
  - {id: sweep, action: sweep, retryStrategy: retry, maxAttempts: 2}
";

fn handler(world: &mut World, run: RunId) {
    let other = world.claim(run, "encode", remote());
    world.attempt(run, "fetch", fatal("no such file"));
    world.say(other, done());
    let handler = world.child(run);
    world.attempt(handler, "sweep", stall("disk full"));
    world.pass(Millis::seconds(1));
    world.attempt(handler, "sweep", done());
}

fn handler_fails_too(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", stall("no such file"));
    let handler = world.child(run);
    for _ in 0..2 {
        world.attempt(handler, "sweep", stall("disk full"));
        world.pass(Millis::seconds(1));
    }
}

const DEADLINE: &str = "
flow: media
deadline: 2h
steps:
  - {id: fetch, action: fetch}
  - {id: approval, signal: approve, timeout: 5h, needs: []}
";

fn deadline(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", done());
    world.pass(Millis::hours(2));
}

fn failing_at_its_deadline(world: &mut World, run: RunId) {
    world.pass(Millis::hours(1));
    world.claim(run, "fetch", local());
    let unit = world.unit(run, "approval");
    world.does(run, Command::Skip { unit, by: ada(), reason: None });
    world.pass(Millis::hours(1));
}

const WAITS: &str = "
flow: media
steps:
  - {id: seven, set: 7}
  - {id: nap, wait: 5m}
  - {id: past, wait: '2020-01-01T00:00:00Z'}
  - {id: approval, signal: approve, timeout: 12h}
  - {id: never, action: never, if: '${ false }'}
";

fn waits(world: &mut World, run: RunId) {
    world.pass(Millis::minutes(5));
    world.does(run, Command::Signal { name: "approve".into(), payload: Json::NULL, by: ada() });
}

const ITEMS: &str = "
flow: media
steps:
  - {id: pages, action: pages, forEach: [1, 2, 3]}
  - {id: upload, action: upload, forEach: [1, 2]}
";

fn items(world: &mut World, run: RunId) {
    for item in ["pages[0]", "pages[1]", "pages[2]", "upload[0]"] {
        world.attempt(run, item, done());
    }
    world.attempt(run, "upload[1]", fatal("no such bucket"));
}

const CHILD: &str = "
flow: media
steps:
  - {id: build, flow: inner}
---
flow: inner
steps:
  - {id: fetch, action: fetch}
";

fn child(world: &mut World, run: RunId) {
    let child = world.child(run);
    world.attempt(child, "fetch", stall("connection reset"));
    world.resume(child, "fetch", None);
    world.does(run, Command::Pause { by: ada(), reason: None });
    world.does(run, Command::Unpause { by: ada() });
    world.does(run, Command::Cancel { by: ada(), reason: None });
    world.does(run, Command::rerun(Rerun::Continue, ada()));
}

const LIMITED: &str = "
flow: media
concurrency: 2
steps:
  - {id: fetch, action: fetch}
";

fn limited(world: &mut World, run: RunId) {
    world.admit();
    world.attempt(run, "fetch", done());
    let deadline = Some(Time(world.now.0 + 60_000));
    let late = world.try_start(|start| start.deadline = deadline).expect("it starts");
    world.pass(Millis::minutes(1));
    assert!(world.runs[&late].is_final());
}

const OUTPUT: &str = "
flow: media
output: '${ steps.fetch.output.missing }'
steps:
  - {id: fetch, action: fetch}
";

fn output_fails(world: &mut World, run: RunId) {
    world.attempt(run, "fetch", Report::Complete { output: Json::parse("{}").expect("JSON") });
}
