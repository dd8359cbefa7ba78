//! Flows that are applied and deleted while an engine runs: planned, made durable, and started from then on.

use std::sync::Arc;

use serde_json::{Value, json};
use unstuck_core::decide::check_texts;
use unstuck_core::event::Actor;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AuditRecord, CallOutcome, FlowChange, FlowChangeKind, FlowRecord, NewFlow, PlannedFlow, Store, StoreError,
};

use crate::call::{Call, values};
use crate::engine::Engine;
use crate::flows::new_flow;
use crate::request::EngineError;

/// So often an order is decided when others change flows at the same time.
const MAX_TRIES: u32 = 5;

/// Something that is asked about flows.
#[derive(Clone, Debug)]
pub enum FlowCommand {
    /// Keep all of these, or none.
    Apply(ApplyFlows),
    /// Start a flow no more. What is there of it is kept for the runs that it has had.
    Delete(DeleteFlow),
}

#[derive(Clone, Debug)]
pub struct ApplyFlows {
    /// The flows of one file. One without a version gets a number.
    pub flows: Vec<Flow>,
    pub by: Actor,
    pub reason: Option<Arc<str>>,
    /// Only says what would come of it.
    pub is_dry_run: bool,
}

#[derive(Clone, Debug)]
pub struct DeleteFlow {
    pub flow: Arc<str>,
    /// This version, or all of them.
    pub version: Option<Arc<str>>,
    pub by: Actor,
    pub reason: Option<Arc<str>>,
}

/// What came of a command about flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowsOutcome {
    /// What became of each that was given, in the same order.
    pub applied: Vec<(FlowRecord, FlowChangeKind)>,
    /// The versions that can be started no more.
    pub deleted: Vec<FlowRecord>,
}

impl FlowCommand {
    fn reason(&self) -> Option<&Arc<str>> {
        match self {
            FlowCommand::Apply(apply) => apply.reason.as_ref(),
            FlowCommand::Delete(delete) => delete.reason.as_ref(),
        }
    }
}

impl FlowsOutcome {
    /// An entry for each version that is new, there again or deleted. Its definition is kept with the version.
    fn audit(&self, call: &Call, reason: Option<&Arc<str>>, at: Time) -> Vec<AuditRecord> {
        let of = |record: &FlowRecord| json!({ "version": record.version, "id": record.id.to_string() });
        let entry = |what: &str, record: &FlowRecord, before: Option<Value>, after: Option<Value>| {
            let thing = Some(record.name.clone());
            call.entry(at, what, (None, thing), reason.cloned(), values(before.as_ref(), after.as_ref()))
        };
        let applied = self.applied.iter().filter_map(|(record, what)| match what {
            FlowChangeKind::Added => entry("flow.added", record, None, Some(of(record))),
            FlowChangeKind::Changed => entry("flow.changed", record, None, Some(of(record))),
            FlowChangeKind::Unchanged => None,
        });
        let deleted =
            self.deleted.iter().filter_map(|record| entry("flow.deleted", record, Some(of(record)), None));
        applied.chain(deleted).collect()
    }
}

/// What a command comes to, before it is durable.
struct FlowPlan {
    records: Vec<FlowRecord>,
    outcome: FlowsOutcome,
    is_dry_run: bool,
}

impl<S: Store> Engine<S> {
    /// Carries out a command about flows, between two batches: it is durable before anything is started by it.
    #[expect(clippy::needless_pass_by_value, reason = "it is given once, and may be decided several times")]
    pub fn change_flows(
        &mut self,
        command: FlowCommand,
        call: &Call,
        now: Time,
    ) -> Result<FlowsOutcome, EngineError> {
        self.take_time(now);
        if let Some(error) = &self.stopped {
            return Err(error.clone().into());
        }
        let by = match &command {
            FlowCommand::Apply(apply) => &apply.by,
            FlowCommand::Delete(delete) => &delete.by,
        };
        check_texts(by, command.reason().map(|reason| &**reason))?;
        let mut tries = 0;
        loop {
            let newest = self.store.versions()?;
            self.refresh_shared(newest)?;
            tries += 1;
            self.check_key(call)?;
            match self.try_change_flows(&command, call) {
                // Another server was quicker: it is decided again on what that left.
                Err(EngineError::Store(StoreError::Conflict(_))) if tries < MAX_TRIES => {}
                result => return result,
            }
        }
    }

    fn try_change_flows(&mut self, command: &FlowCommand, call: &Call) -> Result<FlowsOutcome, EngineError> {
        let plan = match command {
            FlowCommand::Apply(apply) => self.plan_apply(apply)?,
            FlowCommand::Delete(delete) => self.plan_delete(delete)?,
        };
        if plan.is_dry_run {
            return Ok(plan.outcome);
        }
        let recorded = match command {
            FlowCommand::Apply(_) => {
                let each = plan.outcome.applied.iter();
                CallOutcome::FlowsApplied { flows: each.map(|(record, what)| (record.id, *what)).collect() }
            }
            FlowCommand::Delete(_) => {
                let each = plan.outcome.deleted.iter();
                CallOutcome::FlowsDeleted { flows: each.map(|record| record.id).collect() }
            }
        };
        if plan.records.is_empty() {
            self.record_unchanged(call, recorded)?;
            return Ok(plan.outcome);
        }
        let at = self.store_time();
        let ledger = call.ledger(at, recorded, plan.outcome.audit(call, command.reason(), at));
        let change = FlowChange { records: plan.records, ledger };
        let ids: Vec<FlowId> = change.records.iter().map(|record| record.id).collect();
        self.store.change_flows(change, self.known.flows)?;
        self.known.flows = self.store.versions()?.flows;
        self.flows.forget_newest();
        if let FlowCommand::Apply(apply) = command {
            for ((record, _), flow) in plan.outcome.applied.iter().zip(&apply.flows) {
                // What cannot be brought into the order that is kept is said when it is started.
                let _ = self.flows.take_kept(record, flow.clone());
            }
        }
        for id in ids {
            self.release_flow(id);
        }
        self.flows_changed();
        Ok(plan.outcome)
    }

    fn plan_apply(&mut self, apply: &ApplyFlows) -> Result<FlowPlan, EngineError> {
        let new: Vec<NewFlow> = apply.flows.iter().map(new_flow).collect();
        let at = self.store_time();
        let keep = |planned: PlannedFlow| {
            let what = planned.what;
            (planned.into_record(at, &apply.by), what)
        };
        let applied: Vec<(FlowRecord, FlowChangeKind)> =
            self.store.plan_flows(&new)?.into_iter().map(keep).collect();
        let mut records: Vec<FlowRecord> = applied.iter().map(|(record, _)| record.clone()).collect();
        records.sort_by_key(|record| record.id);
        let outcome = FlowsOutcome { applied, deleted: Vec::new() };
        Ok(FlowPlan { records, outcome, is_dry_run: apply.is_dry_run })
    }

    fn plan_delete(&mut self, delete: &DeleteFlow) -> Result<FlowPlan, EngineError> {
        let DeleteFlow { flow, version, .. } = delete;
        let mut deleted = self.store.flow_versions(flow)?;
        if deleted.is_empty() {
            return Err(EngineError::UnknownFlow(flow.clone()));
        }
        if let Some(version) = version {
            deleted.retain(|record| record.version == *version);
            if deleted.is_empty() {
                return Err(EngineError::UnknownVersion { flow: flow.clone(), version: version.clone() });
            }
        }
        let ids: Vec<FlowId> = deleted.iter().map(|record| record.id).collect();
        let runs: u64 = self.store.open_runs(&ids)?.values().sum();
        if runs > 0 {
            return Err(EngineError::FlowInUse { flow: flow.clone(), version: version.clone(), runs });
        }
        // One that is deleted already is deleted, whoever asks.
        deleted.retain(|record| !record.is_deleted);
        for record in &mut deleted {
            record.is_deleted = true;
        }
        let outcome = FlowsOutcome { applied: Vec::new(), deleted: deleted.clone() };
        Ok(FlowPlan { records: deleted, outcome, is_dry_run: false })
    }
}
