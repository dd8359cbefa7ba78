//! The tables `token` and `token_use`: tokens of the API with digests of their secrets, and when each was last used.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::api_token::ApiToken;
use unstuck_core::id::TokenId;
use unstuck_core::time::Time;
use unstuck_store::contract::{Ledger, StoreError};
use unstuck_store::verify::RESTORE;

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use crate::table::write_ledger;
use crate::writer_claim::WriterClaim;

/// Writes tokens that are new or have changed, with what is recorded of that.
pub(crate) fn put_tokens(
    connection: &mut Connection,
    claim: &WriterClaim,
    tokens: &[ApiToken],
    last_id: u64,
    ledger: &Ledger,
) -> Result<(), StoreError> {
    let transaction = claim.begin(connection)?;
    for token in tokens {
        let sql = "INSERT OR REPLACE INTO token (id, body, sum) VALUES (?1, ?2, ?3)";
        let body = to_text(token)?;
        prepare(&transaction, sql)?
            .execute(params![number(token.id.0)?, body, sum_token(token.id, &body)])
            .map_err(store_error)?;
    }
    super::meta::put_number(&transaction, "last_id", last_id)?;
    write_ledger(&transaction, ledger)?;
    transaction.commit().map_err(store_error)
}

/// Lists all tokens in order of their ids, revoked ones too. A damaged one is an error: nobody is let in on a guess.
pub(crate) fn list_tokens(connection: &Connection) -> Result<Vec<ApiToken>, StoreError> {
    let mut tokens = Vec::new();
    for (id, read) in list_rows(connection)? {
        let damaged = |why| broken_store(format!("token {id} is damaged: {why}; {RESTORE}"));
        tokens.push(read.map_err(damaged)?);
    }
    Ok(tokens)
}

/// A row that was read, or what is damaged in it.
type ReadRow = (TokenId, Result<ApiToken, String>);

/// As [`list_tokens`], but returns damage with its row.
pub(crate) fn list_rows(connection: &Connection) -> Result<Vec<ReadRow>, StoreError> {
    let sql = "SELECT id, body, sum FROM token ORDER BY id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = TokenId(unsigned(row.get(0).map_err(store_error)?));
        let body: String = row.get(1).map_err(store_error)?;
        let sum: Option<i64> = row.get(2).map_err(store_error)?;
        let read = if checksum::is_sum_valid(sum, sum_token(id, &body)) {
            serde_json::from_str(&body).map_err(|error| error.to_string())
        } else {
            Err(checksum::WRONG_SUM.to_owned())
        };
        tokens.push((id, read));
    }
    Ok(tokens)
}

/// Writes when tokens were last used.
pub(crate) fn write_uses(transaction: &Transaction<'_>, uses: &[(TokenId, Time)]) -> Result<(), StoreError> {
    let sql = "INSERT INTO token_use (token, at) VALUES (?1, ?2)
        ON CONFLICT (token) DO UPDATE SET at = max(at, excluded.at)";
    for (token, at) in uses {
        prepare(transaction, sql)?.execute(params![number(token.0)?, at.0]).map_err(store_error)?;
    }
    Ok(())
}

/// Lists when tokens were last used, as far as that is known.
pub(crate) fn list_uses(connection: &Connection) -> Result<Vec<(TokenId, Time)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT token, at FROM token_use ORDER BY token").map_err(store_error)?;
    let uses = statement
        .query_map([], |row| Ok((TokenId(unsigned(row.get(0)?)), Time(row.get(1)?))))
        .map_err(store_error)?;
    uses.collect::<Result<_, _>>().map_err(store_error)
}

fn sum_token(id: TokenId, body: &str) -> i32 {
    checksum::sum_row(&[id.0], &[body])
}
