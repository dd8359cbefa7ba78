//! Every error of the engine and of the stores, and what a check of a store promises.

use unstuck_core::api_token::{Role, TokenRefusal};
use unstuck_core::event::Event;
use unstuck_core::policy::unknown_policy;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Time;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{CallOutcome, PutFlowError, StoreError};
use unstuck_store::verify::Promise;
use unstuck_store::verify::history::HistoryCheck;

use crate::refusals::RUN;
use crate::scenes::play;
use crate::world::{done, remote};
use crate::{Line, in_order};

labels!(ENGINE, of_engine_error(EngineError), {
    EngineError::Refused(_) => "Refused",
    EngineError::UnknownFlow(_) => "UnknownFlow",
    EngineError::UnknownVersion { .. } => "UnknownVersion",
    EngineError::VersionTaken { .. } => "VersionTaken",
    EngineError::FlowInUse { .. } => "FlowInUse",
    EngineError::BadFlow(_) => "BadFlow",
    EngineError::Store(_) => "Store",
    EngineError::Damaged(_) => "Damaged",
    EngineError::BadPolicies(_) => "BadPolicies",
    EngineError::BadToken(_) => "BadToken",
    EngineError::BadBulk(_) => "BadBulk",
    EngineError::NoSchedule(_) => "NoSchedule",
    EngineError::NotFired(_) => "NotFired",
    EngineError::Changed(_) => "Changed",
    EngineError::PoliciesChanged => "PoliciesChanged",
    EngineError::Replayed(_) => "Replayed",
    EngineError::KeyReused(_) => "KeyReused",
    EngineError::Defect(_) => "Defect",
    EngineError::Busy => "Busy",
    EngineError::Stopped => "Stopped",
});

labels!(STORE, of_store_error(StoreError), {
    StoreError::Conflict(_) => "Conflict",
    StoreError::Full(_) => "Full",
    StoreError::Away(_) => "Away",
    StoreError::Damaged(_) => "Damaged",
    StoreError::Broken(_) => "Broken",
    StoreError::SessionEnded => "SessionEnded",
    StoreError::Closed => "Closed",
});

labels!(FLOWS, of_flow_error(PutFlowError), {
    PutFlowError::VersionTaken { .. } => "VersionTaken",
    PutFlowError::Store(_) => "Store",
});

pub(crate) fn of_the_engine() -> Vec<Line> {
    let all = [
        EngineError::Refused(Refusal::UnknownRun(RUN)),
        EngineError::UnknownFlow("nightly".into()),
        EngineError::UnknownVersion { flow: "nightly".into(), version: "7".into() },
        EngineError::VersionTaken { flow: "nightly".into(), version: "7".into() },
        EngineError::FlowInUse { flow: "nightly".into(), version: None, runs: 1 },
        EngineError::FlowInUse { flow: "nightly".into(), version: Some("7".into()), runs: 12 },
        EngineError::BadFlow("step `w` has no field `wait`".to_owned()),
        EngineError::Store(StoreError::Away("<what>".to_owned())),
        EngineError::Damaged("<what>".to_owned()),
        EngineError::BadPolicies(vec![unknown_policy(0, &"resets".into())]),
        EngineError::BadToken(TokenRefusal::Unknown("ops".into())),
        EngineError::BadToken(TokenRefusal::NameTaken("ops".into())),
        EngineError::BadToken(TokenRefusal::Over("ops".into())),
        EngineError::BadToken(TokenRefusal::BadName("o p s".into())),
        EngineError::BadToken(TokenRefusal::Misfit { role: Role::Peer, field: "origin", is_needed: true }),
        EngineError::BadToken(TokenRefusal::Misfit { role: Role::Viewer, field: "flows", is_needed: false }),
        EngineError::BadToken(TokenRefusal::TooMany),
        EngineError::BadBulk("<what>".to_owned()),
        EngineError::NoSchedule("nightly".into()),
        EngineError::NotFired("<why>".into()),
        EngineError::Changed(RUN),
        EngineError::PoliciesChanged,
        EngineError::Replayed(Box::new(CallOutcome::Changed { run: RUN, already: false })),
        EngineError::KeyReused("nightly-17".into()),
        EngineError::Defect("index out of bounds".to_owned()),
        EngineError::Busy,
        EngineError::Stopped,
    ];
    in_order(ENGINE, all.iter().map(|error| (of_engine_error(error), error.to_string())).collect())
}

pub(crate) fn of_a_store() -> Vec<Line> {
    let what = || "<what>".to_owned();
    let all = [
        StoreError::Conflict(what()),
        StoreError::Full(String::new()),
        StoreError::Full("/var/lib/unstuck".to_owned()),
        StoreError::Away(what()),
        StoreError::Damaged(what()),
        StoreError::Broken(what()),
        StoreError::SessionEnded,
        StoreError::Closed,
    ];
    let mut lines =
        in_order(STORE, all.iter().map(|error| (of_store_error(error), error.to_string())).collect());
    let flows = [
        PutFlowError::VersionTaken { name: "nightly".into(), version: "3".into() },
        PutFlowError::Store(StoreError::Away(what())),
    ];
    lines.extend(in_order(
        FLOWS,
        flows.iter().map(|error| (of_flow_error(error), error.to_string())).collect(),
    ));
    lines
}

/// What is wrong with a history, and what makes it so.
type Damage = (&'static str, fn(&mut Vec<Event>));

/// What a check finds in histories that cannot have happened.
pub(crate) fn findings() -> Vec<Line> {
    let damages: [Damage; 6] = [
        ("an event is missing", |events| drop(events.remove(1))),
        ("of another generation", |events| events[1].generation = 3),
        ("time goes back", |events| events[1].at = Time(0)),
        ("no start", |events| drop(events[0].facts.remove(0))),
        ("an attempt twice", |events| {
            let ended = events[2].facts[0].clone();
            events[2].facts.insert(1, ended);
        }),
        ("after the end", |events| {
            let mut again = events[1].clone();
            (again.seq, again.at) = (events.len() as u64 + 1, events[2].at);
            events.push(again);
        }),
    ];
    let world = play("{flow: media, steps: [{id: fetch, action: fetch}]}", |world, run| {
        let attempt = world.claim(run, "fetch", remote());
        world.say(attempt, done());
    });
    let (run, events) = world.history.iter().next().expect("a run");
    let mut lines = Vec::new();
    for (label, damage) in damages {
        let mut events = events.clone();
        damage(&mut events);
        let (mut history, mut findings) = (HistoryCheck::new(*run), Vec::new());
        for event in &events {
            history.check_event(event, &mut findings);
        }
        assert!(!findings.is_empty(), "{label}");
        lines.extend(findings.iter().map(|finding| (label.to_owned(), world.named(&finding.to_string()))));
    }
    lines
}

pub(crate) fn promises() -> Vec<Line> {
    Promise::ALL.into_iter().map(|promise| (format!("{promise:?}"), promise.to_string())).collect()
}
