//! `unstuck serve`: executes every run of a store and answers over HTTP, until it is told to stop.

mod settings;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::Executor;
use unstuck_engine::executor::emulation::EmulationExecutor;
use unstuck_engine::executor::http::address::AddressRules;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::runtime::{Handle, Runtime, Stopped};
use unstuck_engine::secrets::Secrets;
use unstuck_server::{App, Server, Stopping, Tls};
use unstuck_service::Service;
use unstuck_service::flows::compile_flow;
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::StoreError;

use crate::CommandResult;
use crate::Format;
use crate::access::engine;
use crate::access::location::StoreLocation;
use crate::access::socket;
use crate::command::run::executors::{find_secrets, http_executor};
use crate::command::run::processes::Processes;
use crate::command::run::signals;
use crate::configuration::arguments::SettingArguments;
use crate::configuration::{Configuration, table};
use crate::error::{CommandError, without_os_number};
use crate::view::output::Output;

/// The load for emulated steps, which need only a timer.
const EMULATION_LOAD: u32 = 1_000_000;
/// How long commands that only read are waited for.
const READERS: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_millis(5);

/// Serve a store: execute all of its runs, and answer over HTTP.
///
/// Everything that the commands do can be done over HTTP; `/docs` lists every call. The commands of this machine reach the
/// server through the store, as they reach `unstuck run`.
///
/// As long as the store has no token, the server listens on this machine only, and everybody on it may do everything. `unstuck token
/// create` makes the first one; from then on every request needs one.
///
/// SIGTERM or Ctrl-C stops it in good order: requests under way are answered, and nothing becomes stuck by a restart. A second
/// one ends its processes at once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingArguments,

    /// Print what is configured and where each value came from, and do nothing else. The text is a configuration file itself.
    #[arg(long)]
    print_config: bool,
}

const EXAMPLES: &str = "\
Examples:
  unstuck serve
  unstuck serve --listen 127.0.0.1:0 --store ./store --allow-run
  unstuck serve --listen 0.0.0.0:7070 --tls-cert server.pem --tls-key server-key.pem
  unstuck serve --config unstuck.toml --print-config";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let configuration = Configuration::load(&self.settings)?;
        if self.print_config {
            let mut stdout = Output::stdout();
            stdout.line(&configuration.format(format));
            stdout.finish()?;
            return Ok(ExitCode::SUCCESS);
        }
        settings::check(&configuration)?;
        settings::start_log(&configuration)?;
        settings::warn(&configuration);
        execute(&configuration, format)
    }
}

/// Serves as it is configured.
fn execute(configuration: &Configuration, format: Format) -> CommandResult {
    let tls = settings::tls(configuration)?;
    let exporter = settings::exporter(configuration)?;
    let listen = settings::listen_address(configuration);
    let listener = TcpListener::bind(listen).map_err(|error| describe_bind_error(listen, &error))?;
    let address = listener.local_addr().map_err(|error| cannot("find out its own address", &error))?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let place = settings::place(configuration)?;
    if !place.has_store() {
        place.create_folder()?;
    }
    let store = open_store(&place)?;
    let allow_run = configuration.flag(&table::ALLOW_RUN);
    let secrets = find_secrets(configuration.path(&table::SECRETS).map(Path::to_owned))?;
    let processes = allow_run.then(|| Processes::new(settings::max_load(configuration), secrets.clone()));
    let engine_settings = Settings { fires_schedules: true, ..engine::engine_settings(None)? };
    let engine = Engine::new(store, compile_flow(), engine_settings)?;
    let executors = build_executors(settings::address_rules(configuration)?, processes.as_ref(), secrets);
    let runtime = Runtime::start(engine, executors, None);
    let exposed = check_exposure(listen, tls.is_some(), &runtime.handle(), &place.option)?;
    let service =
        Service { option: place.option.clone(), serves: Some(url.clone()), allow_run, ..Service::default() };
    let socket = socket::Server::start(&place.directory, service.clone(), runtime.handle())
        .map_err(|error| cannot("listen for commands in the folder of the store", &error))?;
    let mut server_settings = settings::server_settings(configuration, &place.directory);
    server_settings.warnings.extend(exposed);
    let mut app = App::new(service, runtime.handle(), server_settings);
    if let Some(exporter) = &exporter {
        app = app.with_traces(exporter.sink(), configuration.number(&table::TRACES_PERCENT).unwrap_or(100));
    }
    let (local, http_socket) = socket::HttpSocket::bind(&place.directory)
        .map_err(|error| cannot("listen for commands in the folder of the store", &error))?;
    let served = serve(app, (listener, local, tls), processes, || announce(&url, format));
    drop((http_socket, exporter));
    socket.close();
    let stopped = runtime.stop();
    served?;
    report_stop(stopped)
}

fn build_executors(
    addresses: AddressRules,
    processes: Option<&Processes>,
    secrets: Secrets,
) -> Vec<Box<dyn Executor>> {
    let local: Box<dyn Executor> = match processes {
        Some(processes) => Box::new(processes.clone()),
        // It executes nothing, but ends processes that a killed engine has left.
        None => Box::new(ProcessExecutor::new(0)),
    };
    let emulation = EmulationExecutor::new(EMULATION_LOAD);
    vec![local, Box::new(http_executor(addresses, secrets)), Box::new(emulation)]
}

/// Refuses to listen to other machines where there is no token that would keep anybody out. Returns what is unsafe all the same.
fn check_exposure(
    listen: SocketAddr,
    is_encrypted: bool,
    handle: &Handle,
    option: &str,
) -> Result<Option<String>, CommandError> {
    if listen.ip().is_loopback() {
        return Ok(None);
    }
    let now = unstuck_service::service::now();
    if handle.reader().tokens()?.iter().all(|token| token.is_over(now)) {
        return Err(CommandError::new(format!(
            "{listen} is not an address of this machine alone, and without tokens everybody who reaches it could do everything. Make a token first (`unstuck token create NAME --role admin{option}`), or listen on 127.0.0.1 or [::1]"
        )));
    }
    if is_encrypted {
        return Ok(None);
    }
    let warning = format!(
        "requests to {listen} are not encrypted, and their tokens can be read on the way. Use --tls-cert and --tls-key, or put a proxy that speaks TLS in front"
    );
    Output::stderr().line(&format!("warning: {warning}"));
    Ok(Some(warning))
}

/// Opens a store that no other process may have. A command that only reads has it for moments, and answers nobody; that is waited for.
fn open_store(place: &StoreLocation) -> Result<SqliteStore, CommandError> {
    let until = Instant::now() + READERS;
    let opened = loop {
        match SqliteStore::open(&place.directory) {
            Err(StoreError::Away(_)) if Instant::now() < until && !socket::has_owner(&place.directory) => {
                thread::sleep(BETWEEN);
            }
            opened => break opened,
        }
    };
    opened.map_err(|error| match error {
        StoreError::Away(_) => CommandError::unavailable(
            unstuck_api::ProblemType::StoreAway,
            format!(
                "another process has the store {} open, and only one at a time executes its runs. `unstuck status{}` says which one; stop it, or use another store",
                place.directory.display(),
                place.option
            ),
        ),
        other => other.into(),
    })
}

/// Answers over HTTP until a signal comes.
fn serve(
    app: App,
    (listener, local, tls): (TcpListener, UnixListener, Option<Tls>),
    processes: Option<Processes>,
    announce: impl FnOnce() -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("unstuck-http")
        .build()
        .map_err(|error| cannot("start the threads of the server", &error))?;
    let serving = async {
        let user = rustix::process::geteuid().as_raw();
        let server = Server::new(app, listener, tls).and_then(|server| server.with_socket(local, user));
        let server = server.map_err(|error| cannot("listen", &error))?;
        stop_on_signal(server.stopping(), processes).map_err(|error| cannot("listen for Ctrl-C", &error))?;
        announce()?;
        server.serve().await;
        Ok(())
    };
    threads.block_on(serving)
}

fn cannot(what: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(format!("cannot {what}: {}", without_os_number(error)))
}

fn describe_bind_error(address: SocketAddr, error: &std::io::Error) -> CommandError {
    let port = address.port();
    CommandError::new(match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "another process listens on {address}. Stop it, or use another port with --listen {}:{}",
            address.ip(),
            port.saturating_add(1)
        ),
        std::io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to listen on {address}; use a port above 1023, as in --listen {}:7070",
                address.ip()
            )
        }
        _ => format!("cannot listen on {address}: {}", without_os_number(error)),
    })
}

/// The first signal stops the server in good order, the second kills its processes.
fn stop_on_signal(stopping: Stopping, processes: Option<Processes>) -> std::io::Result<()> {
    let first = move |signal: signals::Signal| {
        Output::stderr().line(&format!("stopping ({})", signal.reason()));
        stopping.stop();
    };
    signals::listen(first, move || {
        if let Some(processes) = processes {
            processes.kill();
        }
    })
}

/// Says where the server is, for people or for whoever has started it.
fn announce(url: &str, format: Format) -> Result<(), CommandError> {
    let mut stdout = Output::stdout();
    stdout.line(&match format {
        Format::Json => json!({"url": url, "process": std::process::id()}).to_string(),
        Format::Text => format!("Serving on {url} ({url}/docs lists every call). Ctrl-C stops it."),
    });
    stdout.finish()
}

/// Says what could not be recorded.
fn report_stop(stopped: Stopped) -> CommandResult {
    if let Some(trouble) = stopped.trouble {
        return Err(trouble.into());
    }
    if !stopped.unrecorded.is_empty() {
        Output::stderr().line(&format!(
            "{} attempts ended without being recorded; they are tried again when the store is served next",
            stopped.unrecorded.len()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
