//! A run with all that belongs to it: its children and handlers, and theirs.

use unstuck_core::id::RunId;
use unstuck_core::refusal::Refusal;
use unstuck_store::contract::{Reader, RunFilter, Store, StoreError};

use crate::request::EngineError;

/// A run and all that belongs to it, each with the number of its last event; the run first.
pub(crate) fn family(store: &mut dyn Store, root: RunId) -> Result<Vec<(RunId, u64)>, EngineError> {
    let seq = store.run(root)?.map(|run| run.seq);
    family_with(root, seq, |filter, before, limit| {
        Ok(store.list(filter, before, limit)?.iter().map(|run| (run.id, run.seq)).collect())
    })
}

/// The same, as far as it is durable.
pub(crate) fn durable_family(reader: &dyn Reader, root: RunId) -> Result<Vec<(RunId, u64)>, EngineError> {
    let seq = reader.run(root)?.map(|run| run.seq);
    family_with(root, seq, |filter, before, limit| {
        Ok(reader.list(filter, before, limit)?.iter().map(|run| (run.id, run.seq)).collect())
    })
}

fn family_with(
    root: RunId,
    seq: Option<u64>,
    mut list: impl FnMut(&RunFilter, Option<RunId>, usize) -> Result<Vec<(RunId, u64)>, StoreError>,
) -> Result<Vec<(RunId, u64)>, EngineError> {
    const PAGE: usize = 1_000;
    let mut found = vec![(root, seq.ok_or(Refusal::UnknownRun(root))?)];
    let mut next = 0;
    while let Some((parent, _)) = found.get(next).copied() {
        next += 1;
        let filter = RunFilter { parent: Some(parent), ..RunFilter::default() };
        let mut before = None;
        loop {
            let page = list(&filter, before, PAGE)?;
            before = page.last().map(|(run, _)| *run);
            let is_end = page.len() < PAGE;
            found.extend(page);
            if is_end {
                break;
            }
        }
    }
    Ok(found)
}
