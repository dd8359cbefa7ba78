//! All policies together: in the order in which they are asked, and found without asking each.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::{
    Criteria, Failure, PassedBecause, PassedPolicy, Policy, PolicyProblem, PolicySwitch, Verdict,
};

/// So many policies that did not take an error are named with it.
const NAMED: usize = 5;

/// The policies that are in force, in the order in which they match: decreasing priority, then age.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    ordered: Vec<Arc<Policy>>,
    /// Places in the order, by what must be equal for a policy to match: its action, else its flow, else its type.
    by_action: HashMap<Arc<str>, Vec<u32>>,
    by_flow: HashMap<Arc<str>, Vec<u32>>,
    by_type: HashMap<Arc<str>, Vec<u32>>,
    /// Those that only look at the cause.
    by_text: Vec<u32>,
    switch: PolicySwitch,
}

/// A policy that can never match, and the earlier one that takes all it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The policy.
    pub policy: Arc<str>,
    /// The earlier one.
    pub by: Arc<str>,
}

impl Policies {
    /// These policies, or what is wrong with them together: names and ids are unique, and no two are the same.
    pub fn new(policies: Vec<Policy>) -> Result<Policies, Vec<(usize, PolicyProblem)>> {
        let problems = collisions(&policies);
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

    /// These policies, with the switch for all of them in this position.
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
    pub fn with_id(&self, id: &str) -> Option<&Arc<Policy>> {
        self.ordered.iter().find(|policy| &*policy.id == id)
    }

    /// The policy of this name, else the one with this id.
    pub fn named(&self, name: &str) -> Option<&Arc<Policy>> {
        self.ordered.iter().find(|policy| &*policy.name == name).or_else(|| self.with_id(name))
    }

    /// The first policy that takes this error.
    pub fn find(&self, failure: &Failure<'_>) -> Option<&Arc<Policy>> {
        self.asked(failure).find(|policy| policy.judge(failure) == Verdict::Takes)
    }

    /// The policies that would take this error and are spent, up to the one that takes it.
    pub fn spent(&self, failure: &Failure<'_>) -> Vec<&Arc<Policy>> {
        let before = self.asked(failure).map(|policy| (policy, policy.judge(failure)));
        let before = before.take_while(|(_, verdict)| *verdict != Verdict::Takes);
        before.filter(|(_, verdict)| *verdict == Verdict::Spent).map(|(policy, _)| policy).collect()
    }

    /// The policies that are about this error and do not take it, some of them: those that are used up, up to the one that
    /// takes it; and where none does, those that would if they were enabled.
    pub fn passed(&self, failure: &Failure<'_>) -> Vec<PassedPolicy> {
        let spent = |policy: &Arc<Policy>| {
            let why = PassedBecause::Spent { rounds: failure.rounds, max: policy.max_attempts };
            PassedPolicy { policy: policy.reference(), why }
        };
        let mut passed: Vec<PassedPolicy> = self.spent(failure).into_iter().take(NAMED).map(spent).collect();
        if self.find(failure).is_none() {
            let is_off =
                |policy: &&Arc<Policy>| !policy.enabled && policy.judge_enabled(failure) == Verdict::Takes;
            let off = self.asked(failure).filter(is_off).take(NAMED - passed.len());
            passed.extend(
                off.map(|policy| PassedPolicy { policy: policy.reference(), why: PassedBecause::Disabled }),
            );
        }
        passed
    }

    /// The policies that can never match, because an earlier one takes whatever they would. One that is spent sooner
    /// lets the later one have its turn.
    pub fn shadows(&self) -> Vec<Shadow> {
        let mut shadows = Vec::new();
        for (place, policy) in self.ordered.iter().enumerate().filter(|(_, policy)| policy.enabled) {
            let covers = |earlier: &&Arc<Policy>| {
                earlier.enabled
                    && earlier.max_attempts >= policy.max_attempts
                    && (earlier.include_fatal || !policy.include_fatal)
                    && earlier.criteria.cover(&policy.criteria)
            };
            if let Some(by) = self.ordered[..place].iter().find(covers) {
                shadows.push(Shadow { policy: policy.name.clone(), by: by.name.clone() });
            }
        }
        shadows
    }

    /// The policies that could be about this error, in order.
    fn asked<'a>(&'a self, failure: &Failure<'_>) -> impl Iterator<Item = &'a Arc<Policy>> {
        let none: &[u32] = &[];
        let of = |index: &'a HashMap<Arc<str>, Vec<u32>>, key: Option<&str>| {
            key.and_then(|key| index.get(key)).map_or(none, Vec::as_slice)
        };
        let mut lists = [
            of(&self.by_action, Some(failure.action)),
            of(&self.by_action, failure.found_by),
            of(&self.by_flow, Some(failure.root_flow)),
            of(&self.by_type, failure.action_type),
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

/// What collides, with the place of the later one.
fn collisions(policies: &[Policy]) -> Vec<(usize, PolicyProblem)> {
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
        // Of one that is there already, that is told.
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
