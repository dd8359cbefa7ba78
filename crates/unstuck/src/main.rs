//! The `unstuck` command: what may be asked on the command line, and how an answer that failed is shown.

mod check;
mod completions;
mod failure;
mod json_text;
mod output;
mod problems;
mod run;
mod schema;
mod source;
mod style;
mod text;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

/// A transition makes a handful of small allocations, and this makes them cheaper than the system's does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A workflow engine that gets stuck work going again, and says why.
#[derive(Parser)]
#[command(name = "unstuck", version, arg_required_else_help = true, after_help = EXAMPLES)]
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
  unstuck check flows/*.yaml               tell everything that is wrong with flow files
  unstuck schema > flow.schema.json        the JSON Schema, for an editor";

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Check(check::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
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
    let done = match arguments.command {
        Command::Run(run) => run.execute(format),
        Command::Check(check) => check.execute(format),
        Command::Schema(schema) => schema.execute(),
        Command::Completions(completions) => completions.execute(),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            failure.show(format);
            ExitCode::FAILURE
        }
    }
}

/// How a command ends: with an exit code, or with something to say on stderr.
pub(crate) type Done = Result<ExitCode, Failure>;
