//! The engine as this command runs it.

use std::sync::Arc;

use unstuck_engine::engine::Settings;

use crate::error::CommandError;

/// An engine that executes what belongs to this home.
pub(crate) fn settings(home: Option<Arc<str>>) -> Result<Settings, CommandError> {
    let (seed, token_key) = (random()?, random()?);
    Ok(Settings { seed: u64::from_le_bytes(seed), token_key, home, ..Settings::default() })
}

/// A home for a new run, which no other run has.
pub(crate) fn new_home() -> Result<Arc<str>, CommandError> {
    Ok(format!("{:016x}", u64::from_le_bytes(random()?)).into())
}

fn random<const N: usize>() -> Result<[u8; N], CommandError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        CommandError::internal(format!(
            "the engine cannot start: no random numbers from the operating system: {error}"
        ))
    })?;
    Ok(bytes)
}
