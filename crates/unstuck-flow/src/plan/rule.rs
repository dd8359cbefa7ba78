//! Rules of a plan: the behaviours of a step's attempts as a sequence or odds, with durations and texts.

use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt};
use unstuck_core::random::Random;
use unstuck_core::time::Millis;

use super::pattern::Target;
use super::planned_behaviour::{self, PlannedBehaviour};
use crate::emulate::{self, DRAG};
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::tree::Content;

/// What a plan says of some steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub target: Target,
    /// What their attempts do.
    pub order: BehaviourOrder,
    /// What is said for all of their attempts; what it does is not.
    pub shared: PlannedBehaviour,
    /// How long one takes that drags.
    pub drag: Millis,
}

/// Which attempt does what.
#[derive(Clone, Debug, PartialEq)]
pub enum BehaviourOrder {
    /// One after the other, the last one repeating. Never empty.
    Sequence(Vec<PlannedBehaviour>),
    /// At random, with these weights. Never empty, and the sum is above zero.
    Odds(Vec<(Behaviour, f64)>),
}

impl Rule {
    /// Builds a rule with a sequence and defaults.
    pub fn new(target: Target, sequence: Vec<PlannedBehaviour>) -> Rule {
        Rule {
            target,
            order: BehaviourOrder::Sequence(sequence),
            shared: PlannedBehaviour::of(Behaviour::Pass),
            drag: DRAG,
        }
    }

    /// Returns what an attempt does; the first is number 1.
    pub fn to_attempt(&self, attempt: u32, random: &mut Random) -> EmulatedAttempt {
        match &self.order {
            BehaviourOrder::Sequence(acts) => {
                let place = (attempt.max(1) as usize - 1).min(acts.len().saturating_sub(1));
                match acts.get(place) {
                    Some(act) => act.to_attempt(&self.shared, self.drag, random),
                    None => PlannedBehaviour::of(Behaviour::Pass).to_attempt(&self.shared, self.drag, random),
                }
            }
            BehaviourOrder::Odds(odds) => {
                let sum: f64 = odds.iter().map(|(_, weight)| weight).sum();
                let mut draw = random.unit() * sum;
                let mut drawn = odds.last().map_or(Behaviour::Pass, |(behaviour, _)| *behaviour);
                for (behaviour, weight) in odds {
                    if draw < *weight {
                        drawn = *behaviour;
                        break;
                    }
                    draw -= weight;
                }
                PlannedBehaviour::of(drawn).to_attempt(&self.shared, self.drag, random)
            }
        }
    }
}

/// Reads the rule for a target: one behaviour, a list, or an object with all details.
pub(super) fn read_rule(spot: &LocatedNode<'_>, target: Target, problems: &mut Problems<'_>) -> Option<Rule> {
    match &spot.node.content {
        Content::List(_) => {
            return planned_behaviour::read_sequence(spot, problems).map(|acts| Rule::new(target, acts));
        }
        Content::Map(_) if !planned_behaviour::is_entry(spot) => {}
        Content::Map(_) | Content::Text(_) => {
            return planned_behaviour::read_single(spot, problems).map(|act| Rule::new(target, vec![act]));
        }
        Content::Null | Content::Bool(_) | Content::Number(_) => {
            spot.expected(
                problems,
                "a behaviour such as `pass`, a list of them, or a map such as `{duration: 5m}`",
            );
            return None;
        }
    }
    let object = Object::read(spot, fields::PLAN_RULE, "a step of a plan", problems)?;
    let mut shared = PlannedBehaviour::of(Behaviour::Pass);
    if let Some(duration) = object.spot("duration") {
        shared.after = planned_behaviour::read_range(&duration, problems);
    }
    let drag = object.spot("drag").and_then(|spot| spot.read_duration(problems)).unwrap_or(DRAG);
    planned_behaviour::read_texts(&object, &mut shared, problems)?;
    let order = match (object.spot("sequence"), object.spot("odds")) {
        (Some(_), Some(odds)) => {
            odds.refuse(problems, "give either `sequence` or `odds`, not both").hint("remove one of the two");
            return None;
        }
        (Some(sequence), None) => {
            BehaviourOrder::Sequence(planned_behaviour::read_sequence(&sequence, problems)?)
        }
        (None, Some(odds)) => BehaviourOrder::Odds(emulate::read_odds(&odds, problems)?),
        (None, None) if object.names().next().is_none() => {
            spot.refuse(problems, "does not say what happens")
                .hint("for example `{sequence: [stall, pass]}`, or `{duration: 5m}`");
            return None;
        }
        (None, None) => BehaviourOrder::Sequence(vec![PlannedBehaviour::of(Behaviour::Pass)]),
    };
    Some(Rule { target, order, shared, drag })
}
