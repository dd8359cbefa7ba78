//! Every refusal of a command.

use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::{Refusal, Void};
use unstuck_core::time::Time;

use crate::{Line, in_order};

labels!(LABELS, label(Refusal), {
    Refusal::UnknownRun(_) => "UnknownRun",
    Refusal::UnknownUnit(_) => "UnknownUnit",
    Refusal::Final(_) => "Final",
    Refusal::Void(_) => "Void",
    Refusal::WrongState { .. } => "WrongState",
    Refusal::WrongRunState { .. } => "WrongRunState",
    Refusal::BelongsTo { .. } => "BelongsTo",
    Refusal::KeyTaken { .. } => "KeyTaken",
    Refusal::KeyExists { .. } => "KeyExists",
    Refusal::BadName { .. } => "BadName",
    Refusal::LongReason { .. } => "LongReason",
    Refusal::BadInput(_) => "BadInput",
    Refusal::TooManySignals { .. } => "TooManySignals",
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
        Refusal::WrongState { unit: "encode".to_owned(), is: "error", wanted: "held", hint: "<hint>" },
        Refusal::WrongRunState { is: RunState::Error, asked: "be forgotten", hint: "<hint>" },
        Refusal::BelongsTo { run: RUN, parent: PARENT },
        Refusal::KeyTaken {
            key: "order-7".into(),
            run: RUN,
            theirs: "74234e98".into(),
            ours: "1f3870be".into(),
        },
        Refusal::KeyExists { key: "order-7".into(), run: RUN },
        Refusal::BadName { what: "the key", bytes: 0, max: 512 },
        Refusal::BadName { what: "the name of the signal", bytes: 600, max: 512 },
        Refusal::LongReason { characters: 1_200, max: 1_000 },
        Refusal::BadInput(vec!["`n` is missing".to_owned(), "`size` is not a number".to_owned()]),
        Refusal::TooManySignals { name: "approve".into(), max: 1_000 },
        Refusal::TooLarge { what: "the input", bytes: 20_000_000, max: 16_777_216 },
    ];
    all.extend(void_tokens());
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
        void("its worker gave it back", since, Some((2, None))),
        void("it belongs to generation 1 and the run is at generation 2", None, Some((2, Some(worker)))),
    ]
}
