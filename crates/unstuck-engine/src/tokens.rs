//! Tokens of the API: an order about them is decided by the core and made durable; whoever checks them reads them again.

use std::sync::Arc;

use serde_json::{Value, json};
use unstuck_core::api_token::{ApiToken, TokenChange, TokenChangeKind, TokenCommand, decide_token};
use unstuck_core::decide::check_texts;
use unstuck_core::event::Actor;
use unstuck_core::id::TokenId;
use unstuck_core::time::Time;
use unstuck_store::contract::{AuditRecord, CallOutcome, Store, StoreError, TokensChange};

use crate::call::{Call, values};
use crate::engine::Engine;
use crate::request::EngineError;

/// So often an order is decided when others change tokens at the same time.
const MAX_TRIES: u32 = 5;

/// An order about tokens.
#[derive(Clone, Debug)]
pub struct TokenOrder {
    pub command: TokenCommand,
    pub by: Actor,
    pub reason: Option<Arc<str>>,
    pub call: Call,
}

impl<S: Store> Engine<S> {
    /// Carries out an order, between two batches: it is durable on return. Every change has an entry in the audit.
    #[expect(clippy::needless_pass_by_value, reason = "it is given once, and may be decided several times")]
    pub fn change_tokens(&mut self, order: TokenOrder, now: Time) -> Result<TokenChange, EngineError> {
        self.take_time(now);
        if let Some(error) = &self.stopped {
            return Err(error.clone().into());
        }
        check_texts(&order.by, order.reason.as_deref())?;
        let mut tries = 0;
        loop {
            let newest = self.store.versions()?;
            self.refresh_shared(newest)?;
            tries += 1;
            self.check_key(&order.call)?;
            match self.try_change_tokens(&order) {
                // Another server was quicker: it is decided again on what that left.
                Err(EngineError::Store(StoreError::Conflict(_))) if tries < MAX_TRIES => {}
                result => return result,
            }
        }
    }

    fn try_change_tokens(&mut self, order: &TokenOrder) -> Result<TokenChange, EngineError> {
        let (at, tokens) = (self.store_time(), self.store.tokens()?);
        let ids = &mut self.ids;
        let change = decide_token(&tokens, order.command.clone(), &order.by, at, || TokenId(ids.next(at)))
            .map_err(EngineError::BadToken)?;
        let outcome = CallOutcome::Token { token: change.after.id };
        if change.what == TokenChangeKind::Unchanged {
            self.record_unchanged(&order.call, outcome)?;
            return Ok(change);
        }
        let ledger = order.call.ledger(at, outcome, vec![build_audit_record(order, &change, at)]);
        let stored = TokensChange { tokens: vec![change.after.clone()], last_id: self.ids.last(), ledger };
        self.store.put_tokens(stored, self.known.tokens)?;
        self.known.tokens = self.store.versions()?.tokens;
        Ok(change)
    }

    /// A token was used: that is recorded with the next stage.
    pub fn record_token_use(&mut self, token: TokenId, now: Time) {
        self.take_time(now);
        self.token_uses.insert(token, self.store_time());
        self.look_again();
    }
}

fn build_audit_record(order: &TokenOrder, change: &TokenChange, at: Time) -> AuditRecord {
    AuditRecord {
        at,
        by: order.by.clone(),
        origin: order.call.origin(),
        what: format!("token.{}", change.what.word()).into(),
        run: None,
        thing: Some(change.after.name.clone()),
        reason: order.reason.clone(),
        change: values(
            change.before.as_ref().map(without_digests).as_ref(),
            Some(&without_digests(&change.after)),
        ),
    }
}

/// A token as it is told, in the forms of the API: nobody needs to see digests.
fn without_digests(token: &ApiToken) -> Value {
    let time = |at: Option<Time>| at.map(|at| at.to_string());
    json!({
        "id": token.id.to_string(),
        "name": token.name,
        "role": token.role.word(),
        "actions": token.actions,
        "flows": token.flows,
        "origin": token.origin,
        "payloads": token.payloads,
        "expiresAt": time(token.expires_at),
        "revokedAt": time(token.revoked_at),
        "oldSecretUntil": time(token.previous.as_ref().map(|previous| previous.until)),
    })
}
