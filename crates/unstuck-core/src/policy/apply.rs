//! Applying policies to what is in error already: which errors are to be matched again, and why policies pass others.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::errors::OpenError;
use crate::policy::{BadPolicy, Policies, PolicyVerdict, unknown_policy};

/// The names of policies that are given by name or id.
pub fn names_of(policies: &Policies, given: &[Arc<str>]) -> Result<Vec<Arc<str>>, Vec<BadPolicy>> {
    let (mut names, mut missing) = (Vec::new(), Vec::new());
    for (place, name) in given.iter().enumerate() {
        match policies.by_name_or_id(name) {
            Some(policy) => names.push(policy.name.clone()),
            None => missing.push(unknown_policy(place, name)),
        }
    }
    if missing.is_empty() { Ok(names) } else { Err(missing) }
}

/// What applying policies comes to, as far as the open errors tell: those that a policy would put elsewhere are asked one
/// by one, and decide themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyPlan {
    /// Only the policies of these names; all if none.
    pub only: Option<Vec<Arc<str>>>,
    /// Steps that a policy would take, or take again.
    pub moved: u64,
    /// Steps that are scheduled, and that no policy would take any more.
    pub unscheduled: u64,
    /// Steps that are where the policies would put them.
    pub unchanged: u64,
    /// How many steps a policy that was named would take if another did not come before it, by the names of both.
    pub outranked: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// How many steps a policy that was named would take if it were not used up on them.
    pub exhausted: BTreeMap<Arc<str>, u64>,
    /// How many steps a policy that was named would take if it were enabled.
    pub disabled: BTreeMap<Arc<str>, u64>,
}

impl ApplyPlan {
    pub fn new(only: Option<Vec<Arc<str>>>) -> ApplyPlan {
        ApplyPlan { only, ..ApplyPlan::default() }
    }

    /// Whether this step is to be matched again. What stays is counted, and why the named policies pass it; what is
    /// acknowledged is left alone.
    pub fn takes(&mut self, policies: &Policies, error: &OpenError) -> bool {
        if error.acknowledged {
            return false;
        }
        self.note_passed(policies, error);
        let found = policies.find(&error.record.to_match());
        let found = found.filter(|found| self.only.as_ref().is_none_or(|only| only.contains(&found.name)));
        let scheduled = error.resume.as_ref().map(|(_, policy)| policy);
        let stays = match (found, scheduled) {
            (Some(found), Some(by)) => found.to_ref() == *by,
            (None, Some(_)) => self.only.is_some(),
            (Some(_), None) => false,
            (None, None) => true,
        };
        let counted = match (stays, found) {
            (true, _) => &mut self.unchanged,
            (false, Some(_)) => &mut self.moved,
            (false, None) => &mut self.unscheduled,
        };
        *counted += 1;
        !stays
    }

    /// Notes why policies that were named do not take an error that they are about.
    fn note_passed(&mut self, policies: &Policies, error: &OpenError) {
        let failure = error.record.to_match();
        for name in self.only.iter().flatten() {
            let Some(policy) = policies.by_name_or_id(name) else { continue };
            match (policy.judge_enabled(&failure), policy.enabled) {
                (PolicyVerdict::Takes, false) => *self.disabled.entry(name.clone()).or_default() += 1,
                (PolicyVerdict::Takes, true) => match policies.find(&failure) {
                    Some(first) if first.id != policy.id => {
                        *self.outranked.entry((name.clone(), first.name.clone())).or_default() += 1;
                    }
                    Some(_) | None => {}
                },
                (PolicyVerdict::Spent, true) => *self.exhausted.entry(name.clone()).or_default() += 1,
                (PolicyVerdict::Spent, false) | (PolicyVerdict::Passes, _) => {}
            }
        }
    }
}
