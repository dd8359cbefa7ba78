//! The policies of an engine: an order about them is decided by the core, made durable, and in force from then on.

use unstuck_core::decide::check_texts;
use unstuck_core::id::PolicyId;
use unstuck_core::policy::{Policies, Policy, PolicyAudit, PolicySet, apply_command};
use unstuck_core::time::Time;
use unstuck_store::contract::{CallOutcome, PolicyChange, Store, StoreError};

pub use unstuck_core::policy::{BadPolicy, PolicyCommand, PolicyOutcome};

use crate::call::Call;
use crate::engine::Engine;
use crate::request::EngineError;

/// So often an order is decided when others change policies at the same time.
const MAX_TRIES: u32 = 5;

impl<S: Store> Engine<S> {
    /// The policies, enabled or not, in the order in which they match.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Carries out an order, between two batches: it is durable before anything is decided by it.
    pub fn change_policies(&mut self, order: PolicyCommand, now: Time) -> Result<PolicyOutcome, EngineError> {
        self.change_policies_as(order, &Call::default(), now)
    }

    /// The same, with what comes with the request.
    #[expect(clippy::needless_pass_by_value, reason = "it is given once, and may be decided several times")]
    pub fn change_policies_as(
        &mut self,
        order: PolicyCommand,
        call: &Call,
        now: Time,
    ) -> Result<PolicyOutcome, EngineError> {
        self.take_time(now);
        if let Some(error) = &self.stopped {
            return Err(error.clone().into());
        }
        check_texts(order.actor(), order.reason())?;
        let mut tries = 0;
        loop {
            let newest = self.store.versions()?;
            self.refresh_shared(newest)?;
            tries += 1;
            self.check_key(call)?;
            self.check_policies_unchanged(call)?;
            match self.try_change_policies(order.clone(), call) {
                // Another server was quicker: it is decided again on what that left.
                Err(EngineError::Store(StoreError::Conflict(_))) if tries < MAX_TRIES => {}
                result => return result,
            }
        }
    }

    /// Refuses a request whose condition about policies does not hold. The store refuses what others change after this.
    fn check_policies_unchanged(&mut self, call: &Call) -> Result<(), EngineError> {
        let Some(mark) = &call.expected_policies else { return Ok(()) };
        let last = self.store.policy_audit(None, 1)?.first().map_or(0, |(id, _)| id.0);
        if mark.fits(&self.policies, last) { Ok(()) } else { Err(EngineError::PoliciesChanged) }
    }

    fn try_change_policies(
        &mut self,
        order: PolicyCommand,
        call: &Call,
    ) -> Result<PolicyOutcome, EngineError> {
        let (at, ids) = (self.store_time(), &mut self.ids);
        let fresh_id = || PolicyId(ids.next(at)).to_string().into();
        let clock = self.clock.record.shift;
        let (PolicySet { policies, switch }, outcome) =
            apply_command(&self.policies, order, at, clock, fresh_id).map_err(EngineError::BadPolicies)?;
        if outcome.changes.is_empty() {
            let unchanged = outcome.unchanged.clone();
            self.record_unchanged(call, CallOutcome::PoliciesChanged { changes: Vec::new(), unchanged })?;
            return Ok(outcome);
        }
        let checked = check_stored(policies.clone())?.with_switch(switch.clone());
        let idempotency = call.idempotency.clone().map(|key| (key, outcome.unchanged.clone()));
        let given = call.audit.as_ref().and_then(|audit| audit.reason.clone());
        let with_reason =
            |change: PolicyAudit| PolicyAudit { reason: change.reason.or_else(|| given.clone()), ..change };
        let (changes, origin) = (outcome.changes.iter().cloned().map(with_reason).collect(), call.origin());
        let change = PolicyChange { policies, switch, changes, origin, idempotency };
        self.store.put_policies(change, self.known.policies)?;
        self.policies = checked;
        self.known.policies = self.store.versions()?.policies;
        self.record_shared_change();
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
