//! Everything that can be seen of errors and policies, and what the runs say about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::errors::{ErrorRecord, LedTo, OpenError, open_error};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::policy::Policy;

use crate::contract::{
    AuditId, ErrorFilter, ErrorGroup, ErrorId, GroupFilter, OpenErrorFilter, PolicyAudit, PolicyHits, Store,
};

/// All that can be seen of errors and policies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ErrorContents {
    policies: Vec<Policy>,
    audit: Vec<(AuditId, PolicyAudit)>,
    hits: Vec<PolicyHits>,
    recorded: Vec<(ErrorId, ErrorRecord)>,
    open: Vec<OpenError>,
    groups: Vec<ErrorGroup>,
    /// What must be recorded, by the histories.
    ended: Vec<Ended>,
    /// What must be open, by the states.
    in_error: Vec<OpenError>,
}

/// An attempt that ended in error: run, generation, unit, attempt.
type Ended = (RunId, u32, UnitRef, u32);

impl ErrorContents {
    /// Reads all that is stored about errors, and beside it what histories and states say there should be.
    pub(super) fn read<S: Store>(
        store: &mut S,
        runs: &[(Run, Vec<Event>)],
        flows: &[&Arc<Flow>],
    ) -> ErrorContents {
        let mut ended: Vec<Ended> = runs
            .iter()
            .flat_map(|(run, history)| history.iter().flat_map(|event| ended(run.id, event)))
            .collect();
        ended.sort_unstable();
        let mut in_error = Vec::new();
        for (run, _) in runs.iter().rev() {
            let Some(flow) = flows.iter().find(|flow| flow.id == run.flow) else { continue };
            let units = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
            in_error.extend(units.into_iter().filter_map(|unit| open_error(run, flow, unit)));
        }
        in_error.sort_by_key(|error| (error.record.run, error.record.unit));
        ErrorContents {
            policies: store.policies().expect("policies can be read"),
            audit: store.policy_audit(None, usize::MAX).expect("changes can be read"),
            hits: store.policy_hits().expect("hits can be read"),
            recorded: store.errors(&ErrorFilter::default(), None, usize::MAX).expect("errors can be read"),
            open: store
                .open_errors(&OpenErrorFilter::default(), None, usize::MAX)
                .expect("errors can be read"),
            groups: store.error_groups(&GroupFilter::default(), usize::MAX).expect("groups can be read"),
            ended,
            in_error,
        }
    }

    /// Checks that each error is recorded once and in order, that open errors are those of the runs' states, and that
    /// groups count no less than is recorded.
    pub(super) fn check(&self) {
        let place = |error: &ErrorRecord| (error.run, error.generation, error.unit, error.attempt);
        // A missed deadline ends no attempt.
        let recorded = self.recorded.iter().filter(|(_, error)| error.led_to != LedTo::Deadline);
        let mut recorded: Vec<Ended> = recorded.map(|(_, error)| place(error)).collect();
        recorded.sort_unstable();
        assert_eq!(recorded, self.ended, "every error is recorded once");
        assert!(self.recorded.is_sorted_by(|(a, earlier), (b, later)| a < b && earlier.at <= later.at));
        assert_eq!(self.open, self.in_error, "what is open is what the runs say");
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, error) in &self.recorded {
            *counted.entry(&error.group).or_default() += 1;
        }
        for group in &self.groups {
            assert!(group.count >= counted.remove(&*group.group).unwrap_or(0), "{group:?}");
            assert_eq!(group.flows.iter().map(|(_, count)| count).sum::<u64>(), group.count, "{group:?}");
        }
        assert!(counted.is_empty(), "errors without a group: {counted:?}");
    }
}

/// Lists the attempts that an event ends in error.
fn ended(run: RunId, event: &Event) -> impl Iterator<Item = Ended> {
    event.facts.iter().filter_map(move |fact| match fact {
        Fact::Unit {
            unit,
            fact: UnitFact::Ended { attempt, outcome: Outcome::Stalled(_) | Outcome::Failed(_) },
        } => Some((run, event.generation, *unit, *attempt)),
        _ => None,
    })
}
