//! The nouns of Unstuck: one file per lifecycle.

pub mod attempt;
pub mod cron;
pub mod emulation;
pub mod error;
pub mod expression;
pub mod flow;
pub mod http;
pub mod labels;
pub mod log;
pub mod nesting;
pub mod recent;
pub mod recovery;
pub mod run;
pub mod schedule;
pub mod secret;
mod step_order;
pub mod time_of_day;
pub mod unit;
