//! What a command reads: files and JSON arguments.

pub(crate) mod json_input;
pub(crate) mod source;
