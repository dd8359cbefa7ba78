//! Explanations of runs in every state: the headline, where each step is and why, what comes next, what can be done.

use std::collections::BTreeSet;

use unstuck_core::command::{Command, Report};
use unstuck_core::explain::{ExplainContext, SlotHolder, explain_in_context, find_causes};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::run::{Limit, Phase, RunEnd, RunOutcome, RunState, Slot};
use unstuck_core::time::Millis;

use crate::Line;
use crate::scenes::{pause_policies, play, policy, set_policies};
use crate::world::{World, ada, done, fatal, lacking, local, remote, stall};

labels!(STATES, of_state(RunState), {
    RunState::Queued => "queued",
    RunState::Running => "running",
    RunState::Waiting => "waiting",
    RunState::Error => "error",
    RunState::Held => "held",
    RunState::Paused => "paused",
    RunState::Completed => "completed",
    RunState::Failed => "failed",
    RunState::Cancelled => "cancelled",
    RunState::Superseded => "superseded",
});

/// A situation: its name, the flows, what happens, and which run is explained.
type Case = (&'static str, &'static str, fn(&mut World, RunId) -> RunId);

const CASES: [Case; 22] = [
    ("queued", LIMITED, |_, run| run),
    ("ready", PLAIN, |_, run| run),
    ("handed out", PLAIN, |world, run| {
        world.claim(run, "fetch", remote());
        world.pass(Millis::seconds(10));
        run
    }),
    ("working", PLAIN, working),
    ("retrying", RECOVERS, retrying),
    ("waiting", WAITS, |world, run| {
        world.pass(Millis::minutes(1));
        run
    }),
    ("held", RECOVERS, held),
    ("in error", PLAIN, |world, run| {
        world.attempt(run, "fetch", stall("disk full"));
        world.pass(Millis::hours(1));
        run
    }),
    ("in error, one of several", ITEMS, in_error),
    ("in error, with a policy", PLAIN, |world, run| {
        set_policies(world, vec![policy("resets", "reset")]);
        world.attempt(run, "fetch", stall("connection reset"));
        run
    }),
    ("in error, with policies paused", PLAIN, |world, run| {
        set_policies(world, vec![policy("resets", "reset")]);
        world.attempt(run, "fetch", stall("connection reset"));
        pause_policies(world);
        world.now = world.now + Millis::minutes(2);
        run
    }),
    ("paused", RECOVERS, |world, run| {
        world.attempt(run, "fetch", stall("connection reset"));
        world.does(run, Command::Pause { by: ada(), reason: Some("maintenance".into()) });
        world.pass(Millis::minutes(1));
        run
    }),
    ("child in error", CHILD, |world, run| {
        let child = world.child(run);
        world.attempt(child, "fetch", stall("connection reset"));
        run
    }),
    ("child paused with its parent", CHILD, |world, run| {
        world.does(run, Command::Pause { by: ada(), reason: None });
        world.child(run)
    }),
    ("failing", HANDLER, |world, run| {
        world.claim(run, "encode", remote());
        world.attempt(run, "fetch", fatal("no such file"));
        run
    }),
    ("failing, the handler runs", HANDLER, |world, run| {
        world.attempt(run, "fetch", fatal("no such file"));
        run
    }),
    ("handler", HANDLER, |world, run| {
        world.attempt(run, "fetch", fatal("no such file"));
        world.child(run)
    }),
    ("completed", RECOVERS, completed),
    ("failed", DEADLINE, |world, run| {
        world.pass(Millis::hours(3));
        run
    }),
    ("failed, and its handler", HANDLER, |world, run| {
        world.attempt(run, "fetch", fatal("no such file"));
        let handler = world.child(run);
        world.attempt(handler, "sweep", fatal("disk full"));
        run
    }),
    ("cancelled", PLAIN, |world, run| {
        world.does(run, Command::Cancel { by: ada(), reason: Some("not needed".into()) });
        run
    }),
    ("superseded", PLAIN, |world, run| {
        let (by, at) = (world.start(), world.now);
        world.does(run, Command::Cancel { by: ada(), reason: None });
        world.runs.get_mut(&run).expect("there").phase =
            Phase::Ended(RunEnd { at, how: RunOutcome::Superseded { by } });
        run
    }),
];

pub(crate) fn lines() -> Vec<Line> {
    let (mut lines, mut seen, mut offered) = (Vec::new(), Vec::new(), Offered::new());
    for (name, flows, happens) in CASES {
        let mut about = None;
        let world = play(flows, |world, run| about = Some(happens(world, run)));
        let about = about.expect("a run");
        seen.push(of_state(&world.runs[&about].state()));
        lines.extend(explained(name, &world, about, ExplainContext::default(), &mut offered));
    }
    for state in STATES {
        assert!(seen.contains(state), "no run is explained that is {state}: add a case");
    }
    lines.extend(idle(&mut offered));
    lines
}

/// Runs that no process is executing, and one that waits for their slot.
fn idle(offered: &mut Offered) -> Vec<Line> {
    let idle = ExplainContext { is_idle: true, ..ExplainContext::default() };
    let mut lines = Vec::new();
    for (name, flows) in [("idle, ready", PLAIN), ("idle, waiting", WAITS), ("idle, queued", LIMITED)] {
        let mut about = None;
        let world = play(flows, |world, run| {
            world.now = world.now + Millis::hours(1);
            about = Some(run);
        });
        lines.extend(explained(name, &world, about.expect("a run"), idle, offered));
    }
    let mut about = None;
    let world = play(LIMITED, |world, run| {
        world.start();
        about = Some(run);
    });
    let other = *world.runs.keys().last().expect("two runs");
    let holder = SlotHolder { run: other, root: other, state: RunState::Error, is_idle: true };
    let holders = [holder, SlotHolder { is_idle: false, ..holder }];
    let behind = ExplainContext { holders: &holders, ..ExplainContext::default() };
    lines.extend(explained("queued behind others", &world, about.expect("a run"), behind, offered));
    let limit = match &world.runs[&other].slot {
        Slot::Wanted(limit) | Slot::Taken(limit) => limit.clone(),
        Slot::Unlimited => Limit { name: "media".into(), max: 1, strict: false },
    };
    let child = play(CHILD, |_, _| {});
    let parent = *child.runs.keys().next().expect("a run");
    let below =
        ExplainContext { queued_below: Some((child.child(parent), &limit)), ..ExplainContext::default() };
    lines.extend(explained("child queued", &child, parent, below, offered));
    lines
}

/// The verbs of commands, with what is said of them.
type Offered = BTreeSet<(String, String)>;

fn verb(command: &str) -> String {
    command.split(' ').take(2).collect()
}

/// `headline`, `step state`, `next` and `can` of a run.
fn explained(
    name: &str,
    world: &World,
    run: RunId,
    surroundings: ExplainContext<'_>,
    offered: &mut Offered,
) -> Vec<Line> {
    let (state, children) = (&world.runs[&run], world.children(run));
    let policies_paused = world.policies.switch().paused();
    let causes = find_causes(&world.runs.values().cloned().collect::<Vec<_>>());
    let surroundings =
        ExplainContext { children: &children, causes: &causes, policies_paused, ..surroundings };
    let told =
        explain_in_context(state, &world.flow_of(state), &world.history[&run], world.now, surroundings);
    let mut lines =
        vec![(String::new(), String::new()), (format!("({name}) headline"), told.headline.clone())];
    for because in &told.because {
        lines.push((format!("    {} {}", because.name, because.state), because.why.clone()));
    }
    for next in &told.next {
        let when = next.at.map_or(String::new(), |at| format!(" in {}", at.since(world.now)));
        lines.push((format!("    next{when}"), next.what.clone()));
    }
    // Each offer once: every open run can be paused and cancelled.
    for can in told.can.iter().filter(|can| offered.insert((verb(&can.command), can.what.clone()))) {
        lines.push((format!("    can {}", can.command), can.what.clone()));
    }
    lines.into_iter().map(|(label, text)| (world.named(&label), world.named(&text))).collect()
}

fn working(world: &mut World, run: RunId) -> RunId {
    let attempt = world.claim(run, "fetch", remote());
    world.say(attempt, Report::Start);
    world.pass(Millis::seconds(10));
    world.say(attempt, Report::Heartbeat { progress: Json::parse("\"half\"").ok() });
    world.pass(Millis::seconds(20));
    run
}

fn retrying(world: &mut World, run: RunId) -> RunId {
    world.attempt(run, "fetch", stall("connection reset"));
    world.attempt(run, "encode", lacking(Some("no GPU")));
    let lost = world.claim(run, "upload", local());
    world.does(run, Command::Lost { attempt: lost, with_others: false });
    run
}

fn held(world: &mut World, run: RunId) -> RunId {
    world.attempt(run, "check", stall("no such codec"));
    for step in ["fetch", "encode", "upload"] {
        world.attempt(run, step, done());
    }
    world.pass(Millis::minutes(7));
    run
}

fn in_error(world: &mut World, run: RunId) -> RunId {
    for item in ["pages[0]", "pages[1]", "pages[2]", "pages[3]", "pages[4]"] {
        world.attempt(run, item, stall("empty page"));
    }
    let unit = Some(world.unit(run, "pages[0]"));
    world.does(run, Command::Acknowledge { unit, by: ada(), reason: None });
    run
}

fn completed(world: &mut World, run: RunId) -> RunId {
    for step in ["fetch", "encode", "upload"] {
        world.attempt(run, step, done());
    }
    world.attempt(run, "check", stall("no such codec"));
    let unit = world.unit(run, "check");
    world.does(run, Command::Skip { unit, by: ada(), reason: None });
    world.pass(Millis::minutes(1));
    run
}

const PLAIN: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, queueTimeout: 5h}
  - {id: encode, action: encode}
";

const LIMITED: &str = "
flow: media
concurrency: 1
steps:
  - {id: fetch, action: fetch}
";

const RECOVERS: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, retryStrategy: retry, maxAttempts: 3, backOff: 1m}
  - {id: encode, action: encode, needs: []}
  - {id: upload, action: upload, needs: []}
  - {id: check, action: check, retryStrategy: hold, maxAttempts: 3, needs: []}
";

const WAITS: &str = "
flow: media
steps:
  - {id: nap, wait: 5m}
  - {id: approval, signal: approve, timeout: 12h, needs: []}
  - {id: publish, action: publish, if: '${ steps.approval.output.ok }', needs: [approval]}
";

const ITEMS: &str = "
flow: media
steps:
  - {id: pages, action: pages, forEach: {items: [1, 2, 3, 4, 5, 6], parallel: 5}}
";

const CHILD: &str = "
flow: media
steps:
  - {id: build, flow: inner}
---
flow: inner
steps:
  - {id: fetch, action: fetch}
";

const HANDLER: &str = "
flow: media
steps:
  - {id: fetch, action: fetch, exceptionHandler: clean}
  - {id: encode, action: encode, needs: []}
---
flow: clean
steps:
  - {id: sweep, action: sweep}
";

const DEADLINE: &str = "
flow: media
deadline: 2h
steps:
  - {id: approval, signal: approve}
";
