//! `unstuck policy suggest`: a policy for a group of errors, as a file.

use std::process::ExitCode;

use serde::Serialize;
use unstuck_core::policy::{PolicyDraft, PolicyProblem};
use unstuck_flow::policies::PolicyDocument;

use super::trial::{self, When};
use super::words::count;
use crate::desk::asked::{Reading, TrialOf, Tried};
use crate::desk::errors::{GroupLine, GroupPage};
use crate::desk::policies::PolicyLine;
use crate::desk::trial::Trial;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreArgument;
use crate::{Done, Format, json_text, local_time, text};

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

/// What is suggested, for programs.
#[derive(Serialize)]
struct Suggestion<'a> {
    policy: &'a PolicyDocument,
    preview: Option<&'a Trial>,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        let page: GroupPage = place.read(Reading::ErrorGroup { group: self.group })?.read()?;
        let known: Vec<PolicyLine> = place.read(Reading::Policies)?.read()?;
        let names: Vec<&str> = known.iter().map(|line| line.policy.name.as_str()).collect();
        let draft = page.line.policy(&names).map_err(|why| {
            let group = &page.line.group;
            Failure::new(format!("no policy would help with {group}: {why}"))
        })?;
        let policy = document(&draft)?;
        let of = TrialOf { policies: Tried::Drafts(vec![draft]), past: None };
        let trials: Vec<Trial> = place.read(Reading::Trial(of))?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let suggestion = Suggestion { policy: &policy, preview: trials.first() };
                let json =
                    serde_json::to_string(&suggestion).map_err(|error| Failure::new(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => {
                stdout.text(&format!("{}{}", comment(&page.line), policy.to_yaml()));
                let mut stderr = Output::stderr();
                for found in &trials {
                    trial::show(found, When::Now, &mut stderr);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the group is, at the head of the file.
fn comment(group: &GroupLine) -> String {
    let flows: Vec<String> =
        group.flows.iter().map(|flow| format!("{} in {}", flow.count, flow.flow)).collect();
    let text = [
        format!("{}: {}", group.group, group.pattern),
        format!(
            "{} ({}), the last at {}",
            count(group.count, "error", "errors"),
            flows.join(", "),
            local_time::full(group.last)
        ),
    ];
    let lines: Vec<String> = text.iter().map(|line| format!("# {}\n", text::visible(line))).collect();
    lines.concat()
}

/// As it is written in a file: without the id that it has not got yet.
fn document(draft: &PolicyDraft) -> Result<PolicyDocument, Failure> {
    let policy = draft.check(&"".into(), 0);
    let told = |problems: Vec<PolicyProblem>| {
        Failure::new(problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; "))
    };
    Ok(PolicyDocument { id: None, ..PolicyDocument::of(&policy.map_err(told)?) })
}
