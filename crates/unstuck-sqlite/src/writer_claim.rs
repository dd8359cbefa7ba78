//! Which of several processes may write, whatever their locks say: the one that claimed the file last.
//!
//! The lock of a store can be got around: somebody removes the lock file, or the folder is on a file system whose locks
//! do not reach as far. So a store claims the file with its first transaction, and looks in each one after that, once it
//! has SQLite's lock for writing, whether the claim still stands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use unstuck_store::contract::StoreError;

use crate::error::{broken_store, store_error};
use crate::table::prepare;

/// The claim of one opened store, shared by its connections; `None` until it writes something.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriterClaim(Arc<Mutex<Option<ClaimRecord>>>);

/// As it is in the file: `NUMBER PROCESS.COUNT`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClaimRecord {
    number: u64,
    /// The process, and how many stores it had opened before: no two that could meet have the same.
    by: String,
}

impl WriterClaim {
    /// Begins a write transaction, unless another process has claimed the file since: the lock file may have been
    /// removed under this one.
    pub(crate) fn begin<'c>(&self, connection: &'c mut Connection) -> Result<Transaction<'c>, StoreError> {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
        self.check_or_claim(&transaction)?;
        Ok(transaction)
    }

    /// Compares the claim in the file with ours. The first transaction writes ours; a later number in the file means
    /// that another process has taken over.
    fn check_or_claim(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let sql = "SELECT value FROM meta WHERE name = 'owner'";
        let found: Option<String> =
            prepare(transaction, sql)?.query_row([], |row| row.get(0)).optional().map_err(store_error)?;
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(own), Some(found)) = (own.as_ref(), &found)
            && own.is(found)
        {
            return Ok(());
        }
        let found = found.map(|text| ClaimRecord::parse(&text)).transpose()?;
        let last = found.as_ref().map_or(0, |found| found.number);
        let claimed = match (own.as_ref(), &found) {
            (None, _) => ClaimRecord::new(last + 1),
            (Some(own), Some(found)) if own.number <= found.number => return Err(claim_lost(found)),
            // The transaction that it was made in has come to nothing.
            (Some(own), _) => own.clone(),
        };
        let sql = "INSERT INTO meta (name, value) VALUES ('owner', ?1)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        prepare(transaction, sql)?.execute([claimed.text()]).map_err(store_error)?;
        *own = Some(claimed);
        Ok(())
    }
}

impl ClaimRecord {
    fn new(number: u64) -> ClaimRecord {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let count = OPENED.fetch_add(1, Ordering::Relaxed);
        ClaimRecord { number, by: format!("{}.{count}", std::process::id()) }
    }

    fn parse(text: &str) -> Result<ClaimRecord, StoreError> {
        let parts = text.split_once(' ').and_then(|(number, by)| Some((number.parse().ok()?, by)));
        let (number, by) = parts.ok_or_else(|| broken_store("the claim of its owner is damaged"))?;
        Ok(ClaimRecord { number, by: by.to_owned() })
    }

    fn text(&self) -> String {
        format!("{} {}", self.number, self.by)
    }

    /// Returns whether a stored claim is this one.
    fn is(&self, text: &str) -> bool {
        text.split_once(' ').is_some_and(|(number, by)| by == self.by && number.parse() == Ok(self.number))
    }
}

fn claim_lost(by: &ClaimRecord) -> StoreError {
    let process = by.by.split('.').next().unwrap_or_default();
    broken_store(format!(
        "process {process} took it over while this process had it open (was its lock file removed?). This process \
         changes nothing more. When process {process} has ended, continue with `unstuck run --continue`"
    ))
}
