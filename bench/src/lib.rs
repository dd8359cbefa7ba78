//! Every benchmark of the project: what `cargo xtask bench` runs.

pub mod aims;
pub mod durable;
pub mod figures;
pub mod flows;
pub mod in_memory;
pub mod items;
pub mod limits;
pub mod line;
pub mod readers;
pub mod recovery;
pub mod server;
