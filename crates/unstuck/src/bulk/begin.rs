//! Beginning a bulk action: what `resume`, `ack` and `cancel` do when they are about more than one run.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use super::watch;
use crate::desk::asked::{BulkAct, BulkBegin, BulkWhat};
use crate::desk::bulk::Begun;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::{Done, Format, changed, style, text};

/// How many at once, and whether at all.
#[derive(clap::Args)]
pub(crate) struct Manner {
    /// So many targets a second at most. [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,

    /// At most so many targets, the oldest of those that are selected.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,

    /// Tell what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What errors have in common, and how they are gone through.
#[derive(clap::Args)]
pub(crate) struct Errors {
    /// Every open error of this group, or the beginning of its name; `unstuck errors` lists them.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Every open error of runs of this flow.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Every open error that this policy would resume later.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Every open error of runs in this state; one that goes on beside an error is running.
    #[arg(long, value_parser = crate::runs::state_parser())]
    state: Option<unstuck_core::model::run::RunState>,

    /// Only what no policy resumes and nobody has acknowledged: what needs a person.
    #[arg(long)]
    needs_person: bool,

    /// Errors that somebody has acknowledged, too.
    #[arg(long, conflicts_with = "needs_person")]
    include_acknowledged: bool,

    #[command(flatten)]
    manner: Manner,
}

/// What a command names: nothing, one run and perhaps its step, or several runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Nothing,
    One { run: String, step: Option<String> },
    Several(Vec<String>),
}

impl Named {
    /// A second name is a step, unless it looks like a run.
    pub(crate) fn of(mut names: Vec<String>) -> Named {
        let is_run = |name: &String| name.starts_with("run_") || name == crate::desk::name::LATEST;
        match names.len() {
            0 => Named::Nothing,
            1 => Named::One { run: names.remove(0), step: None },
            2 if !is_run(&names[1]) => Named::One { run: names.remove(0), step: names.pop() },
            _ => Named::Several(names),
        }
    }

    /// The runs, where no step is named.
    fn runs(self) -> Result<Vec<String>, Failure> {
        match self {
            Named::Nothing => Ok(Vec::new()),
            Named::One { run, step: None } => Ok(vec![run]),
            Named::One { run, step: Some(step) } => Err(Failure::new(format!(
                "`{step}` is a step of {run}: a bulk action is about runs, each by its id, as `run_...`"
            ))),
            Named::Several(runs) => Ok(runs),
        }
    }
}

impl Manner {
    fn is_given(&self) -> bool {
        self.rate.is_some() || self.max.is_some() || self.dry_run
    }
}

impl Errors {
    /// Whether it takes a bulk action to do this.
    pub(crate) fn is_given(&self) -> bool {
        let is_said = self.group.is_some() || self.flow.is_some() || self.policy.is_some();
        let is_said = is_said || self.state.is_some() || self.needs_person || self.include_acknowledged;
        is_said || self.manner.is_given()
    }

    /// The order.
    pub(crate) fn order(
        self,
        action: BulkAct,
        named: Named,
        canary: Option<u32>,
        reason: Option<String>,
    ) -> Result<BulkBegin, Failure> {
        let Errors { group, flow, policy, state, needs_person, include_acknowledged, manner } = self;
        let (runs, Manner { rate, max, dry_run }) = (named.runs()?, manner);
        Ok(BulkBegin {
            action,
            runs,
            group,
            flow,
            policy,
            state,
            include_acknowledged,
            needs_person,
            max,
            rate,
            canary,
            reason,
            dry_run,
        })
    }
}

/// Which runs to cancel, and how they are gone through.
#[derive(clap::Args)]
pub(crate) struct Runs {
    /// Every run with an open error of this group, or the beginning of its name; `unstuck errors` lists them.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Every run of this flow that is not final.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Every run in this state.
    #[arg(long, value_parser = crate::runs::state_parser())]
    state: Option<unstuck_core::model::run::RunState>,

    /// Every run with an error that no policy resumes and nobody has acknowledged.
    #[arg(long)]
    needs_person: bool,

    #[command(flatten)]
    manner: Manner,
}

impl Runs {
    /// Whether it takes a bulk action to do this.
    pub(crate) fn is_given(&self) -> bool {
        let is_said = self.group.is_some() || self.flow.is_some() || self.state.is_some();
        is_said || self.needs_person || self.manner.is_given()
    }

    /// The order.
    pub(crate) fn order(self, runs: Vec<String>, reason: Option<String>) -> BulkBegin {
        let Runs { group, flow, state, needs_person, manner: Manner { rate, max, dry_run } } = self;
        let (action, policy, canary, include_acknowledged) = (BulkAct::Cancel, None, None, false);
        BulkBegin {
            action,
            runs,
            group,
            flow,
            policy,
            state,
            include_acknowledged,
            needs_person,
            max,
            rate,
            canary,
            reason,
            dry_run,
        }
    }
}

/// Begins it. Where nobody else has the store, this goes on with it as long as it acts.
pub(crate) fn execute(place: &Place, order: BulkBegin, format: Format) -> Done {
    // Before anybody is told that it can be interrupted.
    let is_interrupted = watch::interrupts()?;
    let answer = place.change_bulk(BulkWhat::Begin(order))?;
    let begun: Begun = answer.read()?;
    let mut stdout = Output::stdout();
    let Some(bulk) = &begun.bulk else {
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text if begun.total > 0 => plan(&begun, &mut stdout),
            Format::Text => {
                let what = text::visible(&begun.selection);
                stdout.line(&format!("Nothing is selected by {what}: nothing is to be done."));
            }
        }
        stdout.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    if format == Format::Text {
        let name = stdout.look.paint(style::BOLD, bulk);
        stdout.line(&format!("{name} has begun, with {}.", targets(begun.total)));
    }
    if let Some(page) = watch::go_on(place, bulk, &is_interrupted)? {
        stdout.finish()?;
        return watch::end(&page, place, format, is_interrupted.load(Ordering::Relaxed));
    }
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let sentence = "The process that has the store open goes on with it. The steps that it resumes wait for \
                            whoever goes on with their runs.";
            changed::wrapped(&mut stdout, sentence);
            watch::how(bulk, &mut stdout, &place.option);
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// What would be done.
fn plan(begun: &Begun, stdout: &mut Output) {
    super::show::show(&begun.targets, stdout);
    let left_out = begun.total.saturating_sub(begun.targets.len() as u64);
    if left_out > 0 {
        stdout.line(&format!("and {left_out} more"));
    }
    stdout.line(&format!(
        "\nThis would have {}; it was a dry run, and nothing was done.",
        targets(begun.total)
    ));
}

fn targets(count: u64) -> String {
    if count == 1 { "1 target".to_owned() } else { format!("{count} targets") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_is_a_step_unless_it_looks_like_a_run() {
        let one = |run: &str, step: Option<&str>| Named::One {
            run: run.to_owned(),
            step: step.map(ToOwned::to_owned),
        };
        let several = |names: &[&str]| Named::Several(names.iter().map(|&name| name.to_owned()).collect());
        let cases = [
            (vec![], Named::Nothing),
            (vec!["0s86"], one("0s86", None)),
            (vec!["@latest", "fetch[3]"], one("@latest", Some("fetch[3]"))),
            (vec!["run_1", "run"], one("run_1", Some("run"))),
            (vec!["run_1", "run_2"], several(&["run_1", "run_2"])),
            (vec!["0s86", "@latest"], several(&["0s86", "@latest"])),
            (vec!["a", "b", "c"], several(&["a", "b", "c"])),
        ];
        for (names, wanted) in cases {
            let told = format!("{names:?}");
            assert_eq!(Named::of(names.into_iter().map(ToOwned::to_owned).collect()), wanted, "{told}");
        }
    }
}
