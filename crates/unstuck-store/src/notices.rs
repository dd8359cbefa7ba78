//! Notices that are on their way, oldest first; those to a run that is set aside wait apart, in their order.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use unstuck_core::command::Notice;
use unstuck_core::id::RunId;

use crate::contract::NoticeId;

/// Undelivered notices.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    offered: BTreeMap<NoticeId, Notice>,
    /// By the run that they are for, for each run that is set aside.
    aside: FxHashMap<RunId, BTreeMap<NoticeId, Notice>>,
    /// Those to a run, and those that begin a child of it, wherever they wait.
    about: FxHashMap<RunId, BTreeSet<NoticeId>>,
}

impl Notices {
    /// Adds a notice.
    pub fn insert(&mut self, id: NoticeId, notice: Notice) {
        for run in runs_of(&notice) {
            self.about.entry(run).or_default().insert(id);
        }
        let waiting = if self.aside.is_empty() { None } else { self.aside.get_mut(&notice.to) };
        waiting.unwrap_or(&mut self.offered).insert(id, notice);
    }

    /// Removes a notice.
    pub fn remove(&mut self, id: NoticeId) {
        let of_aside = |aside: &mut FxHashMap<RunId, BTreeMap<NoticeId, Notice>>| {
            aside.values_mut().find_map(|notices| notices.remove(&id))
        };
        let Some(notice) = self.offered.remove(&id).or_else(|| of_aside(&mut self.aside)) else { return };
        for run in runs_of(&notice) {
            if let Entry::Occupied(mut about) = self.about.entry(run) {
                about.get_mut().remove(&id);
                if about.get().is_empty() {
                    about.remove();
                }
            }
        }
    }

    /// Whether one that is offered is to one of these runs, or begins a child of one.
    pub fn has_any_about(&self, runs: &[RunId]) -> bool {
        let about = runs.iter().filter_map(|run| self.about.get(run)).flatten();
        about.into_iter().any(|id| self.offered.contains_key(id))
    }

    /// The oldest notices that are offered, at most `limit`.
    pub fn first(&self, limit: usize) -> Vec<(NoticeId, Notice)> {
        self.offered.iter().take(limit).map(|(id, notice)| (*id, notice.clone())).collect()
    }

    /// Notices to this run are not offered any more, new ones neither.
    pub fn set_aside(&mut self, run: RunId) {
        let waiting = self.offered.extract_if(.., |_, notice| notice.to == run).collect::<BTreeMap<_, _>>();
        self.aside.entry(run).or_default().extend(waiting);
    }

    /// Notices to this run are offered again, each in its place.
    pub fn release(&mut self, run: RunId) {
        self.offered.extend(self.aside.remove(&run).unwrap_or_default());
    }
}

/// The runs that a notice is about.
fn runs_of(notice: &Notice) -> impl Iterator<Item = RunId> {
    std::iter::once(notice.to).chain(notice.begins_child_of())
}

impl FromIterator<(NoticeId, Notice)> for Notices {
    fn from_iter<I: IntoIterator<Item = (NoticeId, Notice)>>(notices: I) -> Notices {
        let mut all = Notices::default();
        notices.into_iter().for_each(|(id, notice)| all.insert(id, notice));
        all
    }
}
