//! What carries out the steps of a run in this process: processes, requests, emulations.

use std::path::PathBuf;

use unstuck_engine::executor::Executor;
use unstuck_engine::executor::emulation::EmulationExecutor;
use unstuck_engine::executor::http::address::AddressRules;
use unstuck_engine::executor::http::{HttpExecutor, HttpSettings};
use unstuck_engine::secrets::Secrets;

use super::processes::Processes;
use crate::error::{CommandError, without_os_number};

/// The load for emulated steps, which need only a timer.
const EMULATION_LOAD: u32 = 1_000_000;
/// How many requests are made at once.
const HTTP_LOAD: u32 = 64;
/// The variable that names the folder of secrets.
const SECRETS_VARIABLE: &str = "UNSTUCK_SECRETS";
/// The variable that names a file of further certificates to trust, as other programs know it.
const ROOTS_VARIABLE: &str = "SSL_CERT_FILE";

/// The executors of a run.
pub(super) struct Executors {
    pub(super) processes: Processes,
    secrets: Secrets,
}

impl Executors {
    pub(super) fn new(max_load: u32, secrets: Secrets) -> Executors {
        Executors { processes: Processes::new(max_load, secrets.clone()), secrets }
    }

    /// All of them, for an engine.
    pub(super) fn all(&self) -> Vec<Box<dyn Executor>> {
        // The flow is the user's own, and so are this machine and its network.
        let addresses = AddressRules { allow_private: true, allowed: Vec::new() };
        vec![
            Box::new(self.processes.clone()),
            Box::new(http_executor(addresses, self.secrets.clone())),
            Box::new(EmulationExecutor::new(EMULATION_LOAD)),
        ]
    }
}

/// Builds the executor of HTTP requests that may go to these addresses.
pub(crate) fn http_executor(addresses: AddressRules, secrets: Secrets) -> HttpExecutor {
    let roots_file = std::env::var_os(ROOTS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    HttpExecutor::new(HttpSettings { addresses, secrets, roots_file, ..HttpSettings::new(HTTP_LOAD) })
}

/// Returns where secrets come from: the folder that was given or that the environment names, and the environment.
pub(crate) fn find_secrets(given: Option<PathBuf>) -> Result<Secrets, CommandError> {
    let variable = || std::env::var_os(SECRETS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(folder) = given.or_else(variable) else { return Ok(Secrets::new(None)) };
    match std::fs::read_dir(&folder) {
        Ok(_) => Ok(Secrets::new(Some(std::path::absolute(&folder).unwrap_or(folder)))),
        Err(error) => Err(CommandError::new(format!(
            "cannot read the folder of secrets {}: {}",
            folder.display(),
            without_os_number(&error)
        ))),
    }
}
