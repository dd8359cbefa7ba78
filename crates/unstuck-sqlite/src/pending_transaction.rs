//! What the writer makes durable: one stage, ready to be written.

use unstuck_core::bulk::{BulkRef, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Event;
use unstuck_core::id::{PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::log::LogRecord;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::summary::RunSummary;
use unstuck_core::thing::{Delivery, Thing};
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;
use unstuck_store::contract::{AuditRecord, IdempotencyRecord, NoticeId, StageId};
use unstuck_store::timers::Timer;

use crate::log_entry::{StoredSlot, StoredWakeups};
use crate::overlay::OverlayChanges;
use crate::table::error::ErrorChanges;
use crate::table::run_label::LabelChange;

/// One stage.
#[derive(Debug, Default)]
pub(crate) struct PendingTransaction {
    pub(crate) stage: u64,
    pub(crate) at: Time,
    pub(crate) last_id: u64,
    /// The position of the last event that there ever was.
    pub(crate) end: u64,
    /// Everything at or before this position is in the rows.
    pub(crate) flushed: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) payloads: Vec<(RunId, PayloadId, Json)>,
    pub(crate) keys: Vec<(std::sync::Arc<str>, std::sync::Arc<str>, RunId)>,
    /// What runs that are started or changed have of labels, in order.
    pub(crate) labels: Vec<LabelChange>,
    pub(crate) leases: Vec<MovedLease>,
    /// Leases that were moved and are over.
    pub(crate) ended_leases: Vec<(RunId, UnitRef)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) notices: Vec<(NoticeId, Notice)>,
    pub(crate) delivered: Vec<NoticeId>,
    pub(crate) postponed: Vec<(NoticeId, Delivery)>,
    /// Runs that are removed, with the position of their last event.
    pub(crate) forgotten: Vec<(RunId, u64)>,
    /// All that are remembered, when there is a new one.
    pub(crate) downtimes: Option<Vec<Downtime>>,
    /// How the clock was set, when it was.
    pub(crate) clock: Option<ClockRecord>,
    pub(crate) errors: ErrorChanges,
    pub(crate) logs: Vec<LogRecord>,
    pub(crate) things: Vec<Thing>,
    pub(crate) results: Vec<(BulkRef, TargetResult)>,
    pub(crate) idempotency: Vec<IdempotencyRecord>,
    pub(crate) audit: Vec<AuditRecord>,
    pub(crate) token_uses: Vec<(TokenId, Time)>,
    /// For readers, once it is durable.
    pub(crate) fresh: OverlayChanges,
}

/// One row of the log.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) pos: u64,
    pub(crate) run: RunId,
    pub(crate) prev: u64,
    pub(crate) event: Event,
    pub(crate) wakes: Option<StoredWakeups>,
}

/// Where a run stands, for one that parks or ends.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) run: RunId,
    pub(crate) flow: std::sync::Arc<str>,
    pub(crate) summary: RunSummary,
    /// The state that its row in the file says, if it has one.
    pub(crate) before: Option<RunState>,
    pub(crate) head: u64,
    pub(crate) slot: Option<(StoredSlot, Option<Time>)>,
    /// Whether an executor of this process has an attempt of it.
    pub(crate) is_local: bool,
    pub(crate) replaced: ReplacedWakes,
    pub(crate) wakes: Vec<ParkedWake>,
    /// Its state, if that is kept now.
    pub(crate) snapshot: Option<String>,
}

/// Which wakeups and leases of a run that are in the file are not those of its row any more.
#[derive(Debug)]
pub(crate) enum ReplacedWakes {
    /// All of them; whether there are any of each kind.
    All { wakes: bool, leases: bool },
    /// Those of these places: step and item.
    Of(Vec<(i64, i64)>),
}

/// A wakeup of a run that parks.
#[derive(Debug)]
pub(crate) struct ParkedWake {
    pub(crate) step: i64,
    pub(crate) item: i64,
    pub(crate) timer: Option<Timer>,
    pub(crate) ready: Option<ReadyAttempt>,
}

/// A lease that a sign of life has moved.
#[derive(Debug)]
pub(crate) struct MovedLease {
    pub(crate) run: RunId,
    pub(crate) step: i64,
    pub(crate) item: i64,
    pub(crate) timer: Timer,
}

/// Encodes a unit as the columns step and item, -1 for none: NULL would not be unique in a primary key.
pub(crate) fn unit_columns(unit: Option<UnitRef>) -> (i64, i64) {
    let step = unit.map_or(-1, |unit| i64::from(unit.step.0));
    (step, unit.and_then(|unit| unit.item).map_or(-1, i64::from))
}

impl PendingTransaction {
    pub(crate) fn id(&self) -> StageId {
        StageId(self.stage)
    }
}
