//! `unstuck check`: finds every problem in flow files.

use serde::Serialize;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_flow::{Problem, Severity};
use unstuck_service::local_time::format_full;
use unstuck_service::schedules;

use crate::CommandResult;
use crate::Format;
use crate::error::CommandError;
use crate::exit;
use crate::input::source::Source;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::problems::{self, Counts, number_of};
use crate::view::style;

/// Find every problem in flow files.
///
/// Each problem names its place and a fix. The exit code is 1 if a file is refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The flow files; `-` is stdin.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,

    /// Exit with 1 for warnings, too.
    #[arg(long)]
    deny_warnings: bool,
}

const EXAMPLES: &str = "\
Examples:
  unstuck check flows/*.yaml
  unstuck check --deny-warnings -o json nightly.yaml";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let mut stdout = Output::stdout();
        let mut all = Vec::new();
        let mut files = Vec::new();
        for file in &self.files {
            let checked = Checked::of(file);
            if format == Format::Text {
                stdout.text(&checked.to_text(&stdout));
            }
            files.push(checked.summary());
            all.extend(checked.problems);
        }
        let counts = Counts::of(&all);
        match format {
            Format::Json => {
                let json = serde_json::to_string(&Document { files: &files, problems: &all })
                    .map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text if self.files.len() > 1 && counts != Counts::default() => {
                stdout.line(&format!("{counts} in {}", number_of(self.files.len(), "file")));
            }
            Format::Text => {}
        }
        stdout.finish()?;
        let refused = counts.errors > 0 || (self.deny_warnings && counts.warnings > 0);
        Ok(exit::of(!refused))
    }
}

/// All of it, for programs.
#[derive(Serialize)]
struct Document<'a> {
    files: &'a [FileSummary],
    problems: &'a [Problem],
}

/// A file, and what has come of it.
#[derive(Serialize)]
struct FileSummary {
    file: String,
    flows: usize,
    steps: usize,
    errors: usize,
    warnings: usize,
}

/// A file that was looked at.
struct Checked<'a> {
    file: &'a str,
    text: String,
    problems: Vec<Problem>,
    flows: usize,
    steps: usize,
    /// The schedules in it, each with its next times.
    schedules: Vec<String>,
}

impl Checked<'_> {
    /// Reads and checks a file; one that cannot be read is a problem too.
    fn of(file: &str) -> Checked<'_> {
        let mut checked = Checked {
            file,
            text: String::new(),
            problems: Vec::new(),
            flows: 0,
            steps: 0,
            schedules: Vec::new(),
        };
        let source = match Source::read(file) {
            Ok(source) => source,
            Err(failure) => {
                checked.problems.push(unreadable_file_problem(file, failure.sentence()));
                return checked;
            }
        };
        // Children and handlers must be in the same file: no store is known here.
        match source.load(&|_| false) {
            Ok(loaded) => {
                checked.flows = loaded.flows.len();
                checked.steps = loaded.flows.iter().map(|flow| flow.steps.len()).sum();
                checked.schedules = loaded.flows.iter().filter_map(describe_schedule).collect();
                checked.problems = loaded.warnings_at(Time(jiff::Timestamp::now().as_millisecond()));
            }
            Err(problems) => checked.problems = problems,
        }
        checked.text = source.text;
        checked
    }

    fn summary(&self) -> FileSummary {
        let Counts { errors, warnings } = Counts::of(&self.problems);
        FileSummary { file: self.file.to_owned(), flows: self.flows, steps: self.steps, errors, warnings }
    }

    /// Formats the problems of the file and its summary.
    fn to_text(&self, stdout: &Output) -> String {
        let look = stdout.look;
        let mut shown = String::new();
        for problem in &self.problems {
            shown += &problems::format_problem(problem, &self.text, look);
            shown.push('\n');
        }
        let file = look.paint(anstyle::Style::new(), self.file);
        let counts = Counts::of(&self.problems);
        if counts.errors > 0 {
            return shown + &format!("{file}: {} ({counts})\n", look.paint(style::BAD, "refused"));
        }
        let mut holds = vec![number_of(self.flows, "flow"), number_of(self.steps, "step")];
        if counts.warnings > 0 {
            holds.push(counts.to_string());
        }
        let schedules: String = self.schedules.iter().flat_map(|schedule| ["  ", schedule, "\n"]).collect();
        shown + &format!("{file}: {} ({})\n{schedules}", look.paint(style::GOOD, "ok"), holds.join(", "))
    }
}

/// Builds the problem of a file that cannot be read.
fn unreadable_file_problem(file: &str, message: String) -> Problem {
    Problem {
        file: file.to_owned(),
        line: 1,
        column: 1,
        field: String::new(),
        message,
        hint: None,
        severity: Severity::Error,
    }
}

/// How many of the next times of a schedule are shown.
const SHOWN_TIMES: usize = 3;

/// The schedule of a flow, with the first of its next times.
fn describe_schedule(flow: &Flow) -> Option<String> {
    let spec = flow.schedule.as_ref()?;
    let next = schedules::next_times(spec);
    let times: Vec<String> = next.iter().take(SHOWN_TIMES).map(|at| format_full(*at)).collect();
    Some(format!("`{}` is scheduled ({}); next: {}", flow.name, spec.timing, times.join(", ")))
}
