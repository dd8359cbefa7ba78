//! Reads one policy from a document into a draft that is valid by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use unstuck_core::duration::read_duration;
use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};

use crate::fields::{self, Field};
use crate::policies::LoadedPolicy;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::tree::{Content, Node, Position};

/// The longest name or id.
const MAX_NAME: usize = unstuck_core::decide::MAX_NAME_BYTES;
/// What a policy matches.
const CRITERIA: [&str; 4] = ["errorSubstring", "flow", "action", "actionType"];
/// The fields of `backOff`, by the names under which problems speak of them.
const BACK_OFF: [(&str, &str); 4] = [
    ("delay", "backOff.delay"),
    ("maxDelay", "backOff.maxDelay"),
    ("multiplier", "backOff.multiplier"),
    ("random", "backOff.random"),
];

/// Reads the policy of one document and reports everything that is wrong with it, each thing once.
pub(super) fn read_policy(node: &Node, file: &str, problems: &mut Problems<'_>) -> Option<LoadedPolicy> {
    if node.entry("steps").is_some() && node.entry("name").is_none() {
        problems.error(node.at, "", "this is a flow, not a policy").hint("run flows with `unstuck run`");
        return None;
    }
    if node.entry("policies").is_some() && node.entry("name").is_none() {
        problems
            .error(node.at, "policies", "a policy file is the list itself, without `policies:` around it")
            .hint("start each policy with `- name: <name>`, or put `---` between them");
        return None;
    }
    let object = Object::read(&LocatedNode::root(node), fields::POLICY, "a policy", problems)?;
    let mut reader = Reader { problems, wrong: Vec::new() };
    reader.mark_misspelled_fields(&object, node, fields::POLICY, |name| name);
    let draft = PolicyDraft {
        id: reader.read_field(&object, "id", "id", read_label),
        name: reader.read_field(&object, "name", "name", read_label),
        criteria: Criteria {
            error_substring: reader.read_field(&object, "errorSubstring", "errorSubstring", read_criterion),
            flow: reader.read_field(&object, "flow", "flow", read_criterion),
            action: reader.read_field(&object, "action", "action", read_criterion),
            action_type: reader.read_field(&object, "actionType", "actionType", read_criterion),
        },
        max_attempts: reader.read_field(&object, "maxAttempts", "maxAttempts", |spot, problems| {
            spot.read_whole(i128::from(i64::MIN), "a whole number of at least 2", problems)
        }),
        priority: reader.read_field(&object, "priority", "priority", |spot, problems| {
            spot.read_whole(i128::from(i32::MIN), "a whole number, such as 150", problems)
        }),
        back_off: reader.read_back_off(&object),
        enabled: reader.read_field(&object, "enabled", "enabled", LocatedNode::read_boolean),
        include_fatal: reader.read_field(&object, "includeFatal", "includeFatal", LocatedNode::read_boolean),
    };
    let wrong = reader.wrong;
    let policy = LoadedPolicy { draft, file: file.into(), at: object.at, fields: field_positions(&object) };
    report_draft_problems(&policy, &wrong, problems);
    Some(policy)
}

/// Reports the core's problems with the draft, except those that only follow from fields reported already.
fn report_draft_problems(policy: &LoadedPolicy, wrong: &[&str], problems: &mut Problems<'_>) {
    let is_known = |field: &str| {
        let outer = field.split('.').next().unwrap_or(field);
        let follows = field == "errorSubstring" && CRITERIA.iter().any(|field| wrong.contains(field));
        follows || wrong.contains(&field) || wrong.contains(&outer)
    };
    let nobody: Arc<str> = Arc::from("");
    let found = policy.draft.check(&nobody, 0).err().unwrap_or_default();
    for problem in found.into_iter().filter(|problem| !is_known(problem.field)) {
        problems
            .error(policy.position_of_field(problem.field), problem.field, problem.message)
            .hint(problem.hint.to_owned());
    }
}

/// Collects where the fields of a policy are written.
fn field_positions(object: &Object<'_>) -> BTreeMap<&'static str, Position> {
    let mut places: BTreeMap<&'static str, Position> =
        object.names().filter_map(|(name, _)| Some((name, object.spot(name)?.node.at))).collect();
    if let Some(LocatedNode { node: Node { content: Content::Map(entries), .. }, .. }) =
        object.spot("backOff")
    {
        for entry in entries {
            let name = fields::find(fields::BACK_OFF, &entry.key);
            let full = BACK_OFF.iter().find(|(short, _)| Some(*short) == name);
            places.extend(full.map(|(_, full)| (*full, entry.node.at)));
        }
    }
    places
}

/// Reads fields and remembers which are wrong, so that problems that only follow from them are not reported.
struct Reader<'p, 'f> {
    problems: &'p mut Problems<'f>,
    wrong: Vec<&'static str>,
}

impl Reader<'_, '_> {
    /// Reads a field if it is given; null counts as absent.
    fn read_field<'a, T>(
        &mut self,
        object: &Object<'a>,
        name: &str,
        full: &'static str,
        read: impl FnOnce(&LocatedNode<'a>, &mut Problems<'_>) -> Option<T>,
    ) -> Option<T> {
        let spot = object.spot(name).filter(|spot| !matches!(spot.node.content, Content::Null))?;
        let value = read(&spot, self.problems);
        if value.is_none() {
            self.wrong.push(full);
        }
        value
    }

    /// Marks a missing field as wrong if an unknown key is probably a misspelling of it: the key has been reported.
    fn mark_misspelled_fields(
        &mut self,
        object: &Object<'_>,
        node: &Node,
        fields: &[Field],
        full: impl Fn(&'static str) -> &'static str,
    ) {
        let Content::Map(entries) = &node.content else { return };
        let unknown = entries.iter().filter(|entry| fields::find(fields, &entry.key).is_none());
        let meant = unknown.filter_map(|entry| fields::guess(fields, &entry.key));
        self.wrong.extend(meant.filter(|name| object.get(name).is_none()).map(full));
    }

    /// Reads a back-off: a duration, or an object with its parts.
    fn read_back_off(&mut self, policy: &Object<'_>) -> Option<DraftBackOff> {
        let spot = policy.spot("backOff")?;
        if matches!(spot.node.content, Content::Null) {
            return None;
        }
        if !matches!(spot.node.content, Content::Map(_)) {
            let delay = self.read_field(policy, "backOff", "backOff", read_delay);
            return Some(DraftBackOff { delay, ..DraftBackOff::default() });
        }
        let object = Object::read(&spot, fields::BACK_OFF, "`backOff`", self.problems)?;
        let full = |name| BACK_OFF.iter().find(|(short, _)| *short == name).map_or(name, |(_, full)| *full);
        self.mark_misspelled_fields(&object, spot.node, fields::BACK_OFF, full);
        let back_off = DraftBackOff {
            delay: self.read_field(&object, "delay", "backOff.delay", read_delay),
            max_delay: self.read_field(&object, "maxDelay", "backOff.maxDelay", read_delay),
            multiplier: self.read_field(&object, "multiplier", "backOff.multiplier", read_multiplier),
            random: self
                .read_field(&object, "random", "backOff.random", LocatedNode::read_boolean)
                .unwrap_or(false),
        };
        self.warn_without_effect(&object, &back_off);
        Some(back_off)
    }

    /// Warns about parts of a back-off that have no effect together with others.
    fn warn_without_effect(&mut self, object: &Object<'_>, back_off: &DraftBackOff) {
        let mut warn = |name: &str, message: &str| {
            if let Some(entry) = object.get(name) {
                self.problems.warning(entry.at, format!("{}.{name}", object.path), message);
            }
        };
        if back_off.random && back_off.multiplier.is_some() {
            warn("multiplier", "`multiplier` has no effect together with `random: true`");
        }
        // Where one of the two is written wrongly, that is what there is to say.
        let has_use = ["multiplier", "random"].iter().any(|name| object.get(name).is_some());
        if back_off.max_delay.is_some() && (!has_use || (!back_off.random && back_off.multiplier.is_none())) {
            warn("maxDelay", "`maxDelay` has no effect without a `multiplier` or `random: true`");
        }
    }
}

/// Reads a text, or a number as it is spelled: `errorSubstring: 503`.
fn read_text(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Arc<str>> {
    match spot.node.content {
        Content::Text(_) | Content::Number(_) => spot.node.spelling(problems.text).map(Into::into),
        Content::Null | Content::Bool(_) | Content::List(_) | Content::Map(_) => {
            spot.expected(problems, "text");
            None
        }
    }
}

/// Reads a name or an id, which must fit on one line.
fn read_label(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Arc<str>> {
    let text = read_text(spot, problems)?;
    if text.chars().count() > MAX_NAME {
        spot.refuse(problems, format!("longer than {MAX_NAME} characters"));
        return None;
    }
    if text.chars().any(char::is_control) {
        spot.refuse(problems, "contains a line break or another control character")
            .hint("keep it to one line");
        return None;
    }
    Some(text)
}

/// Reads a criterion; warns if it is blank, which is ignored.
fn read_criterion(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Arc<str>> {
    let text = read_text(spot, problems)?;
    if text.trim().is_empty() {
        problems
            .warning(spot.node.at, &spot.path, "is empty and is ignored")
            .hint("remove it, or give it a value");
    }
    Some(text)
}

/// Reads a number; one that is too small is left for the core to refuse.
fn read_multiplier(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<f64> {
    match &spot.node.content {
        Content::Number(number) => number.as_f64(),
        Content::Null | Content::Bool(_) | Content::Text(_) | Content::List(_) | Content::Map(_) => {
            spot.expected(problems, "a number of at least 1");
            None
        }
    }
}

/// Reads a duration in milliseconds; a negative one is left for the core to refuse.
fn read_delay(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<i64> {
    let forward = match &spot.node.content {
        Content::Number(number) => {
            number.as_f64().filter(|seconds| *seconds < 0.0).map(|seconds| Value::from(-seconds))
        }
        Content::Text(text) => {
            let text = text.trim();
            text.strip_prefix('-').or_else(|| text.strip_suffix("ago")).map(Value::from)
        }
        Content::Null | Content::Bool(_) | Content::List(_) | Content::Map(_) => None,
    };
    if let Some(Ok(span)) = forward.map(|forward| read_duration(&forward)) {
        return i64::try_from(span.0).ok().map(|ms| -ms);
    }
    let span = spot.read_duration(problems)?;
    i64::try_from(span.0).ok()
}
