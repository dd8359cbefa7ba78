//! How the twin names notices, which each of the two stores names in its own way.

use std::collections::BTreeMap;

use unstuck_core::command::Notice;

use crate::contract::{NoticeId, Stage, Store};

/// How the twin names notices, and how the two stores name them.
#[derive(Default)]
pub(super) struct Names {
    pub(super) last: u64,
    /// The undelivered ones.
    pub(super) names: BTreeMap<NoticeId, (NoticeId, NoticeId)>,
}

impl Names {
    /// Names what a stage has added and forgets what it has delivered.
    pub(super) fn note<A: Store, B: Store>(&mut self, stage: &Stage, oracle: &mut A, store: Option<&mut B>) {
        for id in &stage.delivered {
            self.names.remove(id);
        }
        for _ in &stage.notices {
            self.last += 1;
            self.names.insert(NoticeId(self.last), (NoticeId(0), NoticeId(0)));
        }
        if let Some(store) = store {
            return self.pair(oracle, store);
        }
        let ids = oracle.notices(usize::MAX).expect("reads");
        for (names, (id, _)) in self.names.values_mut().zip(ids) {
            names.0 = id;
        }
    }

    /// The undelivered notices of both stores, in order, are the same.
    pub(super) fn pair<A: Store, B: Store>(&mut self, oracle: &mut A, store: &mut B) {
        let theirs = oracle.notices(usize::MAX).expect("reads");
        let ours = store.notices(usize::MAX).expect("reads");
        assert_eq!(theirs.len(), self.names.len(), "what was not delivered is there");
        let bodies =
            |all: &[(NoticeId, Notice)]| all.iter().map(|(_, notice)| notice.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&ours), bodies(&theirs), "the stores have the same notices");
        for (names, ((oracle, _), (store, _))) in self.names.values_mut().zip(theirs.into_iter().zip(ours)) {
            *names = (oracle, store);
        }
    }

    /// How the twin names what the oracle names so.
    pub(super) fn of_oracle(&self, ids: &[NoticeId]) -> Vec<NoticeId> {
        let names: BTreeMap<NoticeId, NoticeId> =
            self.names.iter().map(|(name, (oracle, _))| (*oracle, *name)).collect();
        ids.iter().filter_map(|id| names.get(id).copied()).collect()
    }

    pub(super) fn translate(
        &self,
        ids: &[NoticeId],
        side: impl Fn((NoticeId, NoticeId)) -> NoticeId,
    ) -> Vec<NoticeId> {
        ids.iter().filter_map(|id| self.names.get(id).copied().map(&side)).collect()
    }
}
