//! Every refusal of a command.

use unstuck_core::command::{Changes, Command, Rerun};
use unstuck_core::decide::check_forget;
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::{CannotMigrate, Refusal, Void};
use unstuck_core::time::Time;

use crate::scenes::play;
use crate::world::{World, ada, done, local, stall};
use crate::{Line, in_order};

labels!(LABELS, label(Refusal), {
    Refusal::UnknownRun(_) => "UnknownRun",
    Refusal::UnknownUnit(_) => "UnknownUnit",
    Refusal::Final(_) => "Final",
    Refusal::Void(_) => "Void",
    Refusal::WrongState { .. } => "WrongState",
    Refusal::WrongRunState { .. } => "WrongRunState",
    Refusal::BelongsTo { .. } => "BelongsTo",
    Refusal::RerunOfChild { .. } => "RerunOfChild",
    Refusal::AmendOfChild { .. } => "AmendOfChild",
    Refusal::CannotMigrate(_) => "CannotMigrate",
    Refusal::PastDeadline { .. } => "PastDeadline",
    Refusal::KeyTaken { .. } => "KeyTaken",
    Refusal::KeyExists { .. } => "KeyExists",
    Refusal::BadName { .. } => "BadName",
    Refusal::TooManyLabels { .. } => "TooManyLabels",
    Refusal::LongReason { .. } => "LongReason",
    Refusal::BadInput(_) => "BadInput",
    Refusal::TooManySignals { .. } => "TooManySignals",
    Refusal::TooManySignalNames { .. } => "TooManySignalNames",
    Refusal::TooLarge { .. } => "TooLarge",
});

/// A run for examples.
pub(crate) const RUN: RunId = RunId(512_390_757_764_567_042);
/// Another one.
pub(crate) const PARENT: RunId = RunId(512_390_757_764_567_041);

pub(crate) fn lines() -> Vec<Line> {
    let all = examples().into_iter();
    in_order(LABELS, all.map(|refusal| (label(&refusal), refusal.to_string())).collect())
}

fn examples() -> Vec<Refusal> {
    let mut all = vec![
        Refusal::UnknownRun(RUN),
        Refusal::UnknownUnit("encode".to_owned()),
        Refusal::Final(RunState::Failed),
        Refusal::BelongsTo { run: RUN, parent: PARENT },
        Refusal::RerunOfChild { run: RUN, parent: PARENT },
        Refusal::AmendOfChild { run: RUN, parent: PARENT },
        cannot_migrate(Some("encode"), "has begun, and is not in that version"),
        cannot_migrate(Some("encode"), "is completed, and is defined in another way there"),
        cannot_migrate(None, "that is a version of flow `inner`, and the run is one of `media`"),
        Refusal::PastDeadline { deadline: Time(1_800_000_000_000), now: Time(1_800_000_060_000) },
        Refusal::KeyTaken {
            key: "order-7".into(),
            run: RUN,
            theirs: "74234e98".into(),
            ours: "1f3870be".into(),
        },
        Refusal::KeyExists { key: "order-7".into(), run: RUN },
        Refusal::BadName { what: "the key", bytes: 0, max: 512 },
        Refusal::BadName { what: "the name of the signal", bytes: 600, max: 512 },
        Refusal::TooManyLabels { labels: 40, max: 32 },
        Refusal::LongReason { characters: 1_200, max: 1_000 },
        Refusal::BadInput(vec!["`n` is missing".to_owned(), "`size` is not a number".to_owned()]),
        Refusal::TooManySignals { name: "approve".into(), max: 1_000 },
        Refusal::TooManySignalNames { name: "aprove".into(), max: 100 },
        Refusal::TooLarge { what: "the input", bytes: 20_000_000, max: 16_777_216 },
    ];
    all.extend(void_tokens());
    all.extend(of_commands());
    all
}

const FLOWS: &str = "
flow: media
steps:
  - {id: fetch, action: fetch}
  - {id: encode, action: encode, retryStrategy: hold, needs: []}
  - {id: upload, action: upload}
";

const PARENT_AND_CHILD: &str = "
flow: media
steps:
  - {id: build, flow: inner}
---
flow: inner
steps:
  - {id: fetch, action: fetch}
";

/// What commands are refused with, whatever state a run and its steps are in.
fn of_commands() -> Vec<Refusal> {
    let mut all = Vec::new();
    let happens: [fn(&mut World, RunId); 5] = [
        |_, _| {},
        |world, run| {
            world.claim(run, "fetch", local());
        },
        |world, run| {
            world.attempt(run, "fetch", stall("connection reset"));
            world.attempt(run, "encode", stall("no such codec"));
        },
        |world, run| world.does(run, Command::Pause { by: ada(), reason: None }),
        |world, run| {
            world.attempt(run, "fetch", done());
            world.does(run, Command::Cancel { by: ada(), reason: None });
        },
    ];
    for happens in happens {
        let world = || play(FLOWS, happens);
        let run = *world().runs.keys().next().expect("a run");
        all.extend(check_forget(&world().runs[&run], false).err());
        for command in commands(&world(), run) {
            all.extend(world().ask(run, command).err());
        }
    }
    let in_child = |world: &mut World, run: RunId| {
        let child = world.child(run);
        world.attempt(child, "fetch", stall("connection reset"));
    };
    let mut world = play(PARENT_AND_CHILD, in_child);
    let run = *world.runs.keys().next().expect("a run");
    let resume = Command::Resume { unit: None, by: ada(), reason: None, changes: Box::default() };
    all.extend(world.ask(run, resume).err());
    all
}

fn cannot_migrate(step: Option<&str>, why: &str) -> Refusal {
    let step = step.map(str::to_owned);
    Refusal::CannotMigrate(Box::new(CannotMigrate { step, why: why.to_owned(), version: "2".into() }))
}

fn commands(world: &World, run: RunId) -> Vec<Command> {
    let by = ada;
    let mut all = vec![
        Command::Resume { unit: None, by: by(), reason: None, changes: Box::default() },
        Command::Acknowledge { unit: None, by: by(), reason: None },
        Command::rerun(Rerun::Continue, by()),
        Command::Signal { name: " ".into(), payload: Json::NULL, by: by() },
    ];
    for step in ["fetch", "encode", "upload"] {
        let unit = world.unit(run, step);
        let step_input = Json::parse("1").ok();
        let changes = Box::new(Changes { step_input, ..Changes::default() });
        all.extend([
            Command::Claim { unit, worker: local() },
            Command::Choose { unit, choice: Choice::Retry, by: by(), bulk: None },
            Command::Resume { unit: Some(unit), by: by(), reason: None, changes: Box::default() },
            Command::Complete { unit, output: Json::NULL, by: by(), reason: None },
            Command::Skip { unit, by: by(), reason: None },
            Command::Rerun { what: Rerun::All, changes, by: by() },
        ]);
    }
    all
}

fn void_tokens() -> Vec<Refusal> {
    let worker = Worker { name: "w2".into(), incarnation: 1, local: false };
    let since = Some(Time(1_800_000_000_000));
    let void = |why: &str, since, holds_now| {
        let void = Void { unit: "encode".to_owned(), attempt: 1, since, why: why.to_owned(), holds_now };
        Refusal::Void(Box::new(void))
    };
    vec![
        void("the run was cancelled", since, None),
        void("its worker released it", since, Some((2, None))),
        void("it is of generation 1, and the run is now at generation 2", None, Some((2, Some(worker)))),
    ]
}
