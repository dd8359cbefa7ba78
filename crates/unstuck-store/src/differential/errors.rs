//! What happens to errors in a random session: policies come, change and go, and operators do what they can.

use std::sync::Arc;

use unstuck_core::command::Command;
use unstuck_core::json::Json;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitState;
use unstuck_core::policy::{
    Criteria, Policies, PoliciesPaused, PoliciesUnpaused, Policy, PolicySwitch, SwitchState,
};
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::user;
use crate::contract::{
    AuditId, ErrorFilter, ErrorId, GroupFilter, OpenErrorFilter, PolicyAudit, PolicyAuditKind, PolicyChange,
    Store, StoreError,
};
use crate::differential::session::RandomSession;

/// What policies look for: all of it happens.
const TEXTS: [&str; 4] = ["broke", "it broke", "for good", "nothing that happens"];
const ACTIONS: [&str; 4] = ["steps.a", "parallel.x", "parallel.y", "family.own"];

impl<A: TestStore, B: TestStore> RandomSession<'_, A, B> {
    /// Changes the policies; sometimes to a set that is refused.
    pub(super) fn change_policies(&mut self) {
        let mut policies = self.driver.store.policies().expect("reads");
        let place = self.below(policies.len().max(1));
        let before = policies.get(place).cloned();
        let age = policies.iter().map(|policy| policy.age).max().unwrap_or(0) + 1;
        let (what, after) = match (self.below(10), before.clone()) {
            (0, Some(_)) => (PolicyAuditKind::Deleted, None),
            (1, Some(before)) => {
                let enabled = !before.enabled;
                let what = if enabled { PolicyAuditKind::Enabled } else { PolicyAuditKind::Disabled };
                (what, Some(Policy { enabled, version: before.version + 1, ..before }))
            }
            (2, Some(before)) => {
                let changed = self.some_policy(before.age);
                let Policy { id, name, age, .. } = before;
                (
                    PolicyAuditKind::Changed,
                    Some(Policy { id, name, age, version: before.version + 1, ..changed }),
                )
            }
            (3, Some(before)) => {
                (PolicyAuditKind::Added, Some(Policy { id: before.id, ..self.some_policy(age) }))
            }
            (_, _) => (PolicyAuditKind::Added, Some(self.some_policy(age))),
        };
        let is_new = what == PolicyAuditKind::Added;
        if before.is_some() && !is_new {
            policies.remove(place);
        }
        policies.extend(after.clone());
        let Some(policy) = after.as_ref().or(before.as_ref()) else { return };
        let changes = vec![PolicyAudit {
            at: self.driver.now,
            by: user(),
            policy: policy.id.clone(),
            name: policy.name.clone(),
            what,
            reason: None,
            before: before.filter(|_| !is_new),
            after,
        }];
        // Two that match alike are none of a store's business, and the core would not have them.
        let problems = Policies::new(policies.clone()).err().unwrap_or_default();
        if problems.iter().any(|(_, problem)| problem.field == "errorSubstring") {
            return;
        }
        let switch = self.some_switch();
        match self.driver.put_policies(PolicyChange { policies, switch, changes, ..PolicyChange::default() })
        {
            Ok(()) | Err(StoreError::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Chooses whether policies are paused: mostly as it is.
    fn some_switch(&mut self) -> PolicySwitch {
        let switch = self.driver.policies.switch().clone();
        let (version, at) = (switch.version + 1, self.driver.now);
        let state = match self.below(6) {
            0 => SwitchState::Paused(PoliciesPaused { since: at, by: user(), reason: "because".into() }),
            1 | 2 => SwitchState::Unpaused(PoliciesUnpaused { at: Time(i64::MIN), clock: 0, rate: 50 }),
            _ => return switch,
        };
        PolicySwitch { version, state }
    }

    fn some_policy(&mut self, age: u64) -> Policy {
        let name: Arc<str> = format!("p{age}").into();
        let back_off = BackOff {
            delay: Millis([0, 500, 40_000][self.below(3)]),
            max_delay: Some(Millis(90_000)),
            multiplier: self.chance(2).then_some(2.0),
            random: self.chance(3),
        };
        let text = (!self.chance(3)).then(|| Arc::from(TEXTS[self.below(4)]));
        let action = self.chance(4).then(|| Arc::from(ACTIONS[self.below(4)]));
        let flow = (text.is_none() && action.is_none()).then(|| self.some_flow().name.clone());
        Policy {
            id: format!("id-{name}").into(),
            name,
            criteria: Criteria { error_substring: text, flow, action, action_type: None },
            max_attempts: [2, 3, 50][self.below(3)],
            priority: [50, 100][self.below(2)],
            is_priority_set: false,
            back_off,
            enabled: !self.chance(5),
            include_fatal: self.chance(2),
            version: 1,
            age,
        }
    }

    /// Chooses what an operator does about an error of this run; none if it has no error.
    pub(super) fn some_remedy(&mut self, run: &Run) -> Option<Command> {
        let errors = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
        let unit = *errors.get(self.below(errors.len().max(1)))?;
        let by = user();
        let after = Millis(20);
        Some(match self.below(6) {
            0 | 1 => Command::Acknowledge { unit: Some(unit), by, reason: None },
            2 => Command::Complete { unit, output: Json::NULL, by, reason: None },
            3 => Command::Skip { unit, by, reason: None },
            _ => Command::ApplyPolicies { unit, only: None, after, by },
        })
    }

    /// Reads errors in a random way; both stores must agree.
    pub(super) fn read_errors(&mut self) {
        let some = self.driver.store.errors(&ErrorFilter::default(), None, 50).expect("reads");
        let some = some.get(self.below(some.len().max(1)));
        let Some((id, error)) = some.cloned() else { return };
        let group = self.chance(2).then(|| error.group.clone());
        let flow = self.chance(3).then(|| error.root_flow.clone());
        let action = self.chance(3).then(|| error.action.clone());
        let since: Option<Time> = self.chance(2).then_some(error.at);
        let until = self.chance(2).then(|| error.at + Millis(30_000));
        let limit = 1 + self.below(6);
        let after = self.chance(2).then(|| ErrorId(id.0.saturating_sub(3)));
        let filter =
            ErrorFilter { since, until, group: group.clone(), flow: flow.clone(), action: action.clone() };
        self.driver.store.errors(&filter, after, limit).expect("reads");
        let groups = GroupFilter { group: group.clone(), flow: flow.clone(), action: action.clone(), since };
        self.driver.store.error_groups(&groups, limit).expect("reads");
        let policy = self.chance(3).then(|| error.policy.map(|policy| policy.id)).flatten();
        let run = self.chance(4).then_some(error.run);
        let after = self.chance(2).then_some((error.run, error.unit));
        let filter = OpenErrorFilter { group, flow, action, policy, run };
        self.driver.store.open_errors(&filter, after, limit).expect("reads");
        let before = self.chance(2).then(|| AuditId(self.random.between(1, 9)));
        self.driver.store.policy_audit(before, limit).expect("reads");
        self.driver.store.policy_hits().expect("reads");
    }
}
