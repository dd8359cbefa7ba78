//! `unstuck policy load`: policies of files are kept, all of them or none.

use std::process::ExitCode;

use unstuck_core::policy::{PolicyDraft, PolicyProblem};
use unstuck_flow::Problem;
use unstuck_flow::policies::{self, LoadedPolicies, LoadedPolicy};

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::{CommandError, Refused};
use crate::input::source::{STDIN, Source};
use crate::view::output::Output;
use crate::view::problems;
use crate::view::style;
use crate::view::text;
use unstuck_api::policies::{PolicyChangesView, PolicyDocument};
use unstuck_api::request::PolicyOperation;

/// Load policies from files: all of them or none.
///
/// A file is YAML or JSON with one policy, a list of policies, or several documents. If anything is wrong, every
/// problem is shown with its place, and nothing is changed. Loaded policies apply to new errors; `unstuck policy apply`
/// applies them to existing ones.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The policy files; `-` is stdin.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,

    /// Replace existing policies with the same id or name.
    #[arg(long)]
    replace: bool,

    /// Replace all policies: those that are not in the files are deleted.
    #[arg(long, conflicts_with = "replace")]
    replace_all: bool,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy load reset.yaml
  unstuck policy load policies/*.yaml --replace
  unstuck policy load policies/*.yaml --replace-all --dry-run
  unstuck policy export -o json | unstuck policy load - --store other";

/// A file, and the policies in it.
pub(crate) struct PolicyFile {
    source: Source,
    pub(crate) policies: Vec<LoadedPolicy>,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let files = read_policy_files(&self.files)?;
        let drafts = documents_of_files(&files)?;
        let what = if self.replace_all {
            PolicyOperation::Set { drafts }
        } else {
            PolicyOperation::Load { drafts, replace: self.replace }
        };
        let answer = place.change_or_try_policies(what, self.dry_run)?;
        let ordered: PolicyChangesView = answer.read()?;
        if !ordered.refused.is_empty() {
            return Err(locate_refusals(files, &ordered));
        }
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                show_changes(&ordered, &mut stdout);
                let word = if ordered.changes.len() == 1 { "Applies" } else { "Apply" };
                if !ordered.changes.is_empty() && !ordered.dry_run {
                    stdout.line(&format!(
                        "{word} to new errors. To include existing ones: unstuck policy apply{}",
                        place.option
                    ));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows what was done to each policy.
pub(super) fn show_changes(ordered: &PolicyChangesView, stdout: &mut Output) {
    for change in &ordered.changes {
        let version = match change.version {
            Some(version) if version > 1 => format!(" (version {version})"),
            Some(_) | None => String::new(),
        };
        let name = stdout.look.paint(style::BOLD, format!("`{}`", change.policy));
        if ordered.dry_run {
            stdout.line(&format!("{name} would be {}{version}.", change.what));
        } else {
            stdout.line(&format!("{} {name}{version}.", text::capitalised(&change.what)));
        }
    }
    for new in &ordered.not_replaced {
        let warning = stdout.look.paint(style::LATER, "warning:");
        let had = match &new.id {
            Some(id) => format!("no policy has the id {id} or the name `{}`", new.policy),
            None => format!("no policy has the name `{}`", new.policy),
        };
        let was = if ordered.dry_run { ("it would be", "would be") } else { ("it was", "was") };
        let what = format!("{had} yet: {} added, and nothing {} replaced", was.0, was.1);
        stdout.line(&format!("{warning} {}", text::visible(&what)));
    }
    if ordered.dry_run && ordered.changes.is_empty() {
        stdout.line("Nothing would be changed.");
    }
    for name in &ordered.unchanged {
        stdout.line(&text::visible(&format!("`{name}` is unchanged.")));
    }
    for shadowed in &ordered.shadowed {
        let warning = stdout.look.paint(style::LATER, "warning:");
        let what =
            format!("`{}` can never match: `{}` matches the same errors first", shadowed.policy, shadowed.by);
        stdout.line(&format!("{warning} {}", text::visible(&what)));
    }
}

/// Reads policies from files. Problems are an error; warnings are shown.
pub(crate) fn read_policy_files(files: &[String]) -> Result<Vec<PolicyFile>, CommandError> {
    if files.iter().filter(|file| *file == STDIN).count() > 1 {
        return Err(CommandError::new("stdin can be read only once; name `-` once"));
    }
    let (mut read, mut refused) = (Vec::new(), Vec::new());
    let mut stderr = Output::stderr();
    for file in files {
        let source = Source::read(file)?;
        match policies::load(&source.text, &source.file) {
            Ok(LoadedPolicies { policies, warnings }) => {
                for warning in &warnings {
                    stderr.line(&problems::format_problem(warning, &source.text, stderr.look));
                }
                read.push(PolicyFile { source, policies });
            }
            Err(problems) => refused.push(Refused { file: source.file, text: source.text, problems }),
        }
    }
    if refused.is_empty() { Ok(read) } else { Err(CommandError::Refused(refused)) }
}

/// Converts the policies of files to their wire form.
pub(super) fn documents_of_files(files: &[PolicyFile]) -> Result<Vec<PolicyDocument>, CommandError> {
    files.iter().flat_map(|file| &file.policies).map(|policy| document_of_draft(&policy.draft)).collect()
}

/// Converts a draft to its wire form.
pub(super) fn document_of_draft(draft: &PolicyDraft) -> Result<PolicyDocument, CommandError> {
    let refuse = |problems: Vec<PolicyProblem>| {
        CommandError::new(problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; "))
    };
    policies::document_of_draft(draft).map_err(refuse)
}

/// Builds the error for policies that the store refused, at their positions in the files.
fn locate_refusals(files: Vec<PolicyFile>, ordered: &PolicyChangesView) -> CommandError {
    let mut refused = Vec::new();
    let mut first = 0;
    for PolicyFile { source, policies } in files {
        let here = first..first + policies.len();
        let problems: Vec<Problem> = ordered
            .refused
            .iter()
            .filter(|draft| here.contains(&draft.place))
            .map(|draft| {
                policies[draft.place - first].problem_at_field(&draft.field, &draft.message, &draft.hint)
            })
            .collect();
        first = here.end;
        if !problems.is_empty() {
            refused.push(Refused { file: source.file, text: source.text, problems });
        }
    }
    CommandError::Refused(refused)
}
