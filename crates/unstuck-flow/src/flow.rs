//! Compiles one flow from its outline to the model.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unstuck_core::decide::MAX_NAME_BYTES;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::{CheckInput, Concurrency, Deadline, Flow, RunKind, Step, StepIndex};
use unstuck_core::model::labels::MAX_LABEL_BYTES;
use unstuck_core::model::recovery::RetryStrategy;
use unstuck_core::model::schedule::ScheduleSpec;
use unstuck_core::time::Millis;

use crate::computed::{self, Done, Scope};
use crate::outline::Outline;
use crate::parse::MAX_BYTES;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::references::Reference;
use crate::step::Compiler;
use crate::step_fields::StepFields;
use crate::time_value::{self, TimeValue};
use crate::tree::Content;
use crate::{canonical, fields, input, recovery, schedule, step, warnings};

/// Compiles a flow, and lists the other flows that its steps refer to. The flow is `None` only if a problem was
/// reported.
pub(crate) fn compile_flow(
    outline: &Outline<'_>,
    directory: &str,
    problems: &mut Problems<'_>,
) -> (Option<Flow>, Vec<Reference>) {
    let object = &outline.object;
    let ids: Vec<&str> =
        outline.order.file_places.iter().map(|place| outline.steps[*place].id.unwrap_or_default()).collect();
    let places: HashMap<&str, StepIndex> = outline
        .steps
        .iter()
        .zip(&outline.order.places)
        .filter_map(|(step, place)| Some((step.id?, *place)))
        .collect();
    let defaults = object
        .spot("defaults")
        .and_then(|spot| Object::read(&spot, fields::DEFAULTS, "`defaults`", problems));
    if let Some(defaults) = &defaults {
        check_defaults(defaults, problems);
    }
    let references = Vec::new();
    let mut compiler =
        Compiler { outline, defaults: defaults.as_ref(), steps: &places, ids: &ids, references };
    let steps: Vec<Option<Step>> =
        (0..outline.steps.len()).map(|place| compiler.compile_step(place, problems)).collect();
    let references = compiler.references;
    let scope = |done| Scope { steps: &places, ids: &ids, done, item: false, secrets: false };
    let head = read_header(object, &scope(Done::Nothing), &scope(Done::Everything), problems);
    let steps: Option<Vec<Step>> = steps.into_iter().collect();
    let (Some(steps), Some(name)) = (steps, outline.name) else { return (None, references) };
    if let Some(defaults) = &defaults {
        warn_unused_retry_defaults(defaults, &steps, problems);
    }
    warnings::warn_about_late_stuck_detection(outline, &steps, head.deadline, problems);
    let source = canonical::canonical_source(outline.node, problems.text);
    if source.len() > MAX_BYTES {
        let message = format!(
            "with its aliases expanded, the flow has {} bytes; the limit is {MAX_BYTES}",
            source.len()
        );
        problems.error(object.at, "", message).hint("an alias counts as the value it stands for");
    }
    let flow = Flow {
        id: FlowId(0),
        name: name.into(),
        version: head.version.into(),
        description: head.description,
        input: head.input,
        output: head.output,
        deadline: head.deadline,
        concurrency: head.concurrency,
        schedule: head.schedule.map(Arc::new),
        labels: head.labels,
        dependents: collect_dependents(&steps),
        kind: RunKind::Graph,
        steps,
        source: source.into(),
        directory: directory.into(),
    };
    (Some(flow), references)
}

/// Everything of a flow but its steps.
struct FlowHeader {
    version: String,
    description: Option<String>,
    input: Option<Arc<dyn CheckInput>>,
    output: Option<unstuck_core::model::expression::Template>,
    deadline: Option<Deadline>,
    concurrency: Option<Concurrency>,
    schedule: Option<ScheduleSpec>,
    labels: BTreeMap<String, String>,
}

/// Reads everything of a flow but its steps. Expressions of `concurrency` see nothing done (`before`), those of
/// `output` every step (`after`).
fn read_header(
    object: &Object<'_>,
    before: &Scope<'_>,
    after: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> FlowHeader {
    let version = object.spot("version").and_then(|spot| read_version(&spot, problems));
    let description = object.spot("description").and_then(|spot| spot.read_text(problems));
    let input = object.spot("input").and_then(|spot| input::read_input_schema(&spot, problems));
    let input = input.map(|schema| Arc::new(schema) as Arc<dyn CheckInput>);
    let schedule =
        object.spot("schedule").and_then(|spot| schedule::read_schedule(&spot, input.as_ref(), problems));
    FlowHeader {
        version: version.unwrap_or_default(),
        description: description.map(str::to_owned),
        input,
        schedule,
        output: object.spot("output").and_then(|spot| computed::compile_template(&spot, after, problems)),
        deadline: object.spot("deadline").and_then(|spot| read_deadline(&spot, problems)),
        concurrency: object.spot("concurrency").and_then(|spot| read_concurrency(&spot, before, problems)),
        labels: object.spot("labels").map(|spot| read_labels(&spot, problems)).unwrap_or_default(),
    }
}

/// Reads the version as it is spelled: `1.10` is not 1.1.
fn read_version(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let version = match spot.node.content {
        Content::Text(_) | Content::Number(_) => spot.node.spelling(problems.text),
        Content::Null | Content::Bool(_) | Content::List(_) | Content::Map(_) => None,
    };
    match version.map(|version| version.trim().to_owned()) {
        Some(version) if version.is_empty() || version.len() > 100 => {
            spot.refuse(problems, "a version must have 1 to 100 characters");
            None
        }
        Some(version) => Some(version),
        None => {
            spot.report_expected(problems, "a version, such as `3` or `2026-11`");
            None
        }
    }
}

/// Reads a deadline: a duration above zero, or an instant.
fn read_deadline(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Deadline> {
    match time_value::read_time_value(spot, problems)? {
        TimeValue::After(Millis::ZERO) => {
            spot.refuse(problems, "must be longer than zero").hint("remove it for no deadline");
            None
        }
        TimeValue::After(span) => Some(Deadline::After(span)),
        TimeValue::At(time) => Some(Deadline::At(time)),
    }
}

/// Reads a concurrency limit: a number, or an object with a key.
fn read_concurrency(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<Concurrency> {
    let what = "a whole number of at least 1";
    if !matches!(spot.node.content, Content::Map(_)) {
        let limit = spot.read_whole(1, what, problems)?;
        return Some(Concurrency { limit, key: None, strict: false });
    }
    let object = Object::read(spot, fields::CONCURRENCY, "`concurrency`", problems)?;
    let key = object.spot("key").and_then(|spot| computed::compile_expression(&spot, scope, problems));
    let strict = object.spot("strict").and_then(|spot| spot.read_boolean(problems)).unwrap_or(false);
    let Some(limit) = object.spot("limit") else {
        spot.refuse(problems, "`concurrency` has no `limit`").hint("for example `limit: 1`");
        return None;
    };
    Some(Concurrency { limit: limit.read_whole(1, what, problems)?, key, strict })
}

/// How many labels a flow may have.
const MAX_LABELS: usize = 64;

/// Reads the labels, within their limits.
fn read_labels(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Content::Map(entries) = &spot.node.content else {
        spot.report_expected(problems, "a map such as `{team: media}`");
        return labels;
    };
    if entries.len() > MAX_LABELS {
        spot.refuse(problems, format!("a flow can have at most {MAX_LABELS} labels, not {}", entries.len()));
        return labels;
    }
    for entry in entries {
        let name: String = entry.key.chars().take(60).collect();
        let spot = LocatedNode { node: &entry.node, path: format!("{}.{name}", spot.path) };
        if entry.key.is_empty() || entry.key.len() > MAX_NAME_BYTES {
            spot.refuse(problems, format!("the name of a label must have 1 to {MAX_NAME_BYTES} bytes"));
            continue;
        }
        match entry.node.spelling(problems.text) {
            Some(text) if text.len() > MAX_LABEL_BYTES => {
                let message = format!("a label can have at most {MAX_LABEL_BYTES} bytes, not {}", text.len());
                spot.refuse(problems, message);
            }
            Some(text) => {
                labels.insert(entry.key.clone(), text);
            }
            None => spot.report_expected(problems, "text"),
        }
    }
    labels
}

/// Inverts `needs`: lists for each step the steps that need it.
fn collect_dependents(steps: &[Step]) -> Vec<Vec<StepIndex>> {
    let mut dependents = vec![Vec::new(); steps.len()];
    for (place, step) in steps.iter().enumerate() {
        for needed in &step.node.needs {
            dependents[usize::from(needed.0)].push(StepIndex(u16::try_from(place).unwrap_or(u16::MAX)));
        }
    }
    dependents
}

/// Checks the values of `defaults` by the rules for steps, even if no step takes them over.
fn check_defaults(defaults: &Object<'_>, problems: &mut Problems<'_>) {
    let nothing = Object::empty(defaults.at, &defaults.path);
    let given = StepFields { own: &nothing, defaults: Some(defaults), kind: "action" };
    recovery::read_limits(&given, problems);
    recovery::read_defer(&given, problems);
    recovery::read_retry_strategy(&given, problems);
    recovery::read_failure_handling(&given, problems);
    step::read_dispatch(&given, problems);
}

/// Warns about defaults for retries in a flow where no step retries.
fn warn_unused_retry_defaults(defaults: &Object<'_>, steps: &[Step], problems: &mut Problems<'_>) {
    let retried = steps.iter().any(|step| !matches!(step.retry, RetryStrategy::None));
    for name in ["maxAttempts", "backOff"] {
        if let Some(entry) = defaults.get(name).filter(|_| !retried) {
            problems
                .warning(
                    entry.at,
                    format!("{}.{name}", defaults.path),
                    format!("`{name}` has no effect: no step has a retry strategy"),
                )
                .hint("set `retryStrategy: retry`, or remove it");
        }
    }
}
