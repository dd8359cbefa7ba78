//! Schedules: each belongs to a flow, and its row says what it is.

use unstuck_core::id::{FlowId, ScheduleId};
use unstuck_core::schedule::Schedule;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::error::store_error;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::snapshot::Snapshot;

/// Checks every schedule.
pub(crate) fn check_schedules(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let sql = "SELECT id, flow, version, body FROM schedule";
    let mut statement = snapshot.connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = ScheduleId(unsigned(row.get(0).map_err(store_error)?));
        let flow: String = row.get(1).map_err(store_error)?;
        let body: String = row.get(3).map_err(store_error)?;
        let mut add = |what: String| {
            report.add(Finding::new(Promise::Schedule, format!("the schedule of `{flow}`"), what, RESTORE));
        };
        let schedule: Schedule = match serde_json::from_str(&body) {
            Ok(schedule) => schedule,
            Err(problem) => {
                add(format!("it cannot be read ({problem}), so it starts nothing"));
                continue;
            }
        };
        if schedule.id != id || *schedule.flow != *flow || schedule.is_removed {
            add("its row does not match its content, so it would start something else".to_owned());
        }
        if row.get::<_, i64>(2).map_err(store_error)? < 1 {
            add("it has no version, so two servers could start the same run".to_owned());
        }
        if snapshot.flows.get(&FlowId(id.0)).is_none_or(|version| *version.name != *flow) {
            add("there is no such flow, so it starts nothing".to_owned());
        }
    }
    Ok(())
}
