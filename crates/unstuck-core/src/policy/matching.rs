//! Which policy takes an error: what each one matches, and all of them together, in the order in which they are asked.
//! An index by what must be equal (action, flow, type) finds the few that can match without asking each.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::{Criteria, PassedPolicy, PassedReason, Policy, PolicyProblem, PolicySwitch};

/// How many of the policies that did not take an error are recorded with it.
const NAMED: usize = 5;

/// The fields of an error that policies match on.
#[derive(Clone, Copy, Debug)]
pub struct ErrorToMatch<'a> {
    /// The worker's text.
    pub cause: &'a str,
    /// The flow of the root run.
    pub root_flow: &'a str,
    /// The full name of the action.
    pub action: &'a str,
    /// The engine-made action that found it, where it was no worker.
    pub found_by: Option<&'a str>,
    /// The label of the step.
    pub action_type: Option<&'a str>,
    /// Whether it was called fatal.
    pub fatal: bool,
    /// The rounds of the step since the last manual resume, this one included.
    pub rounds: u32,
}

/// What a policy does with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// It takes it.
    Takes,
    /// It matches, but the step has used up its rounds: the next policy is tried.
    Spent,
    /// It is about something else.
    Passes,
}

impl Criteria {
    /// Computes the priority of a policy that sets none: the more specific, the higher.
    pub fn priority(&self) -> i32 {
        let text = self.error_substring.as_ref().map_or(0, |text| {
            let is_long = text.chars().count() >= 11;
            if is_long { 100 } else { 50 }
        });
        let action = match (&self.action, &self.action_type) {
            (Some(_), _) => 100,
            (None, Some(_)) => 50,
            (None, None) => 0,
        };
        let flow = if self.flow.is_some() { 50 } else { 0 };
        text + action + flow
    }

    /// Returns whether every given criterion fits this error.
    pub fn matches(&self, error: &ErrorToMatch<'_>) -> bool {
        let equals = |wanted: &Option<Arc<str>>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
        };
        let is_action = equals(&self.action, Some(error.action))
            || error.found_by.is_some() && equals(&self.action, error.found_by);
        is_action
            && equals(&self.flow, Some(error.root_flow))
            && equals(&self.action_type, error.action_type)
            && self.error_substring.as_deref().is_none_or(|text| error.cause.contains(text))
    }

    /// Returns whether everything that `other` matches is matched by this one too.
    pub fn covers(&self, other: &Criteria) -> bool {
        let covers = |mine: &Option<Arc<str>>, theirs: &Option<Arc<str>>| mine.is_none() || mine == theirs;
        let text = match (&self.error_substring, &other.error_substring) {
            (None, _) => true,
            (Some(mine), Some(theirs)) => theirs.contains(&**mine),
            (Some(_), None) => false,
        };
        text && covers(&self.flow, &other.flow)
            && covers(&self.action, &other.action)
            && covers(&self.action_type, &other.action_type)
    }
}

impl Policy {
    /// Decides what the policy does with this error; a disabled one passes.
    pub fn judge(&self, error: &ErrorToMatch<'_>) -> PolicyVerdict {
        if self.enabled { self.judge_enabled(error) } else { PolicyVerdict::Passes }
    }

    /// As [`Policy::judge`], as if the policy were enabled.
    pub fn judge_enabled(&self, error: &ErrorToMatch<'_>) -> PolicyVerdict {
        if (error.fatal && !self.include_fatal) || !self.criteria.matches(error) {
            return PolicyVerdict::Passes;
        }
        if error.rounds < self.max_attempts { PolicyVerdict::Takes } else { PolicyVerdict::Spent }
    }
}

/// The policies that are in force, in the order in which they match: decreasing priority, then age.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    ordered: Vec<Arc<Policy>>,
    /// Places in the order, by what must be equal for a policy to match: its action, else its flow, else its type.
    by_action: HashMap<Arc<str>, Vec<u32>>,
    by_flow: HashMap<Arc<str>, Vec<u32>>,
    by_type: HashMap<Arc<str>, Vec<u32>>,
    /// Policies that only match on the cause.
    by_text: Vec<u32>,
    switch: PolicySwitch,
}

/// A policy that can never match, and the earlier one that takes all it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowedPolicy {
    pub policy: Arc<str>,
    /// The earlier one.
    pub by: Arc<str>,
}

impl Policies {
    /// Orders and indexes these policies, or reports every collision: names and ids are unique, and no two are alike.
    pub fn new(policies: Vec<Policy>) -> Result<Policies, Vec<(usize, PolicyProblem)>> {
        let problems = find_collisions(&policies);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut ordered: Vec<Arc<Policy>> = policies.into_iter().map(Arc::new).collect();
        ordered.sort_by_key(|policy| (std::cmp::Reverse(policy.priority), policy.age));
        let mut all = Policies::default();
        for (place, policy) in (0u32..).zip(&ordered) {
            let Criteria { flow, action, action_type, .. } = &policy.criteria;
            let places = match (action, flow, action_type) {
                (Some(action), _, _) => all.by_action.entry(action.clone()).or_default(),
                (None, Some(flow), _) => all.by_flow.entry(flow.clone()).or_default(),
                (None, None, Some(kind)) => all.by_type.entry(kind.clone()).or_default(),
                (None, None, None) => &mut all.by_text,
            };
            places.push(place);
        }
        Ok(Policies { ordered, ..all })
    }

    /// Returns these policies with the switch for all of them in this position.
    #[must_use]
    pub fn with_switch(self, switch: PolicySwitch) -> Policies {
        Policies { switch, ..self }
    }

    /// Whether they resume anything.
    pub fn switch(&self) -> &PolicySwitch {
        &self.switch
    }

    /// In the order in which they match.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.ordered.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// The policy with this id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Policy>> {
        self.ordered.iter().find(|policy| &*policy.id == id)
    }

    /// The policy of this name, else the one with this id.
    pub fn by_name_or_id(&self, name: &str) -> Option<&Arc<Policy>> {
        self.ordered.iter().find(|policy| &*policy.name == name).or_else(|| self.by_id(name))
    }

    /// Finds the first policy that takes this error.
    pub fn find(&self, error: &ErrorToMatch<'_>) -> Option<&Arc<Policy>> {
        self.candidates(error).find(|policy| policy.judge(error) == PolicyVerdict::Takes)
    }

    /// Lists the policies that match this error but are used up, up to the one that takes it.
    pub fn exhausted(&self, error: &ErrorToMatch<'_>) -> Vec<&Arc<Policy>> {
        let before = self.candidates(error).map(|policy| (policy, policy.judge(error)));
        let before = before.take_while(|(_, verdict)| *verdict != PolicyVerdict::Takes);
        before.filter(|(_, verdict)| *verdict == PolicyVerdict::Spent).map(|(policy, _)| policy).collect()
    }

    /// Lists some policies that match this error but do not take it: used-up ones up to the one that takes it; where
    /// none does, also disabled ones.
    pub fn passed_over(&self, error: &ErrorToMatch<'_>) -> Vec<PassedPolicy> {
        let spent = |policy: &Arc<Policy>| {
            let why = PassedReason::Spent { rounds: error.rounds, max: policy.max_attempts };
            PassedPolicy { policy: policy.to_ref(), why }
        };
        let mut passed: Vec<PassedPolicy> =
            self.exhausted(error).into_iter().take(NAMED).map(spent).collect();
        if self.find(error).is_none() {
            let is_off = |policy: &&Arc<Policy>| {
                !policy.enabled && policy.judge_enabled(error) == PolicyVerdict::Takes
            };
            let off = self.candidates(error).filter(is_off).take(NAMED - passed.len());
            passed.extend(
                off.map(|policy| PassedPolicy { policy: policy.to_ref(), why: PassedReason::Disabled }),
            );
        }
        passed
    }

    /// Lists the policies that can never match, because an earlier one takes everything they would. An earlier one with
    /// fewer attempts does not count: once it is used up, the later one matches.
    pub fn shadows(&self) -> Vec<ShadowedPolicy> {
        let mut shadows = Vec::new();
        for (place, policy) in self.ordered.iter().enumerate().filter(|(_, policy)| policy.enabled) {
            let covers = |earlier: &&Arc<Policy>| {
                earlier.enabled
                    && earlier.max_attempts >= policy.max_attempts
                    && (earlier.include_fatal || !policy.include_fatal)
                    && earlier.criteria.covers(&policy.criteria)
            };
            if let Some(by) = self.ordered[..place].iter().find(covers) {
                shadows.push(ShadowedPolicy { policy: policy.name.clone(), by: by.name.clone() });
            }
        }
        shadows
    }

    /// Merges the indexed lists of policies that could match this error, in matching order.
    fn candidates<'a>(&'a self, error: &ErrorToMatch<'_>) -> impl Iterator<Item = &'a Arc<Policy>> {
        let none: &[u32] = &[];
        let of = |index: &'a HashMap<Arc<str>, Vec<u32>>, key: Option<&str>| {
            key.and_then(|key| index.get(key)).map_or(none, Vec::as_slice)
        };
        let mut lists = [
            of(&self.by_action, Some(error.action)),
            of(&self.by_action, error.found_by),
            of(&self.by_flow, Some(error.root_flow)),
            of(&self.by_type, error.action_type),
            self.by_text.as_slice(),
        ];
        std::iter::from_fn(move || {
            let first = lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let (place, rest) = first.split_first()?;
            *first = rest;
            self.ordered.get(*place as usize)
        })
    }
}

/// Reports policies that share a name or an id, or that have the same criteria and `maxAttempts`, each with the
/// position of the later one.
fn find_collisions(policies: &[Policy]) -> Vec<(usize, PolicyProblem)> {
    let mut names: HashMap<&str, &Policy> = HashMap::new();
    let mut ids: HashMap<&str, &Policy> = HashMap::new();
    let mut alike: HashMap<(&Criteria, u32), &Policy> = HashMap::new();
    let mut problems = Vec::new();
    for (place, policy) in policies.iter().enumerate() {
        let mut tell = |field, message: String, hint| {
            problems.push((place, PolicyProblem { field, message, hint }));
        };
        if let Some(other) = names.insert(&policy.name, policy) {
            let message = format!("the name `{}` is taken by policy {}", policy.name, other.id);
            tell("name", message, "give it another name, or load it with `--replace`");
        }
        if let Some(other) = ids.insert(&policy.id, policy) {
            let message = format!("the id {} is taken by policy `{}`", policy.id, other.name);
            tell("id", message, "leave out the id to get a new one, or load it with `--replace`");
        }
        // A policy with the same name or id has been reported above.
        let is_itself = |other: &Policy| other.name == policy.name || other.id == policy.id;
        let same = alike.insert((&policy.criteria, policy.max_attempts), policy);
        if let Some(other) = same.filter(|other| !is_itself(other)) {
            let message =
                format!("it matches the same errors as policy `{}`, with the same `maxAttempts`", other.name);
            tell("errorSubstring", message, "only one of the two would ever act: change or remove one");
        }
    }
    problems
}
