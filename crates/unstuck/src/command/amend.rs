//! `unstuck amend`: changes the priority, labels or deadline of a run that is under way.

use std::collections::BTreeMap;

use unstuck_api::request::{AmendRequest, RunOperation};

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::changed;

/// Change the priority, labels or deadline of a run that is under way.
///
/// What is not given stays as it is. Children and the exception handler follow the priority of their run. A rerun starts with the deadline of
/// the flow again.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Higher first.
    #[arg(long, value_name = "N", allow_hyphen_values = true, group = "change")]
    priority: Option<i32>,

    /// Give it a label, or give the label another value: `--label team=media`; repeat it for several.
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::runs::parse_label, group = "change")]
    label: Vec<(String, String)>,

    /// Remove a label; repeat it for several.
    #[arg(long, value_name = "NAME", group = "change")]
    remove_label: Vec<String>,

    /// How long it may take from now on, such as `2h`, until when, such as `2030-01-31T08:30:00Z`, or `none`.
    #[arg(long, value_name = "WHEN", group = "change")]
    deadline: Option<String>,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck amend @latest --priority 10 --reason 'the customer waits'
  unstuck amend run_0s86mke080000 --deadline 2h --label team=media --remove-label trial";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let removed = self.remove_label.into_iter().map(|name| (name, None));
        let set = self.label.into_iter().map(|(name, value)| (name, Some(value)));
        let labels: BTreeMap<String, Option<String>> = removed.chain(set).collect();
        let what = RunOperation::Amend(AmendRequest {
            priority: self.priority,
            labels,
            deadline: self.deadline,
            reason: self.reason,
        });
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::show_change(&answer, format, "Changed the run.", "The run was like that already.")
    }
}
