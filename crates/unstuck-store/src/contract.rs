//! What the engine asks of a store, whatever database keeps it.
//!
//! A batch of commands is one transaction: [`Store::ask`] for all that it wants to see, [`Store::loaded`] when it is
//! there, [`Store::more`] for what decisions have turned up, and one [`Store::stage`]. Between asking and having, others
//! may be under way, as many as the store has [lanes](Store::lanes). A staged batch is durable when [`Store::settle`] says
//! so; only then are callers answered. A store may show it to the next batch before that: when a stage fails, everything
//! that was staged on top of it is gone too, and the store shows what was durable before it.
//!
//! A store never chooses the next state of a run. It keeps what it is given, finds what is due and what may be
//! handed out, and keeps the invariants a second time: one run per key, events without gaps.

mod admin;
mod changes;
mod errors;
mod filter;
mod ledger;
mod load;
mod reader;
mod tail;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use unstuck_core::bulk::{Bulk, BulkRef, ResultKind, Target, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::decide::{LeaseMove, Withheld};
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::log::LogRecord;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::slot::SlotClaim;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::Wakeup;

pub use crate::logs::RunLogs;
pub use admin::{
    AdminStore, Applied, FlowChange, FlowChangeKind, ListedFlow, OpenRuns, PlannedFlow, TokensChange,
};
pub use changes::{AuditId, PolicyAudit, PolicyAuditKind, PolicyChange, PolicyHits};
pub use errors::{ErrorFilter, ErrorGroup, ErrorId, GroupFilter, GroupPlace, MAX_EXAMPLES, OpenErrorFilter};
pub use filter::{Filtered, LabelFilter, RunFilter, RunPage, RunPlace, RunSort, StepMark, next_resume_of};
pub use ledger::{
    AuditChange, AuditEntry, AuditFilter, AuditRecord, CallOrigin, CallOutcome, IDEMPOTENCY_RETENTION,
    IdempotencyKey, IdempotencyRecord, Ledger, MAX_SWEPT_KEYS, is_expired,
};
pub use load::{BatchId, Candidate, Due, KeyUse, Loaded, LoadedPayload, Locked, LockedThing, More, Wants};
pub use reader::{Reader, RunCounts, RunWithHistory};
pub use tail::{Cursor, OnChange, TailError, TailPage, Watchers};

/// No call waits longer than this for what is outstanding: whoever calls has something else to do.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// A store, as one engine sees it. It is used from one thread; a store over a network does its own waiting.
pub trait Store: AdminStore {
    /// Returns how many batches may be under way at once; an engine uses at most as many.
    fn lanes(&mut self) -> usize {
        1
    }

    /// Begins a batch, which is one transaction, and asks for all that it wants to see. What is found is given by
    /// [`Store::loaded`], now or later.
    fn ask(&mut self, wants: &Wants) -> Result<BatchId, StoreError>;

    /// What a batch has asked for, if it is there: each batch once, in any order. On error the batch has ended. Never waits:
    /// a run that somebody else has comes back as [`Locked::Busy`]. Every run that is given must come back with
    /// [`Store::stage`], changed or not, or with [`Store::abandon`]. A run that is to be made is not locked.
    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)>;

    /// What decisions have turned up that a batch lacks, in the same order: runs, locked as by [`Store::ask`], none of which
    /// it has been given, and payloads. It may wait for the database, so that a batch asks for it twice at most.
    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError>;

    /// Finds the run that has this key in this flow, in any state.
    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError>;

    /// Loads these payloads, in the same order.
    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError>;

    /// Lists runs that want a slot of a limit with room, as [`Wants::admissions`] does, but without locking them.
    fn admissible_runs(&mut self, limit: usize) -> Result<Vec<RunId>, StoreError>;

    /// Lists the holders of a limit's slots, oldest first, at most `most`.
    fn slot_holders(&mut self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError>;

    /// Lists timers that are due at `now`, as [`Wants::due`] does, but without locking their runs.
    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Leaves something that is due out of [`Loaded::due`] and [`Store::next_due`]: it is not this engine's to do, or not its
    /// turn. Known to this handle
    /// only. It comes back when a stage changes it, and when another session begins; it may come back sooner. Outside of a
    /// transaction.
    fn withhold(&mut self, due: &Due, until: Withheld);

    /// Gives back timers that were withheld until they have a turn, the earliest first, at most `limit`; returns how
    /// many. Outside of a transaction.
    fn release_withheld(&mut self, limit: usize) -> usize;

    /// Lists timers after this one, due or not, in order of time, then of run and unit, at most `limit`; those that
    /// wait for a turn too.
    fn timers(
        &mut self,
        after: Option<(Time, RunId, Option<UnitRef>)>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError>;

    /// Lists undelivered notices, oldest first, at most `limit`, whether they are due or not.
    fn notices(&mut self, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError>;

    /// Lists undelivered notices to this thing, oldest first, at most `limit`, whether they are due or not: for
    /// whoever has it locked.
    fn notices_to(&mut self, thing: ThingRef, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError>;

    /// Lists things other than runs that are due at `now`, as the last stage leaves them, but without locking them as
    /// [`Wants::things`] does.
    fn due_things(&mut self, now: Time, limit: usize) -> Result<Vec<Thing>, StoreError>;

    /// From now on schedules are among what is due. They are not until then: whoever executes one run only leaves them to
    /// others. Known to this handle only.
    fn fire_schedules(&mut self);

    /// Locks these things that are no runs, each at most once per batch, as [`Store::more`] does runs. They are free again
    /// when the batch ends, and need not come back.
    fn lock_things(&mut self, batch: BatchId, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError>;

    /// Lists every thing other than runs that something can still happen to, as the last stage leaves it.
    fn things(&mut self) -> Result<Vec<Thing>, StoreError>;

    /// Returns the results of these targets of a bulk action, as the last stage leaves them: in a transaction or
    /// outside of one.
    fn target_results(&mut self, bulk: BulkId, places: &[u64]) -> Result<Vec<TargetResult>, StoreError>;

    /// Offers nothing of this run any more: what is due, ready, admissible or noticed stays as it is, in its order, and so
    /// does what comes to it. Known to this handle only, and only while it is open: whoever opens the store next is
    /// offered everything. `aside` is for people.
    fn set_aside(&mut self, run: RunId, aside: SetAside);

    /// Offers this run again after [`Store::set_aside`].
    fn release(&mut self, run: RunId);

    /// Returns since when and why this run is set aside, if it is.
    fn set_aside_record(&mut self, run: RunId) -> Option<SetAside>;

    /// Ends a batch with these changes. On error it has ended too, and nothing of it has happened.
    fn stage(&mut self, batch: BatchId, stage: Stage) -> Result<StageId, StoreError>;

    /// Ends a batch without changes; the locked runs come back as they were.
    fn abandon(&mut self, batch: BatchId, unchanged: Vec<Run>);

    /// Ends a batch after something went wrong in it: the locked runs may have been changed and are not
    /// given back, so the store shows them as they were when the batch began. A store that cannot do that
    /// is [`StoreError::Broken`] from then on. One that has ended stays so.
    fn rollback(&mut self, batch: BatchId);

    /// The stages that have become durable, or failed, since the last call, each by its id. Where it is not known what became
    /// of one, it stays outstanding until the store has looked that up: it is neither durable nor failed, and its runs are
    /// [busy](Locked::Busy) for whoever staged it, so that nothing of it is repeated. With `wait`, it may
    /// block until there is at least one, if any is outstanding, but for no longer than [`MAX_WAIT`].
    fn settle(&mut self, wait: bool) -> Vec<Settled>;

    /// A new session of a server on this store begins, durable on return. What this handle had of an earlier session is
    /// over. A store that only one can have open at a time has one session at a time: all before it have ended.
    fn open_session(&mut self, new: NewSession) -> Result<Session, StoreError>;

    /// Extends the session by another lease, by the clock of the store. Refused with [`StoreError::SessionEnded`]
    /// once it has ended.
    fn renew_session(&mut self) -> Result<(), StoreError>;

    /// Ends the session in good order, so that nobody waits for its lease to expire.
    fn end_session(&mut self);

    /// Sessions that have ended while executors of theirs had attempts, which nobody will report on any more. Each is given
    /// to one handle, once, and to another if that one's session ends too before all of them are recorded as lost. Outside
    /// of a transaction.
    fn ended_sessions(&mut self) -> Result<Vec<EndedSession>, StoreError>;

    /// Lists the latest periods in which no engine took reports, in order.
    fn downtimes(&mut self) -> Result<Vec<Downtime>, StoreError>;

    /// Returns how often and by how much the clock was set.
    fn clock(&mut self) -> Result<ClockRecord, StoreError>;

    /// Records that this server takes reports at this time, though there is nothing to stage. It need not survive a
    /// power cut. A store with a clock of its own uses that.
    fn record_alive(&mut self, now: Time);

    /// Returns the versions of what all servers share; whoever has read an older one reads it again.
    fn versions(&mut self) -> Result<Versions, StoreError>;

    /// Returns when any server was last known to take reports: the last stage, or later; `None` for an empty store.
    fn last_seen(&mut self) -> Result<Option<Time>, StoreError>;

    /// Returns when the next timer, thing or postponed notice is due.
    fn next_due(&mut self) -> Result<Option<Time>, StoreError>;

    /// Returns the time of the last stage, by the clock as it was then; `None` for an empty store.
    fn last_time(&mut self) -> Result<Option<Time>, StoreError>;

    /// Returns the highest id ever given out: new ids must be above it.
    fn last_id(&mut self) -> Result<u64, StoreError>;

    /// Calls this whenever another server has changed something, or may have: there may be work for this one. It is called
    /// from any thread, and must not block.
    fn on_news(&mut self, wake: Box<dyn Fn() + Send + Sync>);

    /// Returns a reader of what is durable. It works from any thread for as long as this store is open.
    fn reader(&mut self) -> Arc<dyn Reader>;

    /// Loads a run as it is now. Outside of a transaction: a run that is locked may be refused.
    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError>;

    /// Loads the events of a run after number `after`, in order, at most `limit`.
    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Lists runs, newest first, before the id `before`, at most `limit`. Outside of a transaction, as
    /// [`Store::run`].
    fn list(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError>;

    /// Counts root runs by state: all that are not final, and of the final ones those started at `since` or later, by
    /// their ids.
    fn count_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError>;

    /// Keeps a flow, durable on return. The same content again returns what is there, now with this folder, and with the
    /// order of its steps that was kept first: whoever uses it brings them into that. The same version with other content
    /// is refused. Without a version it is compared with the newest one, and gets the number after the highest where it
    /// differs.
    fn put_flow(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError>;

    /// On a full disk, frees the space that is reserved for forgetting runs; returns whether there was any.
    fn release_reserve(&mut self) -> bool;

    /// Finds a flow version.
    fn flow(&mut self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError>;

    /// Lists flow versions in order of their ids, after the id `after`, at most `limit`.
    fn flows(&mut self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError>;

    /// Finds the newest version of a flow: the one whose content was put last for the first time, of those that are not
    /// deleted.
    fn newest_flow(&mut self, name: &str) -> Result<Option<FlowRecord>, StoreError>;

    /// Lists every policy, enabled or not, the oldest first.
    fn policies(&mut self) -> Result<Vec<Policy>, StoreError>;

    /// Returns whether automatic resumes are paused, of the same snapshot as [`Store::policies`].
    fn policy_switch(&mut self) -> Result<PolicySwitch, StoreError>;

    /// Keeps these policies in place of those before, and what was changed, durable on return. `made_on` is the version that
    /// they were made of: refused as a conflict if that is no longer the newest. Outside of a transaction.
    fn put_policies(&mut self, change: PolicyChange, made_on: u64) -> Result<(), StoreError>;

    /// Lists changes of policies, newest first, before the id `before`, at most `limit`.
    fn policy_audit(
        &mut self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError>;

    /// Counts what policies have taken, in order of their ids; deleted policies too.
    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError>;

    /// Lists recorded errors, oldest first, after the id `after`, at most `limit`. Outside of a transaction, as
    /// everything that is read of errors.
    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError>;

    /// Lists what is in error now, by run and unit, after the place `after`, at most `limit`.
    fn open_errors(
        &mut self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError>;

    /// Lists groups of errors, those seen last first, then by name, at most `limit`.
    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError>;

    /// Runs that may be in error although no open error of them is kept, because they are older than open errors are;
    /// in order, after `after`, at most `limit`. They stay until a stage says that they were examined.
    fn needs_backfill(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError>;

    /// What attempts of a run printed, within [`MAX_LOGS_OF_RUN`](crate::logs::MAX_LOGS_OF_RUN) and
    /// [`MAX_LOG_BYTES_OF_RUN`](crate::logs::MAX_LOG_BYTES_OF_RUN): what is older was dropped. Outside of a transaction.
    fn logs(&mut self, run: RunId) -> Result<RunLogs, StoreError>;

    /// Keeps targets of a bulk action that is not there yet, in order and following those before. Nobody sees them until
    /// [`Store::put_bulk`]; without that they are gone when this session has ended. Outside of a transaction.
    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError>;

    /// Keeps a bulk action whose targets were put before, all of it durable on return: a thing from then on, in its first
    /// version. Outside of a transaction.
    fn put_bulk(&mut self, bulk: Bulk) -> Result<(), StoreError> {
        self.begin_bulk(bulk, Ledger::default())
    }

    /// Finds a bulk action.
    fn bulk(&mut self, bulk: BulkId) -> Result<Option<Bulk>, StoreError>;

    /// Lists bulk actions, newest first, before the id `before`, at most `limit`; with `open_only` those that are not
    /// settled.
    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError>;

    /// Lists targets of a bulk action from the place `from` on, at most `limit`; with `only` those with such a
    /// result. Outside of a transaction.
    fn targets(
        &mut self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError>;

    /// Lists targets that were not acted on yet, from the place `from` on, at most `limit`: in a transaction or
    /// outside of one. Their results are not looked at.
    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError>;
}

/// A run that is set aside, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Since when.
    pub since: Time,
    /// Why, in a sentence, and what to do.
    pub why: Arc<str>,
    /// When it is tried again, if time alone may help.
    pub next_try: Option<Time>,
}

/// Names an undelivered notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeId(pub u64);

/// Names a staged transaction. They grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(pub u64);

/// The changes of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The time of the batch.
    pub at: Time,
    /// The runs that were changed or made, each once.
    pub runs: Vec<RunChange>,
    /// The runs that were locked and are as they were.
    pub unchanged: Vec<Run>,
    /// Notices to things that could not be delivered in the same batch, in order.
    pub notices: Vec<Notice>,
    /// Stored notices that were delivered. One that was delivered before is passed over.
    pub delivered: Vec<NoticeId>,
    /// Stored notices whose receivers could not take them: each is tried again, after a wait that grows with its tries.
    pub postponed: Vec<NoticeId>,
    /// The highest id that was given out.
    pub last_id: u64,
    /// Runs that were locked and are removed for good: final ones, together with their children and handlers. Their
    /// histories, payloads, keys, errors and logs go with them; what groups of errors have counted stays.
    pub forgotten: Vec<RunId>,
    /// When the engine could not take answers, if it has just found that out.
    pub downtime: Option<Downtime>,
    /// How the clock was set, if it has just been. Downtimes are remembered by the clock as it is now.
    pub clock: Option<ClockRecord>,
    /// What went wrong, in order, in the runs that were changed.
    pub errors: Vec<ErrorRecord>,
    /// What attempts have printed, in order, of runs that were locked or made.
    pub logs: Vec<LogRecord>,
    /// Runs whose open errors are known from now on.
    pub backfilled: Vec<RunId>,
    /// Things that were locked and have changed, each once, in the version after the one that was given; and schedules that
    /// are made, in the first one.
    pub things: Vec<Thing>,
    /// What became of targets of these, in order: of two results of one target, the later one holds.
    pub results: Vec<(BulkRef, TargetResult)>,
    /// Executors of other sessions that have lost an attempt. One whose session has ended is not told.
    pub interrupts: Vec<Interrupt>,
    /// Requests that were carried out under a key. One that stands for another request makes the stage a conflict.
    pub idempotency: Vec<IdempotencyRecord>,
    /// Who changed what, in order.
    pub audit: Vec<AuditRecord>,
    /// Tokens of the API that were used lately, and when.
    pub token_uses: Vec<(TokenId, Time)>,
}

/// A server that opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// What tokens are signed with if the store has no key yet.
    pub token_key: [u8; 32],
    /// The machine that its executors work on.
    pub host: Arc<str>,
}

/// One session of a server on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The life of the store.
    pub epoch: u32,
    /// What tokens are signed with.
    pub token_key: [u8; 32],
    /// Its number; they grow.
    pub incarnation: u64,
    /// The node bits of the ids that it gives out: no other session has them at the same time.
    pub node: u16,
    /// How long it lasts without being renewed; `None` where it lasts as long as the store is open.
    pub lease: Option<Millis>,
    /// What the clock of the store says, if it has one: then all who share it go by that, whatever their own say.
    pub now: Option<Time>,
}

/// Versions of what all servers share. Each grows with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Policies and their switch.
    pub policies: u64,
    pub flows: u64,
    /// Downtimes, and what the clock was set by.
    pub downtimes: u64,
    /// Tokens of the API.
    pub tokens: u64,
}

impl Versions {
    /// Returns whether anything here is newer than there.
    pub fn has_newer_than(self, there: Versions) -> bool {
        self.policies > there.policies || self.flows > there.flows || self.downtimes > there.downtimes
    }
}

/// A session that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    pub incarnation: u64,
    /// Whether its executors worked on the machine of this session: then what they left running is still there.
    pub is_on_this_host: bool,
    /// The attempts that they had, in order, each with its worker.
    pub attempts: Vec<(AttemptId, Worker)>,
}

/// An executor of another session is to be told that an attempt is no longer its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Whose incarnation is that it its session.
    pub worker: Worker,
    pub attempt: AttemptId,
    pub why: String,
}

/// The change of one run.
#[derive(Clone, Debug)]
pub struct RunChange {
    /// The run as it is now.
    pub run: Box<Run>,
    /// The name of its flow, in which its key is unique.
    pub flow: Arc<str>,
    /// What happened, in order; empty if it was only locked, or only a lease has moved.
    pub events: Vec<Event>,
    /// New payloads.
    pub payloads: Vec<(PayloadId, Json)>,
    /// Wakeups as they are now, each place once; an empty one is removed. One that is due when it was said to be
    /// before keeps the lease that signs of life have moved since: the attempt is the same.
    pub wakeups: Vec<(Option<UnitRef>, Wakeup)>,
    /// Whether every wakeup that is not listed is to be removed.
    pub replaces_all: bool,
    /// What it has or wants of its limit.
    pub slot: SlotClaim,
    /// Leases that were moved, before the wakeups: a place without a timer has none to move, and a wakeup that is due
    /// at another time than before ends it.
    pub leases: Vec<LeaseMove>,
    /// Open errors as they are now, each unit once: those that were not listed are as they were, `None` is over.
    pub open_errors: Vec<(UnitRef, Option<OpenError>)>,
}

/// The end of a staged transaction.
#[derive(Debug)]
pub struct Settled {
    pub stage: StageId,
    /// Whether it is durable. A failed one takes all that was staged on top of it with it; those are reported
    /// as failed too.
    pub result: Result<(), StoreError>,
}

/// A flow to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFlow {
    pub name: Arc<str>,
    /// Its version, if it gives one.
    pub version: Option<Arc<str>>,
    /// Its definition.
    pub source: Arc<str>,
    /// The folder that relative paths start from.
    pub directory: Arc<str>,
    /// The ids of its steps, in the order in which events number them.
    pub steps: Arc<[Arc<str>]>,
}

/// A flow version that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    pub id: FlowId,
    pub name: Arc<str>,
    pub version: Arc<str>,
    /// Its definition.
    pub source: Arc<str>,
    /// The folder that relative paths start from.
    pub directory: Arc<str>,
    /// The ids of its steps, in the order in which events number them; `None` for one that was kept before that was, until
    /// it is put again.
    pub steps: Option<Arc<[Arc<str>]>>,
    /// `None` for one that was kept before that was.
    pub applied: Option<Applied>,
    /// Whether it can be started no more: it is kept for the runs that it has.
    pub is_deleted: bool,
}

/// Why a store could not do something, and whether trying again can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The transaction collides with another one or breaks an invariant: its commands are to be decided again,
    /// one by one.
    Conflict(String),
    /// There is no room: new work is refused until there is. Says where, if that is known.
    Full(String),
    /// The store cannot be reached: later it may.
    Away(String),
    /// One thing in the store is not what was written, in a sentence: what asks for it is refused, and all else goes on.
    Damaged(String),
    /// The data is not what was written, or could not be made durable: the store has stopped.
    Broken(String),
    /// The session was not renewed in time and has ended: others have taken over what its executors had. Nothing was
    /// changed; whoever goes on needs a new session.
    SessionEnded,
    /// The process that has the store open has closed it: whoever opens it next can be asked.
    Closed,
}

impl StoreError {
    /// Returns whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Conflict(_) | StoreError::Full(_) | StoreError::Away(_) => true,
            StoreError::Damaged(_)
            | StoreError::Broken(_)
            | StoreError::SessionEnded
            | StoreError::Closed => false,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Conflict(what) => write!(f, "the change conflicts with another one: {what}"),
            StoreError::Full(place) => {
                f.write_str("Disk full")?;
                if !place.is_empty() {
                    write!(f, " ({place})")?;
                }
                f.write_str(". Nothing was changed. Free some space and repeat the command.")
            }
            StoreError::Away(what) => write!(f, "the store cannot be reached: {what}. Nothing was changed"),
            StoreError::Damaged(what) => f.write_str(what),
            StoreError::Broken(what) => write!(f, "the store cannot be used: {what}"),
            StoreError::Closed => f.write_str("the store was closed. Nothing was changed. Repeat the command"),
            StoreError::SessionEnded => f.write_str(
                "this server gave no sign of life for so long that others took over its work. Nothing was changed. \
                 Restart it, or ask another server",
            ),
        }
    }
}

impl std::error::Error for StoreError {}

/// Why a flow was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutFlowError {
    /// The version is there with other content.
    VersionTaken { name: Arc<str>, version: Arc<str> },
    /// The store could not do it.
    Store(StoreError),
}

impl fmt::Display for PutFlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PutFlowError::VersionTaken { name, version } => write!(
                f,
                "version {version} of flow `{name}` already exists with different content; give the change a new version"
            ),
            PutFlowError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PutFlowError {}

impl From<StoreError> for PutFlowError {
    fn from(error: StoreError) -> PutFlowError {
        PutFlowError::Store(error)
    }
}
