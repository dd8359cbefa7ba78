//! The command as people use it: the real binary, its exit codes, and every sentence that it says.

mod alone;
mod bulk;
mod by_hand;
mod check;
mod copies;
mod docs;
mod docs_commands;
mod document;
mod error_groups;
mod errors;
mod examples;
mod flows;
mod interrupt;
mod killed;
mod names;
mod output;
mod owner;
mod pages;
mod policies;
mod policy_stories;
mod refusals;
mod rest;
mod socket;
mod support;
mod terminal;
mod trials;
