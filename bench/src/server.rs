//! The server and its clients, each a process of its own, over the loopback; and beside it what an engine without a server and a
//! server without an engine can do.

pub mod bare;
pub mod calls;
pub mod client;
pub mod in_process;
pub mod lists;
pub mod process;
pub mod speed;
pub mod streams;
