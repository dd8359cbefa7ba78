//! From the configuration to what a server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use unstuck_engine::executor::http::address::{AddressRules, Network};
use unstuck_server::{Limits, Rates, ServerSettings, StoreTool, Tls, TlsFiles};

use crate::access::location::{LocalStoreArgument, StoreLocation};
use crate::command::run::default_load;
use crate::configuration::{Configuration, Origin, find_misspelt_variables, table};
use crate::error::CommandError;
use crate::telemetry::otlp::TraceExporter;
use crate::telemetry::{self, LogFormat};
use crate::view::output::Output;

/// The port where nothing else is configured.
const PORT: u16 = 7070;

/// Refuses what does not go together.
pub(super) fn check(configuration: &Configuration) -> Result<(), CommandError> {
    if configuration.number(&table::MAX_LOAD).is_some() && !configuration.flag(&table::ALLOW_RUN) {
        return Err(CommandError::new(format!(
            "maxLoad ({}) bounds `run:` steps, and this server does not execute them. Add --allow-run, or leave it out",
            configuration.origin(&table::MAX_LOAD).place()
        )));
    }
    let (cert, key) = (configuration.path(&table::TLS_CERT), configuration.path(&table::TLS_KEY));
    let (given, missing) = match (cert, key) {
        (Some(_), None) => (&table::TLS_CERT, &table::TLS_KEY),
        (None, Some(_)) => (&table::TLS_KEY, &table::TLS_CERT),
        (Some(_), Some(_)) | (None, None) => return Ok(()),
    };
    Err(CommandError::new(format!(
        "{} ({}) needs {} too. Add --{} PATH",
        given.key,
        configuration.origin(given).place(),
        missing.key,
        missing.flag()
    )))
}

/// Warns of what is probably a mistake, or unsafe.
pub(super) fn warn(configuration: &Configuration) {
    let mut stderr = Output::stderr();
    for (name, near) in find_misspelt_variables() {
        stderr.line(&format!("warning: the variable {name} sets nothing; did you mean {near}?"));
    }
    if let Some(path) = &configuration.file
        && is_writable_by_others(path)
    {
        stderr.line(&format!(
            "warning: other users may write {}, and could let this server execute anything. To change that: chmod go-w {}",
            path.display(),
            crate::view::text::shell_word(&path.to_string_lossy())
        ));
    }
}

fn is_writable_by_others(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|about| about.mode() & 0o022 != 0 || ![0, own].contains(&about.uid()))
}

pub(super) fn start_log(configuration: &Configuration) -> Result<(), CommandError> {
    let format = match configuration.text(&table::LOG_FORMAT) {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Text,
    };
    let whence = match configuration.origin(&table::LOG) {
        Origin::Variable(name) => name,
        Origin::Flag(flag) => format!("--{flag}"),
        origin @ (Origin::Default | Origin::File(..)) => format!("log ({})", origin.place()),
    };
    telemetry::start_log_with(&whence, configuration.text(&table::LOG).unwrap_or_default(), format)
}

/// Reads the certificate and its key, if the server is to speak TLS.
pub(super) fn tls(configuration: &Configuration) -> Result<Option<Tls>, CommandError> {
    let (Some(cert), Some(key)) = (configuration.path(&table::TLS_CERT), configuration.path(&table::TLS_KEY))
    else {
        return Ok(None);
    };
    let files = TlsFiles { cert: cert.to_owned(), key: key.to_owned() };
    if let Some(warning) = files.warning() {
        Output::stderr().line(&format!("warning: {warning}"));
    }
    let handshake_time = configuration.time(&table::TLS_HANDSHAKE_TIME).unwrap_or_default();
    Tls::load(files, handshake_time).map(Some).map_err(CommandError::new)
}

/// Starts to export traces, if there is a collector.
pub(super) fn exporter(configuration: &Configuration) -> Result<Option<TraceExporter>, CommandError> {
    let Some(endpoint) = configuration.text(&table::TRACES_ENDPOINT) else { return Ok(None) };
    let exporter = TraceExporter::start(endpoint, &server_name(configuration)).map_err(|why| {
        let place = configuration.origin(&table::TRACES_ENDPOINT).place();
        CommandError::new(format!("traces.endpoint ({place}): {why}"))
    })?;
    Ok(Some(exporter))
}

pub(super) fn listen_address(configuration: &Configuration) -> SocketAddr {
    configuration.address(&table::LISTEN).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into())
}

/// Finds the store. What a command needs to find it is nothing where commands find it by the same variable.
pub(super) fn place(configuration: &Configuration) -> Result<StoreLocation, CommandError> {
    let named = match configuration.origin(&table::STORE) {
        Origin::Flag(_) | Origin::File(..) => configuration.path(&table::STORE),
        Origin::Default | Origin::Variable(_) => None,
    };
    LocalStoreArgument::of(named.map(Path::to_owned)).place()
}

pub(super) fn max_load(configuration: &Configuration) -> u32 {
    let given = configuration.number(&table::MAX_LOAD);
    given.map_or_else(default_load, |load| u32::try_from(load).unwrap_or(u32::MAX))
}

pub(super) fn address_rules(configuration: &Configuration) -> Result<AddressRules, CommandError> {
    let networks = configuration.texts(&table::ALLOW_ADDRESS).iter().map(|text| Network::parse(text));
    let allowed = networks.collect::<Result<Vec<Network>, String>>().map_err(CommandError::new)?;
    Ok(AddressRules { allow_private: false, allowed })
}

pub(super) fn server_settings(configuration: &Configuration, store: &Path) -> ServerSettings {
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let number =
        |setting| usize::try_from(configuration.number(setting).unwrap_or_default()).unwrap_or(usize::MAX);
    ServerSettings {
        name: server_name(configuration).into(),
        directory: directory.to_string_lossy().into(),
        store: store.to_owned(),
        store_tool: StoreTool {
            program: std::env::current_exe().unwrap_or_else(|_| "unstuck".into()),
            store: store.to_owned(),
            copies: configuration.path(&table::COPIES).map(Path::to_owned),
        },
        limits: limits(configuration),
        rates: Rates {
            requests: configuration.number(&table::REQUESTS_RATE).unwrap_or_default(),
            burst: configuration.number(&table::REQUESTS_BURST).unwrap_or_default(),
        },
        requires_reason: configuration.flag(&table::REQUIRE_REASON),
        metric_labels: number(&table::METRICS_LABELS),
        warnings: Vec::new(),
    }
}

fn limits(configuration: &Configuration) -> Limits {
    let number =
        |setting| usize::try_from(configuration.number(setting).unwrap_or_default()).unwrap_or(usize::MAX);
    let time = |setting| configuration.time(setting).unwrap_or(Duration::from_secs(1));
    Limits {
        body: number(&table::BODY),
        flow_file: number(&table::FLOW_FILE),
        head: number(&table::HEAD),
        json_depth: number(&table::JSON_DEPTH),
        items: number(&table::ITEMS),
        bodies: number(&table::BODIES),
        body_time: time(&table::BODY_TIME),
        idle_time: time(&table::IDLE_TIME),
        stall_time: time(&table::STALL_TIME),
        connections: number(&table::CONNECTIONS),
        queries: number(&table::QUERIES),
        changes: number(&table::CHANGES),
        turn_time: time(&table::TURN_TIME),
        streams: number(&table::STREAMS),
        longest_wait: time(&table::LONGEST_WAIT),
    }
}

fn server_name(configuration: &Configuration) -> String {
    configuration.text(&table::NAME).map_or_else(host_name, str::to_owned)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_the_table_are_those_of_the_server() {
        assert_eq!(limits(&Configuration::defaults()), Limits::default());
    }
}
