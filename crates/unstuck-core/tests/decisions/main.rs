//! What the core decides, in tables of cases and in random worlds.

mod children;
mod concurrency;
mod deferral;
mod expressions;
mod flows;
mod for_each;
mod handover;
mod ladder;
mod operators;
mod properties;
mod rerun;
mod start;
mod stuck;
mod support;
mod tokens;
mod wakeups;
