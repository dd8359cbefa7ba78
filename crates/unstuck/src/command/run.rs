//! `unstuck run`: runs a flow of a file in this process, shows its progress, and reports the result in its exit code.

mod backlog;
mod begin;
pub(crate) mod executors;
mod finish;
mod log;
pub(crate) mod processes;
mod remote;
mod screen;
mod seed;
mod show;
pub(crate) mod signals;
mod tree;
mod turn;
mod view;
mod watch;

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use unstuck_client::{ClientError, StreamMessage};
use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;

use self::backlog::{Backlog, Teller};
use self::begin::Begun;
use self::executors::{Executors, find_secrets};
use self::remote::Wanted;
use self::turn::NotBegun;
use self::watch::Watch;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::{CommandError, without_os_number};
use crate::input::json_input;
use crate::input::source::STDIN;

/// Run a flow, and show what happens and why.
///
/// With --server, or if a server has the store open, the flow is applied and run there: Ctrl-C only stops showing it, and `--continue` shows it
/// again. Otherwise it is run by this process.
///
/// The first flow of the file is run; the others are its children and exception handlers, which can also be flows that
/// are already in the store. The run is kept in the store: if this command ends early, `unstuck run --continue`
/// continues from the last completed step.
///
/// Only one process at a time executes the runs of a store: a second one says so and waits. If the key already has a
/// run, the command answers at once.
///
/// Exit code: 0 completed, 1 failed, cancelled or in error, 3 held for an operator, 4 another process is executing the
/// run of this key, 5 refused and nothing was started; `unstuck --help` lists all codes. Ctrl-C interrupts the run,
/// which can be continued; a second Ctrl-C ends its processes at once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The flow file, YAML or JSON; `-` is stdin.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath, required_unless_present = "go_on")]
    file: Option<String>,

    /// The input: JSON, `@FILE`, or `-` for stdin.
    #[arg(short, long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// The key of the run. If the flow already has a run with this key, that run is shown and continued.
    #[arg(short, long)]
    key: Option<String>,

    /// If the key already has a run: show and continue it, start it again if it is final (with --input if given, else
    /// with its own input), or refuse.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnDuplicate::Return, requires = "key")]
    on_duplicate: OnDuplicate,

    /// Give the run a label, to find it by: `--label team=media`; repeat it for several. If the key already has a run,
    /// that run keeps its own.
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::command::runs::parse_label)]
    label: Vec<(String, String)>,

    /// Run this flow of the file. [default: the first]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Continue an interrupted run. [default: the newest]
    #[arg(long = "continue", value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["file", "input", "key", "on_duplicate", "label", "flow"])]
    #[expect(clippy::option_option, reason = "without the option, with it alone, with a run")]
    go_on: Option<Option<String>>,

    /// The total load that local processes may take at once. [default: twice the cores, at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_load: Option<u32>,

    /// A folder of secrets, one file each, for `${secrets.NAME}`; else they are variables `UNSTUCK_SECRET_<NAME>`.
    /// [default: `$UNSTUCK_SECRETS`]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    secrets: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck run examples/first.yaml
  unstuck run --continue
  unstuck run order.yaml --input '{\"order\": 17}' --key order-17
  unstuck run order.yaml --key order-17 --on-duplicate restartIfFinal
  unstuck run order.yaml --label team=media --label customer=17
  unstuck run order.yaml --input @order.json -o json | jq .state
  unstuck run order.yaml --server http://127.0.0.1:7070";

/// What to do where the key has a run already.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[clap(rename_all = "camelCase")]
pub(crate) enum OnDuplicate {
    Return,
    RestartIfFinal,
    Refuse,
}

impl From<OnDuplicate> for unstuck_api::request::OnDuplicate {
    fn from(what: OnDuplicate) -> unstuck_api::request::OnDuplicate {
        match what {
            OnDuplicate::Return => unstuck_api::request::OnDuplicate::Return,
            OnDuplicate::RestartIfFinal => unstuck_api::request::OnDuplicate::RestartIfFinal,
            OnDuplicate::Refuse => unstuck_api::request::OnDuplicate::Refuse,
        }
    }
}

/// A message to the thread that shows the run.
enum Message {
    Happened(RunId, Event),
    /// A signal has come, see [`Backlog::signal`].
    Signal,
    EngineGone,
    /// A server has told something of the run that it executes.
    Told(StreamMessage),
    /// It tells nothing more.
    StreamEnded(ClientError),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        if self.file.as_deref() == Some(STDIN) && self.input.as_deref() == Some(STDIN) {
            return Err(CommandError::new(
                "the flow and its input cannot both come from stdin; put one of them in a file",
            ));
        }
        let place = self.store.place()?;
        let wanted = self.wanted()?;
        let ((sender, receiver), backlog) = (channel(), Backlog::default());
        if let Some(server) = place.server.clone() {
            self.check_remote_options()?;
            listen_for_signals(&sender, &backlog, || ())?;
            return remote::execute(place, server, &wanted, (sender, &receiver), backlog, format);
        }
        let executors =
            Executors::new(self.max_load.unwrap_or_else(default_load), find_secrets(self.secrets.clone())?);
        let processes = executors.processes.clone();
        listen_for_signals(&sender, &backlog, move || processes.kill())?;
        let teller = Teller { sender: sender.clone(), backlog: backlog.clone() };
        let begun = match &wanted {
            Wanted::Continue(name) => begin::continue_run(&place, *name, &executors, teller),
            Wanted::Start(order) => begin::start(&place, order, &executors, teller),
        };
        let Begun { runtime, service, tree, notes } = match begun {
            Ok(begun) => begun,
            Err(NotBegun::Served(url)) => {
                self.check_remote_options()?;
                let server = place.client_of(&url)?;
                return remote::execute(place, server, &wanted, (sender, &receiver), backlog, format);
            }
            Err(not_begun) => return not_begun.end(format, self.key.as_deref().unwrap_or_default()),
        };
        drop(sender);
        Watch::new(place, runtime, service, tree, format, &notes, backlog).watch_to_end(&receiver)
    }

    /// Returns what is asked for: a new run, or one that is there.
    fn wanted(&self) -> Result<Wanted<'_>, CommandError> {
        match (&self.go_on, &self.file) {
            (Some(name), _) => Ok(Wanted::Continue(name.as_deref())),
            (None, Some(file)) => Ok(Wanted::Start(begin::Order {
                file,
                flow: self.flow.as_deref(),
                input: self.input()?,
                is_input_given: self.input.is_some(),
                key: self.key.as_deref(),
                on_duplicate: self.on_duplicate.into(),
                labels: &self.label,
            })),
            (None, None) => Err(CommandError::new("name a flow file, or use --continue")),
        }
    }

    /// Refuses options that are about processes of this command, where a server executes the run.
    fn check_remote_options(&self) -> Result<(), CommandError> {
        let given = [("--max-load", self.max_load.is_some()), ("--secrets", self.secrets.is_some())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(CommandError::new(format!(
                "{option} is for a run in this process, and a server executes this one; give it to `unstuck serve`"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the input; by default an empty object.
    fn input(&self) -> Result<Json, CommandError> {
        json_input::parse(self.input.as_deref().unwrap_or("{}"), "--input")
    }
}

pub(crate) fn default_load() -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores * 2).unwrap_or(u32::MAX).max(4)
}

/// Listens for signals: the first interrupts the run, or what shows it, the second kills its processes.
fn listen_for_signals(
    sender: &Sender<Message>,
    backlog: &Backlog,
    second: impl FnOnce() + Send + 'static,
) -> Result<(), CommandError> {
    let (sender, backlog) = (sender.clone(), backlog.clone());
    let first = move |signal| {
        backlog.interrupt(signal);
        // The receiver is gone once the run has ended; then the signal changes nothing.
        drop(sender.send(Message::Signal));
    };
    signals::listen(first, second).map_err(|error| {
        CommandError::new(format!("cannot listen for Ctrl-C: {}", without_os_number(&error)))
    })
}
