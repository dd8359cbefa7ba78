//! Targets of a plan: steps, actions and labels, by name or by pattern.

use std::fmt;
use std::sync::Arc;

use unstuck_core::model::flow::{Flow, Kind, Step};

use super::is_executed;
use super::outputs::takes_example;
use crate::problem::Problems;
use crate::suggest;
use crate::tree::Position;

/// A name, or a pattern: `*` stands for any text, `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// As it is written.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.into())
    }

    /// Returns whether it matches exactly one name.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Returns whether it matches this name.
    pub fn matches(&self, name: &str) -> bool {
        matches_glob(self.0.as_bytes(), name.as_bytes())
    }
}

/// Matches a glob without recursion: on a mismatch it returns to the last `*`.
fn matches_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => match &mut star {
                None => return false,
                Some((back, from)) => {
                    *from += 1;
                    (p, n) = (*back + 1, *from);
                }
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == b'*')
}

/// Whom a rule or an outage is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A step, or one item of it.
    Step {
        /// Its flow, if the plan says.
        flow: Option<Pattern>,
        step: Pattern,
        /// One item of it.
        item: Option<u32>,
    },
    /// All steps of an action: `encode`, or `media.encode` with its flow.
    Action(Pattern),
    /// All steps with a label.
    ActionType(Pattern),
}

impl Target {
    /// Returns whether the target includes this unit.
    pub fn includes_unit(&self, flow: &str, step: &Step, item: Option<u32>) -> bool {
        match self {
            Target::Step { flow: wanted, step: id, item: only } => {
                id.matches(&step.id)
                    && wanted.as_ref().is_none_or(|wanted| wanted.matches(flow))
                    && only.is_none_or(|only| item == Some(only))
            }
            Target::Action(action) => match &step.kind {
                Kind::Action(name) => action.matches(name) || action.matches(&step.full_action),
                Kind::Process(_)
                | Kind::Http(_)
                | Kind::Child(_)
                | Kind::Wait(_)
                | Kind::Signal(_)
                | Kind::Set(_)
                | Kind::Emulate(_) => action.matches(&step.full_action),
            },
            Target::ActionType(label) => step.action_type.as_deref().is_some_and(|is| label.matches(is)),
        }
    }

    /// Returns the rank in which targets are tried: the more specific first.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Target::Step { item: Some(_), .. } => 0,
            Target::Step { flow: Some(flow), step, .. } if flow.is_exact() && step.is_exact() => 1,
            Target::Step { flow: None, step, .. } if step.is_exact() => 2,
            Target::Step { .. } => 3,
            Target::Action(action) if action.is_exact() => 4,
            Target::Action(_) => 5,
            Target::ActionType(label) if label.is_exact() => 6,
            Target::ActionType(_) => 7,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Step { flow, step, item } => {
                if let Some(flow) = flow {
                    write!(f, "{}.", flow.0)?;
                }
                f.write_str(&step.0)?;
                item.map_or(Ok(()), |item| write!(f, "[{item}]"))
            }
            Target::Action(pattern) | Target::ActionType(pattern) => f.write_str(&pattern.0),
        }
    }
}

/// In which section of a plan a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Steps,
    Actions,
    ActionTypes,
    /// Steps, for examples of what they put out.
    Outputs,
}

impl Section {
    /// Returns whether this section can describe the step.
    fn accepts_step(self, step: &Step) -> bool {
        match self {
            Section::Steps | Section::Actions | Section::ActionTypes => is_executed(step),
            Section::Outputs => takes_example(step),
        }
    }

    pub(super) const ALL: [(&'static str, Section); 3] =
        [("steps", Section::Steps), ("actions", Section::Actions), ("actionTypes", Section::ActionTypes)];
}

/// Where a name stands.
pub(super) struct Named<'a> {
    pub(super) text: &'a str,
    pub(super) at: Position,
    pub(super) path: String,
}

/// Reads a target. A name that does not exist is refused; a pattern that matches nothing gets a warning.
pub(super) fn read_target(
    named: &Named<'_>,
    section: Section,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<Target> {
    let target = match section {
        Section::Steps | Section::Outputs => parse_step_target(named, problems)?,
        Section::Actions => Target::Action(Pattern::new(named.text)),
        Section::ActionTypes => Target::ActionType(Pattern::new(named.text)),
    };
    check_exists(named, section, &target, flows, problems).then_some(target)
}

/// Parses `step`, `flow.step`, `step[2]` or `step[*]`.
fn parse_step_target(named: &Named<'_>, problems: &mut Problems<'_>) -> Option<Target> {
    let (name, item) = match named.text.split_once('[') {
        None => (named.text, None),
        Some((name, rest)) => match rest.strip_suffix(']').map(|item| (item, item.parse::<u32>())) {
            Some(("*", _)) => (name, None),
            Some((_, Ok(item))) => (name, Some(item)),
            Some((_, Err(_))) | None => {
                problems
                    .error(named.at, &named.path, format!("`{}` is not an item of a step", named.text))
                    .hint(format!("items are counted from 0: `{name}[0]`"));
                return None;
            }
        },
    };
    let (flow, step) = match name.rsplit_once('.') {
        None => (None, name),
        Some((flow, step)) => (Some(Pattern::new(flow)), step),
    };
    Some(Target::Step { flow, step: Pattern::new(step), item })
}

/// Checks that the target includes at least one step of these flows that this section can describe.
fn check_exists(
    named: &Named<'_>,
    section: Section,
    target: &Target,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> bool {
    let steps = || flows.iter().flat_map(|flow| flow.steps.iter().map(move |step| (flow, step)));
    let of_target = |item| steps().filter(move |(flow, step)| target.includes_unit(&flow.name, step, item));
    let item = match target {
        Target::Step { item, .. } => *item,
        Target::Action(_) | Target::ActionType(_) => None,
    };
    if of_target(item)
        .any(|(_, step)| section.accepts_step(step) && (item.is_none() || step.node.for_each.is_some()))
    {
        return true;
    }
    let is_exact = match target {
        Target::Step { flow, step, .. } => step.is_exact() && flow.as_ref().is_none_or(Pattern::is_exact),
        Target::Action(pattern) | Target::ActionType(pattern) => pattern.is_exact(),
    };
    if let Some((_, step)) = of_target(item).next().filter(|_| is_exact) {
        match section {
            Section::Steps | Section::Actions | Section::ActionTypes => {
                refuse_step_without_attempts(named, step, problems);
            }
            Section::Outputs => refuse_example(named, step, problems),
        }
        return false;
    }
    if !is_exact {
        problems
            .warning(
                named.at,
                &named.path,
                format!("`{}` matches no step that a worker or a process executes", named.text),
            )
            .hint("it has no effect");
        return true;
    }
    let (what, known) = suggest_targets(section, target, flows);
    let hint = suggest::hint_for_word(named.text, known.iter().map(String::as_str));
    problems.error(named.at, &named.path, format!("there is no {what} `{}`", named.text)).maybe_hint(hint);
    false
}

/// Refuses a step that has no attempts or items to describe, with what to do instead.
fn refuse_step_without_attempts(named: &Named<'_>, step: &Step, problems: &mut Problems<'_>) {
    let id = &step.id;
    let (message, hint) = match &step.kind {
        Kind::Action(_) | Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_) => {
            (format!("step `{id}` has no items"), format!("it has no `forEach`: write `{id}`"))
        }
        Kind::Child(flow) => (
            format!("step `{id}` is a child flow and is not executed itself"),
            format!("name the steps of the child: `{flow}.<step>`"),
        ),
        Kind::Signal(name) => (
            format!("step `{id}` waits for a signal and is not executed"),
            format!("send it with `signals: [{{name: {name}, after: 1h}}]`"),
        ),
        Kind::Wait(_) | Kind::Set(_) => (
            format!("step `{id}` is done by the engine (`{}`)", step.kind.word()),
            "a plan controls only steps that a worker or a process executes".to_owned(),
        ),
    };
    problems.error(named.at, &named.path, message).hint(hint);
}

/// Refuses an example for a step whose output is not made up, with what to do instead.
fn refuse_example(named: &Named<'_>, step: &Step, problems: &mut Problems<'_>) {
    let id = &step.id;
    let (message, hint) = match &step.kind {
        Kind::Action(_) | Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_) | Kind::Signal(_) => {
            (format!("step `{id}` has no items"), format!("it has no `forEach`: write `{id}`"))
        }
        Kind::Child(flow) => (
            format!("step `{id}` is a child flow; its output comes from the child"),
            format!("give examples for the steps of the child: `{flow}.<step>`"),
        ),
        Kind::Wait(_) => (
            format!("step `{id}` is a `wait`; its output is always null"),
            "remove it: a rehearsal waits as the engine does".to_owned(),
        ),
        Kind::Set(_) => (
            format!("step `{id}` is a `set`; its output is computed in a rehearsal too"),
            "give examples for the steps that it reads".to_owned(),
        ),
    };
    problems.error(named.at, &named.path, message).hint(hint);
}

/// Lists the names that would be valid here.
fn suggest_targets(section: Section, target: &Target, flows: &[Flow]) -> (&'static str, Vec<String>) {
    let executed = || {
        let steps = flows.iter().flat_map(|flow| flow.steps.iter().map(move |step| (flow, step)));
        steps.filter(move |(_, step)| section.accepts_step(step))
    };
    match target {
        Target::Step { flow: None, .. } => {
            ("step", executed().map(|(_, step)| step.id.to_string()).collect())
        }
        Target::Step { flow: Some(_), .. } => {
            ("step", executed().map(|(flow, step)| format!("{}.{}", flow.name, step.id)).collect())
        }
        Target::Action(_) => ("action", executed().map(|(_, step)| action_name(step)).collect()),
        Target::ActionType(_) => {
            let labels = executed().filter_map(|(_, step)| step.action_type.as_deref());
            ("action type", labels.map(str::to_owned).collect())
        }
    }
}

/// Returns the action of a step; its id where it has none.
fn action_name(step: &Step) -> String {
    match &step.kind {
        Kind::Action(name) => name.to_string(),
        Kind::Process(_)
        | Kind::Http(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => step.full_action.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_names() {
        let cases = [
            ("encode", "encode", true),
            ("encode", "encoder", false),
            ("*", "", true),
            ("*", "anything", true),
            ("en*", "encode", true),
            ("*de", "encode", true),
            ("*d*d*", "encode", false),
            ("*e*d*", "encode", true),
            ("e?code", "encode", true),
            ("e?code", "eecode", true),
            ("e?code", "ecode", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "a", false),
        ];
        for (pattern, name, wanted) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), wanted, "{pattern} {name}");
        }
    }
}
