//! `unstuck policy audit`: who changed which policy, when, and from what to what.

use std::collections::BTreeMap;
use std::process::ExitCode;
use unstuck_service::local_time;

use unstuck_flow::policies::to_yaml;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::table::{Cell, Table};
use crate::view::text;
use unstuck_api::policies::{AuditEntry, AuditView, PolicyDocument};
use unstuck_api::request::Query;

/// List changes of policies: who, when, and what changed; newest first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only changes of this policy (name or id).
    name: Option<String>,

    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// Only changes before this number, as printed at the end of a page.
    #[arg(long, alias = "after", value_name = "NUMBER")]
    before: Option<u64>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy audit
  unstuck policy audit resume-connection-reset --limit 100 -o json";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let reading =
            Query::Audit { name: self.name.clone(), before: self.before, limit: self.limit as usize };
        let answer = place.read(reading)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let page: AuditView = answer.read()?;
                if page.changes.is_empty() {
                    stdout.line("No policy changes.");
                }
                for line in audit_table(&page.changes, &stdout) {
                    stdout.line(&line);
                }
                if let Some(next) = page.next {
                    let name = self
                        .name
                        .as_ref()
                        .map_or_else(String::new, |name| format!(" {}", text::shell_word(name)));
                    let limit =
                        if self.limit == 20 { String::new() } else { format!(" --limit {}", self.limit) };
                    stdout.line(&format!(
                        "\nMore: unstuck policy audit{name} --before {next}{limit}{}",
                        place.option
                    ));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats changes as a table.
pub(super) fn audit_table(changes: &[AuditEntry], stdout: &Output) -> Vec<String> {
    if changes.is_empty() {
        return Vec::new();
    }
    let times = local_time::Column::of(changes.iter().map(|change| change.at));
    let mut table = Table::new(&[&times.title("WHEN"), "WHO", "WHAT", "POLICY", ""]);
    for change in changes {
        table.row(vec![
            Cell::new(times.cell(change.at)),
            Cell::new(&change.by),
            Cell::new(&change.what),
            Cell::new(change.policy.as_deref().unwrap_or("(all)")),
            Cell::new(match &change.reason {
                Some(reason) => reason.clone(),
                None if change.what == "changed" => describe_difference(change),
                None => String::new(),
            }),
        ]);
    }
    table.lines(stdout.width(), stdout.look)
}

/// Describes the changed fields: `maxAttempts 4 -> 6, backOff {delay: 1m} -> {delay: 2m}`.
fn describe_difference(change: &AuditEntry) -> String {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return String::new() };
    let (before, after) = (policy_fields(before), policy_fields(after));
    let names: Vec<&String> =
        before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let parts = changed.map(|name| {
        let value = |fields: &BTreeMap<String, String>| {
            fields.get(name).cloned().unwrap_or_else(|| "(none)".to_owned())
        };
        format!("{name} {} -> {}", value(&before), value(&after))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Splits a policy into its fields as they are written in YAML.
fn policy_fields(policy: &PolicyDocument) -> BTreeMap<String, String> {
    let yaml = to_yaml(policy);
    let pairs = yaml.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
