//! References between flows: whether the named flows exist, and whether children or handlers form endless cycles.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::problem::Problems;
use crate::suggest;
use crate::tree::Position;

/// A step that names another flow.
pub(crate) struct Reference {
    pub(crate) to: String,
    pub(crate) relation: Relation,
    pub(crate) at: Position,
    pub(crate) path: String,
}

/// What the other flow is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It runs when the step has failed.
    Handler,
    /// It runs as the step.
    Child {
        /// Whether the step may have nothing to do.
        conditional: bool,
    },
}

/// The flows of one file, each with the flows that it speaks of.
pub(crate) struct Neighbours<'a> {
    flows: Vec<(&'a str, &'a [Reference])>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Neighbours<'a> {
    pub(crate) fn new(flows: Vec<(&'a str, &'a [Reference])>) -> Neighbours<'a> {
        let places = flows.iter().enumerate().rev().map(|(place, (name, _))| (*name, place)).collect();
        Neighbours { flows, places }
    }

    /// Refuses references to flows that are neither in the file (`names`) nor known elsewhere.
    pub(crate) fn check_existence(
        &self,
        names: &[&str],
        known: &dyn Fn(&str) -> bool,
        problems: &mut Problems<'_>,
    ) {
        for reference in self.flows.iter().flat_map(|(_, references)| *references) {
            let name = &reference.to;
            if names.contains(&name.as_str()) || known(name) {
                continue;
            }
            let what = match reference.relation {
                Relation::Handler => "the exception handler",
                Relation::Child { .. } => "the flow",
            };
            let hint = suggest::nearest(name, names.iter().copied()).map_or_else(
                || {
                    "add it to this file as another document, after `---`, or run it once to load it"
                        .to_owned()
                },
                |near| format!("did you mean `{near}`?"),
            );
            problems
                .error(reference.at, &reference.path, format!("{what} `{name}` does not exist"))
                .hint(hint);
        }
    }

    /// Refuses exception handlers whose errors would lead back to themselves, through children too: a handler that
    /// starts the flow it handles has the same error to handle again.
    pub(crate) fn check_handlers(&self, problems: &mut Problems<'_>) {
        let starts = |reference: &Reference| reference.relation == Relation::Handler;
        for (circle, reference) in self.find_cycles(&starts, &|_| true) {
            problems
                .error(
                    reference.at,
                    &reference.path,
                    format!("exception handlers in a cycle: {}", circle.join(" -> ")),
                )
                .hint("an error would be handled forever; end the cycle with a flow that has no handler");
        }
    }

    /// Refuses flows that start themselves unconditionally. With an `if` or a `forEach` on the way the recursion may
    /// end, as in walking a tree.
    pub(crate) fn check_children(&self, problems: &mut Problems<'_>) {
        let endless = |reference: &Reference| reference.relation == Relation::Child { conditional: false };
        for (circle, reference) in self.find_cycles(&endless, &endless) {
            problems
                .error(
                    reference.at,
                    &reference.path,
                    format!("starts itself endlessly: {}", circle.join(" -> ")),
                )
                .hint("give one of the steps an `if` that stops it");
        }
    }

    /// Finds every cycle that begins with a reference of `starts` and returns along `allowed` ones; the same set of
    /// flows is reported once.
    fn find_cycles(
        &self,
        starts: &dyn Fn(&Reference) -> bool,
        allowed: &dyn Fn(&Reference) -> bool,
    ) -> Vec<(Vec<&'a str>, &'a Reference)> {
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (place, (name, references)) in self.flows.iter().enumerate() {
            for reference in references.iter().filter(|reference| starts(reference)) {
                let Some(next) = self.places.get(reference.to.as_str()) else { continue };
                let Some(way) = self.shortest_path(*next, place, allowed) else { continue };
                if seen.insert(way.iter().copied().collect::<BTreeSet<_>>()) {
                    let circle = std::iter::once(*name).chain(way.iter().map(|place| self.flows[*place].0));
                    circles.push((circle.collect(), reference));
                }
            }
        }
        circles
    }

    /// Finds the shortest path from one flow to another along `allowed` references, both ends included.
    fn shortest_path(
        &self,
        from: usize,
        to: usize,
        allowed: &dyn Fn(&Reference) -> bool,
    ) -> Option<Vec<usize>> {
        let mut before: HashMap<usize, usize> = HashMap::new();
        let mut open = VecDeque::from([from]);
        let mut reached = BTreeSet::from([from]);
        while let Some(flow) = open.pop_front() {
            if flow == to {
                let mut way = vec![to];
                while let Some(previous) = way.last().and_then(|flow| before.get(flow)) {
                    way.push(*previous);
                }
                way.reverse();
                return Some(way);
            }
            for reference in self.flows[flow].1.iter().filter(|reference| allowed(reference)) {
                if let Some(next) = self.places.get(reference.to.as_str()).copied()
                    && reached.insert(next)
                {
                    before.insert(next, flow);
                    open.push_back(next);
                }
            }
        }
        None
    }
}
