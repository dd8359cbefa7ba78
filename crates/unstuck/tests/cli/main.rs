//! The command as people use it: the real binary, its exit codes, and every sentence that it says.

mod check;
mod docs;
mod document;
mod errors;
mod examples;
mod interrupt;
mod killed;
mod output;
mod owner;
mod rest;
mod socket;
mod support;
mod terminal;
