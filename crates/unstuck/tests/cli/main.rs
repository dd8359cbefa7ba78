//! The command as people use it: the real binary, its exit codes, and every sentence that it says.

mod alone;
mod check;
mod docs;
mod docs_commands;
mod document;
mod errors;
mod examples;
mod flows;
mod interrupt;
mod killed;
mod names;
mod output;
mod owner;
mod pages;
mod refusals;
mod rest;
mod socket;
mod support;
mod terminal;
