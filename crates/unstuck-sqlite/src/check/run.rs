//! One run after the other: its history, what follows from that, and what is kept beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use unstuck_core::bulk::BulkRef;
use unstuck_core::digest::digest;
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Payload;
use unstuck_core::model::run::{Run, Slot};
use unstuck_store::audit::history::History;
use unstuck_store::audit::{FORGET, Finding, Promise, REPORT, RESTORE, movers};
use unstuck_store::contract::StoreError;

use crate::check::chain::{Chain, Link};
use crate::check::errors::{EndedInError, compare_open};
use crate::check::positions::Positions;
use crate::check::snapshot::Snapshot;
use crate::check::wakes::KeptWakes;
use crate::check::{Progress, Report};
use crate::error::store_error;
use crate::rows::{self, unsigned};

/// Looks at every run, and keeps what is looked at once all are known.
pub(crate) struct RunChecks<'c, 'p> {
    pub(crate) snapshot: Snapshot<'c>,
    pub(crate) progress: &'p mut dyn FnMut(Progress),
    /// The events that are in the history of a run.
    pub(crate) visited: Positions,
    /// How many runs are found by their key.
    pub(crate) keys: u64,
    /// How many have a slot of each limit, and how many may.
    pub(crate) slots: BTreeMap<Arc<str>, (u32, u32)>,
    /// The targets of bulk actions that are under way, by what the runs remember.
    pub(crate) resumed: HashMap<BulkRef, RunId>,
}

/// The row of a run.
struct Row {
    id: RunId,
    flow: String,
    state: String,
    parent: Option<RunId>,
    head: u64,
    slot: Option<String>,
    is_local: bool,
}

impl<'c, 'p> RunChecks<'c, 'p> {
    pub(crate) fn new(snapshot: Snapshot<'c>, progress: &'p mut dyn FnMut(Progress)) -> RunChecks<'c, 'p> {
        let (visited, slots, resumed) = (Positions::default(), BTreeMap::new(), HashMap::new());
        RunChecks { snapshot, progress, visited, keys: 0, slots, resumed }
    }

    /// Looks at every run: those with a row in order, then those that are only in the log.
    pub(crate) fn all_runs(&mut self, report: &mut Report) -> Result<(), StoreError> {
        let connection = self.snapshot.connection;
        let mut without_row = BTreeSet::new();
        for id in self.snapshot.tail.keys() {
            if !self.snapshot.has_row(*id)? {
                without_row.insert(*id);
            }
        }
        let count: i64 =
            connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).map_err(store_error)?;
        let of = unsigned(count) + without_row.len() as u64;
        let sql = "SELECT id, flow, state, parent, head, slot, local FROM run ORDER BY id";
        let mut statement = connection.prepare(sql).map_err(store_error)?;
        let mut found = statement.query([]).map_err(store_error)?;
        while let Some(row) = found.next().map_err(store_error)? {
            let id = RunId(unsigned(row.get(0).map_err(store_error)?));
            match to_row(id, row) {
                Ok(row) => self.run(id, Some(&row), of, report)?,
                Err(error) => {
                    self.snapshot.broken.insert(id);
                    report.add(unreadable(&id.to_string(), &store_error(error)));
                }
            }
        }
        for id in without_row {
            self.run(id, None, of, report)?;
        }
        for (name, (taken, max)) in &self.slots {
            if taken > max {
                let what = format!("{taken} runs have a slot, and at most {max} may: too many go on at once");
                report.add(Finding::new(Promise::Slot, format!("limit `{name}`"), what, REPORT));
            }
        }
        Ok(())
    }

    /// One run; what cannot be read of it is a finding.
    fn run(&mut self, id: RunId, row: Option<&Row>, of: u64, report: &mut Report) -> Result<(), StoreError> {
        report.runs += 1;
        if report.runs.is_multiple_of(1_000) {
            (self.progress)(Progress { what: "runs", done: report.runs, of });
        }
        let mut findings = Vec::new();
        match self.check_run(id, row, report, &mut findings) {
            Err(error) if !error.may_pass() => findings.push(unreadable(&id.to_string(), &error)),
            result => result?,
        }
        for finding in findings {
            report.add(finding);
        }
        Ok(())
    }

    fn check_run(
        &mut self,
        id: RunId,
        row: Option<&Row>,
        report: &mut Report,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let connection = self.snapshot.connection;
        let row_head = row.map_or(0, |row| row.head);
        let head = self.snapshot.tail.get(&id).copied().unwrap_or(row_head);
        let chain = Chain::read(connection, id, head, Some(&mut self.visited))?;
        report.events += chain.links.len() as u64;
        if let Some(break_) = chain.break_ {
            self.snapshot.broken.insert(id);
            let what = format!("{break_}: the run cannot be read");
            findings.push(Finding::new(Promise::History, id.to_string(), what, RESTORE));
            return Ok(());
        }
        if row.is_some() && !chain.links.iter().any(|link| link.pos == row_head) {
            let what =
                format!("its row says that its history ends at event row {row_head}, which is not in it");
            findings.push(Finding::new(Promise::Row, id.to_string(), what, RESTORE));
        }
        let mut history = History::new(id);
        let mut wakes = match row {
            Some(row) => KeptWakes::of_rows(connection, id, row.slot.as_deref())?,
            None => KeptWakes::default(),
        };
        let mut payloads = BTreeSet::new();
        let mut ended = EndedInError::default();
        for Link { pos, record } in chain.links {
            let record = match record {
                Ok(record) => record,
                Err(problem) => {
                    let place = format!("event row {pos} of {id}");
                    let what = format!("it cannot be read ({problem}), and so the run cannot");
                    findings.push(Finding::new(Promise::History, place, what, RESTORE));
                    history.lose();
                    continue;
                }
            };
            history.follow(&record.event, findings);
            ended.follow(&record.event, pos > self.snapshot.errors_from);
            record.event.payloads(|payload| {
                payloads.insert(payload);
            });
            if pos == row_head {
                self.compare_row(row, &history, findings);
            } else if let Some(changed) = record.wakes.filter(|_| pos > row_head) {
                wakes.change(changed);
            }
        }
        wakes.move_leases(connection, id)?;
        if history.run().is_some() {
            ended.compare(connection, id, findings)?;
        }
        self.check_payloads(id, payloads, findings)?;
        self.check_state(&history, &wakes, findings)
    }

    /// The row says what the history gives up to there.
    fn compare_row(&self, row: Option<&Row>, history: &History, findings: &mut Vec<Finding>) {
        let (Some(row), Some(run)) = (row, history.run()) else { return };
        let is_local = !run.local_attempts().is_empty();
        let mut differs = |what: &str, said: &str, is: &str| {
            if said != is {
                let what = format!(
                    "its row says that its {what} is {said}, and by its history it is {is}: it would be listed wrongly"
                );
                findings.push(Finding::new(Promise::Row, row.id.to_string(), what, RESTORE));
            }
        };
        let shown = |run: Option<RunId>| run.map_or("nobody".to_owned(), |run| run.to_string());
        let hands = |is_local: bool| if is_local { "in local hands" } else { "in no local hands" };
        differs("state", &row.state, run.state().word());
        differs("parent", &shown(row.parent), &shown(run.origin.parent()));
        differs("work", hands(row.is_local), hands(is_local));
        // One that is damaged has a finding of its own.
        if let Some(version) = self.snapshot.flows.get(&run.flow).filter(|version| version.flow.is_some()) {
            differs("flow", &row.flow, &version.name);
        }
    }

    /// What follows from the state that the history gives.
    fn check_state(
        &mut self,
        history: &History,
        wakes: &KeptWakes,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let Some(run) = history.run() else { return Ok(()) };
        let was_set_back = self.snapshot.was_set_back();
        let ahead = history.last_time().filter(|at| *at > self.snapshot.last_time && !was_set_back);
        if let Some(at) = ahead {
            let what = format!(
                "its last event is of {at}, and the store says that its last change was at {}: time would go back",
                self.snapshot.last_time
            );
            findings.push(Finding::new(Promise::Time, run.id.to_string(), what, RESTORE));
        }
        self.check_ids(run, findings);
        run.each_unit(|_, unit| self.resumed.extend(unit.round.bulk.map(|target| (target, run.id))));
        if let Slot::Taken(limit) = &run.slot {
            let (taken, max) = self.slots.entry(limit.name.clone()).or_default();
            (*taken, *max) = (*taken + 1, limit.max.max(*max));
        }
        let Some(version) = self.snapshot.flows.get_mut(&run.flow) else {
            let what = format!("its flow version, {}, is not there: it cannot go on", run.flow);
            findings.push(Finding::new(Promise::Flow, run.id.to_string(), what, RESTORE));
            return Ok(());
        };
        let name = version.name.clone();
        // The snapshot is asked about other runs while the flow is read.
        if let Some(flow) = version.flow.take() {
            let result = if flow.steps.len() == run.steps.len() {
                wakes.compare(run, &flow, findings);
                compare_open(self.snapshot.connection, run, &flow, findings).and_then(|()| {
                    movers::check(run, &flow, history.was_started_by_user(), &mut self.snapshot, findings)
                })
            } else {
                let (has, should) = (run.steps.len(), flow.steps.len());
                let what = format!("it has {has} steps, and its flow version {should}: that was changed");
                findings.push(Finding::new(Promise::Flow, run.id.to_string(), what, RESTORE));
                Ok(())
            };
            if let Some(version) = self.snapshot.flows.get_mut(&run.flow) {
                version.flow = Some(flow);
            }
            result?;
        }
        self.check_key(run, &name, findings)
    }

    fn check_ids(&self, run: &Run, findings: &mut Vec<Finding>) {
        let mut highest = run.id;
        run.each_unit(|_, unit| highest = highest.max(unit.child.unwrap_or(highest)));
        if highest.0 > self.snapshot.last_id {
            let what = format!(
                "{highest} is above the last id that the store remembers: ids would be given out again"
            );
            findings.push(Finding::new(Promise::Id, run.id.to_string(), what, RESTORE));
        }
    }

    /// A run with a key is found by it, and still has the input whose digest it keeps.
    fn check_key(&mut self, run: &Run, flow: &str, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        let Some(key) = &run.key else { return Ok(()) };
        let connection = self.snapshot.connection;
        let mut add = |promise: Promise, what: String| {
            findings.push(Finding::new(promise, run.id.to_string(), what, RESTORE));
        };
        match rows::run_of_key(connection, flow, key)? {
            Some(found) if found == run.id => self.keys += 1,
            Some(found) => add(Promise::Key, format!("its key `{key}` in flow `{flow}` leads to {found}")),
            None => add(
                Promise::Key,
                format!("its key `{key}` in flow `{flow}` leads to no run: a start would start a second one"),
            ),
        }
        let input = match &run.input {
            Payload::Inline(json) => Some(json.clone()),
            // One that cannot be read has a finding of its own.
            Payload::Stored(id) => match rows::payload(connection, *id) {
                Err(error) if !error.may_pass() => None,
                found => found?,
            },
        };
        if let (Some(input), Some(kept)) = (input, &run.input_digest)
            && digest(&input.value()) != *kept
        {
            add(Promise::Payload, "its input is not the one that it was started with".to_owned());
        }
        Ok(())
    }

    /// Every payload that the history names is there.
    fn check_payloads(
        &self,
        run: RunId,
        payloads: BTreeSet<PayloadId>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        for id in payloads {
            if !rows::has_payload(self.snapshot.connection, id)? {
                let what = format!("{id} is missing, an input, output or signal that its history names");
                findings.push(Finding::new(Promise::Payload, run.to_string(), what, FORGET));
            }
        }
        Ok(())
    }
}

/// Something that cannot be read at all.
pub(crate) fn unreadable(place: &str, error: &StoreError) -> Finding {
    let what = match error {
        StoreError::Broken(what) => what.clone(),
        other => other.to_string(),
    };
    Finding::new(Promise::File, place, format!("it cannot be read: {what}"), RESTORE)
}

fn to_row(id: RunId, row: &rusqlite::Row<'_>) -> Result<Row, rusqlite::Error> {
    Ok(Row {
        id,
        flow: row.get(1)?,
        state: row.get(2)?,
        parent: row.get::<_, Option<i64>>(3)?.map(|parent| RunId(unsigned(parent))),
        head: unsigned(row.get(4)?),
        slot: row.get(5)?,
        is_local: row.get(6)?,
    })
}
