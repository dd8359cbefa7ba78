//! `unstuck logs`: what the attempts of a run left behind when they did not go well.

use std::process::ExitCode;

use serde_json::json;
use unstuck_api as api;

use crate::desk::Shown;
use crate::desk::asked::Reading;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreArgument;
use crate::{Done, Format, style, text};

/// Show the logs of a run: the end of stderr and stdout of each attempt that did not go well.
///
/// Of each such attempt the last 8 KiB of stderr are kept, and the last 2 KiB of stdout; of an attempt that completed, its
/// output. Only the last attempts of a step are kept: see `unstuck show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only this step, `step[3]` for an item; a step with items with all of them.
    step: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck logs @latest
  unstuck logs run_0s86mke080000 'fetch[3]' -o json | jq -r '.logs[].text'";

/// What one attempt left.
struct Log<'a> {
    step: &'a str,
    attempt: &'a api::Attempt,
    cause: &'a str,
    text: &'a str,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        let shown: Shown = place.read(Reading::Show { run: self.run })?.read()?;
        let run: api::Run =
            serde_json::from_str(shown.run.get()).map_err(|error| Failure::new(error.to_string()))?;
        let wanted = self.step.as_deref();
        if let Some(step) = wanted.filter(|wanted| !run.steps.iter().any(|step| is_meant(&step.id, wanted))) {
            return Err(Failure::new(format!(
                "{} has no step `{step}`; `unstuck show {}{}` lists its steps",
                run.id, run.id, place.option
            )));
        }
        let logs = logs(&run, wanted);
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let logs: Vec<_> = logs.iter().map(document).collect();
                stdout.line(&crate::json_text::pretty(&json!({ "run": run.id, "logs": logs }).to_string()));
            }
            Format::Text if logs.is_empty() => {
                stdout.line("Nothing was kept: no attempt has failed and left a log.");
            }
            Format::Text => show(&logs, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a step is the one that was named, or an item of it.
fn is_meant(step: &str, wanted: &str) -> bool {
    step.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

fn logs<'a>(run: &'a api::Run, wanted: Option<&str>) -> Vec<Log<'a>> {
    let steps = run.steps.iter().filter(|step| wanted.is_none_or(|wanted| is_meant(&step.id, wanted)));
    let attempts = steps.flat_map(|step| step.attempts.iter().map(move |attempt| (step, attempt)));
    let logs = attempts.filter_map(|(step, attempt)| {
        let error = attempt.error.as_ref()?;
        let text = error.context.as_deref().unwrap_or_default();
        Some(Log { step: &step.id, attempt, cause: &error.cause, text })
    });
    logs.collect()
}

fn document(log: &Log<'_>) -> serde_json::Value {
    json!({
        "step": log.step,
        "attempt": log.attempt.attempt,
        "state": log.attempt.state,
        "cause": log.cause,
        "text": log.text,
    })
}

fn show(logs: &[Log<'_>], stdout: &mut Output) {
    for (place, log) in logs.iter().enumerate() {
        if place > 0 {
            stdout.line("");
        }
        let head = format!("{}, attempt {}: {}", log.step, log.attempt.attempt, log.attempt.state);
        stdout.line(&stdout.look.paint(style::BOLD, head));
        if log.text.is_empty() {
            stdout.line(&format!("  {}", text::visible(log.cause)));
        }
        for line in log.text.lines() {
            stdout.line(&format!("  {}", text::visible(line)));
        }
    }
}
