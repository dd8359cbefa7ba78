//! The compiled flows of an engine, by id and by name.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_store::contract::{FlowRecord, NewFlow, PutFlowError, Store, StoreError};

use crate::request::EngineError;

/// Makes a flow of what the store keeps of it.
pub type Compile = Box<dyn Fn(&FlowRecord) -> Result<Flow, String> + Send>;

/// Compiled flows; what is not there yet is compiled from the store.
pub struct Flows {
    by_id: FxHashMap<FlowId, Arc<Flow>>,
    newest: FxHashMap<Arc<str>, FlowId>,
    /// Those that could not be compiled, with why: each is tried once.
    bad: FxHashMap<FlowId, String>,
    compile: Compile,
}

impl Flows {
    /// No flows yet.
    pub fn new(compile: Compile) -> Flows {
        Flows {
            by_id: FxHashMap::default(),
            newest: FxHashMap::default(),
            bad: FxHashMap::default(),
            compile,
        }
    }

    /// Keeps a flow in the store and here.
    pub fn put(&mut self, store: &mut dyn Store, flow: Flow) -> Result<Arc<Flow>, PutFlowError> {
        let record = store.put_flow(new_flow(&flow))?;
        let flow = in_kept_order(&record, flow)
            .map_err(|problem| PutFlowError::Store(StoreError::Damaged(problem)))?;
        Ok(self.cache(&record, flow))
    }

    /// Takes over a flow that the store keeps as this record.
    pub(crate) fn take_kept(&mut self, record: &FlowRecord, flow: Flow) -> Result<(), String> {
        let flow = in_kept_order(record, flow)?;
        self.remember(record, flow);
        Ok(())
    }

    /// Keeps the order of steps of flows that were kept before that was. One that cannot be used gets it once it can.
    pub(crate) fn backfill_step_orders(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        for id in (1..).map(FlowId) {
            let Some(record) = store.flow(id)? else { return Ok(()) };
            if record.steps.is_some() || record.is_deleted {
                continue;
            }
            let Ok(flow) = self.compile(&record) else { continue };
            let FlowRecord { name, version, source, directory, .. } = record;
            let new = NewFlow { name, version: Some(version), source, directory, steps: flow.step_ids() };
            match store.put_flow(new) {
                Ok(_) | Err(PutFlowError::VersionTaken { .. }) => {}
                Err(PutFlowError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// The flow version of this id.
    pub fn get(&mut self, store: &mut dyn Store, id: FlowId) -> Result<Arc<Flow>, EngineError> {
        if let Some(flow) = self.by_id.get(&id) {
            return Ok(flow.clone());
        }
        let record = store.flow(id)?.ok_or_else(|| EngineError::UnknownFlow(id.to_string().into()))?;
        self.compile(&record)
    }

    /// The newest version of the flow of this name.
    pub fn newest(&mut self, store: &mut dyn Store, name: &Arc<str>) -> Result<Arc<Flow>, EngineError> {
        if let Some(flow) = self.newest.get(name).and_then(|id| self.by_id.get(id)) {
            return Ok(flow.clone());
        }
        let record = store.newest_flow(name)?.ok_or_else(|| EngineError::UnknownFlow(name.clone()))?;
        let known = self.by_id.get(&record.id).filter(|flow| flow.directory == record.directory).cloned();
        let flow = known.map_or_else(|| self.compile(&record), Ok)?;
        self.newest.insert(name.clone(), flow.id);
        Ok(flow)
    }

    /// This version of a flow, if it can be started.
    pub fn version(
        &mut self,
        store: &mut dyn Store,
        name: &Arc<str>,
        version: &Arc<str>,
    ) -> Result<Arc<Flow>, EngineError> {
        let record = store.flow_version(name, version)?.filter(|record| !record.is_deleted);
        let unknown = || EngineError::UnknownVersion { flow: name.clone(), version: version.clone() };
        let record = record.ok_or_else(unknown)?;
        match self.by_id.get(&record.id) {
            Some(flow) => Ok(flow.clone()),
            None => self.compile(&record),
        }
    }

    /// Which version of each flow is the newest is to be read again: another server may have kept one.
    pub(crate) fn forget_newest(&mut self) {
        self.newest.clear();
    }

    /// A flow that could not be compiled is tried again when it is needed next.
    pub(crate) fn retry(&mut self, id: FlowId) {
        self.bad.remove(&id);
    }

    /// Whether this flow was tried and could not be compiled.
    pub(crate) fn is_unusable(&self, id: FlowId) -> bool {
        self.bad.contains_key(&id)
    }

    fn compile(&mut self, record: &FlowRecord) -> Result<Arc<Flow>, EngineError> {
        if let Some(problem) = self.bad.get(&record.id) {
            return Err(EngineError::BadFlow(problem.clone()));
        }
        match (self.compile)(record).and_then(|flow| in_kept_order(record, flow)) {
            Ok(flow) => Ok(self.remember(record, flow)),
            Err(problem) => {
                self.bad.insert(record.id, problem.clone());
                Err(EngineError::BadFlow(problem))
            }
        }
    }

    fn cache(&mut self, record: &FlowRecord, flow: Flow) -> Arc<Flow> {
        self.newest.insert(record.name.clone(), record.id);
        self.remember(record, flow)
    }

    fn remember(&mut self, record: &FlowRecord, mut flow: Flow) -> Arc<Flow> {
        flow.id = record.id;
        flow.version = record.version.clone();
        let flow = Arc::new(flow);
        self.bad.remove(&record.id);
        self.by_id.insert(record.id, flow.clone());
        flow
    }
}

/// What a store is asked to keep of a flow.
pub fn new_flow(flow: &Flow) -> NewFlow {
    NewFlow {
        name: flow.name.clone(),
        version: (!flow.version.is_empty()).then(|| flow.version.clone()),
        source: flow.source.clone(),
        directory: flow.directory.clone(),
        steps: flow.step_ids(),
    }
}

/// What is known of the flow of a run, whether it can be compiled or not.
pub fn outline(run: &Run, record: Option<FlowRecord>) -> Flow {
    match record {
        Some(record) => Flow::outline(run, record.name, record.version, record.steps.as_deref()),
        None => Flow::outline(run, run.flow.to_string().into(), "?".into(), None),
    }
}

/// The flow with its steps in the order that is kept, by which the runs of this version know them.
pub(crate) fn in_kept_order(record: &FlowRecord, flow: Flow) -> Result<Flow, String> {
    let FlowRecord { name, version, steps, .. } = record;
    match steps {
        None => Ok(flow),
        Some(ids) => {
            flow.in_order_of(ids).map_err(|problem| format!("version {version} of flow `{name}`: {problem}"))
        }
    }
}
