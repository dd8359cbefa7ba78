//! What is read first and kept while the runs are read: flows, notices, the ends of histories that rows do not cover.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::bulk::BulkRef;
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::{Notice, NoticeBody};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{ParentAttempt, Run};
use unstuck_core::thing::ThingRef;
use unstuck_core::time::Time;
use unstuck_store::contract::{FlowRecord, StoreError};
use unstuck_store::verify::history::HistoryCheck;
use unstuck_store::verify::movers::{Awaited, Neighbour, Neighbours, awaited};
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::checksum;
use crate::error::store_error;
use crate::table::flow;
use crate::table::meta;
use crate::table::number;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::chain::Chain;
use crate::verify::errors::load_recorded_after;
use crate::verify::ranges::Range;

/// So many runs that others depend on are remembered.
const MAX_NEIGHBOURS: usize = 10_000;
/// So many children are remembered with whom they are awaited by.
const MAX_AWAITED: usize = 100_000;

pub(crate) struct Snapshot<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) flows: &'c Versions,
    notices: FxHashMap<ThingRef, Vec<NoticeBody>>,
    /// The last events of runs that something has happened to since the rows were last complete.
    pub(crate) tail: FxHashMap<RunId, u64>,
    /// These runs, in order.
    pub(crate) tail_ids: Vec<RunId>,
    /// Runs whose history does not lead from their end to a start: that is told once, and not whatever follows from it.
    pub(crate) broken: FxHashSet<RunId>,
    pub(crate) last_id: u64,
    pub(crate) last_time: Time,
    /// How the clock was set.
    pub(crate) clock: ClockRecord,
    /// Errors of events after this position are recorded.
    pub(crate) errors_from: u64,
    neighbours: FxHashMap<RunId, Neighbour>,
    /// The parents whose children are known.
    parents: FxHashSet<RunId>,
    /// The children that they wait for, with the attempt.
    awaited: FxHashMap<(RunId, RunId), ParentAttempt>,
}

/// Every flow version that is kept.
pub(crate) type Versions = BTreeMap<FlowId, Version>;

/// A flow version that is kept.
pub(crate) struct Version {
    pub(crate) name: Arc<str>,
    /// `None` where it cannot be compiled.
    pub(crate) flow: Option<Flow>,
}

impl<'c> Snapshot<'c> {
    pub(crate) fn read(
        connection: &'c Connection,
        flows: &'c Versions,
        report: &mut CheckReport,
    ) -> Result<Snapshot<'c>, StoreError> {
        let flushed = meta::load_number(connection, "flushed")?.map_or(0, unsigned);
        let tail = load_tail_heads(connection, flushed)?;
        let mut tail_ids: Vec<RunId> = tail.keys().copied().collect();
        tail_ids.sort_unstable_by_key(|run| run.0.cast_signed());
        Ok(Snapshot {
            connection,
            flows,
            notices: load_notices(connection, report)?,
            tail,
            tail_ids,
            broken: FxHashSet::default(),
            last_id: meta::load_number(connection, "last_id")?.map_or(0, unsigned),
            last_time: meta::load_number(connection, "last_time")?.map_or(Time(i64::MIN), Time),
            clock: meta::load_clock(connection).unwrap_or_default(),
            errors_from: load_recorded_after(connection)?,
            neighbours: FxHashMap::default(),
            parents: FxHashSet::default(),
            awaited: FxHashMap::default(),
        })
    }

    /// The runs of a range, in order.
    pub(crate) fn ids_in(&self, range: Range) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT id FROM run WHERE id BETWEEN ?1 AND ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(store_error)?;
        let rows = statement.query_map(range.ends(), |row| row.get(0).map(unsigned)).map_err(store_error)?;
        let mut ids: Vec<RunId> =
            rows.map(|id| id.map(RunId)).collect::<Result<_, _>>().map_err(store_error)?;
        let place = |id: i64| self.tail_ids.partition_point(|run| run.0.cast_signed() < id);
        let after = range.last.checked_add(1).map_or(self.tail_ids.len(), place);
        ids.extend(&self.tail_ids[place(range.first)..after]);
        ids.sort_unstable_by_key(|run| run.0.cast_signed());
        ids.dedup();
        Ok(ids)
    }

    /// Returns what identifies the state of the file that a connection sees: two snapshots with the same are equal.
    pub(crate) fn moment(connection: &Connection) -> Result<String, StoreError> {
        let sql = "SELECT coalesce((SELECT max(pos) FROM event), 0) || ' '
            || (SELECT group_concat(name || '=' || quote(value)) FROM (SELECT name, value FROM meta ORDER BY name))";
        let moment: Option<String> = connection.query_row(sql, [], |row| row.get(0)).map_err(store_error)?;
        Ok(moment.unwrap_or_default())
    }

    /// Keeps what others need to know of a run that was replayed, so that it is not replayed again. Returns whether
    /// it waits for others.
    pub(crate) fn remember(&mut self, run: &Run) -> bool {
        let awaited = if run.is_final() { Vec::new() } else { awaited(run) };
        // Nobody asks about a run that has neither children nor a parent.
        if awaited.is_empty() && run.origin.parent().is_none() {
            return false;
        }
        let waits = !awaited.is_empty();
        let open = || Neighbour::Open(run.origin.serves());
        self.remember_neighbour(run.id, if run.is_final() { Neighbour::Final } else { open() });
        self.remember_children(run.id, awaited);
        waits
    }

    fn remember_neighbour(&mut self, run: RunId, known: Neighbour) {
        if self.neighbours.len() >= MAX_NEIGHBOURS {
            self.neighbours.clear();
        }
        self.neighbours.insert(run, known);
    }

    fn remember_children(&mut self, parent: RunId, children: Vec<Awaited>) {
        if self.parents.len() + self.awaited.len() >= MAX_AWAITED {
            self.parents.clear();
            self.awaited.clear();
        }
        self.parents.insert(parent);
        let known = |awaited: Awaited| awaited.child.map(|child| ((parent, child), awaited.serves));
        self.awaited.extend(children.into_iter().filter_map(known));
    }

    /// Returns whether a notice with the result of this target is under way.
    pub(crate) fn is_told(&self, target: BulkRef) -> bool {
        let tells = |body: &NoticeBody| matches!(body, NoticeBody::TargetEnded { place, .. } if *place == target.place);
        self.notices.get(&ThingRef::Bulk(target.bulk)).is_some_and(|told| told.iter().any(tells))
    }

    /// Lists undelivered notices with their receivers.
    pub(crate) fn notices(&self) -> impl Iterator<Item = (ThingRef, &NoticeBody)> {
        self.notices.iter().flat_map(|(to, bodies)| bodies.iter().map(|body| (*to, body)))
    }

    /// Returns whether the clock was ever set back: times of events need not grow then.
    pub(crate) fn was_set_back(&self) -> bool {
        self.clock.corrections.iter().any(|correction| correction.shift() < 0)
    }

    /// Whether there is such a run.
    pub(crate) fn exists(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.broken.contains(&run) || self.tail.contains_key(&run) || self.has_row(run)?)
    }

    pub(crate) fn has_row(&self, run: RunId) -> Result<bool, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT 1 FROM run WHERE id = ?1").map_err(store_error)?;
        statement.exists([number(run.0)?]).map_err(store_error)
    }

    /// The position of a run's last event, if there is such a run.
    pub(crate) fn head(&self, run: RunId) -> Result<Option<u64>, StoreError> {
        match self.tail.get(&run) {
            Some(head) => Ok(Some(*head)),
            None => Ok(self.load_row(run)?.map(|(head, _)| head)),
        }
    }

    /// Loads the position that the row of a run covers, and whether the row is final.
    fn load_row(&self, run: RunId) -> Result<Option<(u64, bool)>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT head, state FROM run WHERE id = ?1")
            .map_err(store_error)?;
        let row = |row: &rusqlite::Row<'_>| {
            let state = row.get_ref(1)?.as_str().unwrap_or_default();
            let is_final = matches!(state, "completed" | "failed" | "cancelled" | "superseded");
            Ok((unsigned(row.get(0)?), is_final))
        };
        statement.query_row([number(run.0)?], row).optional().map_err(store_error)
    }

    /// Finds out about a run that another depends on; replays it unless its row is final.
    fn load_neighbour(&self, run: RunId) -> Result<Neighbour, StoreError> {
        if self.broken.contains(&run) {
            return Ok(Neighbour::Damaged);
        }
        let head = match (self.tail.get(&run), self.load_row(run)?) {
            (Some(head), _) => *head,
            (None, None) => return Ok(Neighbour::Absent),
            (None, Some((_, true))) => return Ok(Neighbour::Final),
            (None, Some((head, false))) => head,
        };
        Ok(match self.replay(run, head)?.run() {
            None => Neighbour::Damaged,
            Some(run) if run.is_final() => Neighbour::Final,
            Some(run) => Neighbour::Open(run.origin.serves()),
        })
    }

    /// Replays a run without reporting what is wrong: that is done where the run itself is checked.
    fn replay(&self, run: RunId, head: u64) -> Result<HistoryCheck, StoreError> {
        let mut history = HistoryCheck::new(run);
        let mut statement = Chain::statement(self.connection)?;
        for link in Chain::read(&mut statement, run, head, head, None)?.links {
            match link.record {
                Ok(record) => history.check_event(&record.event, &mut Vec::new()),
                Err(_) => history.mark_unreadable(),
            }
        }
        Ok(history)
    }
}

impl Neighbours for Snapshot<'_> {
    /// Returns what is known of a run, or loads and remembers it.
    fn neighbour(&mut self, run: RunId) -> Result<Neighbour, StoreError> {
        if let Some(known) = self.neighbours.get(&run) {
            return Ok(*known);
        }
        let found = self.load_neighbour(run)?;
        self.remember_neighbour(run, found);
        Ok(found)
    }

    /// Replays the parent once for all of its children.
    fn awaits(&mut self, parent: RunId, child: RunId) -> Result<Option<ParentAttempt>, StoreError> {
        if !self.parents.contains(&parent) {
            let history = self.head(parent)?.map(|head| self.replay(parent, head)).transpose()?;
            let children = history.as_ref().and_then(HistoryCheck::run).map(awaited);
            self.remember_children(parent, children.unwrap_or_default());
        }
        Ok(self.awaited.get(&(parent, child)).copied())
    }

    fn notices_to(&self, run: RunId) -> &[NoticeBody] {
        self.notices.get(&ThingRef::Run(run)).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Compiles every stored flow version; one that cannot be compiled is a finding.
pub(crate) fn compile_flows(
    connection: &Connection,
    compile: &mut dyn FnMut(&FlowRecord) -> Result<Flow, String>,
    report: &mut CheckReport,
) -> Result<Versions, StoreError> {
    let mut flows = BTreeMap::new();
    for (number, (record, damage)) in (1..).zip(flow::list_flow_rows(connection, FlowId(0), usize::MAX)?) {
        report.flows += 1;
        let FlowRecord { id, name, version, .. } = &record;
        let place = format!("version {version} of flow `{name}`");
        if id.0 != number {
            let what = format!(
                "it has number {} but is in the place of number {number}: runs would get the wrong flows",
                id.0
            );
            report.add(Finding::new(Promise::Flow, place.clone(), what, RESTORE));
        }
        if let Some(damage) = damage {
            let what = format!("it is damaged: {damage}; the store cannot be opened");
            report.add(Finding::new(Promise::Flow, place.clone(), what, RESTORE));
        }
        let in_order = |flow: Flow| match &record.steps {
            None => Ok(flow),
            Some(ids) => flow.in_order_of(ids),
        };
        let flow = match compile(&record).and_then(in_order) {
            Ok(flow) if flow.name == *name => Some(Flow { id: *id, version: version.clone(), ..flow }),
            Ok(flow) => {
                let what = format!("its definition belongs to flow `{}`", flow.name);
                report.add(Finding::new(Promise::Flow, place, what, RESTORE));
                None
            }
            Err(problem) => {
                let what =
                    format!("its definition can no longer be used: {problem}; its runs cannot continue");
                report.add(Finding::new(Promise::Flow, place, what, RESTORE));
                None
            }
        };
        flows.insert(*id, Version { name: name.clone(), flow });
    }
    Ok(flows)
}

/// Loads undelivered notices by receiver; a damaged one is a finding.
fn load_notices(
    connection: &Connection,
    report: &mut CheckReport,
) -> Result<FxHashMap<ThingRef, Vec<NoticeBody>>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, body, sum FROM notice ORDER BY id").map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut notices: FxHashMap<ThingRef, Vec<NoticeBody>> = FxHashMap::default();
    while let Some(row) = rows.next().map_err(store_error)? {
        report.notices += 1;
        let id: i64 = row.get(0).map_err(store_error)?;
        let body = row.get_ref(1).map_err(store_error)?;
        let kept: Option<i64> = row.get(2).map_err(store_error)?;
        let read = match body.as_str() {
            Ok(body) if !checksum::is_sum_valid(kept, checksum::sum_row(&[unsigned(id)], &[body])) => {
                Err(checksum::WRONG_SUM.to_owned())
            }
            read => read.map_err(|error| error.to_string()),
        };
        match read.and_then(|body| serde_json::from_str::<Notice>(body).map_err(|error| error.to_string())) {
            Ok(notice) => notices.entry(notice.to).or_default().push(notice.body),
            Err(problem) => {
                let what = format!("it cannot be read ({problem}), so its receiver would wait forever");
                report.add(Finding::new(Promise::Notice, format!("notice {id}"), what, RESTORE));
            }
        }
    }
    Ok(notices)
}

/// Loads the last event of each run that has one after `flushed`, the position that rows cover.
fn load_tail_heads(connection: &Connection, flushed: u64) -> Result<FxHashMap<RunId, u64>, StoreError> {
    let sql = "SELECT pos, run FROM event WHERE pos > ?1 ORDER BY pos";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([number(flushed)?]).map_err(store_error)?;
    let mut tail = FxHashMap::default();
    while let Some(row) = rows.next().map_err(store_error)? {
        let (pos, run): (i64, i64) = (row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
        tail.insert(RunId(unsigned(run)), unsigned(pos));
    }
    Ok(tail)
}
