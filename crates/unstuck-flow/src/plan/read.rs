//! Reads one plan from a document.

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

/// Reads the plan of a document and reports its problems. A flow or a policy is refused with a hint.
pub(super) fn read_plan(node: &Node, flows: &[Flow], problems: &mut Problems<'_>) -> Option<Plan> {
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
            spot.read_text(problems);
        }
    }
    let duration = |name: &str, problems: &mut Problems<'_>| match object.spot(name) {
        None => Some(None),
        Some(spot) => spot.read_positive_duration(problems).map(Some),
    };
    let (every, until) = (duration("every", problems), duration("until", problems));
    let start = object.spot("start").map_or(Some(usual.start), |spot| read_start(&spot, problems));
    let rules = read_rules(&object, flows, problems);
    let outputs = object
        .spot("outputs")
        .map_or(Some(Vec::new()), |spot| outputs::read_outputs(&spot, problems.file(), flows, problems));
    let outages = object.spot("outages").map_or(Some(Vec::new()), |spot| {
        world::read_list(&spot, problems, |spot, problems| outage::read_outage(spot, flows, problems))
    });
    let workers =
        object.spot("workers").map_or(Some(usual.workers), |spot| world::read_workers(&spot, problems));
    let signals = object.spot("signals");
    let signals = signals.map_or(Some(usual.signals), |spot| world::read_signals(&spot, flows, problems));
    let operator = match object.spot("operator") {
        None => Some(None),
        Some(spot) => world::read_operator(&spot, problems).map(Some),
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

/// Reads where the clock starts, within the range that ids can encode.
fn read_start(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Time> {
    const EARLIEST: Time = Time(1_577_836_800_000);
    const LATEST: Time = Time(3_471_292_800_000);
    let time = match parse_instant(spot.read_text(problems)?) {
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

/// Reads all rules, sorted by how specific their targets are, then as written.
fn read_rules(object: &Object<'_>, flows: &[Flow], problems: &mut Problems<'_>) -> Option<Vec<Rule>> {
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
            let target = pattern::read_target(&named, section, flows, problems);
            let said = LocatedNode { node: &entry.node, path };
            // What is said of somebody unknown is looked at all the same.
            let whoever = target.clone().unwrap_or(pattern::Target::Action(pattern::Pattern::new("")));
            match (target, rule::read_rule(&said, whoever, problems)) {
                (Some(_), Some(rule)) => rules.push(rule),
                (_, _) => is_right = false,
            }
        }
    }
    rules.sort_by_key(|rule| rule.target.rank());
    is_right.then_some(rules)
}
