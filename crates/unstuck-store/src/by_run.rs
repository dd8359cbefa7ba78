//! Something for each place of a run, found by the run: most runs have one, and that one needs no tree.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;

/// A place of a run: a unit, or the run itself.
pub(crate) type UnitKey = Option<UnitRef>;

/// What the places of runs have.
#[derive(Clone, Debug)]
pub(crate) struct ByRun<V> {
    runs: FxHashMap<RunId, UnitMap<V>>,
}

/// What the places of one run have.
#[derive(Clone, Debug)]
pub(crate) enum UnitMap<V> {
    None,
    One(UnitKey, V),
    Many(BTreeMap<UnitKey, V>),
}

impl<V> Default for ByRun<V> {
    fn default() -> ByRun<V> {
        ByRun { runs: FxHashMap::default() }
    }
}

impl<V> ByRun<V> {
    pub(crate) fn get(&self, run: RunId, place: UnitKey) -> Option<&V> {
        match self.runs.get(&run)? {
            UnitMap::None => None,
            UnitMap::One(at, value) => (*at == place).then_some(value),
            UnitMap::Many(values) => values.get(&place),
        }
    }

    pub(crate) fn get_mut(&mut self, run: RunId, place: UnitKey) -> Option<&mut V> {
        match self.runs.get_mut(&run)? {
            UnitMap::None => None,
            UnitMap::One(at, value) => (*at == place).then_some(value),
            UnitMap::Many(values) => values.get_mut(&place),
        }
    }

    /// Sets the value of a place, and returns the one before.
    pub(crate) fn insert(&mut self, run: RunId, place: UnitKey, value: V) -> Option<V> {
        match self.runs.entry(run) {
            Entry::Vacant(vacant) => {
                vacant.insert(UnitMap::One(place, value));
                None
            }
            Entry::Occupied(mut occupied) => occupied.get_mut().insert(place, value),
        }
    }

    pub(crate) fn remove(&mut self, run: RunId, place: UnitKey) -> Option<V> {
        let Entry::Occupied(mut occupied) = self.runs.entry(run) else { return None };
        let removed = occupied.get_mut().remove(place);
        if occupied.get().is_empty() {
            occupied.remove();
        }
        removed
    }

    /// Lists the values of a run in order of place.
    pub(crate) fn of_run(&self, run: RunId) -> impl Iterator<Item = &V> {
        let (one, many) = match self.runs.get(&run) {
            None | Some(UnitMap::None) => (None, None),
            Some(UnitMap::One(_, value)) => (Some(value), None),
            Some(UnitMap::Many(values)) => (None, Some(values.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Removes all values of a run, and returns them.
    pub(crate) fn take(&mut self, run: RunId) -> UnitMap<V> {
        self.runs.remove(&run).unwrap_or(UnitMap::None)
    }
}

impl<V> UnitMap<V> {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            UnitMap::None => true,
            UnitMap::One(..) => false,
            UnitMap::Many(values) => values.is_empty(),
        }
    }

    pub(crate) fn insert(&mut self, place: UnitKey, value: V) -> Option<V> {
        match self {
            UnitMap::Many(values) => values.insert(place, value),
            UnitMap::One(at, old) if *at == place => Some(std::mem::replace(old, value)),
            UnitMap::None | UnitMap::One(..) => {
                *self = match std::mem::replace(self, UnitMap::None) {
                    UnitMap::One(at, old) => UnitMap::Many(BTreeMap::from([(at, old), (place, value)])),
                    UnitMap::None | UnitMap::Many(_) => UnitMap::One(place, value),
                };
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, place: UnitKey) -> Option<V> {
        match self {
            UnitMap::Many(values) => values.remove(&place),
            UnitMap::One(at, _) if *at == place => match std::mem::replace(self, UnitMap::None) {
                UnitMap::One(_, value) => Some(value),
                UnitMap::None | UnitMap::Many(_) => None,
            },
            UnitMap::None | UnitMap::One(..) => None,
        }
    }

    /// Calls `each` with every value, in order of place.
    pub(crate) fn drain(self, mut each: impl FnMut(UnitKey, V)) {
        match self {
            UnitMap::None => {}
            UnitMap::One(place, value) => each(place, value),
            UnitMap::Many(values) => values.into_iter().for_each(|(place, value)| each(place, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use unstuck_core::model::flow::StepIndex;

    use super::*;

    #[test]
    fn places_of_a_run_come_and_go() {
        let (run, other) = (RunId(1), RunId(2));
        let unit = |step| Some(UnitRef::step(StepIndex(step)));
        let mut by_run = ByRun::default();
        assert_eq!(by_run.insert(run, None, 'a'), None);
        assert_eq!(by_run.insert(run, None, 'b'), Some('a'));
        assert_eq!(by_run.insert(run, unit(1), 'c'), None);
        assert_eq!(by_run.insert(run, unit(0), 'd'), None);
        assert_eq!(by_run.insert(other, unit(0), 'e'), None);
        assert_eq!(by_run.get(run, unit(1)), Some(&'c'));
        assert_eq!(by_run.remove(run, unit(1)), Some('c'));
        assert_eq!(by_run.remove(run, unit(1)), None);
        assert_eq!(by_run.remove(other, unit(1)), None);
        let mut left = Vec::new();
        by_run.take(run).drain(|place, value| left.push((place, value)));
        assert_eq!(left, [(None, 'b'), (unit(0), 'd')]);
        assert!(by_run.take(run).is_empty());
        assert_eq!(by_run.remove(other, unit(0)), Some('e'));
        assert!(by_run.take(other).is_empty());
    }
}
