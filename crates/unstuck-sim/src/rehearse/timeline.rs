//! Timelines: what happened to a run and to what belongs to it, in order, with the rule behind every decision.

use std::collections::BTreeMap;

use serde::Serialize;
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::run::Origin;
use unstuck_core::reason;
use unstuck_core::time::{Millis, Time};

use super::execution::ExecutedPlan;
use super::report::unit_name;

/// What happened to one run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The number of the run, from 1.
    pub number: u32,
    #[serde(serialize_with = "unstuck_api::json_form::text")]
    pub run: RunId,
    /// What happened, in order.
    pub lines: Vec<TimelineLine>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineLine {
    /// Since the start of the rehearsal.
    #[serde(rename = "after", serialize_with = "unstuck_api::json_form::seconds")]
    pub after_ms: Millis,
    /// When, on the virtual clock.
    pub at: String,
    /// Whose it is, where it is a child's or a handler's: the steps that lead there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// In words.
    pub what: String,
    /// What decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<&'static str>,
    /// The rule, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The timeline of a root run, if its history was kept.
pub fn timeline(played: &ExecutedPlan, number: u32) -> Option<Timeline> {
    let root = played.runs.get(number.checked_sub(1)? as usize)?;
    played.histories.get(&root.id)?;
    let mut lines: BTreeMap<(Time, u64, usize), TimelineLine> = BTreeMap::new();
    for run in played.ledger.family(root.id) {
        let Some(history) = played.histories.get(&run) else { continue };
        tell(played, run, history, &mut lines);
    }
    let ends = root.updated_at;
    for (at, order, what) in played.notes.iter().filter(|(at, _, _)| (root.created_at..=ends).contains(at)) {
        lines.insert((*at, *order, 0), line(played, *at, String::new(), what.clone()));
    }
    Some(Timeline { number, run: root.id, lines: lines.into_values().collect() })
}

fn line(played: &ExecutedPlan, at: Time, path: String, what: String) -> TimelineLine {
    TimelineLine { after_ms: at.since(played.start), at: at.to_string(), path, what, rung: None, rule: None }
}

fn tell(
    played: &ExecutedPlan,
    run: RunId,
    history: &[(u64, Event)],
    lines: &mut BTreeMap<(Time, u64, usize), TimelineLine>,
) {
    let flow = played.ledger.flow_of.get(&run).and_then(|flow| played.flows.get(flow));
    let Some(flow) = flow else { return };
    let events: Vec<Event> = history.iter().map(|(_, event)| event.clone()).collect();
    let orders: BTreeMap<u64, u64> = history.iter().map(|(order, event)| (event.seq, *order)).collect();
    let path = path(played, run);
    let is_shown = |sentence: &reason::Sentence| {
        let event = usize::try_from(sentence.seq).ok().and_then(|seq| events.get(seq.checked_sub(1)?));
        !event.is_some_and(|event| is_said_again(&event.facts[sentence.place]))
    };
    for (place, sentence) in reason::history_sentences(flow, &events).into_iter().enumerate() {
        if !is_shown(&sentence) {
            continue;
        }
        let order = orders.get(&sentence.seq).copied().unwrap_or(0);
        let mut line = line(played, sentence.at, path.clone(), sentence.what);
        if let Some((rung, rule)) = sentence.decided {
            line.rung = Some(rung.word());
            line.rule = Some(rule).filter(|rule| !rule.is_empty());
        }
        lines.insert((sentence.at, order, place), line);
    }
}

/// What is followed at once by something that says more: an emulated worker starts what it is handed.
fn is_said_again(fact: &Fact) -> bool {
    matches!(fact, Fact::Unit { fact: UnitFact::Dequeued { .. } | UnitFact::Queued { .. }, .. })
}

/// The steps that lead to a child: `deploy > check`, or `exceptionHandler`.
fn path(played: &ExecutedPlan, run: RunId) -> String {
    let mut steps = Vec::new();
    let mut at = run;
    while let Some(origin) = played.ledger.origins.get(&at) {
        match origin {
            Origin::Root => break,
            Origin::Child { parent, unit, .. } => {
                let flow = played.ledger.flow_of.get(parent).and_then(|flow| played.flows.get(flow));
                steps.push(unit_name(flow.map(|flow| &**flow), *unit));
                at = *parent;
            }
            Origin::Handler { parent, .. } => {
                steps.push("exceptionHandler".to_owned());
                at = *parent;
            }
        }
    }
    steps.reverse();
    steps.join(" > ")
}
