//! Compiles one step from its outline to the model.

use std::sync::Arc;

use unstuck_core::json::Json;
use unstuck_core::model::expression::{Expression, Template};
use unstuck_core::model::flow::{ForEach, GraphNode, Kind, Step, StepIndex};

use crate::computed::{self, Done, Scope};
use crate::outline::{Outline, StepOutline};
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::references::{Reference, Relation};
use crate::step_fields::StepFields;
use crate::tree::Content;
use crate::{command, emulate, fields, http, recovery, wait};

/// What the steps of one flow share while they are compiled.
pub(crate) struct Compiler<'a, 'b> {
    pub(crate) outline: &'b Outline<'a>,
    pub(crate) defaults: Option<&'b Object<'a>>,
    /// Of all steps, in order: every one of them may be named.
    pub(crate) steps: &'b std::collections::HashMap<&'a str, StepIndex>,
    pub(crate) ids: &'b [&'a str],
    /// The flows that steps speak of.
    pub(crate) references: Vec<Reference>,
}

impl Compiler<'_, '_> {
    /// Compiles the step at this position of the order. Returns `None` only if a problem was reported.
    pub(crate) fn compile_step(&mut self, place: usize, problems: &mut Problems<'_>) -> Option<Step> {
        let file_place = self.outline.order.file_places[place];
        let outline = &self.outline.steps[file_place];
        let ix = self.outline.order.places[file_place];
        // The other fields of a step without a kind are checked as if it were an action.
        let given = StepFields {
            own: &outline.object,
            defaults: self.defaults,
            kind: outline.kind.unwrap_or("action"),
        };
        let has_items = outline.object.get("forEach").is_some();
        let scope = |item| Scope {
            steps: self.steps,
            ids: self.ids,
            done: Done::Before(ix, &self.outline.ancestors),
            item,
            secrets: false,
        };
        let when = read_condition(&outline.object, &scope(false), problems);
        let for_each = given.spot("forEach").map(|spot| read_for_each(&spot, &scope(false), problems));
        let with = compile_input(&given, &scope(has_items), problems);
        let kind = outline.kind.and_then(|_| read_kind(&given, &scope(has_items), problems));
        let (fail_on_error, handler) = recovery::read_failure_handling(&given, problems);
        let Dispatch { action_type, load, priority } = read_dispatch(&given, problems);
        check_description(&outline.object, problems);
        let limits = recovery::read_limits(&given, problems);
        let defer = recovery::read_defer(&given, problems);
        let retry = recovery::read_retry_strategy(&given, problems);
        self.record_references(outline, handler.as_ref());
        let kind = kind?;
        Some(Step {
            id: outline.id?.into(),
            queue: kind.queue(),
            full_action: self.full_action(outline, &kind).into(),
            kind,
            action_type,
            node: GraphNode {
                with,
                needs: outline.needs.iter().map(|needed| self.outline.order.places[*needed]).collect(),
                when,
                for_each: match for_each {
                    Some(for_each) => Some(for_each?),
                    None => None,
                },
            },
            limits,
            defer,
            load,
            priority,
            retry,
            fail_on_error,
            exception_handler: handler.and_then(|spot| spot.node.text().map(Arc::from)),
        })
    }

    /// Returns the full action name: `flow.action`, or `flow.step` for a step without an action.
    fn full_action(&self, outline: &StepOutline<'_>, kind: &Kind) -> String {
        let flow = self.outline.name.unwrap_or_default();
        let action = match kind {
            Kind::Action(name) => name,
            Kind::Process(_)
            | Kind::Http(_)
            | Kind::Child(_)
            | Kind::Wait(_)
            | Kind::Signal(_)
            | Kind::Set(_)
            | Kind::Emulate(_) => outline.id.unwrap_or_default(),
        };
        format!("{flow}.{action}")
    }

    /// Records the flows that a step refers to: its child and its exception handler.
    fn record_references(&mut self, outline: &StepOutline<'_>, handler: Option<&LocatedNode<'_>>) {
        let conditional = ["if", "forEach"].iter().any(|field| outline.object.get(field).is_some());
        let child = outline.object.spot("flow").filter(|_| outline.kind == Some("flow"));
        let child = child.as_ref().map(|spot| (spot, Relation::Child { conditional }));
        for (spot, relation) in child.into_iter().chain(handler.map(|spot| (spot, Relation::Handler))) {
            if let Some(to) = spot.node.text() {
                let (at, path) = (spot.node.at, spot.path.clone());
                self.references.push(Reference { to: to.to_owned(), relation, at, path });
            }
        }
    }
}

/// Compiles the input of a step: its `with`, or the request of an `http` step. What is handed to a worker, a process or a
/// server may refer to secrets. What is wrong was reported, and stands for nothing.
fn compile_input(
    given: &StepFields<'_, '_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<Template> {
    const NOTHING: Template = Template::Fixed(Json::NULL);
    let scope = Scope { secrets: matches!(given.kind, "action" | "run" | "http"), ..*scope };
    if given.kind == "http" {
        let compiled = http::compile_request(&given.own.spot("http")?, &scope, problems);
        return Some(compiled.unwrap_or(NOTHING));
    }
    Some(computed::compile_template(&given.spot("with")?, &scope, problems).unwrap_or(NOTHING))
}

/// Reads what the step does, by its kind.
fn read_kind(given: &StepFields<'_, '_>, scope: &Scope<'_>, problems: &mut Problems<'_>) -> Option<Kind> {
    let spot = given.own.spot(given.kind)?;
    match given.kind {
        "action" => spot.read_foreign_name("action name", problems).map(|name| Kind::Action(name.into())),
        "run" => command::read_command(&spot, problems).map(Kind::Process),
        "http" => http::read_status_rules(&spot, problems).map(Kind::Http),
        "flow" => spot.read_name("flow name", problems).map(|name| Kind::Child(name.into())),
        "wait" => wait::read_wait(&spot, scope, problems).map(Kind::Wait),
        "signal" => spot.read_foreign_name("signal name", problems).map(|name| Kind::Signal(name.into())),
        "set" => computed::compile_template(&spot, scope, problems).map(Kind::Set),
        _ => emulate::read_emulation(&spot, problems).map(Kind::Emulate),
    }
}

/// Reads the `if` of a step. `true` is no condition; `false` gets a warning.
fn read_condition(object: &Object<'_>, scope: &Scope<'_>, problems: &mut Problems<'_>) -> Option<Expression> {
    let spot = object.spot("if")?;
    match spot.node.content {
        Content::Bool(true) => None,
        Content::Bool(false) => {
            problems
                .warning(spot.node.at, &spot.path, "the step never runs")
                .hint("its output is null, and the steps that need it continue");
            let names =
                crate::expression::Names { steps: &|_| None, step_ids: &[], item: false, secrets: false };
            crate::template::compile_expression("${false}", &names).ok()
        }
        Content::Null | Content::Number(_) | Content::List(_) | Content::Map(_) => {
            spot.report_expected(problems, "an expression such as `${input.ready}`");
            None
        }
        Content::Text(_) => computed::compile_expression(&spot, scope, problems),
    }
}

/// Reads a fan-out: its list, `parallel` and `maxItems`.
fn read_for_each(spot: &LocatedNode<'_>, scope: &Scope<'_>, problems: &mut Problems<'_>) -> Option<ForEach> {
    let mut parallel = None;
    let mut max_items = None;
    let mut items = spot.clone();
    if let Content::Map(_) = spot.node.content {
        let object = Object::read(spot, fields::FOR_EACH, "`forEach`", problems)?;
        let mut count = |name| {
            object.spot(name).and_then(|spot| spot.read_whole(1, "a whole number of at least 1", problems))
        };
        parallel = count("parallel");
        max_items = count("maxItems");
        let Some(list) = object.spot("items") else {
            spot.refuse(problems, "`forEach` has no `items`").hint("for example `items: ${input.files}`");
            return None;
        };
        items = list;
    }
    let max_items = max_items.unwrap_or(ForEach::MAX_ITEMS);
    match &items.node.content {
        Content::List(nodes) if nodes.is_empty() => {
            problems
                .warning(items.node.at, &items.path, "the list is empty: the step never runs")
                .hint("its output is an empty list");
        }
        Content::List(nodes) if nodes.len() > usize::try_from(max_items).unwrap_or(usize::MAX) => {
            items
                .refuse(problems, format!("{} items; the limit is {max_items}", nodes.len()))
                .hint("raise `maxItems`");
        }
        Content::List(_) => {}
        Content::Text(text) if text.contains("${") => {
            // With text around the expression, the value would be a text.
            let items = Template::Computed(computed::compile_expression(&items, scope, problems)?);
            return Some(ForEach { items, parallel: parallel.unwrap_or(ForEach::PARALLEL), max_items });
        }
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) | Content::Map(_) => {
            items.report_expected(problems, "a list, or an expression such as `${input.files}`");
            return None;
        }
    }
    let items = computed::compile_template(&items, scope, problems)?;
    Some(ForEach { items, parallel: parallel.unwrap_or(ForEach::PARALLEL), max_items })
}

/// The fields that matter for dispatching attempts.
pub(crate) struct Dispatch {
    action_type: Option<Arc<str>>,
    load: u32,
    priority: i32,
}

/// Reads the fields that matter for dispatching attempts.
pub(crate) fn read_dispatch(given: &StepFields<'_, '_>, problems: &mut Problems<'_>) -> Dispatch {
    let action_type = given.spot("type").and_then(|spot| spot.read_foreign_name("type", problems));
    let load =
        given.spot("load").and_then(|spot| spot.read_whole(0, "a whole number of at least 0", problems));
    let priority = given.spot("priority");
    let priority =
        priority.and_then(|spot| spot.read_whole(i128::from(i32::MIN), "a whole number", problems));
    Dispatch {
        action_type: action_type.map(Arc::from),
        load: load.unwrap_or(1),
        priority: priority.unwrap_or(0),
    }
}

/// Checks that a description is a text. The model does not keep it.
fn check_description(object: &Object<'_>, problems: &mut Problems<'_>) {
    if let Some(spot) = object.spot("description") {
        spot.read_text(problems);
    }
}
