//! The commands, one file each.

pub(crate) mod ack;
pub(crate) mod bulk;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod choose;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod errors;
pub(crate) mod explain;
pub(crate) mod forget;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod pause;
pub(crate) mod policy;
pub(crate) mod rehearse;
pub(crate) mod rerun;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod signal;
pub(crate) mod skip;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod unpause;
