//! What a batch asks for, and what it is given.

use std::sync::Arc;

use unstuck_core::command::Notice;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;

use super::{IdempotencyRecord, Interrupt, NoticeId, Versions};

/// Names a batch that is under way. They grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// What one batch wants to see, all at once. What is empty costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// What the clock of whoever asks says.
    pub now: Time,
    /// These runs; one that is named twice is given once.
    pub runs: Vec<RunId>,
    /// The runs that have these keys, each a flow and a key, in any state.
    pub keys: Vec<(Arc<str>, Arc<str>)>,
    /// What was done under these idempotency keys, each a scope and a key.
    pub idempotency: Vec<(Arc<str>, Arc<str>)>,
    /// Attempts that may be handed out to these offers, at most `claims`: by priority, then by turns over the flows, then the
    /// ones at the front, then by age. An offer is given no more than it has room for. Offers are dealt to in turn: of several
    /// that take an attempt, the one that was given its last one longest ago gets it, and of those that were given none, the
    /// first. They are not removed: the claim that is staged does that. Turns begin again with a restart.
    pub offers: Vec<Offer>,
    pub claims: usize,
    /// The highest priority that waits in each of these queues, the candidates of this batch apart.
    pub queues: Vec<Arc<str>>,
    /// At most so many runs that want a slot of a limit that has room, and never more than there is room for: by priority,
    /// then by age, which is the time of the stage that it has wanted it since.
    pub admissions: usize,
    /// At most so much of what is due now, in order of time (then of run and unit). An entry stays until a stage changes it.
    pub due: usize,
    /// At most so many undelivered notices that are to be tried now, oldest first. They stay until a stage says that they are
    /// delivered, or postponed: then whatever is for the same receiver waits until its first one is tried again, and holds
    /// up nobody else.
    pub notices: usize,
    /// At most so many things that are no runs and are due now, in order of time. One that somebody has is among them.
    pub things: usize,
    /// Which of these runs, which it wants too, a notice is on its way to, or begins a child of. Those to a run that is set
    /// aside are on their way to nobody.
    pub about: Vec<RunId>,
}

impl Wants {
    /// The runs that a batch is given: those that it asks for, and those that what was found for it names, each once.
    pub fn runs_of(&self, loaded: &Loaded) -> Vec<RunId> {
        let mut runs = self.runs.clone();
        runs.extend(loaded.keys.iter().flatten());
        runs.extend(loaded.candidates.iter().map(|candidate| candidate.ready.run));
        runs.extend(&loaded.admissible);
        runs.extend(loaded.due.iter().map(|due| due.run));
        runs.extend(loaded.notices.iter().filter_map(|(_, notice)| notice.to.run()));
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

/// What a batch is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// What time it is for this batch, by the clock that all who share the store go by.
    pub now: Time,
    /// The runs that were asked for, by id or key, and those that the lists below name: each once, in the order of their
    /// ids, and locked.
    pub runs: Vec<(RunId, Locked)>,
    /// The runs that have the keys, in the order in which they were asked for.
    pub keys: Vec<Option<RunId>>,
    /// What was done under the idempotency keys, in the order in which they were asked for.
    pub idempotency: Vec<KeyUse>,
    pub candidates: Vec<Candidate>,
    /// The highest priority that waits, for each queue that was asked about and in which something does.
    pub waiting: Vec<(Arc<str>, i32)>,
    pub admissible: Vec<RunId>,
    pub due: Vec<Due>,
    pub notices: Vec<(NoticeId, Notice)>,
    /// Of the runs that come with this, those that notices are on their way to that are not among these: they are not to be
    /// tried yet, or there are too many. What is new for such a run waits behind them.
    pub backlog: Vec<RunId>,
    /// They are not locked: [`Store::lock_things`](super::Store::lock_things) does that.
    pub things: Vec<ThingRef>,
    /// Of the runs that were asked about, those that a notice is about.
    pub noticed: Vec<RunId>,
    /// Executors of this session that have lost an attempt by a decision of another server, once that is durable. Each is
    /// given once.
    pub interrupts: Vec<Interrupt>,
    /// Of what all servers share.
    pub versions: Versions,
    /// When any server was last known to take answers: the last stage, or later; `None` for an empty store.
    pub last_seen: Option<Time>,
    /// Whether a session that is older than this one has not ended: what one server does for all of them is that one's.
    pub has_older_session: bool,
}

/// What an idempotency key stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyUse {
    /// Nothing.
    Free,
    /// A request that was carried out. One that [stands for it no more](super::is_expired) may be among them.
    Used(IdempotencyRecord),
    /// Another server carries it out, and that is not durable yet: come back later.
    Busy,
}

/// What a batch is given besides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct More {
    /// The runs, locked, in the order in which they were asked for.
    pub runs: Vec<Locked>,
    /// The payloads, likewise.
    pub payloads: Vec<LoadedPayload>,
    /// Of these runs, those that notices are on their way to: see [`Loaded::backlog`].
    pub backlog: Vec<RunId>,
}

/// What locking a run gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Locked {
    /// The run; it is the caller's until the batch ends.
    Here(Box<Run>),
    /// There is no such run.
    Absent,
    /// Somebody else has it: come back later.
    Busy,
    /// It is not what was written, in a sentence. It is not locked.
    Damaged(String),
}

/// What locking a thing gives that is no run.
#[derive(Clone, Debug, PartialEq)]
pub enum LockedThing {
    /// The thing; nobody else changes it until the batch ends.
    Here(Thing),
    /// There is no such thing, or nothing can happen to it any more.
    Absent,
    /// Somebody else has it: come back later.
    Busy,
}

/// What asking for a payload gives.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadedPayload {
    Here(Json),
    /// There is no such payload.
    Absent,
    /// It is not what was written, in a sentence.
    Damaged(String),
}

/// An attempt for one of the offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The place of the offer in the list that was given.
    pub offer: usize,
    pub ready: ReadyAttempt,
}

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it was due.
    pub due: Time,
    pub run: RunId,
    /// The unit, or the run itself.
    pub unit: Option<UnitRef>,
    /// The last sign of life, if a heartbeat has moved the lease.
    pub heard: Option<Time>,
}
