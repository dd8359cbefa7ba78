//! Everything that can be asked of a store and its engine, one call each: what the command line, its local socket and an HTTP
//! server share. It resolves names, asks the engine or the store, and makes views of what it finds; it decides nothing. Requests
//! and views are plain data of `unstuck-api`; here are the functions that take the one and make the other.

pub mod apply_flows;
pub mod audit;
pub mod bulk;
pub mod change_policies;
pub mod change_run;
pub mod change_teller;
pub mod clock;
pub mod convert;
pub mod counts;
pub mod errors;
pub mod event_teller;
pub mod explain;
pub mod facts;
pub mod family;
pub mod flows;
pub mod history;
pub mod in_flight;
mod items;
pub mod list;
pub mod local_time;
pub mod logs;
mod migrate;
pub mod owner;
mod payload;
pub mod policies;
pub mod problem;
pub mod replay;
mod run_cursor;
mod run_filter;
pub mod run_name;
pub mod schedules;
pub mod service;
pub mod set_aside;
pub mod show;
pub mod signals;
pub mod start_run;
pub mod status;
pub mod tokens;
pub mod try_policies;

pub use unstuck_flow::suggest::find_nearest;

pub use service::{Service, ServiceError, SilentOwner, load_payload};
