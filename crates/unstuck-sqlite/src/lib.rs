//! The embedded store: an append-only log in SQLite, with what is hot in memory.
//!
//! The log of events is the truth and only appended to. Runs that something happens to are kept in memory; one that has
//! rested for a while *parks*: a small row says where its history ends, others what will wake it, and it leaves
//! memory. Opening a store reads those rows and replays the tail of the log that they do not cover. One thread writes,
//! and syncs as many stages at once as have come in.
//!
//! A full disk refuses new work; reads are answered, and it goes on by itself once there is room. Any other call of the
//! disk that fails while something is written stops the store: every question gets the same sentence, reads too, for
//! what is in memory may never have been durable. After it is opened again, all that was acknowledged is there.

mod access;
mod admin;
mod batch;
mod candidates;
mod checksum;
mod cold_runs;
mod copy;
mod error;
mod hot_runs;
mod info;
mod list_runs;
mod log_entry;
mod open;
mod options;
mod overlay;
mod page_runs;
mod payload_owner;
mod pending_transaction;
mod read_only;
mod read_pool;
mod reader;
mod recent_ids;
mod recent_results;
mod reserve;
mod row_kind;
mod schema;
mod settling;
mod stage;
mod state;
pub mod stats;
mod store;
mod stored_summary;
mod table;
mod telemetry;
pub mod verify;
mod wal;
mod wal_frames;
mod writer;
mod writer_claim;
mod writer_loop;

pub use access::{check_access, is_writable};
pub use copy::copy;
pub use info::{Info, has_store, info};
pub use options::{Disk, MemoryLimits, Options, RawFile, WriteMode};
pub use reader::SqliteReader;
pub use reserve::release_reserve;
pub use row_kind::StoredKind;
pub use schema::SCHEMA_VERSION;
pub use store::SqliteStore;
