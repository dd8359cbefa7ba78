//! Commands that change policies: computes the new set, which applies as a whole or not at all, and the audit entries.

use std::fmt;
use std::sync::Arc;

use crate::event::Actor;
use crate::policy::{
    Policies, Policy, PolicyAudit, PolicyAuditKind, PolicyDraft, PolicyProblem, PolicySwitch,
};
use crate::time::Time;

/// How far the priorities of an order are apart, so that one can be put between two others.
const PRIORITY_STEP: i32 = 10;

/// A command that changes policies. It applies as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyCommand {
    /// Keep these.
    Load {
        /// As they were written.
        drafts: Vec<PolicyDraft>,
        /// Whether one whose id or name is there takes its place. It keeps its id and its age then; and whether it is
        /// enabled, and a priority that was set explicitly, where the draft does not give them.
        replace: bool,
        by: Actor,
    },
    /// Keep these and no others.
    Set {
        /// As they were written. One whose id or name is there takes its place, as in `Load` with `replace`.
        drafts: Vec<PolicyDraft>,
        by: Actor,
    },
    /// Let them match in this order.
    Order {
        /// All of them, by name or id, the first to match first.
        names: Vec<Arc<str>>,
        by: Actor,
    },
    /// Let these take part.
    Enable {
        /// Their names, or their ids.
        names: Vec<Arc<str>>,
        by: Actor,
    },
    /// Let these take part no more.
    Disable {
        /// Their names, or their ids.
        names: Vec<Arc<str>>,
        by: Actor,
    },
    /// Remove these.
    Delete {
        /// Their names, or their ids.
        names: Vec<Arc<str>>,
        by: Actor,
    },
    /// Let nothing resume automatically.
    Pause { reason: Arc<str>, by: Actor },
    /// Let policies resume again.
    Unpause {
        /// How many of the resumes that waited may happen per second.
        rate: u32,
        by: Actor,
    },
}

/// The policies and the switch for all of them, as they are kept: one snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySet {
    /// Every policy.
    pub policies: Vec<Policy>,
    /// Whether they resume anything.
    pub switch: PolicySwitch,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyOutcome {
    /// What was changed, in order.
    pub changes: Vec<PolicyAudit>,
    /// The names of policies that needed no change.
    pub unchanged: Vec<Arc<str>>,
}

/// What is wrong with one policy of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPolicy {
    /// Its place in the order, from 0.
    pub place: usize,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// What is wrong.
    pub problem: PolicyProblem,
}

impl PolicyCommand {
    /// Who is behind it.
    pub fn actor(&self) -> &Actor {
        match self {
            PolicyCommand::Load { by, .. }
            | PolicyCommand::Set { by, .. }
            | PolicyCommand::Order { by, .. }
            | PolicyCommand::Enable { by, .. }
            | PolicyCommand::Disable { by, .. }
            | PolicyCommand::Delete { by, .. }
            | PolicyCommand::Pause { by, .. }
            | PolicyCommand::Unpause { by, .. } => by,
        }
    }

    /// The reason that the actor gave.
    pub fn reason(&self) -> Option<&str> {
        match self {
            PolicyCommand::Pause { reason, .. } => Some(reason),
            PolicyCommand::Load { .. }
            | PolicyCommand::Set { .. }
            | PolicyCommand::Order { .. }
            | PolicyCommand::Enable { .. }
            | PolicyCommand::Disable { .. }
            | PolicyCommand::Delete { .. }
            | PolicyCommand::Unpause { .. } => None,
        }
    }
}

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyProblem { message, hint, .. } = &self.problem;
        match &self.name {
            // This message contains the name already.
            Some(name) if message.ends_with(&format!("no policy `{name}`")) => {}
            Some(name) => write!(f, "policy `{name}`: ")?,
            None => write!(f, "policy {} of the list: ", self.place + 1)?,
        }
        write!(f, "{message}; {hint}")
    }
}

/// Applies a command to the policies and returns the new set with its audit entries, or everything that is wrong.
/// `clock` is the sum of all clock corrections; `fresh_id` gives ids to policies without one.
pub fn apply_command(
    policies: &Policies,
    order: PolicyCommand,
    at: Time,
    clock: i64,
    fresh_id: impl FnMut() -> Arc<str>,
) -> Result<(PolicySet, PolicyOutcome), Vec<BadPolicy>> {
    let mut plan = PolicyChanges::new(policies, at, fresh_id);
    match order {
        PolicyCommand::Load { drafts, replace, by } => drop(plan.load_drafts(&drafts, replace, &by)?),
        PolicyCommand::Set { drafts, by } => {
            plan.delete_others(&drafts, &by);
            plan.load_drafts(&drafts, true, &by)?;
        }
        PolicyCommand::Order { names, by } => plan.set_order(&names, &by)?,
        PolicyCommand::Enable { names, by } => plan.set_enabled(&names, true, &by)?,
        PolicyCommand::Disable { names, by } => plan.set_enabled(&names, false, &by)?,
        PolicyCommand::Delete { names, by } => plan.delete_named(&names, &by)?,
        PolicyCommand::Pause { reason, by } => {
            let switch = plan.switch.pause(at, by.clone(), reason.clone());
            plan.set_switch(switch, PolicyAuditKind::Paused, Some(reason), by);
        }
        PolicyCommand::Unpause { rate, by } => {
            let switch = plan.switch.unpause(at, clock, rate);
            plan.set_switch(switch, PolicyAuditKind::Unpaused, None, by);
        }
    }
    Ok((PolicySet { policies: plan.policies, switch: plan.switch }, plan.outcome))
}

/// Checks that these policies are valid as a set; a collision is reported for the later one.
fn check_together(policies: Vec<Policy>) -> Result<Policies, Vec<BadPolicy>> {
    let names: Vec<Arc<str>> = policies.iter().map(|policy| policy.name.clone()).collect();
    Policies::new(policies).map_err(|problems| {
        let bad_policy = |(place, problem)| BadPolicy { place, name: names.get(place).cloned(), problem };
        problems.into_iter().map(bad_policy).collect()
    })
}

/// Returns the policies with these drafts added and enabled, replacing policies of the same id or name, and the added
/// ones. For trials: nothing is stored.
pub fn with_drafts(
    policies: &Policies,
    drafts: &[PolicyDraft],
    at: Time,
) -> Result<(Policies, Vec<Arc<Policy>>), Vec<BadPolicy>> {
    let mut number = 0..;
    let mut plan = PolicyChanges::new(policies, at, || format!("new-{}", number.next().unwrap_or(0)).into());
    let drafts: Vec<PolicyDraft> =
        drafts.iter().map(|draft| PolicyDraft { enabled: Some(true), ..draft.clone() }).collect();
    let tried = plan.load_drafts(&drafts, true, &Actor::Engine)?;
    Ok((check_together(plan.policies)?, tried.into_iter().map(Arc::new).collect()))
}

/// Returns whether a draft would be enabled if it were loaded: where it does not say, as the policy that it replaces.
pub fn would_be_enabled(policies: &Policies, draft: &PolicyDraft) -> bool {
    let same_id = draft.id.as_ref().and_then(|id| policies.by_id(id));
    let named = || draft.name.as_ref().and_then(|name| policies.iter().find(|known| known.name == *name));
    let before = same_id.or_else(named);
    draft.enabled.unwrap_or_else(|| before.is_none_or(|before| before.enabled))
}

/// Returns the policies with the named one enabled, and that policy. For trials: nothing is stored.
pub fn with_named(
    policies: &Policies,
    name: &Arc<str>,
) -> Result<(Policies, Vec<Arc<Policy>>), Vec<BadPolicy>> {
    let mut all: Vec<Policy> = policies.iter().map(|policy| (**policy).clone()).collect();
    let Some(found) =
        policies.by_name_or_id(name).and_then(|named| all.iter_mut().find(|policy| policy.id == named.id))
    else {
        return Err(vec![unknown_policy(0, name)]);
    };
    found.enabled = true;
    let tried = Arc::new(found.clone());
    Ok((check_together(all)?, vec![tried]))
}

/// Builds the problem of a name that no policy has.
pub fn unknown_policy(place: usize, name: &Arc<str>) -> BadPolicy {
    let message = format!("there is no policy `{name}`");
    let problem = PolicyProblem { field: "name", message, hint: "`unstuck policy list` lists them" };
    BadPolicy { place, name: Some(name.clone()), problem }
}

fn order_problem(place: usize, name: &Arc<str>, message: &str, hint: &'static str) -> BadPolicy {
    let problem = PolicyProblem { field: "names", message: message.to_owned(), hint };
    BadPolicy { place, name: Some(name.clone()), problem }
}

/// The policies while a command is being applied to them.
struct PolicyChanges<F> {
    policies: Vec<Policy>,
    switch: PolicySwitch,
    outcome: PolicyOutcome,
    at: Time,
    fresh_id: F,
}

impl<F: FnMut() -> Arc<str>> PolicyChanges<F> {
    fn new(policies: &Policies, at: Time, fresh_id: F) -> PolicyChanges<F> {
        let switch = policies.switch().clone();
        let policies = policies.iter().map(|policy| (**policy).clone()).collect();
        PolicyChanges { policies, switch, outcome: PolicyOutcome::default(), at, fresh_id }
    }

    /// Checks and adds drafts, and returns the policies as they are kept; or everything that is wrong with any of them.
    fn load_drafts(
        &mut self,
        drafts: &[PolicyDraft],
        replace: bool,
        by: &Actor,
    ) -> Result<Vec<Policy>, Vec<BadPolicy>> {
        let mut problems: Vec<BadPolicy> = Vec::new();
        let mut loaded: Vec<(usize, Policy, Option<Policy>)> = Vec::new();
        let mut age = self.policies.iter().map(|policy| policy.age).max().unwrap_or(0);
        for (place, draft) in drafts.iter().enumerate() {
            age += 1;
            match self.check_draft(draft, replace, age) {
                Ok((policy, before)) => loaded.push((place, policy, before)),
                Err(found) => problems.extend(found.into_iter().map(|problem| BadPolicy {
                    place,
                    name: draft.name.clone(),
                    problem,
                })),
            }
        }
        let is_replaced = |policy: &Policy| {
            loaded.iter().any(|(_, _, before)| before.as_ref().is_some_and(|before| before.id == policy.id))
        };
        let stay: Vec<Policy> = self.policies.iter().filter(|policy| !is_replaced(policy)).cloned().collect();
        let all: Vec<Policy> =
            stay.iter().cloned().chain(loaded.iter().map(|(_, policy, _)| policy.clone())).collect();
        for (index, problem) in Policies::new(all.clone()).err().unwrap_or_default() {
            let (place, policy) = match loaded.get(index.wrapping_sub(stay.len())) {
                Some((place, policy, _)) => (*place, policy),
                None => (0, &all[index]),
            };
            problems.push(BadPolicy { place, name: Some(policy.name.clone()), problem });
        }
        if !problems.is_empty() {
            problems.sort_by_key(|problem| problem.place);
            return Err(problems);
        }
        let after = all[stay.len()..].to_vec();
        for (_, policy, before) in loaded {
            self.record_change(before, Some(policy), by);
        }
        self.policies = all;
        Ok(after)
    }

    /// Checks one draft against the policies. Returns the policy as it would be kept, and the one that it replaces.
    fn check_draft(
        &mut self,
        draft: &PolicyDraft,
        replace: bool,
        age: u64,
    ) -> Result<(Policy, Option<Policy>), Vec<PolicyProblem>> {
        let fresh = self.unused_id();
        let policy = draft.check(&fresh, age)?;
        let has_own_id = policy.id != fresh;
        let same_id = self.policies.iter().find(|known| known.id == policy.id);
        let same_name = self.policies.iter().find(|known| known.name == policy.name);
        let Some(before) = same_id.or(same_name).filter(|_| replace).cloned() else {
            return Ok((policy, None));
        };
        if has_own_id && before.id != policy.id {
            let message = format!(
                "it has the id {}, but the policy with that name has the id {}",
                policy.id, before.id
            );
            let hint = "leave out the id, or give it another name";
            return Err(vec![PolicyProblem { field: "id", message, hint }]);
        }
        let keeps_priority = before.is_priority_set && !policy.is_priority_set;
        let after = Policy {
            id: before.id.clone(),
            age: before.age,
            version: before.version,
            priority: if keeps_priority { before.priority } else { policy.priority },
            is_priority_set: policy.is_priority_set || keeps_priority,
            enabled: draft.enabled.unwrap_or(before.enabled),
            ..policy
        };
        let version = if after == before { before.version } else { before.version.saturating_add(1) };
        Ok((Policy { version, ..after }, Some(before)))
    }

    /// Draws ids until one is not in use.
    fn unused_id(&mut self) -> Arc<str> {
        loop {
            let id = (self.fresh_id)();
            if self.policies.iter().all(|policy| policy.id != id) {
                return id;
            }
        }
    }

    /// Sets the switch for all policies and records the change; nothing if it is in that position already.
    fn set_switch(
        &mut self,
        switch: Option<PolicySwitch>,
        what: PolicyAuditKind,
        reason: Option<Arc<str>>,
        by: Actor,
    ) {
        let Some(switch) = switch else { return };
        self.switch = switch;
        let (at, policy, name) = (self.at, "".into(), "".into());
        let (before, after) = (None, None);
        self.outcome.changes.push(PolicyAudit { at, by, policy, name, what, reason, before, after });
    }

    /// Enables or disables the named policies and records each change.
    fn set_enabled(&mut self, names: &[Arc<str>], enabled: bool, by: &Actor) -> Result<(), Vec<BadPolicy>> {
        for place in self.find_positions(names)? {
            let before = self.policies[place].clone();
            let version = before.version.saturating_add(u32::from(before.enabled != enabled));
            let after = Policy { enabled, version, ..before.clone() };
            self.policies[place] = after.clone();
            self.record_change(Some(before), Some(after), by);
        }
        Ok(())
    }

    /// Deletes the named policies and records each.
    fn delete_named(&mut self, names: &[Arc<str>], by: &Actor) -> Result<(), Vec<BadPolicy>> {
        let places = self.find_positions(names)?;
        for place in &places {
            self.record_change(Some(self.policies[*place].clone()), None, by);
        }
        let mut place = 0..;
        self.policies.retain(|_| place.next().is_none_or(|place| !places.contains(&place)));
        Ok(())
    }

    /// Deletes the policies that none of the drafts would take the place of, and records each.
    fn delete_others(&mut self, drafts: &[PolicyDraft], by: &Actor) {
        let stays = |policy: &Policy| {
            let is_meant = |draft: &PolicyDraft| {
                draft.id.as_ref() == Some(&policy.id) || draft.name.as_ref() == Some(&policy.name)
            };
            drafts.iter().any(is_meant)
        };
        let (stay, go): (Vec<Policy>, Vec<Policy>) =
            std::mem::take(&mut self.policies).into_iter().partition(stays);
        self.policies = stay;
        for policy in go {
            self.record_change(Some(policy), None, by);
        }
    }

    /// Sets priorities so that the policies match in this order, which has to name every one of them once.
    fn set_order(&mut self, names: &[Arc<str>], by: &Actor) -> Result<(), Vec<BadPolicy>> {
        let places = self.find_positions(names)?;
        let mut problems = Vec::new();
        let mut seen: Vec<usize> = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let found = self.find_position(name);
            if found.is_some_and(|found| seen.contains(&found)) {
                let hint = "name each policy once";
                problems.push(order_problem(place, name, "it is named twice", hint));
            }
            seen.extend(found);
        }
        for (place, policy) in self.policies.iter().enumerate().filter(|(place, _)| !places.contains(place)) {
            let hint = "an order names every policy, the first to match first";
            problems.push(order_problem(names.len() + place, &policy.name, "it is not in the order", hint));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for (from_the_end, place) in (1..).zip(places.iter().rev()) {
            let priority = PRIORITY_STEP.saturating_mul(from_the_end);
            let before = self.policies[*place].clone();
            let is_same = before.priority == priority && before.is_priority_set;
            let version = before.version.saturating_add(u32::from(!is_same));
            let after = Policy { priority, is_priority_set: true, version, ..before.clone() };
            self.policies[*place] = after.clone();
            self.record_change(Some(before), Some(after), by);
        }
        Ok(())
    }

    /// Finds the position of the policy with this name or id.
    fn find_position(&self, name: &Arc<str>) -> Option<usize> {
        let by_name = self.policies.iter().position(|policy| policy.name == *name);
        by_name.or_else(|| self.policies.iter().position(|policy| policy.id == *name))
    }

    /// Finds the positions of the policies with these names or ids, each once; or reports every unknown name.
    fn find_positions(&self, names: &[Arc<str>]) -> Result<Vec<usize>, Vec<BadPolicy>> {
        let mut places = Vec::new();
        let mut problems = Vec::new();
        for (place, name) in names.iter().enumerate() {
            match self.find_position(name) {
                Some(found) if places.contains(&found) => {}
                Some(found) => places.push(found),
                None => problems.push(unknown_policy(place, name)),
            }
        }
        if problems.is_empty() { Ok(places) } else { Err(problems) }
    }

    /// Records the change of one policy in the audit list, or as unchanged.
    fn record_change(&mut self, before: Option<Policy>, after: Option<Policy>, by: &Actor) {
        let Some(policy) = after.as_ref().or(before.as_ref()) else { return };
        let (id, name) = (policy.id.clone(), policy.name.clone());
        let what = match (&before, &after) {
            (Some(before), Some(after)) if before == after => return self.outcome.unchanged.push(name),
            (Some(before), Some(after)) => audit_kind_of(before, after),
            (None, _) => PolicyAuditKind::Added,
            (Some(_), None) => PolicyAuditKind::Deleted,
        };
        let (at, by) = (self.at, by.clone());
        self.outcome.changes.push(PolicyAudit {
            at,
            by,
            policy: id,
            name,
            what,
            reason: None,
            before,
            after,
        });
    }
}

/// Returns what kind of change turned `before` into `after`.
fn audit_kind_of(before: &Policy, after: &Policy) -> PolicyAuditKind {
    let is_only_switched =
        Policy { enabled: before.enabled, version: before.version, ..after.clone() } == *before;
    match (is_only_switched, after.enabled) {
        (true, true) => PolicyAuditKind::Enabled,
        (true, false) => PolicyAuditKind::Disabled,
        (false, _) => PolicyAuditKind::Changed,
    }
}
