//! The `unstuck` command: what may be asked on the command line, and how an answer that failed is shown.

mod ack;
mod ask;
mod bulk;
mod cancel;
mod changed;
mod check;
mod choose;
mod complete;
mod completions;
mod desk;
mod engine;
mod errors;
mod exit;
mod explain;
mod failure;
mod forget;
mod history;
mod json_input;
mod json_text;
mod logs;
mod man;
mod moment;
mod output;
mod pause;
mod paused;
mod place;
mod policy;
mod problems;
mod rehearse;
mod rerun;
mod resume;
mod run;
mod runs;
mod schema;
mod show;
mod signal;
mod skip;
mod socket;
mod source;
mod status;
mod store;
mod style;
mod table;
mod telemetry;
mod text;
mod unpause;
mod who;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

/// A transition makes a handful of small allocations, and this makes them cheaper than the system's does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A workflow engine that gets stuck work going again, and says why.
#[derive(Parser)]
#[command(name = "unstuck", version, arg_required_else_help = true, after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::TABLE))]
pub(crate) struct Arguments {
    /// What goes to stdout: text for people, or JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck run examples/first.yaml          run a flow and watch it recover
  unstuck run --continue                   go on with the run that was interrupted last
  unstuck status                           what needs a person, who executes, what comes next
  unstuck runs --state held                list the runs that wait for a person
  unstuck explain @latest                  why a run is where it is, and what you can do
  unstuck check flows/*.yaml               tell everything that is wrong with flow files
  unstuck rehearse nightly.yaml -p auto    find the weak points of a flow before production does";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Runs(runs::Arguments),
    Status(status::Arguments),
    Show(show::Arguments),
    Explain(explain::Arguments),
    History(history::Arguments),
    Logs(logs::Arguments),
    Choose(choose::Arguments),
    Resume(resume::Arguments),
    Ack(ack::Arguments),
    Complete(complete::Arguments),
    Skip(skip::Arguments),
    Pause(pause::Arguments),
    Unpause(unpause::Arguments),
    Cancel(cancel::Arguments),
    Signal(signal::Arguments),
    Rerun(rerun::Arguments),
    Forget(forget::Arguments),
    Bulk(bulk::Arguments),
    Errors(errors::Arguments),
    Policy(policy::Arguments),
    Store(store::Arguments),
    Check(check::Arguments),
    Rehearse(Box<rehearse::Arguments>),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// What goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = arguments.output;
    let done = telemetry::begin().and_then(|()| execute(arguments.command, format));
    match done {
        Ok(code) => code,
        Err(failure) => {
            failure.show(format);
            failure.exit_code()
        }
    }
}

fn execute(command: Command, format: Format) -> Done {
    match command {
        Command::Run(run) => run.execute(format),
        Command::Runs(runs) => runs.execute(format),
        Command::Status(status) => status.execute(format),
        Command::Show(show) => show.execute(format),
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
        Command::Signal(signal) => signal.execute(format),
        Command::Rerun(rerun) => rerun.execute(format),
        Command::Forget(forget) => forget.execute(format),
        Command::Bulk(bulk) => bulk.execute(format),
        Command::Errors(errors) => errors.execute(format),
        Command::Policy(policy) => policy.execute(format),
        Command::Store(store) => store.execute(format),
        Command::Check(check) => check.execute(format),
        Command::Rehearse(rehearse) => rehearse.execute(format),
        Command::Schema(schema) => schema.execute(),
        Command::Completions(completions) => completions.execute(),
        Command::Man(man) => man.execute(),
    }
}

/// How a command ends: with an exit code, or with something to say on stderr.
pub(crate) type Done = Result<ExitCode, Failure>;
