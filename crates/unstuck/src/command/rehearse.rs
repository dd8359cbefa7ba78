//! `unstuck rehearse`: what a flow does when things go wrong, in virtual time, before they do.

mod faults;
mod gather;
mod outputs;
mod show;

use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, ValueEnum};
use serde::Serialize;
use unstuck_core::duration::parse_duration;
use unstuck_core::json::Json;
use unstuck_core::time::Millis;
use unstuck_flow::plan::Plan;
use unstuck_sim::rehearse::{self, EndKind, Keep, Rehearsal, Report, Timeline};

use crate::CommandResult;
use crate::Format;
use crate::access::location::LocalStoreArgument;
use crate::error::CommandError;
use crate::input::json_input;
use crate::view::json_text;
use crate::view::output::Output;

/// Rehearse a flow: see what it does when things go wrong, before they do.
///
/// The real engine runs the flow in virtual time with emulated workers and processes: days of back-off pass in
/// milliseconds, and the same seed prints the same result. The plan says what goes wrong; `--plan auto` tries every
/// fault at every step and lists those that the run does not survive. Nothing is executed, and no store is changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("store", |store| store.help(STORE)))]
pub(crate) struct Arguments {
    /// The flow file, YAML or JSON; `-` is stdin.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: String,

    /// The plan file, or `auto`. [default: nothing goes wrong]
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    plan: Option<String>,

    /// Policy files, as for `unstuck policy load`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    policies: Vec<String>,

    /// Rehearse this flow of the file. [default: the first]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// The input of every run: JSON, `@FILE`, or `-` for stdin.
    #[arg(short, long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Example outputs of steps, where other steps read them: a map such as `fetch: {rows: [1, 2]}`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    outputs: Vec<String>,

    /// Use the last recorded output of each step, from the runs of the store, as its example; --outputs comes first.
    #[arg(long)]
    outputs_from_store: bool,

    /// The number of runs. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,

    /// The number of emulated workers. [default: from the plan, else 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: Option<u32>,

    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Stop after this much virtual time. [default: from the plan, else 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    until: Option<Millis>,

    /// Which timelines to show. [default: the only run, else the first that does not complete]
    #[arg(long, value_enum, value_name = "WHICH")]
    timeline: Option<Whose>,

    /// With `--plan auto`: exit with 1 unless a run survives these faults at every step, for example
    /// `stall,crash,stick@encode`.
    #[arg(long, value_name = "FAULTS", value_delimiter = ',')]
    must_survive: Vec<String>,

    /// With `--plan auto`: try at most this many pairs of faults.
    #[arg(long, value_name = "N")]
    max_pairs: Option<u32>,

    /// Print on stderr how many runs a second were rehearsed.
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    store: LocalStoreArgument,
}

const STORE: &str = "Use the policies of the store in this folder, which is only read; --policies adds to them, or replaces those with the same name";

const EXAMPLES: &str = "\
Examples:
  unstuck rehearse examples/rehearsal/publish.yaml --plan examples/rehearsal/night.yaml
  unstuck rehearse nightly.yaml --plan storm.yaml --policies policies.yaml --runs 1000
  unstuck rehearse nightly.yaml --plan auto --must-survive stall,crash,stick
  unstuck rehearse nightly.yaml --plan auto --outputs outputs.yaml

A plan: {steps: {encode: {sequence: [stall, stick, pass], duration: 5m}}}";

/// Whose timeline is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// Every run.
    All,
    /// The first run.
    First,
    /// Every run that does not complete.
    Failed,
    /// None.
    None,
}

/// The plan that tries every fault.
const AUTO: &str = "auto";
/// How long a rehearsal goes on where nobody says.
const UNTIL: Millis = Millis::hours(30 * 24);
/// How many workers there are where nobody says.
const WORKERS: u32 = 4;
/// More events than anybody reads: a rehearsal that has them is going in circles.
const MOST_EVENTS: u64 = 20_000_000;

/// Parses a duration above zero.
fn parse_positive_duration(text: &str) -> Result<Millis, String> {
    match parse_duration(text)? {
        Millis::ZERO => Err("must be longer than zero".to_owned()),
        span => Ok(span),
    }
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        self.refuse_conflicting_arguments();
        let gathered = gather::gather(&self)?;
        let began = Instant::now();
        let is_auto = self.plan.as_deref() == Some(AUTO);
        let (code, rehearsed) = if is_auto {
            faults::execute(&self, &gathered, format)?
        } else {
            (self.rehearse_plan(gathered, format)?, self.runs.unwrap_or(1))
        };
        let mut stderr = Output::stderr();
        if self.stats || stderr.look.live {
            let seconds = began.elapsed().as_secs_f64();
            stderr.line(&format!(
                "{rehearsed} runs in {seconds:.2}s: {:.0} runs a second",
                f64::from(rehearsed) / seconds.max(1e-6)
            ));
        }
        Ok(code)
    }

    /// Ends the process with a usage error for options that need or exclude `--plan auto`.
    fn refuse_conflicting_arguments(&self) {
        let is_auto = self.plan.as_deref() == Some(AUTO);
        let refuse = |what: &str| -> ! {
            let mut command = crate::Arguments::command();
            crate::error::exit_with_usage_error(
                &command.error(clap::error::ErrorKind::ArgumentConflict, what),
            )
        };
        if !is_auto && !self.must_survive.is_empty() {
            refuse("--must-survive works only with --plan auto");
        }
        if !is_auto && self.max_pairs.is_some() {
            refuse("--max-pairs works only with --plan auto");
        }
        if is_auto && (self.runs.is_some() || self.timeline.is_some()) {
            refuse("--plan auto rehearses one run for each fault; leave out --runs and --timeline");
        }
    }

    /// Rehearses with a plan, and shows the report with its timelines.
    fn rehearse_plan(&self, rehearsal: Rehearsal, format: Format) -> Result<ExitCode, CommandError> {
        let whose = self.timelines_to_show();
        let rehearsal = Rehearsal { keep: whose.keep(), ..rehearsal };
        let played =
            rehearse::execute_plan(&rehearsal).map_err(|trouble| CommandError::new(trouble.to_string()))?;
        let report = rehearse::report(&rehearsal, &played);
        let timelines: Vec<Timeline> = self
            .runs_to_show(&report)
            .into_iter()
            .filter_map(|number| rehearse::timeline(&played, number))
            .collect();
        let mut stdout = Output::stdout();
        match format {
            Format::Text => show::show_rehearsal(&report, &timelines, &mut stdout),
            Format::Json => {
                stdout.line(&to_pretty_json(&Whole { report: &report, timelines: &timelines })?);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns which timelines to show; by default the only run, or those that fail.
    fn timelines_to_show(&self) -> Whose {
        let usual = if self.runs.unwrap_or(1) == 1 { Whose::First } else { Whose::Failed };
        self.timeline.unwrap_or(usual)
    }

    /// The numbers of the runs whose timelines are shown.
    fn runs_to_show(&self, report: &Report) -> Vec<u32> {
        let bad = || report.each.iter().filter(|end| end.end != EndKind::Completed).map(|end| end.number);
        match (self.timelines_to_show(), self.timeline) {
            (Whose::All, _) => (1..=report.runs).collect(),
            (Whose::First, _) => vec![1],
            (Whose::Failed, Some(_)) => bad().collect(),
            (Whose::Failed, None) => bad().take(1).collect(),
            (Whose::None, _) => Vec::new(),
        }
    }

    /// Returns the input of every run: from the command line, else the plan, else an empty object.
    fn input(&self, plan: &Plan) -> Result<Json, CommandError> {
        match (&self.input, &plan.input) {
            (Some(given), _) => json_input::parse(given, "--input"),
            (None, Some(planned)) => Ok(planned.clone()),
            (None, None) => json_input::parse("{}", "--input"),
        }
    }
}

impl Whose {
    fn keep(self) -> Keep {
        match self {
            Whose::All => Keep::All,
            Whose::First => Keep::First,
            Whose::Failed => Keep::NotCompleted,
            Whose::None => Keep::None,
        }
    }
}

/// A report with its timelines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    #[serde(flatten)]
    report: &'a Report,
    timelines: &'a [Timeline],
}

/// Formats a document for programs.
fn to_pretty_json(document: &impl Serialize) -> Result<String, CommandError> {
    let text = serde_json::to_string(document).map_err(|error| CommandError::internal(error.to_string()))?;
    Ok(json_text::pretty(&text))
}
