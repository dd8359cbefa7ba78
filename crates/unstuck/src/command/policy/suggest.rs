//! `unstuck policy suggest`: a policy for a group of errors, as a file.

use std::process::ExitCode;
use unstuck_service::local_time;

use unstuck_flow::policies::to_yaml;

use super::load;
use super::trial::{self, When};
use super::words::count;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::errors::{ErrorGroupDetails, ErrorGroupView};
use unstuck_api::policies::PoliciesView;
use unstuck_api::request::{PolicyToTry, Query, TrialQuery};
use unstuck_api::trials::{SuggestionView, TrialsView};
use unstuck_service::errors::suggest_policy;

/// Write a policy for a group of errors: a file to review, change and load.
///
/// The file goes to stdout; what the policy would match now goes to stderr. Changes nothing. For errors that a retry
/// cannot fix (fatal errors, bad input, program errors such as a `TypeError`) no policy is suggested.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The group of errors as `unstuck errors` shows it, or the start of its name.
    group: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy suggest err_3f2a9c1e0b44 > reset.yaml
  unstuck policy load reset.yaml";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let page: ErrorGroupDetails = place.read(Query::ErrorGroup { group: self.group })?.read()?;
        let known: PoliciesView = place.read(Query::Policies)?.read()?;
        let names: Vec<&str> = known.policies.iter().map(|line| line.policy.name.as_str()).collect();
        let draft = suggest_policy(&page.line, &names).map_err(|why| {
            let group = &page.line.group;
            CommandError::new(format!("no policy would help with {group}: {why}"))
        })?;
        let policy = load::document_of_draft(&draft)?;
        let of = TrialQuery { policies: PolicyToTry::Drafts(vec![policy.clone()]), past: None };
        let TrialsView { trials } = place.read(Query::Trial(of))?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let trial = trials.into_iter().next();
                let suggestion = SuggestionView { yaml: to_yaml(&policy), policy, trial };
                let json = serde_json::to_string(&suggestion)
                    .map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => {
                stdout.text(&format!("{}{}", head_comment(&page.line), to_yaml(&policy)));
                let mut stderr = Output::stderr();
                for found in &trials {
                    trial::show_trial(found, When::Now, &mut stderr);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats the comment at the head of the file: the group and its counts.
fn head_comment(group: &ErrorGroupView) -> String {
    let flows: Vec<String> =
        group.flows.iter().map(|flow| format!("{} in {}", flow.count, flow.flow)).collect();
    let text = [
        format!("{}: {}", group.group, group.pattern),
        format!(
            "{} ({}), the last at {}",
            count(group.count, "error", "errors"),
            flows.join(", "),
            local_time::format_full(group.last)
        ),
    ];
    let lines: Vec<String> = text.iter().map(|line| format!("# {}\n", text::visible(line))).collect();
    lines.concat()
}
