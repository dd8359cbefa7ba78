//! Notices that are on their way, oldest first; those to a run that is set aside wait apart, in their order.

use std::collections::BTreeMap;

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
}

impl Notices {
    /// Adds a notice.
    pub fn insert(&mut self, id: NoticeId, notice: Notice) {
        let waiting = if self.aside.is_empty() { None } else { self.aside.get_mut(&notice.to) };
        waiting.unwrap_or(&mut self.offered).insert(id, notice);
    }

    /// Removes a notice.
    pub fn remove(&mut self, id: NoticeId) {
        if self.offered.remove(&id).is_none() {
            self.aside.values_mut().for_each(|notices| drop(notices.remove(&id)));
        }
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

impl FromIterator<(NoticeId, Notice)> for Notices {
    fn from_iter<I: IntoIterator<Item = (NoticeId, Notice)>>(notices: I) -> Notices {
        Notices { offered: notices.into_iter().collect(), aside: FxHashMap::default() }
    }
}
