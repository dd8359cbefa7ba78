//! Errors in memory: all that were recorded, what is open, the groups, and what policies have taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;

use crate::contract::{
    ErrorFilter, ErrorGroup, ErrorId, GroupFilter, MAX_EXAMPLES, OpenErrorFilter, PolicyHits, RunChange,
    RunFilter,
};
use crate::tally::{HitTally, OpenTally, list_hits, most_frequent_first};

/// What is kept of errors.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    last: u64,
    records: BTreeMap<ErrorId, ErrorRecord>,
    open: BTreeMap<(RunId, UnitRef), OpenError>,
    groups: BTreeMap<Arc<str>, Group>,
    /// How often a policy has taken an error, and when it last did.
    hits: HashMap<Arc<str>, (u64, Time)>,
    /// Runs whose open errors are not known.
    unexamined: BTreeSet<RunId>,
}

/// What is counted of a group, whoever is forgotten.
#[derive(Clone, Debug)]
struct Group {
    action: Arc<str>,
    pattern: Arc<str>,
    first: Time,
    last: Time,
    count: u64,
    flows: BTreeMap<Arc<str>, u64>,
}

impl Errors {
    pub(super) fn record_errors(&mut self, records: Vec<ErrorRecord>) {
        for record in records {
            self.last += 1;
            let group = self.groups.entry(record.group.clone()).or_insert_with(|| Group::of(&record));
            group.count += 1;
            // A clock that once stood ahead does not keep it there.
            group.last = record.at;
            *group.flows.entry(record.root_flow.clone()).or_default() += 1;
            self.records.insert(ErrorId(self.last), record);
        }
    }

    /// Takes over the open errors of a change, and counts what policies have taken.
    pub(super) fn apply_change(&mut self, change: &mut RunChange) {
        for (policy, at) in list_hits(change) {
            let (hits, last) = self.hits.entry(policy.id.clone()).or_default();
            *hits += 1;
            *last = at;
        }
        for (unit, error) in std::mem::take(&mut change.open_errors) {
            match error {
                Some(error) => drop(self.open.insert((change.run.id, unit), error)),
                None => drop(self.open.remove(&(change.run.id, unit))),
            }
        }
    }

    /// Forgets the open errors of these runs, as a store from before they were stored would not have them.
    pub(super) fn lose_open_errors(&mut self, runs: impl Iterator<Item = RunId>) {
        self.open.clear();
        self.unexamined = runs.collect();
    }

    pub(super) fn mark_backfilled(&mut self, runs: &[RunId]) {
        for run in runs {
            self.unexamined.remove(run);
        }
    }

    pub(super) fn list_to_backfill(&self, after: Option<RunId>, limit: usize) -> Vec<RunId> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.unexamined.range((after, Bound::Unbounded)).take(limit).copied().collect()
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.unexamined.remove(&run);
        self.records.retain(|_, record| record.run != run);
        self.open.retain(|(id, _), _| *id != run);
    }

    /// Finds the runs that have had an error that the filter asks for.
    pub(super) fn find_runs_with_error(&self, filter: &RunFilter) -> BTreeSet<RunId> {
        self.records.values().filter(|error| filter.matches_error(error)).map(|error| error.run).collect()
    }

    pub(super) fn list_errors(
        &self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Vec<(ErrorId, ErrorRecord)> {
        let found = self.records.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let found = found.filter(|(_, record)| accepts(filter, record)).take(limit);
        found.map(|(id, record)| (*id, record.clone())).collect()
    }

    pub(super) fn list_errors_before(
        &self,
        filter: &ErrorFilter,
        before: Option<ErrorId>,
        limit: usize,
    ) -> Vec<(ErrorId, ErrorRecord)> {
        let found = self.records.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded)));
        let found = found.rev().filter(|(_, record)| accepts(filter, record)).take(limit);
        found.map(|(id, record)| (*id, record.clone())).collect()
    }

    pub(super) fn list_open(
        &self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Vec<OpenError> {
        let wanted = |error: &OpenError| {
            let OpenErrorFilter { group, flow, action, policy, run } = filter;
            let scheduled = error.resume.as_ref().map(|(_, policy)| &policy.id);
            matches_text(group.as_ref(), &error.record.group)
                && matches_text(flow.as_ref(), &error.record.root_flow)
                && action.as_ref().is_none_or(|action| error.record.is_of_action(action))
                && policy.as_ref().is_none_or(|policy| Some(policy) == scheduled)
                && run.is_none_or(|run| error.record.run == run)
        };
        let found = self.open.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        found.map(|(_, error)| error).filter(|error| wanted(error)).take(limit).cloned().collect()
    }

    pub(super) fn list_groups(&self, filter: &GroupFilter, limit: usize) -> Vec<ErrorGroup> {
        let GroupFilter { group, flow, action, since } = filter;
        let mut found: Vec<(&Arc<str>, &Group)> = self.groups.iter().collect();
        found.retain(|(name, found)| {
            matches_text(group.as_ref(), name)
                && action.as_ref().is_none_or(|action| self.is_of_action(name, found, action))
                && flow.as_ref().is_none_or(|flow| found.flows.contains_key(flow))
                && since.is_none_or(|since| found.last >= since)
        });
        found.sort_by_key(|(_, group)| std::cmp::Reverse(group.last));
        found.into_iter().take(limit).map(|(name, group)| self.build_group(name, group)).collect()
    }

    /// Returns whether a group is of this action, or has an error that an engine-made action of this name found.
    fn is_of_action(&self, name: &Arc<str>, group: &Group, action: &Arc<str>) -> bool {
        let mut records = self.records.values().filter(|record| record.group == *name);
        group.action == *action || records.any(|record| record.is_of_action(action))
    }

    fn build_group(&self, name: &Arc<str>, group: &Group) -> ErrorGroup {
        let mut tally = OpenTally::default();
        for error in self.open.values().filter(|error| error.record.group == *name) {
            let policy = error.resume.as_ref().map(|(_, policy)| &*policy.name);
            tally.add(error.record.run, error.acknowledged, policy);
        }
        let examples = self.records.values().rev().filter(|record| record.group == *name);
        ErrorGroup {
            group: name.clone(),
            action: group.action.clone(),
            pattern: group.pattern.clone(),
            first: group.first,
            last: group.last,
            count: group.count,
            flows: most_frequent_first(group.flows.clone()),
            open: tally.open,
            runs: tally.runs,
            acknowledged: tally.acknowledged,
            scheduled: tally.scheduled(),
            examples: examples.take(MAX_EXAMPLES).cloned().collect(),
        }
    }

    pub(super) fn list_policy_hits(&self) -> Vec<PolicyHits> {
        let mut tally = HitTally::default();
        for (policy, (hits, last)) in &self.hits {
            tally.add_hits(policy.clone(), *hits, *last);
        }
        for error in self.open.values() {
            if let Some((_, policy)) = error.resume.as_ref().filter(|_| !error.acknowledged) {
                tally.add_scheduled(&policy.id, error.record.run);
            }
        }
        tally.into_hits()
    }
}

impl Group {
    fn of(record: &ErrorRecord) -> Group {
        Group {
            action: record.action.clone(),
            pattern: record.pattern.clone(),
            first: record.at,
            last: record.at,
            count: 0,
            flows: BTreeMap::new(),
        }
    }
}

fn accepts(filter: &ErrorFilter, record: &ErrorRecord) -> bool {
    let ErrorFilter { since, until, group, flow, action } = filter;
    since.is_none_or(|since| record.at >= since)
        && until.is_none_or(|until| record.at < until)
        && matches_text(group.as_ref(), &record.group)
        && matches_text(flow.as_ref(), &record.root_flow)
        && action.as_ref().is_none_or(|action| record.is_of_action(action))
}

fn matches_text(wanted: Option<&Arc<str>>, found: &Arc<str>) -> bool {
    wanted.is_none_or(|wanted| wanted == found)
}
