//! What the core decides, in tables of cases and in random worlds.

mod flows;
mod ladder;
mod properties;
mod support;
