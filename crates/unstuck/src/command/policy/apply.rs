//! `unstuck policy apply`: policies are applied to what is in error already.

use std::process::ExitCode;

use super::words::count;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::text;
use unstuck_service::AppliedView;
use unstuck_service::change_policies::PassedView;
use unstuck_service::request::PolicyOperation;

/// Apply policies to what is in error already, and tell what that moves.
///
/// Every step in error is matched anew, with the same delays. What would be due already is resumed from now on at a pace,
/// and not all at once. What is acknowledged is left as it is.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only what the policies of these names take; without any, all of them, and what none takes any more is resumed no
    /// more.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// So many steps a second are resumed, of those that would be due already.
    #[arg(long, alias = "pace", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy apply
  unstuck policy apply resume-connection-reset --rate 5";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = PolicyOperation::Apply { names: self.names, rate: self.rate };
        let place = self.store.place()?;
        let answer = place.change_policies(what)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let applied: AppliedView = answer.read()?;
                let AppliedView { moved, unscheduled, unchanged, .. } = applied;
                let mut parts = vec![format!("{} moved", count(moved, "step", "steps"))];
                if unscheduled > 0 {
                    parts.push(format!("{unscheduled} that no policy takes any more"));
                }
                parts.push(format!("{unchanged} as before"));
                stdout.line(&format!("{}.", parts.join(", ")));
                for line in passed(&applied, &place.option) {
                    stdout.line(&text::visible(&line));
                }
                paused_policies::tell(applied.policies_paused.as_ref(), &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Why policies that were named do not take steps that they are about.
fn passed(applied: &AppliedView, option: &str) -> Vec<String> {
    let steps = |passed: &PassedView| count(passed.steps, "step", "steps");
    let outranked = applied.outranked.iter().map(|passed| {
        let (policy, by) = (&passed.policy, passed.by.as_deref().unwrap_or_default());
        format!(
            "`{policy}` is outranked by `{by}` on {}: `{by}` comes before it and takes them.",
            steps(passed)
        )
    });
    let exhausted = applied.exhausted.iter().map(|passed| {
        let (policy, steps) = (&passed.policy, steps(passed));
        format!("`{policy}` is used up on {steps}; a manual resume gives it its rounds back.")
    });
    let disabled = applied.disabled.iter().map(|passed| {
        let (policy, steps) = (&passed.policy, steps(passed));
        let word = text::shell_word(policy);
        format!(
            "`{policy}` is disabled, and would take {steps}. Enable it: unstuck policy enable {word}{option}"
        )
    });
    outranked.chain(exhausted).chain(disabled).collect()
}
