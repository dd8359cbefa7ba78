//! Bulk actions through the engine, on a store whose durability the test owns: nothing is acted on twice, every result is
//! counted once, and nobody waits for a large one.

mod crashes;
mod many;
mod orders;
mod pace;
mod support;
mod verbs;
