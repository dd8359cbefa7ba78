//! The engine as this command runs it.

use std::sync::Arc;

use unstuck_engine::engine::Settings;
use unstuck_engine::flows::{Compile, Flows};
use unstuck_store::contract::FlowRecord;

use crate::failure::Failure;

/// Makes flows of what the store keeps of them.
pub(crate) fn compile() -> Compile {
    Box::new(|record: &FlowRecord| {
        let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
        let told = |problems: Vec<unstuck_flow::Problem>| {
            problems.first().map_or_else(String::new, ToString::to_string)
        };
        let flow = loaded.map_err(told)?.flows.into_iter().next();
        flow.ok_or_else(|| format!("the stored text of flow `{}` contains no flow", record.name))
    })
}

/// For reading without an engine.
pub(crate) fn flows() -> Flows {
    Flows::new(compile())
}

/// An engine that executes what belongs to this home.
pub(crate) fn settings(home: Option<Arc<str>>) -> Result<Settings, Failure> {
    let (seed, token_key) = (random()?, random()?);
    Ok(Settings { seed: u64::from_le_bytes(seed), token_key, home, ..Settings::default() })
}

/// A home for a new run, which no other run has.
pub(crate) fn new_home() -> Result<Arc<str>, Failure> {
    Ok(format!("{:016x}", u64::from_le_bytes(random()?)).into())
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(format!("the engine cannot start: no random numbers from the operating system: {error}"))
    })?;
    Ok(bytes)
}
