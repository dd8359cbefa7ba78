//! `unstuck policy apply`: policies are applied to what is in error already.

use std::process::ExitCode;

use super::words::count;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::text;
use unstuck_api::policies::{AppliedView, PassedView};
use unstuck_api::request::PolicyOperation;

/// Apply policies to steps that are already in error, and report what changed.
///
/// Every step in error is matched again, with the same delays. Steps that would already be due resume at a limited
/// pace, not all at once. Acknowledged steps are left alone.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Apply only these policies, by name. Without a name, all policies apply, and steps that no policy matches any
    /// more are unscheduled.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Resume at most this many overdue steps a second.
    #[arg(long, alias = "pace", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// Why, for the record.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy apply --dry-run
  unstuck policy apply
  unstuck policy apply resume-connection-reset --rate 5";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = PolicyOperation::Apply { names: self.names, rate: self.rate, reason: self.reason };
        let place = self.store.place()?;
        let answer = place.change_or_try_policies(what, self.dry_run)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let applied: AppliedView = answer.read()?;
                let AppliedView { moved, unscheduled, unchanged, dry_run, .. } = applied;
                let would_be = if dry_run { "would be " } else { "" };
                let mut parts = vec![format!("{} {would_be}scheduled", count(moved, "step", "steps"))];
                if unscheduled > 0 {
                    parts.push(format!("{unscheduled} unscheduled because no policy matches any more"));
                }
                parts.push(format!("{unchanged} unchanged"));
                stdout.line(&format!("{}.", parts.join(", ")));
                for line in describe_passed_policies(&applied, &place.option) {
                    stdout.line(&text::visible(&line));
                }
                paused_policies::show_paused(applied.policies_paused.as_ref(), &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Explains why named policies did not take steps that they match.
fn describe_passed_policies(applied: &AppliedView, option: &str) -> Vec<String> {
    let steps = |passed: &PassedView| count(passed.steps, "step", "steps");
    let outranked = applied.outranked.iter().map(|passed| {
        let (policy, by) = (&passed.policy, passed.by.as_deref().unwrap_or_default());
        format!("`{policy}` is outranked on {}: `{by}` matches first.", steps(passed))
    });
    let exhausted = applied.exhausted.iter().map(|passed| {
        let (policy, steps) = (&passed.policy, steps(passed));
        format!("`{policy}` is used up on {steps}. A manual resume resets its rounds.")
    });
    let disabled = applied.disabled.iter().map(|passed| {
        let (policy, steps) = (&passed.policy, steps(passed));
        let word = text::shell_word(policy);
        format!(
            "`{policy}` is disabled, but would match {steps}. To enable it: unstuck policy enable {word}{option}"
        )
    });
    outranked.chain(exhausted).chain(disabled).collect()
}
