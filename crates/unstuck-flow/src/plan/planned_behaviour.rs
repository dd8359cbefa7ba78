//! What one attempt does in a plan: `pass`, or `{stall: "connection refused", after: 5s, times: 3}`.

use std::sync::Arc;

use unstuck_core::json::Json;
use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt};
use unstuck_core::model::error::Reason;
use unstuck_core::random::Random;
use unstuck_core::time::Millis;

use crate::emulate::{self, MAX_SEQUENCE, WORDS};
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::tree::Content;

/// What one attempt does, as far as the plan says it there.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedBehaviour {
    /// What it does.
    pub behaviour: Behaviour,
    /// How long it takes before that shows.
    pub after: Option<Range>,
    /// The cause of its error, or what is lacking.
    pub cause: Option<Arc<str>>,
    /// The long text of its error.
    pub context: Option<Arc<str>>,
    /// Who is to blame.
    pub reason: Option<Reason>,
    /// What it puts out.
    pub output: Option<Json>,
}

/// A span, or one drawn between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub least: Millis,
    /// At most.
    pub most: Millis,
}

impl Range {
    /// Always so long.
    pub fn fixed(span: Millis) -> Range {
        Range { least: span, most: span }
    }

    /// Draws a span from the range.
    pub fn draw(self, random: &mut Random) -> Millis {
        if self.least == self.most {
            return self.least;
        }
        Millis(random.between(self.least.0, self.most.0))
    }
}

impl PlannedBehaviour {
    /// Builds a behaviour without any details.
    pub fn of(behaviour: Behaviour) -> PlannedBehaviour {
        PlannedBehaviour { behaviour, after: None, cause: None, context: None, reason: None, output: None }
    }

    /// Combines this behaviour with what the rule gives for all attempts.
    pub(super) fn to_attempt(
        &self,
        shared: &PlannedBehaviour,
        drag: Millis,
        random: &mut Random,
    ) -> EmulatedAttempt {
        let usual = match self.behaviour {
            Behaviour::Drag => Some(Range::fixed(drag)),
            _ => shared.after,
        };
        EmulatedAttempt {
            behaviour: self.behaviour,
            after: self.after.or(usual).map_or(Millis::ZERO, |range| range.draw(random)),
            cause: self.cause.clone().or_else(|| shared.cause.clone()),
            context: self.context.clone().or_else(|| shared.context.clone()),
            reason: self.reason.or(shared.reason).unwrap_or_default(),
            output: self.output.clone().or_else(|| shared.output.clone()),
        }
    }
}

const REASONS: [(&str, Reason); 4] = [
    ("processing", Reason::Processing),
    ("data", Reason::Data),
    ("capacity", Reason::Capacity),
    ("time", Reason::Time),
];

/// Reads a list of behaviours, one per attempt; `times` repeats an entry.
pub(super) fn read_sequence(
    spot: &LocatedNode<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<PlannedBehaviour>> {
    let Content::List(nodes) = &spot.node.content else {
        spot.expected(problems, "a list such as `[stall, pass]`");
        return None;
    };
    if nodes.is_empty() {
        spot.refuse(problems, "the sequence is empty").hint("write at least one entry; the last one repeats");
        return None;
    }
    let mut acts = Vec::new();
    let mut is_right = true;
    for (place, node) in nodes.iter().enumerate() {
        match read_entry(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems) {
            Some((act, times)) if acts.len().saturating_add(times) <= MAX_SEQUENCE => {
                acts.extend(std::iter::repeat_n(act, times));
            }
            Some(_) => {
                spot.refuse(problems, format!("a sequence can have at most {MAX_SEQUENCE} attempts"))
                    .hint("the last one repeats");
                return None;
            }
            None => is_right = false,
        }
    }
    is_right.then_some(acts)
}

/// Reads one behaviour that applies to every attempt.
pub(super) fn read_single(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<PlannedBehaviour> {
    let (act, times) = read_entry(spot, problems)?;
    if times != 1 {
        spot.refuse(problems, "`times` works only in a `sequence`")
            .hint("remove it: here it applies to every attempt");
        return None;
    }
    Some(act)
}

/// Returns whether a map is one entry rather than a rule: it names a behaviour.
pub(super) fn is_entry(spot: &LocatedNode<'_>) -> bool {
    let names = |word: &str| spot.node.entry(word).is_some();
    let is_rule = names("sequence") || names("odds") || names("duration");
    !is_rule && WORDS.iter().map(|(word, _)| *word).chain(["wait"]).any(names)
}

/// Reads one entry of a sequence, and how often it is repeated.
fn read_entry(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<(PlannedBehaviour, usize)> {
    if !matches!(spot.node.content, Content::Map(_)) {
        if spot.node.text() == Some("wait") {
            spot.refuse(problems, "`wait` needs a duration").hint("write `{wait: 5m}`");
            return None;
        }
        return spot.read_word(&WORDS, problems).map(|behaviour| (PlannedBehaviour::of(behaviour), 1));
    }
    let object = Object::read(spot, fields::PLAN_ACT, "an attempt", problems)?;
    let named: Vec<&'static str> = object.names().map(|(name, _)| name).collect();
    let words: Vec<&str> = named
        .iter()
        .copied()
        .filter(|name| *name == "wait" || WORDS.iter().any(|(word, _)| word == name))
        .collect();
    let [word] = words.as_slice() else {
        let problem = if words.is_empty() {
            spot.refuse(problems, "does not say what the attempt does")
        } else {
            spot.refuse(problems, "an attempt can do only one thing")
        };
        problem.hint("for example `{stall: \"connection refused\", after: 5s}`");
        return None;
    };
    let mut act = read_behaviour(&object, word, problems)?;
    if let Some(after) = object.spot("after") {
        if act.after.is_some() || matches!(act.behaviour, Behaviour::Stick | Behaviour::Wait { .. }) {
            after.refuse(problems, format!("`after` does not apply to this `{word}`")).hint("remove it");
            return None;
        }
        act.after = Some(read_range(&after, problems)?);
    }
    read_texts(&object, &mut act, problems)?;
    let times = match object.spot("times") {
        None => 1,
        Some(spot) => spot.read_whole(1, "a whole number of at least 1", problems)?,
    };
    Some((act, times))
}

/// Reads the behaviour and the value after it: a cause, what is lacking, or a duration.
fn read_behaviour(object: &Object<'_>, word: &str, problems: &mut Problems<'_>) -> Option<PlannedBehaviour> {
    let spot = object.spot(word)?;
    if word == "wait" {
        return emulate::read_wait(&spot, problems).map(PlannedBehaviour::of);
    }
    let (_, behaviour) = WORDS.iter().find(|(known, _)| *known == word)?;
    let mut act = PlannedBehaviour::of(*behaviour);
    if matches!(spot.node.content, Content::Null | Content::Bool(true)) {
        return Some(act);
    }
    match behaviour {
        Behaviour::Stall | Behaviour::Fail | Behaviour::Choke => {
            act.cause = Some(spot.read_text(problems)?.into());
        }
        Behaviour::Drag => act.after = Some(read_range(&spot, problems)?),
        Behaviour::Pass | Behaviour::Crash | Behaviour::Stick | Behaviour::Wait { .. } => {
            spot.refuse(problems, format!("`{word}` takes no value"))
                .hint(format!("write `{{{word}: , after: 5s}}`, or `{word}` alone"));
            return None;
        }
    }
    Some(act)
}

/// Reads the texts of an error and the output, for one attempt or for all.
pub(super) fn read_texts(
    object: &Object<'_>,
    act: &mut PlannedBehaviour,
    problems: &mut Problems<'_>,
) -> Option<()> {
    if let Some(spot) = object.spot("cause") {
        if act.cause.is_some() {
            spot.refuse(problems, "the cause is given twice").hint("remove one of the two");
            return None;
        }
        act.cause = Some(spot.read_text(problems)?.into());
    }
    if let Some(spot) = object.spot("context") {
        act.context = Some(spot.read_text(problems)?.into());
    }
    if let Some(spot) = object.spot("reason") {
        act.reason = Some(spot.read_word(&REASONS, problems)?);
    }
    if let Some(spot) = object.spot("output") {
        act.output = Some(Json::of(&spot.node.value()));
    }
    Some(())
}

/// Reads `5m`, or `[1m, 5m]` for a span drawn between the two.
pub(super) fn read_range(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Range> {
    let Content::List(nodes) = &spot.node.content else {
        return spot.read_duration(problems).map(Range::fixed);
    };
    let [least, most] = nodes.as_slice() else {
        spot.refuse(problems, "a range has two durations").hint("write `[1m, 5m]`");
        return None;
    };
    let mut end = |node, place: usize| {
        LocatedNode { node, path: format!("{}[{place}]", spot.path) }.read_duration(problems)
    };
    let (least, most) = (end(least, 0), end(most, 1));
    let (least, most) = (least?, most?);
    if least > most {
        spot.refuse(problems, format!("{least} is longer than {most}")).hint("write the shorter one first");
        return None;
    }
    Some(Range { least, most })
}
