//! Runs that are older than open errors are: whether they are in error is looked at once, when an engine starts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use unstuck_core::errors::open_error;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitState;
use unstuck_core::slot::slot_claim;
use unstuck_core::time::Time;
use unstuck_store::contract::{BatchId, Loaded, Locked, RunChange, Stage, Store, StoreError, Wants};

use crate::flows::Flows;
use crate::request::EngineError;

/// So many runs are looked at in one transaction.
const PAGE: usize = 512;

/// Looks at every run that nobody has looked at yet. One whose flow cannot be used stays until it can.
pub(crate) fn backfill_open_errors(store: &mut impl Store, flows: &mut Flows) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = store.needs_backfill(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(*last);
        let at = store.last_time()?.unwrap_or(Time(0));
        let batch = store.ask(&Wants { now: at, runs: page, ..Wants::default() })?;
        let looked = backfill_page(store, flows, batch, at);
        if looked.is_err() {
            store.rollback(batch);
        }
        let stage = store.stage(batch, looked?)?;
        let settled = loop {
            if let Some(settled) = store.settle(true).into_iter().find(|settled| settled.stage == stage) {
                break settled;
            }
        };
        settled.result?;
    }
}

fn backfill_page(
    store: &mut impl Store,
    flows: &mut Flows,
    batch: BatchId,
    at: Time,
) -> Result<Stage, StoreError> {
    let mut stage = Stage { at, last_id: store.last_id()?, ..Stage::default() };
    for (id, locked) in load(store, batch)?.runs {
        let run = match locked {
            Locked::Here(run) => run,
            Locked::Absent => {
                stage.backfilled.push(id);
                continue;
            }
            Locked::Busy | Locked::Damaged(_) => continue,
        };
        match flows.get(store, run.flow) {
            Ok(flow) => {
                // A defect of ours must not keep the engine from starting: it is looked at again the next time.
                match catch_unwind(AssertUnwindSafe(|| backfill_run(&run, &flow))) {
                    Ok(change) => {
                        stage.backfilled.push(id);
                        put(run, change, &mut stage);
                    }
                    Err(_) => stage.unchanged.push(*run),
                }
            }
            Err(EngineError::Store(error)) => return Err(error),
            Err(_) => stage.unchanged.push(*run),
        }
    }
    Ok(stage)
}

/// What a batch has asked for, however long it takes: an engine that starts has nothing else to do.
fn load(store: &mut impl Store, batch: BatchId) -> Result<Loaded, StoreError> {
    loop {
        match store.loaded() {
            Some((id, loaded)) if id == batch => return loaded,
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
}

/// What is in error in a run, and what it has of its limit; `None` if nothing is.
fn backfill_run(run: &Run, flow: &Flow) -> Option<RunChange> {
    let units = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
    (!units.is_empty()).then(|| RunChange {
        slot: slot_claim(run, flow),
        open_errors: units.into_iter().map(|unit| (unit, open_error(run, flow, unit))).collect(),
        run: Box::new(run.clone()),
        flow: flow.name.clone(),
        events: Vec::new(),
        payloads: Vec::new(),
        wakeups: Vec::new(),
        replaces_all: false,
        leases: Vec::new(),
    })
}

fn put(run: Box<Run>, change: Option<RunChange>, stage: &mut Stage) {
    match change {
        Some(change) => stage.runs.push(change),
        None => stage.unchanged.push(*run),
    }
}
