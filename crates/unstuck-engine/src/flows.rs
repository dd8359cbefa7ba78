//! The compiled flows of an engine, by id and by name.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_store::contract::{FlowRecord, NewFlow, PutFlowError, Store};

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
        let record = store.put_flow(NewFlow {
            name: flow.name.clone(),
            version: (!flow.version.is_empty()).then(|| flow.version.clone()),
            source: flow.source.clone(),
            directory: flow.directory.clone(),
        })?;
        Ok(self.keep(&record, flow))
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
        let flow = self.compile(&record)?;
        self.newest.insert(name.clone(), flow.id);
        Ok(flow)
    }

    /// A flow that could not be compiled is tried again when it is needed next.
    pub(crate) fn retry(&mut self, id: FlowId) {
        self.bad.remove(&id);
    }

    fn compile(&mut self, record: &FlowRecord) -> Result<Arc<Flow>, EngineError> {
        if let Some(problem) = self.bad.get(&record.id) {
            return Err(EngineError::BadFlow(problem.clone()));
        }
        match (self.compile)(record) {
            Ok(flow) => Ok(self.remember(record, flow)),
            Err(problem) => {
                self.bad.insert(record.id, problem.clone());
                Err(EngineError::BadFlow(problem))
            }
        }
    }

    fn keep(&mut self, record: &FlowRecord, flow: Flow) -> Arc<Flow> {
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
