//! Bulk actions: begun from names, changed, and told as they stand.

mod begin;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_core::bulk::{Bulk, BulkAction, BulkState, ResultKind, Target};
use unstuck_core::decide::{Answer, unit_name};
use unstuck_core::event::Actor;
use unstuck_core::fingerprint::pattern;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::Store;

use crate::request::{BulkOperation, BulkRequest};
use crate::run_name;
use crate::service::{Service, ServiceError, to_json};

/// So many results are looked through for what they have in common.
const LOOKED_THROUGH: usize = 10_000;
/// So many causes are told.
const MOST_CAUSES: usize = 10;
/// So many commands are told that go on with runs that wait.
const MOST_GO_ON: usize = 1_000;
/// How the ids of bulk actions begin.
const PREFIX: &str = "bulk_";

/// What came of an order: a bulk action, or what it would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkBegunView {
    /// None where nothing is selected, or nothing was to be done.
    pub bulk: Option<String>,
    pub dry_run: bool,
    /// What was selected, in words.
    pub selection: String,
    pub total: u64,
    /// In how many runs they are, of a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// How many runs had in common what was selected, and are left out: nothing could be done to them.
    #[serde(default)]
    pub left_out: u64,
    #[serde(default)]
    pub action: String,
    /// The first targets, of a dry run.
    pub targets: Vec<TargetView>,
}

/// Bulk actions, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulksView {
    pub bulks: Vec<BulkView>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// A bulk action, as it stands.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkView {
    pub bulk: String,
    /// The command, such as `resume`.
    pub action: String,
    pub state: String,
    /// Why it has stopped.
    pub why: Option<String>,
    pub selection: String,
    pub by: String,
    pub reason: Option<String>,
    #[serde(with = "unstuck_api::json_form::time")]
    pub created_at: Timestamp,
    pub rate: u32,
    pub canary: Option<u32>,
    pub wave: u32,
    pub total: u64,
    /// How many runs had in common what was selected, and were left out: nothing could be done to them.
    #[serde(default)]
    pub left_out: u64,
    /// What it has come to, in the order in which it is told; a kind that nothing has come to is left out.
    pub results: Vec<KindCount>,
    /// The commands that go on with runs that it has set going and nobody executes, each once.
    pub go_on: Vec<String>,
    /// How many more targets it has set going whose runs were not looked at for that.
    #[serde(default)]
    pub not_looked_at: u64,
    /// Whether it acts on more targets by itself, as long as somebody has the store open.
    pub acts: bool,
    /// Whether nothing can happen to it any more.
    #[serde(rename = "settled")]
    pub is_over: bool,
}

/// How many targets have come to what.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCount {
    pub result: ResultKind,
    pub count: u64,
    /// Why, the most frequent first, with what changes from one to the next taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseCount>,
}

/// How often something was the cause.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseCount {
    pub cause: String,
    pub count: u64,
    /// One of the runs.
    pub run: String,
}

/// Targets of a bulk action, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetsView {
    pub targets: Vec<TargetView>,
    /// The place of the first target of the next page; none where this is the last.
    pub next: Option<u64>,
}

/// One target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    pub place: u64,
    pub run: String,
    pub step: Option<String>,
    pub result: ResultKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A bulk action that somebody has changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedBulkView {
    /// Whether it had been so before.
    pub already: bool,
    #[serde(flatten)]
    pub page: BulkView,
}

/// Carries out what is wished, and tells what came of it as JSON.
pub(crate) fn change_bulk(
    service: &Service,
    handle: &Handle,
    wish: BulkRequest,
) -> Result<String, ServiceError> {
    let BulkRequest { by, what } = wish;
    let (bulk, deed) = match what {
        BulkOperation::Begin(begin) => {
            return to_json(&begin::begin(handle, *begin, Actor::User(by.into()))?);
        }
        BulkOperation::Pause { bulk } => (bulk, BulkCommand::Pause),
        BulkOperation::Unpause { bulk } => (bulk, BulkCommand::Unpause),
        BulkOperation::Cancel { bulk } => (bulk, BulkCommand::Cancel),
    };
    let id = handle.read(move |store, _| find(store, &bulk))??.id;
    let answer = handle.change_bulk(id, deed).map_err(|error| match error {
        EngineError::BadBulk(sentence) => ServiceError::wrong_state(sentence),
        error => error.into(),
    })?;
    let service = service.clone();
    let page = handle.read(move |store, _| show(&service, store, &id.to_string()))??;
    to_json(&ChangedBulkView { already: answer == Answer::Already, page })
}

/// Bulk actions, newest first.
pub(crate) fn list(
    store: &mut dyn Store,
    open_only: bool,
    after: Option<&str>,
    limit: usize,
) -> Result<BulksView, ServiceError> {
    let before = match after {
        None => None,
        Some(after) => Some(match after.parse::<BulkId>() {
            Ok(bulk) => bulk,
            Err(_) => find(store, after)?.id,
        }),
    };
    let limit = limit.clamp(1, LOOKED_THROUGH);
    let mut found = store.bulks(open_only, before, limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    found.truncate(limit);
    Ok(BulksView { bulks: found.iter().map(page).collect(), next })
}

/// One of them, with its causes and with what must be done for those that wait.
pub(crate) fn show(service: &Service, store: &mut dyn Store, given: &str) -> Result<BulkView, ServiceError> {
    let bulk = find(store, given)?;
    let mut page = page(&bulk);
    for counted in &mut page.results {
        if matches!(counted.result, ResultKind::FailedAgain | ResultKind::Refused) {
            let found = store.targets(bulk.id, Some(counted.result), 0, LOOKED_THROUGH)?;
            counted.causes = causes(&found);
        }
    }
    if let Some((kind, count)) = set_going(&bulk) {
        let waiting = store.targets(bulk.id, Some(kind), 0, MOST_GO_ON)?;
        page.not_looked_at = count.saturating_sub(waiting.len() as u64);
        let mut seen = BTreeSet::new();
        for target in waiting.iter().filter(|target| seen.insert(target.run)) {
            if let Some(run) = store.run(target.run)? {
                page.go_on.extend(service.continue_command(store, &run, &[])?);
            }
        }
        page.go_on.sort();
        page.go_on.dedup();
    }
    Ok(page)
}

/// A page of targets.
pub(crate) fn targets(
    store: &mut dyn Store,
    flows: &mut Flows,
    given: &str,
    from: u64,
    limit: usize,
) -> Result<TargetsView, ServiceError> {
    let bulk = find(store, given)?;
    let mut names = StepNames::default();
    let limit = limit.clamp(1, LOOKED_THROUGH);
    let mut found = store.targets(bulk.id, None, from, limit + 1)?;
    let next = found.get(limit).map(|target| target.place);
    found.truncate(limit);
    let line = |target: Target| TargetView {
        place: target.place,
        run: target.run.to_string(),
        step: names.of(store, flows, target.run, target.unit),
        result: target.result.kind(),
        why: target.result.why().map(ToString::to_string),
    };
    Ok(TargetsView { targets: found.into_iter().map(line).collect(), next })
}

/// The bulk action of this id, or whose id begins like this, or the latest.
fn find(store: &mut dyn Store, given: &str) -> Result<Bulk, ServiceError> {
    if let Ok(id) = given.parse::<BulkId>()
        && let Some(bulk) = store.bulk(id)?
    {
        return Ok(bulk);
    }
    let lower = given.to_ascii_lowercase();
    let digits = lower.strip_prefix(PREFIX).unwrap_or(&lower);
    let mut found = store.bulks(false, None, LOOKED_THROUGH)?;
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

/// The result of targets whose runs may have something to do now, and how many there are.
fn set_going(bulk: &Bulk) -> Option<(ResultKind, u64)> {
    let acted = bulk.action.result_of_acting();
    let count = match &bulk.action {
        BulkAction::Acknowledge | BulkAction::Cancel | BulkAction::Forget => 0,
        _ if acted.is_under_way() => bulk.counts.under_way,
        _ => bulk.counts.passed,
    };
    (count > 0).then_some((acted.kind(), count))
}

fn page(bulk: &Bulk) -> BulkView {
    let acted = bulk.action.result_of_acting();
    let passed = if acted.is_under_way() { ResultKind::Passed } else { acted.kind() };
    let counts = [
        (passed, bulk.counts.passed),
        (ResultKind::FailedAgain, bulk.counts.failed),
        (ResultKind::Refused, bulk.counts.refused),
        (acted.kind(), bulk.counts.under_way),
        (ResultKind::Pending, bulk.total - bulk.next.min(bulk.total)),
    ];
    let count = |(result, count)| KindCount { result, count, causes: Vec::new() };
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

/// What results have in common.
fn causes(targets: &[Target]) -> Vec<CauseCount> {
    let mut counted: HashMap<String, (u64, RunId)> = HashMap::new();
    for target in targets {
        let cause = target.result.why().map(|why| pattern(why)).unwrap_or_default();
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
    fn of(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        run: RunId,
        of: Option<UnitRef>,
    ) -> Option<String> {
        let of = of?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != run) {
            let found = store.run(run).ok().flatten();
            self.last = Some((run, found.and_then(|found| flows.get(store, found.flow).ok())));
        }
        let (_, flow) = self.last.as_ref()?;
        Some(unit_name(flow.as_ref()?, of))
    }
}
