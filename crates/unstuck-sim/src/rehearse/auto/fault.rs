//! A fault: something that goes wrong at a step, once or at every attempt.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use unstuck_core::model::emulation::Behaviour;
use unstuck_core::time::Millis;
use unstuck_flow::plan::{Pattern, PlannedBehaviour, Range, Rule, Target};

/// How long an attempt takes that drags: long enough to run into a timeout that is too short.
pub(super) const DRAG: Millis = Millis::hours(1);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    /// An error that may pass.
    Stall,
    /// A fatal error.
    Fail,
    /// The worker dies, or a local process ends by a signal.
    Crash,
    /// Silence.
    Stick,
    /// No resources.
    Choke,
    /// Slow, but alive.
    Drag,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 6] = [
        FaultKind::Stall,
        FaultKind::Fail,
        FaultKind::Crash,
        FaultKind::Stick,
        FaultKind::Choke,
        FaultKind::Drag,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        self.behaviour().word()
    }

    fn behaviour(self) -> Behaviour {
        match self {
            FaultKind::Stall => Behaviour::Stall,
            FaultKind::Fail => Behaviour::Fail,
            FaultKind::Crash => Behaviour::Crash,
            FaultKind::Stick => Behaviour::Stick,
            FaultKind::Choke => Behaviour::Choke,
            FaultKind::Drag => Behaviour::Drag,
        }
    }

    fn act(self) -> PlannedBehaviour {
        let after = (self == FaultKind::Drag).then(|| Range::fixed(DRAG));
        PlannedBehaviour { after, ..PlannedBehaviour::of(self.behaviour()) }
    }

    /// As a plan writes it.
    fn written(self) -> String {
        if self == FaultKind::Drag { format!("{{drag: {DRAG}}}") } else { self.word().to_owned() }
    }
}

/// A step that somebody executes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepLocation {
    /// Its flow, where that is not the one that is run.
    pub flow: Option<Arc<str>>,
    pub step: Arc<str>,
}

impl fmt::Display for StepLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.flow {
            None => f.write_str(&self.step),
            Some(flow) => write!(f, "{flow}.{}", self.step),
        }
    }
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub location: StepLocation,
    pub kind: FaultKind,
    /// At every attempt, and not at the first only.
    pub always: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), if self.always { "always" } else { "once" })
    }
}

/// The rules that bring faults about.
pub(super) fn rules(faults: &[Fault]) -> Vec<Rule> {
    by_step(faults)
        .into_iter()
        .map(|(location, faults)| {
            let target = Target::Step {
                flow: location.flow.as_ref().map(|flow| Pattern::new(flow)),
                step: Pattern::new(&location.step),
                item: None,
            };
            let mut acts: Vec<PlannedBehaviour> = faults.iter().map(|fault| fault.kind.act()).collect();
            if !faults.iter().any(|fault| fault.always) {
                acts.push(PlannedBehaviour::of(Behaviour::Pass));
            }
            Rule::new(target, acts)
        })
        .collect()
}

/// The same, as somebody would write it into a plan.
pub(super) fn written(faults: &[Fault], signals: bool) -> String {
    let steps: Vec<String> = by_step(faults)
        .into_iter()
        .map(|(location, faults)| {
            let mut words: Vec<String> = faults.iter().map(|fault| fault.kind.written()).collect();
            match faults.as_slice() {
                [fault] if fault.always => format!("{location}: {}", words[0]),
                _ => {
                    words.push("pass".to_owned());
                    format!("{location}: [{}]", words.join(", "))
                }
            }
        })
        .collect();
    let signals = if signals { "\nsignals: asAwaited" } else { "" };
    format!("steps: {{{}}}{signals}", steps.join(", "))
}

/// Faults of the same step belong together, in order.
fn by_step(faults: &[Fault]) -> Vec<(&StepLocation, Vec<&Fault>)> {
    let mut found: Vec<(&StepLocation, Vec<&Fault>)> = Vec::new();
    for fault in faults {
        match found.iter_mut().find(|(location, _)| **location == fault.location) {
            Some((_, known)) => known.push(fault),
            None => found.push((&fault.location, vec![fault])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_written_as_a_plan() {
        let at = |step: &str| StepLocation { flow: None, step: step.into() };
        let child = StepLocation { flow: Some("child".into()), step: "a".into() };
        let fault = |location: StepLocation, kind, always| Fault { location, kind, always };
        let cases = [
            (vec![fault(at("a"), FaultKind::Stall, false)], "steps: {a: [stall, pass]}"),
            (vec![fault(at("a"), FaultKind::Crash, true)], "steps: {a: crash}"),
            (vec![fault(child, FaultKind::Drag, false)], "steps: {child.a: [{drag: 1h}, pass]}"),
            (
                vec![fault(at("a"), FaultKind::Stall, false), fault(at("a"), FaultKind::Stick, false)],
                "steps: {a: [stall, stick, pass]}",
            ),
            (
                vec![fault(at("a"), FaultKind::Stall, false), fault(at("b"), FaultKind::Choke, false)],
                "steps: {a: [stall, pass], b: [choke, pass]}",
            ),
        ];
        for (faults, wanted) in cases {
            assert_eq!(written(&faults, false), wanted);
        }
    }
}
