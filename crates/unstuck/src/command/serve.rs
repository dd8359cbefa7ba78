//! `unstuck serve`: executes every run of a store and answers over HTTP, until it is told to stop.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::Executor;
use unstuck_engine::executor::emulation::EmulationExecutor;
use unstuck_engine::executor::http::address::{AddressRules, Network};
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::runtime::{Handle, Runtime, Stopped};
use unstuck_engine::secrets::Secrets;
use unstuck_server::{App, Limits, Server, ServerSettings, Stopping};
use unstuck_service::Service;
use unstuck_service::flows::compile_flow;
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::StoreError;

use crate::CommandResult;
use crate::Format;
use crate::access::engine;
use crate::access::location::{LocalStoreArgument, StoreLocation};
use crate::access::socket;
use crate::command::run::executors::{find_secrets, http_executor};
use crate::command::run::processes::Processes;
use crate::command::run::{default_load, signals};
use crate::error::{CommandError, without_os_number};
use crate::view::output::Output;

/// The load for emulated steps, which need only a timer.
const EMULATION_LOAD: u32 = 1_000_000;

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
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// The name of this server, for people. [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Execute `run:` steps, which are commands of this machine. Whoever may apply flows can then execute anything as this user.
    #[arg(long)]
    allow_run: bool,

    /// The total load that local processes may take at once. [default: twice the cores, at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "allow_run")]
    max_load: Option<u32>,

    /// A folder of secrets, one file each, for `${secrets.NAME}`; else they are variables `UNSTUCK_SECRET_<NAME>`.
    /// [default: `$UNSTUCK_SECRETS`]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    secrets: Option<PathBuf>,

    /// Let `http:` steps call this address or network too, such as 10.1.0.0/16; otherwise they call public addresses only.
    #[arg(long = "allow-address", value_name = "NETWORK", value_parser = Network::parse)]
    allowed_addresses: Vec<Network>,

    #[command(flatten)]
    store: LocalStoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck serve
  unstuck serve --listen 127.0.0.1:0 --store ./store --allow-run";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let listener =
            TcpListener::bind(self.listen).map_err(|error| describe_bind_error(self.listen, &error))?;
        let address = listener.local_addr().map_err(|error| cannot("find out its own address", &error))?;
        let place = self.store.place()?;
        if !place.has_store() {
            place.create_folder()?;
        }
        let store = open_store(&place)?;
        let secrets = find_secrets(self.secrets.clone())?;
        let load = self.max_load.unwrap_or_else(default_load);
        let processes = self.allow_run.then(|| Processes::new(load, secrets.clone()));
        let engine = Engine::new(
            store,
            compile_flow(),
            Settings { fires_schedules: true, ..engine::engine_settings(None)? },
        )?;
        let runtime = Runtime::start(engine, self.build_executors(processes.as_ref(), secrets), None);
        check_exposure(self.listen, &runtime.handle(), &place.option)?;
        let service = Service {
            option: place.option.clone(),
            serves: Some(format!("http://{address}")),
            allow_run: self.allow_run,
            ..Service::default()
        };
        let socket = socket::Server::start(&place.directory, service.clone(), runtime.handle())
            .map_err(|error| cannot("listen for commands in the folder of the store", &error))?;
        let app = App::new(service, runtime.handle(), self.settings());
        let served = serve(app, listener, processes, || announce(address, format));
        socket.close();
        let stopped = runtime.stop();
        served?;
        report_stop(stopped)
    }

    fn build_executors(&self, processes: Option<&Processes>, secrets: Secrets) -> Vec<Box<dyn Executor>> {
        let local: Box<dyn Executor> = match processes {
            Some(processes) => Box::new(processes.clone()),
            // It executes nothing, but ends processes that a killed engine has left.
            None => Box::new(ProcessExecutor::new(0)),
        };
        let addresses = AddressRules { allow_private: false, allowed: self.allowed_addresses.clone() };
        let emulation = EmulationExecutor::new(EMULATION_LOAD);
        vec![local, Box::new(http_executor(addresses, secrets)), Box::new(emulation)]
    }

    fn settings(&self) -> ServerSettings {
        let name = self.name.clone().unwrap_or_else(host_name);
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        ServerSettings {
            name: name.into(),
            directory: directory.to_string_lossy().into(),
            limits: Limits::default(),
        }
    }
}

/// Refuses to listen to other machines where there is no token that would keep anybody out.
fn check_exposure(listen: SocketAddr, handle: &Handle, option: &str) -> Result<(), CommandError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    let now = unstuck_service::service::now();
    if handle.reader().tokens()?.iter().all(|token| token.is_over(now)) {
        return Err(CommandError::new(format!(
            "{listen} is not an address of this machine alone, and without tokens everybody who reaches it could do everything. Make a token first (`unstuck token create NAME --role admin{option}`), or listen on 127.0.0.1 or [::1]"
        )));
    }
    Output::stderr().line(&format!(
        "warning: requests to {listen} are not encrypted, and their tokens can be read on the way. Put a proxy that speaks TLS in front"
    ));
    Ok(())
}

/// Opens a store that no other process may have.
fn open_store(place: &StoreLocation) -> Result<SqliteStore, CommandError> {
    SqliteStore::open(&place.directory).map_err(|error| match error {
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
    listener: TcpListener,
    processes: Option<Processes>,
    announce: impl FnOnce() -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("unstuck-http")
        .build()
        .map_err(|error| cannot("start the threads of the server", &error))?;
    let serving = async {
        let server = Server::new(app, listener).map_err(|error| cannot("listen", &error))?;
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
fn announce(address: SocketAddr, format: Format) -> Result<(), CommandError> {
    let url = format!("http://{address}");
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

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
