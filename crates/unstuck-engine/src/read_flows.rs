//! Flows compiled for readers, apart from those of the engine: any thread asks, and nobody waits for a batch.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_store::contract::{FlowRecord, Reader};

use crate::flows::in_kept_order;
use crate::request::EngineError;

/// Makes a flow of what the store keeps of it, on any thread.
pub type CompileForReading = Arc<dyn Fn(&FlowRecord) -> Result<Flow, String> + Send + Sync>;

/// Compiled flows; what is not there yet is compiled from the store. Clones share them.
#[derive(Clone)]
pub struct ReadFlows {
    compile: CompileForReading,
    known: Arc<Mutex<HashMap<FlowId, Known>>>,
}

/// What came of compiling a flow version.
#[derive(Clone)]
enum Known {
    Flow(Arc<Flow>),
    /// It could not be, with why. In another folder it may.
    Bad {
        directory: Arc<str>,
        why: String,
    },
}

impl fmt::Debug for ReadFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadFlows")
    }
}

impl ReadFlows {
    /// No flows yet.
    pub fn new(compile: CompileForReading) -> ReadFlows {
        ReadFlows { compile, known: Arc::default() }
    }

    /// The flow version of this id.
    pub fn get(&self, reader: &dyn Reader, id: FlowId) -> Result<Arc<Flow>, EngineError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(Known::Flow(flow)) = known {
            return Ok(flow);
        }
        let record = reader.flow(id)?.ok_or_else(|| EngineError::UnknownFlow(id.to_string().into()))?;
        if let Some(Known::Bad { directory, why }) = known
            && directory == record.directory
        {
            return Err(EngineError::BadFlow(why));
        }
        let compiled = (self.compile)(&record).and_then(|flow| in_kept_order(&record, flow));
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match compiled {
            Ok(flow) => {
                let flow = Arc::new(Flow { id: record.id, version: record.version.clone(), ..flow });
                all.insert(id, Known::Flow(flow.clone()));
                Ok(flow)
            }
            Err(why) => {
                all.insert(id, Known::Bad { directory: record.directory, why: why.clone() });
                Err(EngineError::BadFlow(why))
            }
        }
    }
}
