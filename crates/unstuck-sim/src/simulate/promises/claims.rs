//! What answers say about what is there already is so, and what was given is kept as it was.

use std::sync::Arc;

use unstuck_core::digest::digest;
use unstuck_core::event::Fact;
use unstuck_core::json::Payload;
use unstuck_store::contract::Store;

use super::ledger::Claim;
use super::run_record::RunRecord;
use super::{Broken, CheckError, Promise, Promises};

impl Promises {
    /// What answers have said about what is there already, and payloads as they were given.
    pub(super) fn check_claims(&mut self, store: &mut dyn Store) -> Result<(), CheckError> {
        for claim in self.ledger.claims() {
            self.count(Promise::Keys);
            self.check_claim(claim)?;
        }
        for kept in std::mem::take(&mut self.ledger.kept) {
            let is = match &kept.payload {
                Payload::Inline(json) => Some(json.clone()),
                Payload::Stored(id) => store.payloads(&[*id])?.pop().flatten(),
            };
            let is_gone = self.forgotten.contains(&kept.run) || self.may_be_forgotten(kept.run);
            if is.as_ref() != Some(&kept.given) && !is_gone {
                let what = format!("{} was given, and {is:?} is kept", kept.given.text());
                return Err(Broken::of(Promise::Kept, kept.run, what).into());
            }
        }
        Ok(())
    }

    fn check_claim(&self, claim: Claim) -> Result<(), Broken> {
        match claim {
            Claim::Already(id, says) => {
                let is_so = self.books.get(&id.run).is_some_and(|book| book.has_heard(id, &says));
                if is_so || self.forgotten.contains(&id.run) {
                    return Ok(());
                }
                Err(Broken::of(
                    Promise::Fenced,
                    id.run,
                    format!("`already` is said of what never was: {says:?}"),
                ))
            }
            Claim::HasKey { flow, key, run, input } => {
                if self.forgotten.contains(&run) {
                    return Ok(());
                }
                let Some(known) = self.books.get(&run).filter(|book| book.run().is_some()) else {
                    return Err(Broken::of(
                        Promise::Kept,
                        run,
                        "it was said to be started, and is not there",
                    ));
                };
                let Some(key) = key else { return Ok(()) };
                let is_same = has_had(known, &digest(&input.value()));
                if self.family.of_key(&flow, &key) == Some(run) && is_same {
                    return Ok(());
                }
                Err(Broken::of(Promise::Keys, run, format!("a start of key `{key}` is told to be this run")))
            }
            Claim::KeyTaken { run, .. } if self.forgotten.contains(&run) => Ok(()),
            Claim::KeyTaken { key, run, theirs } => {
                let is_so = self.books.get(&run).is_some_and(|book| {
                    book.run().is_some_and(|run| run.key.as_ref() == Some(&key)) && has_had(book, &theirs)
                });
                if is_so {
                    Ok(())
                } else {
                    Err(Broken::of(Promise::Keys, run, format!("it is said to have key `{key}`")))
                }
            }
        }
    }
}

/// Whether the key of a run has ever gone with this input: a start may have brought another one since it was answered.
fn has_had(book: &RunRecord, digest: &Arc<str>) -> bool {
    let facts = book.events.iter().flat_map(|event| &event.facts);
    let mut digests = facts.filter_map(|fact| match fact {
        Fact::Started(started) => started.input_digest.as_ref(),
        Fact::InputChanged { digest, .. } => digest.as_ref(),
        _ => None,
    });
    digests.any(|had| had == digest)
}
