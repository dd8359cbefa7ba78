//! Bulk actions: starts them from names, changes them, and shows them.

mod begin;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use unstuck_api::bulk::{
    BulkView, BulksView, CauseCount, ChangedBulkView, KindCount, ResultKind as ResultView, TargetView,
    TargetsView,
};
use unstuck_api::request::{BulkOperation, BulkRequest};
use unstuck_core::bulk::{Bulk, BulkAction, BulkState, ResultKind, Target};
use unstuck_core::decide::{Answer, unit_name};
use unstuck_core::event::Actor;
use unstuck_core::fingerprint::mask_variable_parts;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::summary::RunSummary;
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::call::Call;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::Reader;

use crate::service::{Service, ServiceError, to_json};
use crate::{convert, run_name};

/// At most this many results are read to group them by cause, and this many bulk actions to find one by its name.
const LOOKED_THROUGH: usize = 10_000;
/// At most this many causes are shown with a result.
const MOST_CAUSES: usize = 10;
/// At most this many waiting runs are read for the commands that continue them.
const MOST_GO_ON: usize = 1_000;
/// How the ids of bulk actions begin.
const PREFIX: &str = "bulk_";

/// Handles a request about bulk actions, and returns the result as JSON.
pub(crate) fn change_bulk(
    service: &Service,
    handle: &Handle,
    request: BulkRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let BulkRequest { by, what } = request;
    let (bulk, command) = match what {
        BulkOperation::Begin(begin) => {
            return to_json(&begin::begin_bulk(service, handle, *begin, Actor::User(by.into()), call)?);
        }
        BulkOperation::Pause { bulk } => (bulk, BulkCommand::Pause),
        BulkOperation::Unpause { bulk } => (bulk, BulkCommand::Unpause),
        BulkOperation::Cancel { bulk } => (bulk, BulkCommand::Cancel),
    };
    let id = find_bulk(handle.reader(), &bulk)?.id;
    let answer = handle.change_bulk_as(id, command, Some(call.clone())).map_err(|error| match error {
        EngineError::BadBulk(sentence) => ServiceError::wrong_state(sentence),
        error => error.into(),
    })?;
    let page = show_bulk(service, handle.reader(), &id.to_string())?;
    to_json(&ChangedBulkView { already: answer == Answer::Already, page })
}

/// Lists bulk actions, newest first. One more than the page is read, to know whether there is a next one.
pub(crate) fn list_bulks(
    reader: &dyn Reader,
    open_only: bool,
    after: Option<&str>,
    limit: usize,
) -> Result<BulksView, ServiceError> {
    let before = match after {
        None => None,
        Some(after) => Some(match after.parse::<BulkId>() {
            Ok(bulk) => bulk,
            Err(_) => find_bulk(reader, after)?.id,
        }),
    };
    let limit = limit.clamp(1, LOOKED_THROUGH);
    let mut found = reader.bulks(open_only, before, limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    found.truncate(limit);
    Ok(BulksView { bulks: found.iter().map(build_bulk_view).collect(), next })
}

/// Shows a bulk action with the causes of its failures, and the commands that continue runs which wait.
pub(crate) fn show_bulk(
    service: &Service,
    reader: &dyn Reader,
    given: &str,
) -> Result<BulkView, ServiceError> {
    let bulk = find_bulk(reader, given)?;
    let mut page = build_bulk_view(&bulk);
    for counted in &mut page.results {
        let kind = match counted.result {
            ResultView::FailedAgain => ResultKind::FailedAgain,
            ResultView::Refused => ResultKind::Refused,
            _ => continue,
        };
        counted.causes = count_causes(&reader.targets(bulk.id, Some(kind), 0, LOOKED_THROUGH)?);
    }
    if let Some((kind, count)) = count_continuable_targets(&bulk) {
        let waiting = reader.targets(bulk.id, Some(kind), 0, MOST_GO_ON)?;
        page.not_looked_at = count.saturating_sub(waiting.len() as u64);
        let mut seen = BTreeSet::new();
        for target in waiting.iter().filter(|target| seen.insert(target.run)) {
            if let Some(run) = reader.run(target.run)? {
                page.go_on.extend(service.continue_command(reader, &RunSummary::of(&run), &[])?);
            }
        }
        page.go_on.sort();
        page.go_on.dedup();
    }
    Ok(page)
}

/// Returns a page of targets in the order in which they are acted on; `next` is the place to continue from.
pub(crate) fn list_targets(
    reader: &dyn Reader,
    flows: &ReadFlows,
    (given, result): (&str, Option<ResultView>),
    from: u64,
    limit: usize,
) -> Result<TargetsView, ServiceError> {
    let bulk = find_bulk(reader, given)?;
    let only = result.map(convert::to_core_result_kind);
    let mut names = StepNames::default();
    let limit = limit.clamp(1, LOOKED_THROUGH);
    let mut found = reader.targets(bulk.id, only, from, limit + 1)?;
    let next = found.get(limit).map(|target| target.place);
    found.truncate(limit);
    let line = |target: Target| TargetView {
        place: target.place,
        run: target.run.to_string(),
        step: names.find_step_name(reader, flows, target.run, target.unit),
        result: convert::to_api_result_kind(target.result.kind()),
        why: target.result.why().map(ToString::to_string),
    };
    Ok(TargetsView { targets: found.into_iter().map(line).collect(), next })
}

/// Finds a bulk action by its id, the start of its id, or as the latest.
fn find_bulk(reader: &dyn Reader, given: &str) -> Result<Bulk, ServiceError> {
    if let Ok(id) = given.parse::<BulkId>()
        && let Some(bulk) = reader.bulk(id)?
    {
        return Ok(bulk);
    }
    let lower = given.to_ascii_lowercase();
    let digits = lower.strip_prefix(PREFIX).unwrap_or(&lower);
    let mut found = reader.bulks(false, None, LOOKED_THROUGH)?;
    if given == run_name::LATEST {
        found.truncate(1);
    } else {
        found.retain(|bulk| !digits.is_empty() && bulk.id.to_string()[PREFIX.len()..].starts_with(digits));
    }
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 => Err(ServiceError::not_found(format!(
            "there is no bulk action `{given}`; `unstuck bulk list` lists them"
        ))
        .named("bulk", given)),
        _ => Err(ServiceError::ambiguous(
            format!("several bulk actions have an id that starts with `{given}`; give more of the id"),
            found.iter().take(5).map(|bulk| bulk.id.to_string()).collect(),
        )),
    }
}

/// Counts the targets whose runs the action has set going, with the result by which they are found. Actions that end or
/// only mark a run set nothing going.
fn count_continuable_targets(bulk: &Bulk) -> Option<(ResultKind, u64)> {
    let acted = bulk.action.result_of_acting();
    let count = match &bulk.action {
        BulkAction::Acknowledge
        | BulkAction::Cancel
        | BulkAction::Forget
        | BulkAction::ApplyPolicies { .. } => 0,
        _ if acted.is_under_way() => bulk.counts.under_way,
        _ => bulk.counts.passed,
    };
    (count > 0).then_some((acted.kind(), count))
}

/// Builds the view of a bulk action from its counts alone: causes and commands need its targets, and come with
/// [`show_bulk`].
fn build_bulk_view(bulk: &Bulk) -> BulkView {
    let acted = bulk.action.result_of_acting();
    let passed = if acted.is_under_way() { ResultKind::Passed } else { acted.kind() };
    let counts = [
        (passed, bulk.counts.passed),
        (ResultKind::Unscheduled, bulk.counts.unscheduled),
        (ResultKind::Unchanged, bulk.counts.unchanged),
        (ResultKind::FailedAgain, bulk.counts.failed),
        (ResultKind::Refused, bulk.counts.refused),
        (acted.kind(), bulk.counts.under_way),
        (ResultKind::Pending, bulk.total - bulk.next.min(bulk.total)),
    ];
    let count =
        |(kind, count)| KindCount { result: convert::to_api_result_kind(kind), count, causes: Vec::new() };
    let by = match &bulk.by {
        Actor::User(name) => name.to_string(),
        other => format!("{other:?}").to_lowercase(),
    };
    BulkView {
        bulk: bulk.id.to_string(),
        action: bulk.action.verb().to_owned(),
        state: bulk.state.word().to_owned(),
        why: match &bulk.state {
            BulkState::Stopped { why } => Some(why.to_string()),
            _ => None,
        },
        selection: bulk.selection.to_string(),
        by,
        reason: bulk.reason.as_ref().map(ToString::to_string),
        created_at: bulk.created_at.timestamp(),
        rate: bulk.pace.rate,
        canary: bulk.pace.canary,
        wave: bulk.wave.number,
        total: bulk.total,
        left_out: bulk.left_out,
        results: counts.into_iter().filter(|(_, count)| *count > 0).map(count).collect(),
        go_on: Vec::new(),
        not_looked_at: 0,
        acts: bulk.due().is_some(),
        is_over: bulk.is_settled(),
    }
}

/// Counts the causes of results, the most frequent first. Numbers and ids are masked, so that the same failure of
/// many runs counts as one cause.
fn count_causes(targets: &[Target]) -> Vec<CauseCount> {
    let mut counted: HashMap<String, (u64, RunId)> = HashMap::new();
    for target in targets {
        let cause = target.result.why().map(|why| mask_variable_parts(why)).unwrap_or_default();
        counted.entry(cause).or_insert((0, target.run)).0 += 1;
    }
    let mut causes: Vec<CauseCount> = counted
        .into_iter()
        .map(|(cause, (count, run))| CauseCount { cause, count, run: run.to_string() })
        .collect();
    causes.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
    causes.truncate(MOST_CAUSES);
    causes
}

/// Steps by name; a run of several targets is read once.
#[derive(Default)]
struct StepNames {
    last: Option<(RunId, Option<Arc<unstuck_core::model::flow::Flow>>)>,
}

impl StepNames {
    /// Names the step of a target; none if its run or flow cannot be read.
    fn find_step_name(
        &mut self,
        reader: &dyn Reader,
        flows: &ReadFlows,
        run: RunId,
        of: Option<UnitRef>,
    ) -> Option<String> {
        let of = of?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != run) {
            let found = reader.run(run).ok().flatten();
            self.last = Some((run, found.and_then(|found| flows.get(reader, found.flow).ok())));
        }
        let (_, flow) = self.last.as_ref()?;
        Some(unit_name(flow.as_ref()?, of))
    }
}
