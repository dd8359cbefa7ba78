//! Settings of an engine that this command runs.

use std::sync::Arc;

use unstuck_engine::engine::Settings;

use crate::error::CommandError;

/// Builds the settings of an engine that executes the runs of this home.
pub(crate) fn engine_settings(home: Option<Arc<str>>) -> Result<Settings, CommandError> {
    let (seed, token_key) = (random_bytes()?, random_bytes()?);
    Ok(Settings { seed: u64::from_le_bytes(seed), token_key, home, ..Settings::default() })
}

/// Returns a new home for a run, different from every other.
pub(crate) fn new_home() -> Result<Arc<str>, CommandError> {
    Ok(format!("{:016x}", u64::from_le_bytes(random_bytes()?)).into())
}

/// Reads random bytes from the operating system.
fn random_bytes<const N: usize>() -> Result<[u8; N], CommandError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        CommandError::internal(format!(
            "the engine cannot start: no random numbers from the operating system: {error}"
        ))
    })?;
    Ok(bytes)
}
