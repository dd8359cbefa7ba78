//! What is promised, a sentence each: the promises of the contract, and the invariants that they rest on.

use std::fmt;

use unstuck_core::id::RunId;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// What was acknowledged survives.
    Kept,
    /// What happened is recorded once.
    Once,
    /// No late worker is believed.
    Fenced,
    /// A final generation never changes.
    Final,
    /// Something moves every run.
    Moved,
    /// Every state can be explained.
    Explained,
    /// The same history gives the same state.
    Replayed,
    /// Budgets are counted right.
    Budgets,
    /// The right policy is chosen.
    Policies,
    /// Time never goes back.
    Time,
    /// A live lease is never reclaimed, and a lapsed one is.
    Leases,
    /// What is refused changes nothing.
    Refused,
    /// No limit is exceeded.
    Limits,
    /// A key has one run, and no id is given out twice.
    Keys,
    /// Nothing is dispatched for what is paused, held or over.
    Stopped,
    /// Children follow their parents, and there is one for each attempt.
    Children,
    /// Errors are recorded once.
    Errors,
    /// What is put out, sent and told arrives as it was, in its place.
    Values,
    /// Bulk actions act on each target once, at their pace, wave by wave.
    Bulks,
    /// Slots are given back, and given to those who wait.
    Slots,
    /// A pause stops, and goes where it should.
    Paused,
    /// Deadlines count from where they should.
    Deadlines,
    /// A rerun runs what it should, and nothing else.
    Reruns,
    /// What is tried again has its place in the queue.
    Queues,
    /// Nothing resumes automatically while that is paused, and what has waited takes turns.
    PausedPolicies,
    /// Readers see what is durable and only that.
    Shown,
    /// Who lives loses nothing to another server, and who was taken for dead changes nothing.
    Sessions,
    /// What one server changes holds for the others.
    Shared,
}

impl Promise {
    /// Every promise.
    pub const ALL: [Promise; 28] = [
        Promise::Kept,
        Promise::Once,
        Promise::Fenced,
        Promise::Final,
        Promise::Moved,
        Promise::Explained,
        Promise::Replayed,
        Promise::Budgets,
        Promise::Policies,
        Promise::Time,
        Promise::Leases,
        Promise::Refused,
        Promise::Limits,
        Promise::Keys,
        Promise::Stopped,
        Promise::Children,
        Promise::Errors,
        Promise::Values,
        Promise::Bulks,
        Promise::Slots,
        Promise::Paused,
        Promise::Deadlines,
        Promise::Reruns,
        Promise::Queues,
        Promise::PausedPolicies,
        Promise::Shown,
        Promise::Sessions,
        Promise::Shared,
    ];

    /// The promise as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Promise::Kept => {
                "an acknowledged start, answer or operator action survives a crash of any process at any moment"
            }
            Promise::Once => {
                "a step's completion is recorded at most once, an attempt is handed out once and ends once"
            }
            Promise::Fenced => {
                "whoever comes with a void token is refused, and nothing it says changes the run"
            }
            Promise::Final => "a final generation never changes; only a rerun or forget may follow",
            Promise::Moved => "no run is ever without something that will move it",
            Promise::Explained => {
                "every state of a run can be explained: what happened, which rule decided, and what comes next and when"
            }
            Promise::Replayed => "given the same history, the same state",
            Promise::Budgets => {
                "maxStuck, maxAttempts, defer.limit and rounds are counted as the history says, and kept to"
            }
            Promise::Policies => {
                "the first policy that matches and is not spent resumes a step, at the time that its backOff says"
            }
            Promise::Time => {
                "time never goes back; lengths of time go on at their own pace whatever the wall says, and instants are the wall's"
            }
            Promise::Leases => {
                "no attempt is called stuck before its limit has passed, downtime apart, and none is left longer"
            }
            Promise::Refused => {
                "bad input gets an error that says what is wrong and where, and changes nothing"
            }
            Promise::Limits => "concurrency, maxLoad and parallel are never exceeded",
            Promise::Keys => "a key has one run for as long as that is kept, and no id is given out twice",
            Promise::Stopped => {
                "nothing is dispatched for what is paused, held or over, and who loses an attempt is told"
            }
            Promise::Children => "children follow their parents, and an attempt has one child at most",
            Promise::Errors => {
                "every error is recorded once, and what is open of errors is what the runs are in"
            }
            Promise::Values => {
                "outputs, signals, inputs, errors and what is told of earlier attempts arrive as they were, in their places"
            }
            Promise::Bulks => {
                "a bulk action acts on each target once, in order, at its pace and wave by wave, and counts right"
            }
            Promise::Slots => {
                "a slot is given back in error, held and paused, kept where it is strict, and given to who waits for it"
            }
            Promise::Paused => {
                "a pause reaches children and handlers, and what an operator has paused only an operator lets go on"
            }
            Promise::Deadlines => {
                "a relative deadline starts again with each generation, and an absolute one must be given again"
            }
            Promise::Reruns => {
                "a rerun runs the chosen steps and all that depends on them, and never what is completed besides"
            }
            Promise::Queues => "what was stuck goes to the front the first time, and to the back after that",
            Promise::PausedPolicies => {
                "no policy resumes anything while automatic resumes are paused; what was due by the unpause resumes at \
                 most at the rate that was asked for"
            }
            Promise::Shown => "a reader sees what anybody was told of, and nothing that a crash takes back",
            Promise::Sessions => "a live server loses nothing to another, and a dead one changes nothing",
            Promise::Shared => "what one server has changed holds for all that others decide after it",
        }
    }

    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Promise::Kept => "kept",
            Promise::Once => "once",
            Promise::Fenced => "fenced",
            Promise::Final => "final",
            Promise::Moved => "moved",
            Promise::Explained => "explained",
            Promise::Replayed => "replayed",
            Promise::Budgets => "budgets",
            Promise::Policies => "policies",
            Promise::Time => "time",
            Promise::Leases => "leases",
            Promise::Refused => "refused",
            Promise::Limits => "limits",
            Promise::Keys => "keys",
            Promise::Stopped => "stopped",
            Promise::Children => "children",
            Promise::Errors => "errors",
            Promise::Values => "values",
            Promise::Bulks => "bulks",
            Promise::Slots => "slots",
            Promise::Paused => "paused",
            Promise::Deadlines => "deadlines",
            Promise::Reruns => "reruns",
            Promise::Queues => "queues",
            Promise::PausedPolicies => "paused policies",
            Promise::Shown => "shown",
            Promise::Sessions => "sessions",
            Promise::Shared => "shared",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub promise: Promise,
    /// The run, if it is one's.
    pub run: Option<RunId>,
    /// What is wrong.
    pub what: String,
}

impl Broken {
    /// A promise that was not kept to a run.
    pub fn of(promise: Promise, run: RunId, what: impl Into<String>) -> Broken {
        Broken { promise, run: Some(run), what: what.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: ", self.promise)?;
        if let Some(run) = self.run {
            write!(f, "{run}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Broken {}
