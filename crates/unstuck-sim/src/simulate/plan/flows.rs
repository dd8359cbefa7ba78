//! Random flows, written as a person would write them, so that loading, expressions and sources are the real ones.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use unstuck_core::model::flow::Flow;

use crate::simulate::chance::Chance;

/// Every queue that flows here may use.
pub(crate) const QUEUES: [&str; 5] = ["cut", "mix", "send", "@process", "@emulate"];
const ACTIONS: [&str; 3] = ["cut", "mix", "send"];
const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
/// The labels of steps.
pub(crate) const TYPES: [&str; 2] = ["TRANSFORM", "EGRESS"];
/// The signals that steps wait for.
pub(crate) const SIGNALS: [&str; 2] = ["paid", "go"];

/// A flow in a plan.
#[derive(Clone, Debug)]
pub struct PlannedFlow {
    pub name: Arc<str>,
    /// Everything but its name and steps.
    pub head: Map<String, Value>,
    pub steps: Vec<Value>,
}

impl PlannedFlow {
    /// The text of its file.
    pub fn text(&self) -> String {
        let mut file = self.head.clone();
        file.insert("flow".to_owned(), json!(&*self.name));
        file.insert("steps".to_owned(), Value::Array(self.steps.clone()));
        Value::Object(file).to_string()
    }

    /// Loads it, where there are flows of these names; what is wrong with it otherwise.
    pub fn load(&self, names: &[&str]) -> Result<Flow, String> {
        let loaded = unstuck_flow::load(&self.text(), "plan", "", &|name| names.contains(&name));
        let first = |problems: Vec<unstuck_flow::Problem>| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        loaded.map_err(first)?.flows.into_iter().next().ok_or_else(|| "there is no flow in it".to_owned())
    }
}

impl fmt::Display for PlannedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, Value::Object(self.head.clone()))?;
        for step in &self.steps {
            write!(f, "\n    {step}")?;
        }
        Ok(())
    }
}

/// Some flows: each may have those after it as children and handlers.
pub(crate) fn draw(chance: &mut Chance) -> Vec<PlannedFlow> {
    let count = chance.weighed(&[(2, 1), (4, 2), (3, 3), (1, 4)]);
    (0..count).map(|place| one(chance, place, count)).collect()
}

/// Another version of a flow.
pub(crate) fn again(chance: &mut Chance, flows: &[PlannedFlow]) -> PlannedFlow {
    let place = chance.below(flows.len());
    one(chance, place, flows.len())
}

fn one(chance: &mut Chance, place: usize, count: usize) -> PlannedFlow {
    let after = &NAMES[place + 1..count];
    let steps = usize::try_from(chance.weighed(&[(2, 1_u64), (3, 2), (3, 3), (2, 4), (1, 5)])).unwrap_or(1);
    let mut drawn: Vec<Value> = Vec::new();
    let mut before: Vec<Vec<usize>> = Vec::new();
    for step in 0..steps {
        let needs = needs(chance, step);
        let mut known: Vec<usize> = match &needs {
            Some(needs) => needs.clone(),
            None => step.checked_sub(1).into_iter().collect(),
        };
        for needed in known.clone() {
            known.extend(before[needed].iter().copied());
        }
        drawn.push(draw_step(chance, step, needs, &known, after));
        before.push(known);
    }
    PlannedFlow { name: NAMES[place].into(), head: head(chance, steps), steps: drawn }
}

fn needs(chance: &mut Chance, step: usize) -> Option<Vec<usize>> {
    chance.percent(45).then(|| (0..step).filter(|_| chance.percent(50)).collect())
}

fn head(chance: &mut Chance, steps: usize) -> Map<String, Value> {
    let mut head = Map::new();
    if chance.percent(12) {
        head.insert("deadline".to_owned(), json!(*chance.one(&["20s", "2m", "1h"])));
    }
    if chance.percent(4) {
        // Within the first hour of the simulation, or long after it.
        let instants = ["2027-01-15T08:20:00Z", "2027-06-15T08:00:00Z"];
        head.insert("deadline".to_owned(), json!(*chance.one(&instants)));
    }
    if chance.percent(30) {
        let mut limit = json!({"limit": chance.between(1, 2), "strict": chance.percent(40)});
        if chance.percent(30) {
            limit["key"] = json!("${string(input.n)}");
        }
        head.insert("concurrency".to_owned(), limit);
    }
    if chance.percent(20) {
        let last = format!("${{steps.s{}.output}}", steps - 1);
        head.insert("output".to_owned(), json!({"last": last, "n": "${input.n}"}));
    }
    if chance.percent(10) {
        head.insert("input".to_owned(), json!({"type": "object"}));
    }
    head
}

fn draw_step(
    chance: &mut Chance,
    place: usize,
    needs: Option<Vec<usize>>,
    known: &[usize],
    after: &[&str],
) -> Value {
    let mut step = Map::new();
    step.insert("id".to_owned(), json!(format!("s{place}")));
    let kind = kind(chance, &mut step, after);
    if let Some(needs) = needs {
        let names: Vec<String> = needs.iter().map(|needed| format!("s{needed}")).collect();
        step.insert("needs".to_owned(), json!(names));
    }
    let mut give = |name: &str, value: Value| drop(step.insert(name.to_owned(), value));
    if chance.percent(15) {
        let conditions = ["${input.n > 1}", "${input.go}", "${input.missing.deep}"];
        give("if", json!(conditions[chance.weighed(&[(5, 0), (4, 1), (1, 2)])]));
    }
    if kind != "signal" && chance.percent(20) {
        give("forEach", json!({"items": "${input.items}", "parallel": chance.between(1, 3)}));
    }
    if matches!(kind, "action" | "run" | "emulate" | "flow") && chance.percent(25) {
        let earlier =
            known.first().map_or_else(|| json!(1), |step| json!(format!("${{steps.s{step}.output}}")));
        let items = json!("${input.items}");
        give("with", json!({"n": "${input.n}", "items": items, "go": true, "earlier": earlier}));
    }
    if kind != "set" {
        recover(chance, kind, &mut give);
    }
    match chance.between(0, 9) {
        0 | 1 => give("failOnError", json!(false)),
        2 | 3 if !after.is_empty() => give("exceptionHandler", json!(*chance.one(after))),
        _ => {}
    }
    if chance.percent(30) {
        give("type", json!(*chance.one(&TYPES)));
    }
    Value::Object(step)
}

fn kind(chance: &mut Chance, step: &mut Map<String, Value>, after: &[&str]) -> &'static str {
    let children = if after.is_empty() { 0 } else { 16 };
    let kind = chance.weighed(&[
        (42, "action"),
        (12, "run"),
        (12, "emulate"),
        (children, "flow"),
        (8, "wait"),
        (8, "signal"),
        (8, "set"),
    ]);
    let value = match kind {
        "action" => json!(*chance.one(&ACTIONS)),
        "run" => json!(["work"]),
        "emulate" => emulation(chance),
        "flow" => json!(*chance.one(after)),
        "wait" => json!(*chance.one(&["3s", "1m", "2h", "2027-01-15T08:10:00Z"])),
        "signal" => json!(*chance.one(&SIGNALS)),
        _ => json!({"n": "${input.n}"}),
    };
    step.insert(kind.to_owned(), value);
    kind
}

fn emulation(chance: &mut Chance) -> Value {
    let words = ["pass", "stall", "fail", "crash", "drag", "stick", "choke"];
    if chance.percent(30) {
        return json!({"odds": {"pass": 3, "stall": 2, "crash": 1, "choke": 1}, "seed": chance.between(0, 99)});
    }
    let sequence: Vec<&str> = (0..chance.between(1, 3)).map(|_| *chance.one(&words)).collect();
    json!({"sequence": sequence, "duration": "2s", "drag": "40s"})
}

fn recover(chance: &mut Chance, kind: &str, give: &mut dyn FnMut(&str, Value)) {
    let is_executed = matches!(kind, "action" | "run" | "emulate");
    let mut queue_timeout = None;
    if chance.percent(30) {
        give("timeout", json!(*chance.one(&["15s", "2m", "1h"])));
    }
    if chance.percent(25) {
        give("maxStuck", json!(chance.between(1, 3)));
    }
    if chance.percent(20) {
        give("minimumDelay", json!(*chance.one(&["0s", "1ms", "20s"])));
    }
    if is_executed {
        if chance.percent(20) {
            give("startTimeout", json!(*chance.one(&["2s", "1m"])));
        }
        if chance.percent(20) {
            give("heartbeatTimeout", json!(*chance.one(&["8s", "1m"])));
        }
        if chance.percent(15) {
            queue_timeout = Some(*chance.one(&["1s", "30s", "10m"]));
        }
        if chance.percent(25) {
            let (delay, limit) = *chance.one(&[("1s", "5s"), ("10s", "1m"), ("30s", "0s")]);
            give("defer", json!({"delay": delay, "limit": limit}));
        }
        if chance.percent(25) {
            give("load", json!(chance.between(0, 3)));
        }
        if chance.percent(25) {
            give("priority", json!(chance.between(0, 4).cast_signed() - 2));
        }
    }
    let is_unlimited = strategy(chance, give);
    if let Some(timeout) = queue_timeout {
        // Else a worker whose only place is taken for half a day makes thousands of attempts.
        give("queueTimeout", json!(if is_unlimited { "10m" } else { timeout }));
    }
}

/// Whether it retries for ever.
fn strategy(chance: &mut Chance, give: &mut dyn FnMut(&str, Value)) -> bool {
    let back_off = |chance: &mut Chance| match chance.between(0, 3) {
        0 => json!("0s"),
        1 => json!("20s"),
        2 => json!({"delay": "5s", "multiplier": 2, "maxDelay": "1m"}),
        _ => json!({"delay": "1s", "maxDelay": "30s", "random": true}),
    };
    let drawn = chance.between(0, 9);
    match drawn {
        0..=3 => {}
        4..=6 => {
            give("retryStrategy", json!("retry"));
            give("maxAttempts", json!(chance.between(2, 4)));
            if chance.percent(60) {
                give("backOff", back_off(chance));
            }
        }
        7 => {
            give("retryStrategy", json!("retry"));
            give("maxAttempts", json!(-1));
            give("backOff", json!("30s"));
        }
        _ => {
            give("retryStrategy", json!("hold"));
            if chance.percent(40) {
                give("maxAttempts", json!(chance.between(1, 3)));
            }
        }
    }
    drawn == 7
}
