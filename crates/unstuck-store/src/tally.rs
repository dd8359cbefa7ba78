//! Counting open errors: how many of each group are open, acknowledged and scheduled, and what each policy will resume.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::policy::PolicyRef;
use unstuck_core::time::Time;

use crate::contract::{PolicyHits, RunChange};

/// How many open errors a group has. They are told run by run, in order.
#[derive(Debug, Default)]
pub struct OpenTally {
    /// Steps in error that nobody has acknowledged.
    pub open: u64,
    /// The runs that these belong to.
    pub runs: u64,
    /// Steps in error that somebody has acknowledged.
    pub acknowledged: u64,
    scheduled: HashMap<Arc<str>, u64>,
    last_run: Option<RunId>,
}

impl OpenTally {
    /// Counts an open error, with the name of the policy that will resume it.
    pub fn add(&mut self, run: RunId, acknowledged: bool, policy: Option<&str>) {
        if acknowledged {
            self.acknowledged += 1;
            return;
        }
        self.open += 1;
        if self.last_run != Some(run) {
            self.last_run = Some(run);
            self.runs += 1;
        }
        let Some(policy) = policy else { return };
        match self.scheduled.get_mut(policy) {
            Some(count) => *count += 1,
            None => drop(self.scheduled.insert(policy.into(), 1)),
        }
    }

    /// Counts the resumes that each policy has scheduled, the most frequent first.
    pub fn scheduled(&mut self) -> Vec<(Arc<str>, u64)> {
        most_frequent_first(std::mem::take(&mut self.scheduled))
    }
}

/// Sorts names by count, the highest first, then by name.
pub fn most_frequent_first(counts: impl IntoIterator<Item = (Arc<str>, u64)>) -> Vec<(Arc<str>, u64)> {
    let mut counts: Vec<(Arc<str>, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    counts
}

/// What policies have done and will do, put together.
#[derive(Debug, Default)]
pub struct HitTally {
    policies: BTreeMap<Arc<str>, PolicyHits>,
    scheduled: HashMap<Arc<str>, HashSet<RunId>>,
}

impl HitTally {
    /// Counts errors that a policy has taken, the last of them at `last`.
    pub fn add_hits(&mut self, policy: Arc<str>, hits: u64, last: Time) {
        let entry = PolicyHits { policy: policy.clone(), hits, last: Some(last), scheduled: 0 };
        self.policies.insert(policy, entry);
    }

    /// Notes that a policy will resume a step of this run.
    pub fn add_scheduled(&mut self, policy: &str, run: RunId) {
        entry_of(&mut self.scheduled, policy).insert(run);
    }

    /// Returns the counts in order of policy ids.
    pub fn into_hits(mut self) -> Vec<PolicyHits> {
        for (policy, runs) in self.scheduled {
            let known = self.policies.entry(policy.clone());
            let hits = known.or_insert(PolicyHits { policy, hits: 0, last: None, scheduled: 0 });
            hits.scheduled = runs.len() as u64;
        }
        self.policies.into_values().collect()
    }
}

/// Looks a key up before it is cloned: most keys are there already.
fn entry_of<'a, T: Default>(map: &'a mut HashMap<Arc<str>, T>, key: &str) -> &'a mut T
where
    Arc<str>: Eq + Hash,
{
    if !map.contains_key(key) {
        map.insert(key.into(), T::default());
    }
    map.get_mut(key).expect("was put in")
}

/// Lists the errors that policies take in a change. Skips changes that do not concern errors.
pub fn list_hits(change: &RunChange) -> impl Iterator<Item = (&PolicyRef, Time)> {
    let events = if change.open_errors.is_empty() { &[] } else { change.events.as_slice() };
    events.iter().flat_map(|event| {
        event.facts.iter().filter_map(|fact| match fact {
            Fact::Unit { fact: UnitFact::Scheduled { policy, .. }, .. } => Some((policy, event.at)),
            _ => None,
        })
    })
}
