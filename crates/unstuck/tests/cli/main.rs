//! The command as people use it: the real binary, its exit codes, and every sentence that it says.

/// Whether commands are sent to a server: see `tests/cli_on_server.rs`, where the same tests are.
const ON_SERVER: bool = false;

/// A test whose story is about a store without a server, with the reason.
macro_rules! only_on_a_store {
    ($why:literal; $($test:item)*) => {
        $($test)*
    };
}

mod alone;
mod bounds;
mod bulk;
mod bulk_verbs;
mod by_hand;
mod check;
mod clocks;
mod confirms;
mod copies;
mod crashes;
mod damaged;
mod docs;
mod docs_commands;
mod document;
mod error_groups;
mod errors;
mod examples;
mod exit_codes;
mod files;
mod flows;
mod generations;
mod home;
mod http;
mod interrupt;
mod json;
mod killed;
mod lists;
mod logs;
mod names;
mod output;
mod owner;
mod pages;
mod policies;
mod policy_pause;
mod policy_stories;
mod refusals;
mod rehearse;
mod rehearse_docs;
mod rest;
mod socket;
mod support;
mod telemetry;
mod terminal;
mod times;
mod tokens;
mod trials;
mod unanswered;
mod waits;
