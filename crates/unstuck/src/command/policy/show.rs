//! `unstuck policy show`: one policy, with what it has done and what was changed of it.

use std::process::ExitCode;

use unstuck_core::time::Time;

use super::{audit, words};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::text;
use unstuck_api::policies::PolicyDetails;
use unstuck_api::request::Query;

/// Show one policy: its rules, what it has done, and who changed it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The name or id of the policy.
    name: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy show resume-connection-reset";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let answer = self.store.place()?.read(Query::Policy { name: self.name })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_policy(&answer.read()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows one policy: its position, its rules, its hits and its last changes.
fn show_policy(page: &PolicyDetails, stdout: &mut Output) {
    let PolicyDetails { line, place, of, changes } = page;
    let policy = &line.policy;
    let is_on = policy.enabled != Some(false);
    let name = stdout.look.paint(style::BOLD, format!("`{}`", policy.name));
    let state = if is_on { "is checked" } else { "is disabled; if enabled, it is checked" };
    let order = match *place {
        1 => "first".to_owned(),
        place if place == *of => "last".to_owned(),
        place => format!("after {}", words::count(place as u64 - 1, "other", "others")),
    };
    stdout.line(&format!("{name} {state} {order} ({place} of {of})"));
    let last = line.last_hit.map_or_else(String::new, |at| {
        format!(", the last {} ago", unstuck_service::service::now().since(Time(at.as_millisecond())))
    });
    let scheduled = match line.scheduled {
        0 => "nothing".to_owned(),
        n => words::count(n, "run", "runs"),
    };
    let fatal = if policy.include_fatal == Some(true) { ", including fatal errors" } else { "" };
    let mut fields = vec![
        ("id", policy.id.clone().unwrap_or_default()),
        ("version", line.version.to_string()),
        ("matches", format!("{}{fatal}", words::describe_criteria(policy))),
        ("resumes", format!("{}; up to {} rounds", words::describe_back_off(policy), policy.max_attempts)),
        ("priority", policy.priority.unwrap_or_default().to_string()),
        ("hits", format!("{}{last}", line.hits)),
        ("scheduled", scheduled),
    ];
    fields.extend(
        line.shadowed_by
            .as_ref()
            .map(|by| ("warning", format!("it can never match: `{by}` matches the same errors first"))),
    );
    fields.extend(
        line.policies_paused.as_ref().map(|paused| ("paused", paused_policies::describe_paused(paused))),
    );
    for (name, value) in fields {
        let name = stdout.look.paint(style::DIM, format!("{name:9}"));
        stdout.line(&format!("  {name} {}", text::visible(&value)));
    }
    stdout.line("");
    for line in audit::audit_table(changes, stdout) {
        stdout.line(&line);
    }
}
