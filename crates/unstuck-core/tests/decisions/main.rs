//! What the core decides, in tables of cases and in random worlds.

mod amend;
mod bulk;
mod by_hand;
mod children;
mod clock;
mod concurrency;
mod deferral;
mod downtime;
mod expressions;
mod flows;
mod for_each;
mod forget;
mod handover;
mod home;
mod ladder;
mod logs;
mod operators;
mod paused;
mod policies;
mod properties;
mod rerun;
mod start;
mod stuck;
mod support;
mod tokens;
mod wakeups;
