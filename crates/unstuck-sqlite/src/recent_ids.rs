//! What was staged lately and may not be in the file yet: payloads, keys, and requests that were carried out under a key.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_store::contract::IdempotencyRecord;

/// So many bytes of payloads are usually kept for those who read them again soon.
pub(crate) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Payloads that were written or read lately.
#[derive(Debug, Default)]
pub(crate) struct RecentPayloads {
    known: FxHashMap<PayloadId, Json>,
    /// In order, with the stage that writes each.
    order: VecDeque<(PayloadId, u64)>,
    bytes: usize,
}

impl RecentPayloads {
    pub(crate) fn get(&self, id: PayloadId) -> Option<&Json> {
        self.known.get(&id)
    }

    /// Keeps a payload that `stage` will write: until then it cannot be read from the file.
    pub(crate) fn put(&mut self, id: PayloadId, json: Json, stage: u64) {
        let bytes = json.text().len();
        if self.known.insert(id, json).is_none() {
            self.bytes += bytes;
            self.order.push_back((id, stage));
        }
    }

    /// Drops everything; all of it must be in the file by now.
    pub(crate) fn clear(&mut self) {
        *self = RecentPayloads::default();
    }

    /// Drops the oldest payloads above `max_bytes`, but only those of stages that are durable.
    pub(crate) fn trim(&mut self, durable: u64, max_bytes: usize) {
        while self.bytes > max_bytes
            && let Some((id, stage)) = self.order.front()
            && *stage <= durable
        {
            if let Some(json) = self.known.remove(id) {
                self.bytes = self.bytes.saturating_sub(json.text().len());
            }
            self.order.pop_front();
        }
    }
}

/// A flow and a key in it.
type Name = (Arc<str>, Arc<str>);

/// Keys that were taken lately.
#[derive(Debug, Default)]
pub(crate) struct RecentKeys {
    known: HashMap<Name, RunId>,
    /// In order, with the stage that takes each, and for whom.
    order: VecDeque<(Name, u64, RunId)>,
}

impl RecentKeys {
    pub(crate) fn get(&self, flow: &str, key: &str) -> Option<RunId> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&(Arc::from(flow), Arc::from(key))).copied()
    }

    /// Keeps the key of a run that `stage` will write: until then it is not found in the file.
    pub(crate) fn put(&mut self, flow: &Arc<str>, key: &Arc<str>, run: RunId, stage: u64) {
        let name = (flow.clone(), key.clone());
        self.known.insert(name.clone(), run);
        self.order.push_back((name, stage, run));
    }

    /// Drops the key of a run that is removed, or a new run could not take it.
    pub(crate) fn forget(&mut self, run: RunId) {
        self.known.retain(|_, known| *known != run);
    }

    /// Drops keys of durable stages: they are found in the file.
    pub(crate) fn trim(&mut self, durable: u64) {
        while let Some((name, stage, run)) = self.order.front()
            && *stage <= durable
        {
            // It may be another run's by now, which is not in the file yet.
            if self.known.get(name) == Some(run) {
                self.known.remove(name);
            }
            self.order.pop_front();
        }
    }
}

/// Requests that were carried out under a key lately, each with the stage that writes it.
#[derive(Debug, Default)]
pub(crate) struct RecentCalls(VecDeque<(u64, IdempotencyRecord)>);

impl RecentCalls {
    /// The last one is the one that counts.
    pub(crate) fn get(&self, scope: &str, key: &str) -> Option<&IdempotencyRecord> {
        let is_this = |record: &IdempotencyRecord| *record.key.key == *key && *record.key.scope == *scope;
        self.0.iter().rev().map(|(_, record)| record).find(|record| is_this(record))
    }

    /// Keeps what `stage` will write: until then it is not found in the file.
    pub(crate) fn put(&mut self, records: &[IdempotencyRecord], stage: u64) {
        self.0.extend(records.iter().map(|record| (stage, record.clone())));
    }

    /// Drops what durable stages have written.
    pub(crate) fn trim(&mut self, durable: u64) {
        while self.0.front().is_some_and(|(stage, _)| *stage <= durable) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_read_often_takes_up_its_room_once() {
        let mut payloads = RecentPayloads::default();
        let json = Json::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("it is JSON");
        for _ in 0..100 {
            payloads.put(PayloadId(1), json.clone(), 1);
            payloads.trim(1, MAX_BYTES);
        }
        assert!(payloads.get(PayloadId(1)).is_some());
        for id in 2..40 {
            payloads.put(PayloadId(id), json.clone(), 2);
        }
        payloads.trim(1, MAX_BYTES);
        assert!(payloads.get(PayloadId(1)).is_none(), "the oldest goes first");
        assert!(payloads.get(PayloadId(2)).is_some(), "what is not in the file yet stays");
        payloads.trim(2, MAX_BYTES);
        assert!(payloads.bytes <= MAX_BYTES && payloads.get(PayloadId(39)).is_some());
    }

    #[test]
    fn a_key_that_was_taken_again_stays_until_it_is_in_the_file() {
        let mut keys = RecentKeys::default();
        let (flow, key) = ("f".into(), "k".into());
        keys.put(&flow, &key, RunId(1), 1);
        keys.forget(RunId(1));
        keys.put(&flow, &key, RunId(2), 3);
        keys.trim(2);
        assert_eq!(keys.get("f", "k"), Some(RunId(2)));
        keys.trim(3);
        assert_eq!(keys.get("f", "k"), None);
        assert!(keys.order.is_empty());
    }
}
