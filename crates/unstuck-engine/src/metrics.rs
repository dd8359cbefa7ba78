//! What an engine counts: how long commits take, how much is in a batch, and what has happened in runs. It is gathered batch by
//! batch on the engine's thread, and counts once the batch is durable.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::model::flow::Flow;

/// Upper ends of the ranges of commit durations, in seconds.
pub const COMMIT_SECONDS: [f64; 12] =
    [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Upper ends of the ranges of batch sizes.
pub const BATCH_COMMANDS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0];
/// So many values a label has, before the others are counted together.
const MOST_LABELS: usize = 200;
/// What the others are counted as.
const OTHER: &str = "other";

/// A histogram: how many values there were in each range, in all, and their sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper ends of the ranges.
    pub ends: &'static [f64],
    /// One more than there are ends: the last has what is above all of them.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Distribution {
    fn new(ends: &'static [f64]) -> Distribution {
        Distribution { ends, counts: vec![0; ends.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        let place = self.ends.iter().position(|end| value <= *end).unwrap_or(self.ends.len());
        self.counts[place] += 1;
        self.sum += value;
    }
}

/// All that was counted since the engine started.
#[derive(Clone, Debug)]
pub struct EngineCounts {
    /// From the decision of a batch until it is durable, in seconds.
    pub commit_seconds: Distribution,
    /// How long the last commit took.
    pub last_commit: Duration,
    pub batch_commands: Distribution,
    /// Runs that were started, by flow.
    pub started: BTreeMap<Arc<str>, u64>,
    /// Attempts that have ended, by action and outcome.
    pub attempts: BTreeMap<(Arc<str>, &'static str), u64>,
    /// What was decided about what went wrong, by rung.
    pub rungs: BTreeMap<&'static str, u64>,
}

/// The counts of a running engine, for whoever wants to read them.
#[derive(Debug)]
pub struct EngineMetrics {
    counts: Mutex<EngineCounts>,
    most_labels: AtomicUsize,
}

impl Default for EngineMetrics {
    fn default() -> EngineMetrics {
        let counts = EngineCounts {
            commit_seconds: Distribution::new(&COMMIT_SECONDS),
            last_commit: Duration::ZERO,
            batch_commands: Distribution::new(&BATCH_COMMANDS),
            started: BTreeMap::new(),
            attempts: BTreeMap::new(),
            rungs: BTreeMap::new(),
        };
        EngineMetrics { counts: Mutex::new(counts), most_labels: AtomicUsize::new(MOST_LABELS) }
    }
}

impl EngineMetrics {
    /// Returns what was counted so far.
    pub fn counts(&self) -> EngineCounts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts flows and actions after so many as `other`.
    pub fn limit_labels(&self, most: usize) {
        self.most_labels.store(most, Ordering::Relaxed);
    }

    /// A batch is durable.
    pub(crate) fn add(&self, commands: usize, took: Duration, tally: Tally) {
        let most = self.most_labels.load(Ordering::Relaxed);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &mut *counts;
        counts.commit_seconds.observe(took.as_secs_f64());
        counts.last_commit = took;
        counts.batch_commands.observe(f64::from(u32::try_from(commands).unwrap_or(u32::MAX)));
        for flow in tally.started {
            let is_known = counts.started.contains_key(&flow) || counts.started.len() < most;
            *counts.started.entry(if is_known { flow } else { OTHER.into() }).or_default() += 1;
        }
        for (action, outcome) in tally.ended {
            let is_known = counts.attempts.contains_key(&(action.clone(), outcome))
                || counts.attempts.keys().any(|(known, _)| *known == action)
                || count_actions(&counts.attempts) < most;
            let action = if is_known { action } else { OTHER.into() };
            *counts.attempts.entry((action, outcome)).or_default() += 1;
        }
        for rung in tally.rungs {
            *counts.rungs.entry(rung).or_default() += 1;
        }
    }
}

fn count_actions(attempts: &BTreeMap<(Arc<str>, &'static str), u64>) -> usize {
    let mut actions: Vec<&str> = attempts.keys().map(|(action, _)| &**action).collect();
    actions.dedup();
    actions.len()
}

/// What is to be counted of one batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    started: Vec<Arc<str>>,
    ended: Vec<(Arc<str>, &'static str)>,
    rungs: Vec<&'static str>,
}

impl Tally {
    /// Takes in what an event says of a run of this flow.
    pub(crate) fn take(&mut self, event: &Event, flow: Option<&Flow>) {
        for fact in &event.facts {
            match fact {
                Fact::Started(_) => self.started.extend(flow.map(|flow| flow.name.clone())),
                Fact::Failing { handler: Some(_), .. } => self.rungs.push("exceptionHandler"),
                Fact::Failing { handler: None, .. } => self.rungs.push("failed"),
                Fact::Unit { unit, fact } => {
                    if let UnitFact::Ended { outcome, .. } = fact {
                        let action = flow.map(|flow| flow.step(unit.step).kind.queue());
                        self.ended.extend(action.map(|action| (action, outcome.word())));
                    }
                    self.rungs.extend(rung_of(fact));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn append(&mut self, other: &mut Tally) {
        self.started.append(&mut other.started);
        self.ended.append(&mut other.ended);
        self.rungs.append(&mut other.rungs);
    }
}

/// Returns the rung of the recovery ladder that a fact is of.
fn rung_of(fact: &UnitFact) -> Option<&'static str> {
    match fact {
        UnitFact::Retry { .. } => Some("retry"),
        UnitFact::Held => Some("hold"),
        UnitFact::Ignored => Some("failOnError"),
        UnitFact::Scheduled { .. } => Some("resumePolicy"),
        UnitFact::LeftInError => Some("rest"),
        UnitFact::Requeued { .. } => Some("stuck"),
        UnitFact::Deferred { .. } => Some("deferral"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_their_range() {
        let mut distribution = Distribution::new(&BATCH_COMMANDS);
        for value in [1.0, 2.0, 3.0, 4.0, 5_000.0] {
            distribution.observe(value);
        }
        assert_eq!(distribution.counts, [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn labels_past_the_limit_are_counted_as_other() {
        let metrics = EngineMetrics::default();
        metrics.limit_labels(2);
        for name in ["a", "b", "c", "d", "a", "c"] {
            let name: Arc<str> = name.into();
            let tally = Tally {
                started: vec![name.clone()],
                ended: vec![(name.clone(), "completed"), (name, "stalled")],
                rungs: vec!["retry"],
            };
            metrics.add(1, Duration::from_millis(3), tally);
        }
        let counts = metrics.counts();
        let started: Vec<(&str, u64)> =
            counts.started.iter().map(|(flow, count)| (&**flow, *count)).collect();
        assert_eq!(started, [("a", 2), ("b", 1), ("other", 3)]);
        let attempts: Vec<String> = counts
            .attempts
            .iter()
            .map(|((action, outcome), count)| format!("{action} {outcome} {count}"))
            .collect();
        assert_eq!(
            attempts,
            [
                "a completed 2",
                "a stalled 2",
                "b completed 1",
                "b stalled 1",
                "other completed 3",
                "other stalled 3"
            ]
        );
        assert_eq!((counts.rungs["retry"], counts.commit_seconds.counts.iter().sum::<u64>()), (6, 6));
    }
}
