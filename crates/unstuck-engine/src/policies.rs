//! The policies of an engine: an order about them is decided by the core, made durable, and in force from then on.

use unstuck_core::decide::check_texts;
use unstuck_core::id::PolicyId;
use unstuck_core::policy::{Policies, Policy, PolicySet, apply_command};
use unstuck_core::time::Time;
use unstuck_store::contract::{PolicyChange, Store, StoreError};

pub use unstuck_core::policy::{BadPolicy, PolicyCommand, PolicyOutcome};

use crate::engine::Engine;
use crate::request::EngineError;

impl<S: Store> Engine<S> {
    /// The policies, enabled or not, in the order in which they match.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Carries out an order, between two batches: it is durable before anything is decided by it.
    pub fn change_policies(&mut self, order: PolicyCommand, now: Time) -> Result<PolicyOutcome, EngineError> {
        self.last = self.last.max(now);
        if let Some(error) = &self.stopped {
            return Err(error.clone().into());
        }
        check_texts(order.actor(), order.reason())?;
        let (at, ids) = (self.last, &mut self.ids);
        let fresh_id = || PolicyId(ids.next(at)).to_string().into();
        let clock = self.clock.record.shift;
        let (PolicySet { policies, switch }, outcome) =
            apply_command(&self.policies, order, at, clock, fresh_id).map_err(EngineError::BadPolicies)?;
        if outcome.changes.is_empty() {
            return Ok(outcome);
        }
        let checked = check_stored(policies.clone())?.with_switch(switch.clone());
        self.store.put_policies(PolicyChange { policies, switch, changes: outcome.changes.clone() })?;
        self.policies = checked;
        Ok(outcome)
    }
}

/// The policies of a store.
pub(crate) fn load_policies(store: &mut impl Store) -> Result<Policies, StoreError> {
    let switch = store.policy_switch()?;
    Ok(check_stored(store.policies()?)?.with_switch(switch))
}

pub(crate) fn check_stored(policies: Vec<Policy>) -> Result<Policies, StoreError> {
    Policies::new(policies).map_err(|problems| {
        let said: Vec<String> = problems.into_iter().map(|(_, problem)| problem.message).collect();
        StoreError::Broken(format!("its policies conflict with each other: {}", said.join("; ")))
    })
}
