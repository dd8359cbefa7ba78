//! Outages: what steps do between two times, whatever else the plan says of them.

use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt};
use unstuck_core::model::flow::{Flow, Step};
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};

use super::pattern::{self, Named, Section, Target};
use super::planned_behaviour::{self, PlannedBehaviour};
use super::planned_time::{self, DAY, PlannedTime};
use crate::emulate::DRAG;
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::tree::Content;

/// Something is down for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// Whose attempts it strikes.
    pub targets: Vec<Target>,
    /// When it begins.
    pub from: PlannedTime,
    /// When it ends.
    pub until: Until,
    /// What attempts do meanwhile.
    pub does: PlannedBehaviour,
}

/// The end of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At this time.
    When(PlannedTime),
    /// So long after its beginning.
    For(Millis),
}

/// A time in which something is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Time,
    /// Up to.
    pub to: Time,
}

impl Outage {
    /// Returns whether the outage affects this unit.
    pub fn strikes(&self, flow: &str, step: &Step, item: Option<u32>) -> bool {
        self.targets.iter().any(|target| target.takes(flow, step, item))
    }

    /// Returns the window that is open at `at`, or else the next one, for a clock that started at `start`.
    pub fn window(&self, start: Time, at: Time) -> Option<Window> {
        let length = match (self.until, self.from) {
            (Until::For(span), _) => span,
            (Until::When(PlannedTime::Daily(to)), PlannedTime::Daily(from)) => {
                let day = DAY.unsigned_abs();
                Millis((to.0 + day - from.0) % day)
            }
            (Until::When(to), from) => {
                to.next(start, Time(i64::MIN))?.since(from.next(start, Time(i64::MIN))?)
            }
        };
        let back = i64::try_from(length.0).unwrap_or(i64::MAX);
        // The one that may have begun already and is still open.
        let earliest = Time(at.0.saturating_sub(back).saturating_add(1));
        let from = self.from.next(start, earliest)?;
        Some(Window { from, to: from + length })
    }

    /// Returns what an affected attempt does.
    pub fn to_attempt(&self, random: &mut Random) -> EmulatedAttempt {
        self.does.to_attempt(&PlannedBehaviour::of(Behaviour::Pass), DRAG, random)
    }
}

/// Reads one outage: its targets, its time and its behaviour.
pub(super) fn read_outage(
    spot: &LocatedNode<'_>,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<Outage> {
    let object = Object::read(spot, fields::OUTAGE, "an outage", problems)?;
    let mut targets = Vec::new();
    let mut is_right = true;
    for (name, section) in Section::ALL {
        let Some(spot) = object.spot(name) else { continue };
        match read_targets(&spot, section, flows, problems) {
            Some(named) => targets.extend(named),
            None => is_right = false,
        }
    }
    if targets.is_empty() && is_right {
        spot.refuse(problems, "does not say what is down").hint("name `steps`, `actions` or `actionTypes`");
        is_right = false;
    }
    let from = object.spot("from").map_or(Some(PlannedTime::After(Millis::ZERO)), |spot| {
        planned_time::read_planned_time(&spot, problems)
    });
    let until = read_until(&object, problems);
    let does = match object.spot("does") {
        None => Some(PlannedBehaviour {
            cause: Some("emulated outage".into()),
            ..PlannedBehaviour::of(Behaviour::Stall)
        }),
        Some(spot) => planned_behaviour::read_single(&spot, problems),
    };
    let outage = Outage { targets, from: from?, until: until?, does: does? };
    (check_outage(&object, &outage, problems) && is_right).then_some(outage)
}

/// Reads the names of one section, a single one or a list.
fn read_targets(
    spot: &LocatedNode<'_>,
    section: Section,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<Vec<Target>> {
    let one = |spot: &LocatedNode<'_>, problems: &mut Problems<'_>| {
        let text = spot.read_text(problems)?;
        pattern::read_target(
            &Named { text, at: spot.node.at, path: spot.path.clone() },
            section,
            flows,
            problems,
        )
    };
    let Content::List(nodes) = &spot.node.content else {
        return one(spot, problems).map(|target| vec![target]);
    };
    let places = nodes.iter().enumerate();
    let targets: Vec<Option<Target>> = places
        .map(|(place, node)| one(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems))
        .collect();
    targets.into_iter().collect()
}

/// Reads the end of an outage: exactly one of `to` and `for`.
fn read_until(object: &Object<'_>, problems: &mut Problems<'_>) -> Option<Until> {
    match (object.spot("to"), object.spot("for")) {
        (Some(to), None) => planned_time::read_planned_time(&to, problems).map(Until::When),
        (None, Some(span)) => span.read_positive_duration(problems).map(Until::For),
        (Some(_), Some(span)) => {
            span.refuse(problems, "give either `to` or `for`, not both").hint("remove one of the two");
            None
        }
        (None, None) => {
            problems
                .error(object.at, &object.path, "the outage has no end")
                .hint("write `to: 05:00` or `for: 3h`; for a step that is always down, use `steps`");
            None
        }
    }
}

/// Checks that the outage ends after it begins, and that its behaviour is a failure.
fn check_outage(object: &Object<'_>, outage: &Outage, problems: &mut Problems<'_>) -> bool {
    let is_none = matches!(outage.does.behaviour, Behaviour::Pass | Behaviour::Wait { .. });
    if let Some(spot) = object.spot("does").filter(|_| is_none) {
        spot.refuse(problems, "this is not an outage")
            .hint("use `stall`, `fail`, `stick`, `choke`, `crash` or `drag`");
        return false;
    }
    let Until::When(to) = outage.until else { return true };
    let Some(spot) = object.spot("to") else { return true };
    match (outage.from, to) {
        (PlannedTime::Daily(from), PlannedTime::Daily(to)) if from != to => true,
        (PlannedTime::Daily(_), PlannedTime::Daily(_)) => {
            spot.refuse(problems, "the outage ends when it begins").hint("use `for: 24h` for a whole day");
            false
        }
        (PlannedTime::Daily(_), _) | (_, PlannedTime::Daily(_)) => {
            spot.refuse(problems, "`from` and `to` must be of the same kind")
                .hint("write both as `02:00`, both as `2h`, or use `for`");
            false
        }
        (PlannedTime::After(from), PlannedTime::After(to)) if from >= to => {
            spot.refuse(problems, format!("the outage ends after {to}, but begins only after {from}"));
            false
        }
        (PlannedTime::At(from), PlannedTime::At(to)) if from >= to => {
            spot.refuse(problems, "the outage ends before it begins");
            false
        }
        (PlannedTime::After(_) | PlannedTime::At(_), PlannedTime::After(_) | PlannedTime::At(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_open_between_its_times_and_a_daily_one_on_every_day() {
        let hour = |n: i64| Time(n * 3_600_000);
        let outage = |from, until| Outage {
            targets: Vec::new(),
            from,
            until,
            does: PlannedBehaviour::of(Behaviour::Stall),
        };
        let daily = |n| PlannedTime::Daily(Millis::hours(n));
        let once =
            outage(PlannedTime::After(Millis::hours(2)), Until::When(PlannedTime::After(Millis::hours(5))));
        let nightly = outage(daily(2), Until::When(daily(5)));
        let over_midnight = outage(daily(23), Until::For(Millis::hours(2)));
        let cases = [
            (&once, 0, Some((2, 5))),
            (&once, 2, Some((2, 5))),
            (&once, 4, Some((2, 5))),
            (&once, 5, None),
            (&nightly, 0, Some((2, 5))),
            (&nightly, 3, Some((2, 5))),
            (&nightly, 5, Some((26, 29))),
            (&over_midnight, 24, Some((23, 25))),
            (&over_midnight, 25, Some((47, 49))),
            (&over_midnight, 0, Some((-1, 1))),
        ];
        for (outage, at, wanted) in cases {
            let window = outage.window(hour(0), hour(at));
            assert_eq!(
                window,
                wanted.map(|(from, to)| Window { from: hour(from), to: hour(to) }),
                "{outage:?} at {at}"
            );
        }
    }
}
