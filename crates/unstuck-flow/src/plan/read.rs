//! One plan: from a document to what happens in a rehearsal.

use unstuck_core::duration::parse_instant;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::{Millis, Time};

use super::pattern::{self, Named, Section};
use super::rule::{self, Rule};
use super::{Plan, outage, outputs, world};
use crate::fields;
use crate::parse::join;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::tree::{Content, Node};

/// Reads the plan of a document. What is wrong with it is reported.
pub(super) fn plan(node: &Node, flows: &[Flow], problems: &mut Problems<'_>) -> Option<Plan> {
    if node.entry("flow").is_some() {
        problems
            .error(node.at, "", "this is a flow, not a plan")
            .hint("write `unstuck rehearse FLOW_FILE --plan PLAN_FILE`");
        return None;
    }
    if node.entry("errorSubstring").is_some() || node.entry("backOff").is_some() {
        problems.error(node.at, "", "this is a policy, not a plan").hint("pass policies with --policies");
        return None;
    }
    let object = Object::read(&LocatedNode::root(node), fields::PLAN, "a plan", problems)?;
    let usual = Plan::default();
    for name in ["plan", "description"] {
        if let Some(spot) = object.spot(name) {
            spot.text(problems);
        }
    }
    let duration = |name: &str, problems: &mut Problems<'_>| match object.spot(name) {
        None => Some(None),
        Some(spot) => spot.some_duration(problems).map(Some),
    };
    let (every, until) = (duration("every", problems), duration("until", problems));
    let start = object.spot("start").map_or(Some(usual.start), |spot| start(&spot, problems));
    let rules = rules(&object, flows, problems);
    let outputs = object
        .spot("outputs")
        .map_or(Some(Vec::new()), |spot| outputs::read(&spot, problems.file(), flows, problems));
    let outages = object.spot("outages").map_or(Some(Vec::new()), |spot| {
        world::list(&spot, problems, |spot, problems| outage::read(spot, flows, problems))
    });
    let workers = object.spot("workers").map_or(Some(usual.workers), |spot| world::workers(&spot, problems));
    let signals = object.spot("signals");
    let signals = signals.map_or(Some(usual.signals), |spot| world::signals(&spot, flows, problems));
    let operator = match object.spot("operator") {
        None => Some(None),
        Some(spot) => world::operator(&spot, problems).map(Some),
    };
    Some(Plan {
        start: start?,
        every: every?.unwrap_or(Millis::ZERO),
        input: object.spot("input").map(|spot| Json::of(&spot.node.value())),
        until: until?,
        rules: rules?,
        outputs: outputs?,
        outages: outages?,
        workers: workers?,
        signals: signals?,
        operator: operator?,
    })
}

/// An instant that a clock can start at: ids count from 2020 on, and for a human life.
fn start(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Time> {
    const EARLIEST: Time = Time(1_577_836_800_000);
    const LATEST: Time = Time(3_471_292_800_000);
    let time = match parse_instant(spot.text(problems)?) {
        Ok(time) => time,
        Err(message) => {
            spot.refuse(problems, message);
            return None;
        }
    };
    if !(EARLIEST..LATEST).contains(&time) {
        spot.refuse(problems, "the clock must start between 2020 and 2080");
        return None;
    }
    Some(time)
}

/// All rules, in the order in which they are asked: the more exact first, then as they are written.
fn rules(object: &Object<'_>, flows: &[Flow], problems: &mut Problems<'_>) -> Option<Vec<Rule>> {
    let mut rules = Vec::new();
    let mut is_right = true;
    for (name, section) in Section::ALL {
        let Some(spot) = object.spot(name) else { continue };
        let Content::Map(entries) = &spot.node.content else {
            spot.expected(problems, "a map such as `{fetch: [stall, pass]}`");
            is_right = false;
            continue;
        };
        for entry in entries {
            let path = join(&spot.path, &entry.key);
            let named = Named { text: &entry.key, at: entry.at, path: path.clone() };
            let target = pattern::read(&named, section, flows, problems);
            let said = LocatedNode { node: &entry.node, path };
            // What is said of somebody unknown is looked at all the same.
            let whoever = target.clone().unwrap_or(pattern::Target::Action(pattern::Pattern::new("")));
            match (target, rule::read(&said, whoever, problems)) {
                (Some(_), Some(rule)) => rules.push(rule),
                (_, _) => is_right = false,
            }
        }
    }
    rules.sort_by_key(|rule| rule.target.rank());
    is_right.then_some(rules)
}
