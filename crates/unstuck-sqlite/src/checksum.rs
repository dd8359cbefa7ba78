//! Checksums of rows, over what they hold and the place that it belongs to: a bit that has changed, or a row that stands in
//! another's place, is known as damage and not taken for what happened.
//!
//! A CRC-32 finds every change of up to 32 neighbouring bits and misses one in four thousand million others, which is what
//! a disk does to data; it is no protection against people. Rows from before there were checksums have none, and are
//! believed.

use crc32fast::Hasher;
use rusqlite::{Connection, Row};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_store::contract::StoreError;
use unstuck_store::verify::RESTORE;

use crate::error::store_error;
use crate::table::{audit, idempotency, token, unsigned};

/// What is wrong with a row whose checksum does not fit.
pub(crate) const WRONG_SUM: &str = "its checksum does not match its content";

/// The checksum of a row: its numbers in order, then its texts, each with its length.
pub(crate) fn sum_row(numbers: &[u64], texts: &[&str]) -> i32 {
    let mut hasher = Hasher::new();
    // Short pieces cost more than what is in them: numbers go together.
    let (mut piece, mut filled) = ([0; 32], 0);
    let mut add = |hasher: &mut Hasher, number: u64, is_last: bool| {
        piece[filled..filled + 8].copy_from_slice(&number.to_le_bytes());
        filled += 8;
        if is_last || filled == piece.len() {
            hasher.update(&piece[..filled]);
            filled = 0;
        }
    };
    for (place, number) in (1..).zip(numbers) {
        add(&mut hasher, *number, place == numbers.len() && texts.is_empty());
    }
    for text in texts {
        add(&mut hasher, text.len() as u64, true);
        hasher.update(text.as_bytes());
    }
    // Four bytes in the file, where an unsigned number would often take six.
    hasher.finalize().cast_signed()
}

/// The checksum of an event of the log.
pub(crate) fn sum_event(pos: u64, run: RunId, prev: u64, body: &str) -> i32 {
    sum_row(&[pos, run.0, prev], &[body])
}

/// The checksum of a payload.
pub(crate) fn sum_payload(id: PayloadId, run: RunId, body: &str) -> i32 {
    sum_row(&[id.0, run.0], &[body])
}

/// Returns whether a stored checksum matches; a row from before there were checksums has none, and is believed.
pub(crate) fn is_sum_valid(kept: Option<i64>, wanted: i32) -> bool {
    kept.is_none_or(|kept| kept == i64::from(wanted))
}

/// Verifies the checksum of every row that has one, and fails with the first damaged row.
pub(crate) fn verify_all_sums(connection: &Connection) -> Result<(), StoreError> {
    check_each_row(connection, "SELECT pos, run, prev, body, sum FROM event ORDER BY pos", |row| {
        let (pos, run, prev) = (read_id(row, 0)?, RunId(read_id(row, 1)?), read_id(row, 2)?);
        let wrong = find_mismatch(row, 3, |body| sum_event(pos, run, prev, body))?;
        Ok(wrong.map(|why| describe_damaged_event(pos, run, &why)))
    })?;
    check_each_row(connection, "SELECT id, run, body, sum FROM payload ORDER BY id", |row| {
        let (payload, run) = (PayloadId(read_id(row, 0)?), RunId(read_id(row, 1)?));
        let wrong = find_mismatch(row, 2, |body| sum_payload(payload, run, body))?;
        Ok(wrong.map(|why| describe_damaged_payload(payload, run, None, &why)))
    })?;
    check_each_row(connection, "SELECT scope, key, at, body, sum FROM idempotency", |row| {
        let key: String = row.get(1).map_err(store_error)?;
        let read = idempotency::read_record(row)?;
        Ok(read.err().map(|why| format!("what was done under idempotency key `{key}` is damaged: {why}")))
    })?;
    check_each_row(connection, "SELECT id, body, sum FROM audit ORDER BY id", |row| {
        let (id, read) = audit::read_entry(row)?;
        Ok(read.err().map(|why| format!("entry {id} of the audit is damaged: {why}")))
    })?;
    token::list_tokens(connection).map(drop)
}

/// Compares the text in `column` with the checksum in the column after it, and returns what is wrong.
fn find_mismatch(
    row: &Row<'_>,
    column: usize,
    wanted: impl FnOnce(&str) -> i32,
) -> Result<Option<String>, StoreError> {
    let body = match row.get_ref(column).map_err(store_error)?.as_str() {
        Ok(body) => body,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let kept: Option<i64> = row.get(column + 1).map_err(store_error)?;
    Ok((!is_sum_valid(kept, wanted(body))).then(|| WRONG_SUM.to_owned()))
}

/// Calls `look` with every row of a query until it returns damage.
fn check_each_row(
    connection: &Connection,
    sql: &str,
    look: impl Fn(&Row<'_>) -> Result<Option<String>, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        if let Some(damage) = look(row)? {
            return Err(StoreError::Damaged(damage));
        }
    }
    Ok(())
}

fn read_id(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    row.get(column).map(unsigned).map_err(store_error)
}

/// The sentence about an event that cannot be believed.
pub(crate) fn describe_damaged_event(pos: u64, run: RunId, why: &str) -> String {
    format!(
        "event {pos} of the log is damaged, which belongs to {run}: {why}; {RESTORE}, or run `unstuck store check` to see all damage"
    )
}

/// The sentence about a payload that cannot be believed, with what it is to its run.
pub(crate) fn describe_damaged_payload(id: PayloadId, run: RunId, what: Option<&str>, why: &str) -> String {
    let what = what.map_or_else(|| format!("which belongs to {run}"), |what| format!("{what} of {run}"));
    format!(
        "payload {id} is damaged, {what}: {why}; {RESTORE}, or cancel and forget this run and start it again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums that are in files stay right: one number after the other, each text behind its length.
    #[test]
    fn a_checksum_is_that_of_all_the_bytes_in_a_row() {
        let cases: [(&[u64], &[&str]); 6] = [
            (&[], &[]),
            (&[7], &[]),
            (&[1, 2, 3], &["body"]),
            (&[1, 2, 3, 4, 5], &["a", ""]),
            (&[], &["a", "bc", "d"]),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[]),
        ];
        for (numbers, texts) in cases {
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            for text in texts {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            assert_eq!(
                sum_row(numbers, texts),
                crc32fast::hash(&bytes).cast_signed(),
                "{numbers:?} {texts:?}"
            );
        }
    }
}
