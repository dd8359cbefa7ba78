//! The `unstuck` command: what may be asked on the command line, and how an answer that failed is shown.

mod access;
mod command;
mod configuration;
mod error;
mod exit;
mod input;
mod telemetry;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::error::CommandError;

/// A transition makes a handful of small allocations, and this makes them cheaper than the system's does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A workflow engine that recovers stuck work, and explains what it did.
#[derive(Parser)]
#[command(name = "unstuck", version, arg_required_else_help = true, after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::TABLE))]
pub(crate) struct Arguments {
    /// The output format: text for people, JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck run examples/first.yaml          run a flow and watch it recover
  unstuck run --continue                   continue the run that was interrupted last
  unstuck status                           what needs a person, what is running, what comes next
  unstuck runs --state held                list the runs that wait for an operator
  unstuck explain @latest                  why a run is in its state, and what you can do
  unstuck check flows/*.yaml               find every problem in flow files
  unstuck rehearse nightly.yaml -p auto    find the weak points of a flow before production does";

#[derive(Subcommand)]
enum Command {
    Run(command::run::Arguments),
    Serve(command::serve::Arguments),
    Start(command::start::Arguments),
    Flow(command::flow::Arguments),
    Schedule(command::schedule::Arguments),
    Runs(Box<command::runs::Arguments>),
    Status(command::status::Arguments),
    Watch(command::watch::Arguments),
    Show(command::show::Arguments),
    Items(command::items::Arguments),
    Payload(command::payload::Arguments),
    Explain(command::explain::Arguments),
    History(command::history::Arguments),
    Logs(command::logs::Arguments),
    Choose(command::choose::Arguments),
    Resume(command::resume::Arguments),
    Ack(command::ack::Arguments),
    Complete(command::complete::Arguments),
    Skip(command::skip::Arguments),
    Pause(command::pause::Arguments),
    Unpause(command::unpause::Arguments),
    Cancel(command::cancel::Arguments),
    Amend(command::amend::Arguments),
    Signal(command::signal::Arguments),
    Rerun(command::rerun::Arguments),
    Forget(command::forget::Arguments),
    Bulk(command::bulk::Arguments),
    Errors(command::errors::Arguments),
    Policy(command::policy::Arguments),
    Token(command::token::Arguments),
    Store(command::store::Arguments),
    Doctor(command::doctor::Arguments),
    Check(command::check::Arguments),
    Rehearse(Box<command::rehearse::Arguments>),
    Schema(command::schema::Arguments),
    Completions(command::completions::Arguments),
    Man(command::man::Arguments),
}

/// What goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| error::exit_with_usage_error(&error));
    let format = arguments.output;
    // A server has a log by its own configuration.
    let log = if let Command::Serve(_) = arguments.command { Ok(()) } else { telemetry::start_log() };
    let done = log.and_then(|()| execute(arguments.command, format));
    match done {
        Ok(code) => code,
        Err(failure) => {
            failure.show(format);
            failure.exit_code()
        }
    }
}

fn execute(command: Command, format: Format) -> CommandResult {
    match command {
        Command::Run(run) => run.execute(format),
        Command::Serve(serve) => serve.execute(format),
        Command::Start(start) => start.execute(format),
        Command::Flow(flow) => flow.execute(format),
        Command::Schedule(schedule) => schedule.execute(format),
        Command::Runs(runs) => runs.execute(format),
        Command::Status(status) => status.execute(format),
        Command::Watch(watch) => watch.execute(format),
        Command::Show(show) => show.execute(format),
        Command::Items(items) => items.execute(format),
        Command::Payload(payload) => payload.execute(),
        Command::Explain(explain) => explain.execute(format),
        Command::History(history) => history.execute(format),
        Command::Logs(logs) => logs.execute(format),
        Command::Choose(choose) => choose.execute(format),
        Command::Resume(resume) => resume.execute(format),
        Command::Ack(ack) => ack.execute(format),
        Command::Complete(complete) => complete.execute(),
        Command::Skip(skip) => skip.execute(format),
        Command::Pause(pause) => pause.execute(format),
        Command::Unpause(unpause) => unpause.execute(format),
        Command::Cancel(cancel) => cancel.execute(format),
        Command::Amend(amend) => amend.execute(format),
        Command::Signal(signal) => signal.execute(format),
        Command::Rerun(rerun) => rerun.execute(format),
        Command::Forget(forget) => forget.execute(format),
        Command::Bulk(bulk) => bulk.execute(format),
        Command::Errors(errors) => errors.execute(format),
        Command::Policy(policy) => policy.execute(format),
        Command::Token(token) => token.execute(format),
        Command::Store(store) => store.execute(format),
        Command::Doctor(doctor) => doctor.execute(format),
        Command::Check(check) => check.execute(format),
        Command::Rehearse(rehearse) => rehearse.execute(format),
        Command::Schema(schema) => schema.execute(),
        Command::Completions(completions) => completions.execute(),
        Command::Man(man) => man.execute(),
    }
}

/// How a command ends: with an exit code, or with something to say on stderr.
pub(crate) type CommandResult = Result<ExitCode, CommandError>;
