//! Policies in an engine: orders, what they do to errors, and whether trials say what really happens.

mod orders;
mod paused;
mod resumes;
mod support;
mod trials;
