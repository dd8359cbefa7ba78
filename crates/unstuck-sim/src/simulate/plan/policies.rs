//! Random resume policies.

use std::sync::Arc;

use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};

use crate::simulate::chance::Chance;
use crate::simulate::plan::PlannedFlow;
use crate::simulate::plan::flows::TYPES;

/// What workers here say when something went wrong.
pub(crate) const CAUSES: [&str; 3] = ["disk full", "connection reset by peer", "no such track"];
/// The names that policies here have.
pub(crate) const NAMES: [&str; 4] = ["north", "east", "south", "west"];

/// The policies that there are from the beginning.
pub(crate) fn draw(chance: &mut Chance, flows: &[PlannedFlow]) -> Vec<PolicyDraft> {
    let count = usize::try_from(chance.between(0, 3)).unwrap_or(0);
    NAMES.iter().take(count).map(|name| one(chance, name, flows)).collect()
}

/// A policy, which may be one that is refused.
pub(crate) fn one(chance: &mut Chance, name: &str, flows: &[PlannedFlow]) -> PolicyDraft {
    let mut criteria = Criteria::default();
    let flow = &chance.one(flows).name;
    match chance.between(0, 4) {
        0 => criteria.flow = Some(flow.clone()),
        1 => criteria.action = Some(Arc::from(format!("{flow}.{}", chance.one(&["cut", "mix", "s0", "s1"])))),
        2 => criteria.action_type = Some(Arc::from(*chance.one(&TYPES))),
        _ => {
            criteria.error_substring =
                Some(Arc::from(*chance.one(&["disk", "connection reset", "stuck", "e"])));
        }
    }
    let delay = *chance.one(&[0, 1_000, 30_000, 600_000]);
    let back_off = match chance.between(0, 3) {
        0 => DraftBackOff {
            delay: Some(delay),
            max_delay: Some(delay + 60_000),
            random: true,
            ..DraftBackOff::default()
        },
        1 => DraftBackOff {
            delay: Some(delay),
            multiplier: Some(2.0),
            max_delay: Some(3_600_000),
            ..DraftBackOff::default()
        },
        _ => DraftBackOff { delay: Some(delay), ..DraftBackOff::default() },
    };
    PolicyDraft {
        id: None,
        name: Some(name.into()),
        criteria,
        max_attempts: Some(chance.between(2, 4).cast_signed()),
        priority: chance.percent(20).then(|| i32::try_from(chance.between(0, 300)).unwrap_or(0)),
        back_off: Some(back_off),
        enabled: chance.percent(15).then_some(false),
        include_fatal: chance.percent(30).then_some(true),
    }
}

/// A policy in a line.
pub(crate) fn words(policy: &PolicyDraft) -> String {
    let PolicyDraft { name, criteria, max_attempts, priority, back_off, enabled, include_fatal, .. } = policy;
    let mut said = vec![name.as_deref().unwrap_or("without a name").to_owned()];
    let Criteria { error_substring, flow, action, action_type } = criteria;
    let criteria = [("error", error_substring), ("flow", flow), ("action", action), ("type", action_type)];
    said.extend(criteria.iter().filter_map(|(word, value)| Some(format!("{word} `{}`", value.as_ref()?))));
    said.extend(max_attempts.map(|attempts| format!("maxAttempts {attempts}")));
    said.extend(priority.map(|priority| format!("priority {priority}")));
    said.extend(enabled.map(|enabled| format!("enabled {enabled}")));
    said.extend(include_fatal.map(|fatal| format!("includeFatal {fatal}")));
    if let Some(DraftBackOff { delay, max_delay, multiplier, random }) = back_off {
        said.extend(delay.map(|delay| format!("delay {delay}ms")));
        said.extend(max_delay.map(|delay| format!("maxDelay {delay}ms")));
        said.extend(multiplier.map(|multiplier| format!("multiplier {multiplier}")));
        said.extend(random.then(|| "random".to_owned()));
    }
    said.join(", ")
}
