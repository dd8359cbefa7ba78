//! How things are shown: tables, texts, times, problems, JSON.

pub(crate) mod changed;
pub(crate) mod json_text;
pub(crate) mod output;
pub(crate) mod paused_policies;
pub(crate) mod problems;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
