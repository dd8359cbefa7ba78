//! Orders about policies: what becomes of the set, as a whole or not at all, and who is told to have done it.

use std::fmt;
use std::sync::Arc;

use crate::event::Actor;
use crate::policy::{
    Policies, Policy, PolicyAudit, PolicyAuditKind, PolicyDraft, PolicyProblem, PolicySwitch,
};
use crate::time::Time;

/// Something that is ordered about policies. It is done as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyCommand {
    /// Keep these.
    Load {
        /// As they were written.
        drafts: Vec<PolicyDraft>,
        /// Whether one whose id or name is there takes its place. It keeps its id and its age then; and whether it is
        /// enabled, and a priority that somebody set, where the draft says nothing about that.
        replace: bool,
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
        /// What has waited resumes at most so many times a second.
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

/// What came of an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyOutcome {
    /// What was changed, in order.
    pub changes: Vec<PolicyAudit>,
    /// The names of those that were as ordered already.
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
            | PolicyCommand::Enable { by, .. }
            | PolicyCommand::Disable { by, .. }
            | PolicyCommand::Delete { by, .. }
            | PolicyCommand::Pause { by, .. }
            | PolicyCommand::Unpause { by, .. } => by,
        }
    }

    /// Why, in their words.
    pub fn reason(&self) -> Option<&str> {
        match self {
            PolicyCommand::Pause { reason, .. } => Some(reason),
            PolicyCommand::Load { .. }
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
            // That there is none has its name already.
            Some(name) if message.ends_with(&format!("no policy `{name}`")) => {}
            Some(name) => write!(f, "policy `{name}`: ")?,
            None => write!(f, "policy {} of the list: ", self.place + 1)?,
        }
        write!(f, "{message}; {hint}")
    }
}

/// The policies as an order leaves them, and what came of it. `clock` is what all corrections of the clock come to;
/// `fresh_id` gives ids for those that have none.
pub fn apply_command(
    policies: &Policies,
    order: PolicyCommand,
    at: Time,
    clock: i64,
    fresh_id: impl FnMut() -> Arc<str>,
) -> Result<(PolicySet, PolicyOutcome), Vec<BadPolicy>> {
    let mut plan = PolicyChanges::new(policies, at, fresh_id);
    match order {
        PolicyCommand::Load { drafts, replace, by } => drop(plan.load(&drafts, replace, &by)?),
        PolicyCommand::Enable { names, by } => plan.enable(&names, true, &by)?,
        PolicyCommand::Disable { names, by } => plan.enable(&names, false, &by)?,
        PolicyCommand::Delete { names, by } => plan.delete(&names, &by)?,
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

/// These policies in force; what is wrong with them together is told of the one that comes later.
fn check_together(policies: Vec<Policy>) -> Result<Policies, Vec<BadPolicy>> {
    let names: Vec<Arc<str>> = policies.iter().map(|policy| policy.name.clone()).collect();
    Policies::new(policies).map_err(|problems| {
        let bad_policy = |(place, problem)| BadPolicy { place, name: names.get(place).cloned(), problem };
        problems.into_iter().map(bad_policy).collect()
    })
}

/// The policies with these among them, in force, in the place of those that they would replace.
pub fn with_drafts(
    policies: &Policies,
    drafts: &[PolicyDraft],
    at: Time,
) -> Result<(Policies, Vec<Arc<Policy>>), Vec<BadPolicy>> {
    let mut number = 0..;
    let mut plan = PolicyChanges::new(policies, at, || format!("new-{}", number.next().unwrap_or(0)).into());
    let drafts: Vec<PolicyDraft> =
        drafts.iter().map(|draft| PolicyDraft { enabled: Some(true), ..draft.clone() }).collect();
    let tried = plan.load(&drafts, true, &Actor::Engine)?;
    Ok((check_together(plan.policies)?, tried.into_iter().map(Arc::new).collect()))
}

/// Whether a draft would be enabled, if it were loaded in the place of the policy of the same id or name.
pub fn would_be_enabled(policies: &Policies, draft: &PolicyDraft) -> bool {
    let same_id = draft.id.as_ref().and_then(|id| policies.by_id(id));
    let named = || draft.name.as_ref().and_then(|name| policies.iter().find(|known| known.name == *name));
    let before = same_id.or_else(named);
    draft.enabled.unwrap_or_else(|| before.is_none_or(|before| before.enabled))
}

/// The policies with this one among them, in force.
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

/// That there is no policy of this name.
pub fn unknown_policy(place: usize, name: &Arc<str>) -> BadPolicy {
    let message = format!("there is no policy `{name}`");
    let problem = PolicyProblem { field: "name", message, hint: "`unstuck policy list` lists them" };
    BadPolicy { place, name: Some(name.clone()), problem }
}

/// The policies as an order would leave them.
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

    /// Loads drafts, and gives each as it is kept; or tells everything that is wrong with them.
    fn load(
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
            match self.check(draft, replace, age) {
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

    /// A draft as it would be kept, with the policy that it replaces.
    fn check(
        &mut self,
        draft: &PolicyDraft,
        replace: bool,
        age: u64,
    ) -> Result<(Policy, Option<Policy>), Vec<PolicyProblem>> {
        let fresh = self.free_id();
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

    /// An id that no policy has.
    fn free_id(&mut self) -> Arc<str> {
        loop {
            let id = (self.fresh_id)();
            if self.policies.iter().all(|policy| policy.id != id) {
                return id;
            }
        }
    }

    /// Turns the switch for all policies, unless it stands so already.
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

    fn enable(&mut self, names: &[Arc<str>], enabled: bool, by: &Actor) -> Result<(), Vec<BadPolicy>> {
        for place in self.find_positions(names)? {
            let before = self.policies[place].clone();
            let version = before.version.saturating_add(u32::from(before.enabled != enabled));
            let after = Policy { enabled, version, ..before.clone() };
            self.policies[place] = after.clone();
            self.record_change(Some(before), Some(after), by);
        }
        Ok(())
    }

    fn delete(&mut self, names: &[Arc<str>], by: &Actor) -> Result<(), Vec<BadPolicy>> {
        let places = self.find_positions(names)?;
        for place in &places {
            self.record_change(Some(self.policies[*place].clone()), None, by);
        }
        let mut place = 0..;
        self.policies.retain(|_| place.next().is_none_or(|place| !places.contains(&place)));
        Ok(())
    }

    /// Where the policies of these names or ids are, each once.
    fn find_positions(&self, names: &[Arc<str>]) -> Result<Vec<usize>, Vec<BadPolicy>> {
        let mut places = Vec::new();
        let mut problems = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let by_name = self.policies.iter().position(|policy| policy.name == *name);
            match by_name.or_else(|| self.policies.iter().position(|policy| policy.id == *name)) {
                Some(found) if places.contains(&found) => {}
                Some(found) => places.push(found),
                None => problems.push(unknown_policy(place, name)),
            }
        }
        if problems.is_empty() { Ok(places) } else { Err(problems) }
    }

    /// Notes what becomes of one policy.
    fn record_change(&mut self, before: Option<Policy>, after: Option<Policy>, by: &Actor) {
        let Some(policy) = after.as_ref().or(before.as_ref()) else { return };
        let (id, name) = (policy.id.clone(), policy.name.clone());
        let what = match (&before, &after) {
            (Some(before), Some(after)) if before == after => return self.outcome.unchanged.push(name),
            (Some(before), Some(after)) => audit_kind_of_change(before, after),
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

/// What was done, where something was.
fn audit_kind_of_change(before: &Policy, after: &Policy) -> PolicyAuditKind {
    let is_only_switched =
        Policy { enabled: before.enabled, version: before.version, ..after.clone() } == *before;
    match (is_only_switched, after.enabled) {
        (true, true) => PolicyAuditKind::Enabled,
        (true, false) => PolicyAuditKind::Disabled,
        (false, _) => PolicyAuditKind::Changed,
    }
}
