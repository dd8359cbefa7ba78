//! What the core says about a run: lines of a log, decisions with their reasons, explanations.

#[path = "../decisions/flows.rs"]
#[expect(dead_code, reason = "the helpers serve other tests too")]
mod flows;
#[path = "../decisions/support.rs"]
#[expect(dead_code, reason = "the helpers serve other tests too")]
mod support;

mod decisions;
mod ladder;
mod lines;
mod page;
mod policies;
mod saying;
mod states;
mod worlds;
