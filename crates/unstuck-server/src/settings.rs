//! What a server is told when it starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::store_jobs::StoreTool;

/// What a server is called, and what it refuses.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The name of this server, for people and for other servers.
    pub name: Arc<str>,
    /// The folder that relative paths of local processes start from.
    pub directory: Arc<str>,
    /// The folder of the store, whose disk is watched.
    pub store: PathBuf,
    pub store_tool: StoreTool,
    pub limits: Limits,
    pub rates: Rates,
    /// Whether changes by people are refused without a reason.
    pub requires_reason: bool,
    /// Values of one label of a metric, before they are counted as `other`.
    pub metric_labels: usize,
    /// What is unsafe about how this server is set up, in sentences.
    pub warnings: Vec<String>,
}

/// How many requests one token may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// A second, on average; 0 is no limit.
    pub requests: u64,
    /// At once, before the rate counts.
    pub burst: u64,
}

/// Bounds on what anybody can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of a flow file.
    pub flow_file: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// How deep JSON may be nested.
    pub json_depth: usize,
    /// Items in one request.
    pub items: usize,
    /// Bytes of all bodies that are in memory at once.
    pub bodies: usize,
    /// A body must have arrived within this time.
    pub body_time: Duration,
    /// A connection without a request is closed after this time.
    pub idle_time: Duration,
    /// A connection whose peer takes nothing of an answer is closed after this time.
    pub stall_time: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Queries that are answered at once; others wait their turn.
    pub queries: usize,
    /// Changes by people that are carried out at once; others wait their turn.
    pub changes: usize,
    /// A request waits so long for its turn before it is refused.
    pub turn_time: Duration,
    /// Event streams at once.
    pub streams: usize,
    /// The longest that `wait` waits.
    pub longest_wait: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 4 << 20,
            flow_file: 1 << 20,
            head: 16 << 10,
            json_depth: 64,
            items: 1_000,
            bodies: 256 << 20,
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(75),
            stall_time: Duration::from_mins(1),
            connections: 10_000,
            queries: 16,
            changes: 64,
            turn_time: Duration::from_secs(5),
            streams: 1_000,
            longest_wait: Duration::from_mins(1),
        }
    }
}
