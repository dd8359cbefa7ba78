//! `unstuck policy pause` and `unpause`: all automatic resumes are switched off, and on again.

use std::process::ExitCode;

use unstuck_core::bulk::DEFAULT_RATE;
use unstuck_core::time::Time;

use super::words::count;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::text;
use unstuck_api::policies::SwitchView;
use unstuck_api::request::PolicyOperation;

/// Pause all automatic resumes.
///
/// Steps that come due stay in error and are shown as due. New errors are still matched and scheduled. Manual resumes
/// still work. `unstuck policy unpause` ends the pause.
#[derive(clap::Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct Pause {
    /// Why, shown with every scheduled resume.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    store: StoreArgument,
}

const PAUSE_EXAMPLES: &str = "\
Examples:
  unstuck policy pause --reason 'the provider is down until 18:00'";

/// Unpause automatic resumes.
///
/// Steps that came due in the meantime resume at a limited rate, not all at once.
#[derive(clap::Args)]
#[command(after_help = UNPAUSE_EXAMPLES)]
pub(crate) struct Unpause {
    /// Resume at most this many overdue steps a second.
    #[arg(long, alias = "pace", value_name = "N", default_value_t = DEFAULT_RATE, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,

    #[command(flatten)]
    store: StoreArgument,
}

const UNPAUSE_EXAMPLES: &str = "\
Examples:
  unstuck policy unpause
  unstuck policy unpause --rate 5";

impl Pause {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        if self.reason.trim().is_empty() {
            return Err(CommandError::new(
                "a pause needs a reason, which is shown with every scheduled resume; give it with --reason",
            ));
        }
        let place = self.store.place()?;
        let answer = place.change_policies(PolicyOperation::Pause { reason: self.reason })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let SwitchView { already, policies_paused, .. } = answer.read()?;
                if let Some(since) = policies_paused.filter(|_| already) {
                    paused_policies::show_already_paused(&since, &mut stdout);
                } else {
                    stdout.line("Automatic resumes are paused. Steps that come due wait in error.");
                    stdout.line(&format!("To unpause them: unstuck policy unpause{}", place.option));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Unpause {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let answer = self.store.place()?.change_policies(PolicyOperation::Unpause { rate: self.rate })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let SwitchView { already, was, due, .. } = answer.read()?;
                if already {
                    stdout.line("Automatic resumes are not paused.");
                } else {
                    let was = was.map_or_else(String::new, |was| {
                        let span = unstuck_service::service::now().since(Time(was.since.as_millisecond()));
                        format!(" They were paused for {span} by {}.", text::visible(&was.by))
                    });
                    stdout.line(&format!("Automatic resumes are on again.{was}"));
                }
                if due > 0 && !already {
                    let steps = count(due, "step is", "steps are");
                    stdout.line(&format!("{steps} due and will resume, at most {} a second.", self.rate));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
