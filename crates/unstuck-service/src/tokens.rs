//! Tokens of the API: made, listed, revoked and rotated; and whoever comes with one is known by it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use unstuck_api::request::{NewTokenRequest, TokenOperation, TokenRequest};
use unstuck_api::tokens::{TokenChangedView, TokenView, TokensView};
use unstuck_core::api_token::{ApiToken, NewToken, Role, SecretDigest, TokenCommand};
use unstuck_core::event::Actor;
use unstuck_core::id::TokenId;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::call::Call;
use unstuck_engine::runtime::Handle;
use unstuck_engine::tokens::TokenOrder;
use unstuck_store::contract::Reader;

use crate::apply_flows::describe_actor;
use crate::service::{ServiceError, now};

/// How every token begins, so that it is recognised where it should not be.
const PREFIX: &str = "ust_";
/// A token that is used all the time is recorded as used this often.
const USE_INTERVAL: Millis = Millis(60_000);

/// Handles a request about tokens.
pub(crate) fn change_tokens(
    handle: &Handle,
    request: TokenRequest,
    call: &Call,
) -> Result<TokenChangedView, ServiceError> {
    let TokenRequest { by, reason, what } = request;
    change_tokens_as(handle, what, Actor::User(by.into()), reason.map(Arc::from), call.clone())
}

/// The same, with what comes with the request. A new secret is in the answer, and nowhere else.
pub fn change_tokens_as(
    handle: &Handle,
    what: TokenOperation,
    by: Actor,
    reason: Option<Arc<str>>,
    call: Call,
) -> Result<TokenChangedView, ServiceError> {
    let secret = new_secret()?;
    let digest = digest_of(&secret);
    let (command, is_new) = match what {
        TokenOperation::Create(new) => (TokenCommand::Create(Box::new(parse_new(new, digest)?)), true),
        TokenOperation::Revoke { token } => (TokenCommand::Revoke { token: token.into() }, false),
        TokenOperation::Rotate { token, overlap_ms } => {
            (TokenCommand::Rotate { token: token.into(), digest, overlap: Millis(overlap_ms) }, true)
        }
    };
    let change = handle.change_tokens(TokenOrder { command, by, reason, call })?;
    let last_used = last_use(handle.reader(), change.after.id)?;
    Ok(TokenChangedView {
        what: change.what.word().to_owned(),
        token: is_new.then(|| write_token(change.after.id, &secret)),
        view: build_view(&change.after, last_used, now()),
    })
}

fn parse_new(new: NewTokenRequest, digest: SecretDigest) -> Result<NewToken, ServiceError> {
    let role = Role::of(&new.role).ok_or_else(|| {
        let known: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
        ServiceError::refused(format!("there is no role `{}`; roles are {}", new.role, known.join(", ")))
    })?;
    let texts = |texts: Vec<String>| texts.into_iter().map(Arc::from).collect();
    Ok(NewToken {
        name: new.name.into(),
        role,
        actions: texts(new.actions),
        flows: texts(new.flows),
        origin: new.origin.map(Arc::from),
        payloads: new.payloads.unwrap_or(true),
        expires_in: new.expires_in_ms.map(Millis),
        digest,
    })
}

/// Lists tokens, the newest first; without `all`, those that let somebody in.
pub fn list_tokens(reader: &dyn Reader, all: bool) -> Result<TokensView, ServiceError> {
    let uses: HashMap<TokenId, Time> = reader.token_uses()?.into_iter().collect();
    let now = now();
    let tokens = reader.tokens()?;
    let wanted = tokens.iter().rev().filter(|token| all || !token.is_over(now));
    let tokens = wanted.map(|token| build_view(token, uses.get(&token.id).copied(), now)).collect();
    Ok(TokensView { tokens })
}

/// Shows a token.
pub fn show_token(reader: &dyn Reader, id: TokenId) -> Result<TokenView, ServiceError> {
    let token = reader.tokens()?.into_iter().find(|token| token.id == id);
    let gone = || ServiceError::not_found(format!("there is no token {id}")).named("token", &id.to_string());
    Ok(build_view(&token.ok_or_else(gone)?, last_use(reader, id)?, now()))
}

/// Builds the view of a token: all of it but its secret.
pub fn build_view(token: &ApiToken, last_used: Option<Time>, now: Time) -> TokenView {
    let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
    let state = match (token.revoked_at, token.is_over(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "active",
    };
    TokenView {
        id: token.id.to_string(),
        name: token.name.to_string(),
        role: token.role.word().to_owned(),
        state: state.to_owned(),
        actions: texts(&token.actions),
        flows: texts(&token.flows),
        origin: token.origin.as_deref().map(str::to_owned),
        payloads: token.payloads,
        created_at: token.created_at.timestamp(),
        by: describe_actor(&token.by),
        expires_at: token.expires_at.map(Time::timestamp),
        revoked_at: token.revoked_at.map(Time::timestamp),
        old_secret_until: token
            .previous
            .as_ref()
            .filter(|previous| previous.until > now)
            .map(|previous| previous.until.timestamp()),
        last_used_at: last_used.map(Time::timestamp),
    }
}

fn last_use(reader: &dyn Reader, token: TokenId) -> Result<Option<Time>, ServiceError> {
    Ok(reader.token_uses()?.into_iter().find(|(used, _)| *used == token).map(|(_, at)| at))
}

/// Makes a secret that nobody can guess.
fn new_secret() -> Result<[u8; 32], ServiceError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        ServiceError::internal(format!("the operating system gives no random numbers: {error}"))
    })?;
    Ok(secret)
}

fn digest_of(secret: &[u8; 32]) -> SecretDigest {
    SecretDigest(Sha256::digest(secret).into())
}

/// Writes a token as its owner gets it: `ust_`, the letters of its id, `_`, and the secret in hex.
fn write_token(id: TokenId, secret: &[u8; 32]) -> String {
    let id = id.to_string();
    let letters = id.strip_prefix("tok_").unwrap_or(&id);
    let hex = secret.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("{PREFIX}{letters}_{hex}")
}

/// Reads a token; `None` if it is no token of ours, whatever is wrong with it.
fn read_token(text: &str) -> Option<(TokenId, [u8; 32])> {
    let (letters, hex) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let id = format!("tok_{letters}").parse().ok()?;
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut secret = [0; 32];
    for (place, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some((id, secret))
}

/// The tokens of a store, for whoever checks those that come. It is made again when
/// [`Handle::tokens_version`] is another one.
#[derive(Debug, Default)]
pub struct KnownTokens {
    tokens: HashMap<TokenId, Arc<ApiToken>>,
    /// The version that they are of.
    pub version: u64,
}

impl KnownTokens {
    /// Reads the tokens of a store. The version was taken before: what changes meanwhile is read again.
    pub fn load(reader: &dyn Reader, version: u64) -> Result<KnownTokens, ServiceError> {
        let tokens = reader.tokens()?.into_iter().map(|token| (token.id, Arc::new(token))).collect();
        Ok(KnownTokens { tokens, version })
    }

    /// Whether there is none that was ever made: then a server has nobody to tell apart.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Finds the token that this is, if it is good at `now`. How long it takes says nothing about the secret, and nothing
    /// tells an unknown token from one that is revoked or has expired.
    pub fn authenticate(&self, presented: &str, now: Time) -> Option<Arc<ApiToken>> {
        let (id, secret) = read_token(presented)?;
        let digest = digest_of(&secret);
        let token = self.tokens.get(&id);
        let mut is_right = subtle::Choice::from(0);
        for good in token.iter().flat_map(|token| token.good_digests(now)) {
            is_right |= good.0.ct_eq(&digest.0);
        }
        token.filter(|_| bool::from(is_right)).cloned()
    }
}

/// When tokens were last recorded as used.
#[derive(Debug, Default)]
pub struct TokenUses(Mutex<HashMap<TokenId, Time>>);

impl TokenUses {
    /// A token is used; it is recorded if that was not done within the last minute.
    pub fn record(&self, handle: &Handle, token: TokenId, now: Time) {
        if self.is_due(token, now) {
            handle.record_token_use(token);
        }
    }

    fn is_due(&self, token: TokenId, now: Time) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back is not waited for.
        let is_recent = uses.get(&token).is_some_and(|last| *last <= now && now < *last + USE_INTERVAL);
        if !is_recent {
            uses.insert(token, now);
        }
        !is_recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    fn token(secret: &[u8; 32]) -> ApiToken {
        ApiToken {
            id: TokenId(77),
            name: "ops".into(),
            role: Role::Operator,
            actions: Vec::new(),
            flows: Vec::new(),
            origin: None,
            payloads: true,
            created_at: NOW,
            by: Actor::Engine,
            expires_at: Some(NOW + Millis(1_000)),
            revoked_at: None,
            digest: digest_of(secret),
            previous: None,
        }
    }

    fn known(token: ApiToken) -> KnownTokens {
        KnownTokens { tokens: HashMap::from([(token.id, Arc::new(token))]), version: 1 }
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let secret = new_secret().expect("there is chance");
        let written = write_token(TokenId(77), &secret);
        assert_eq!(written.len(), 4 + 13 + 1 + 64, "{written}");
        assert_eq!(read_token(&written), Some((TokenId(77), secret)));
        let shorter = &written[..written.len() - 1];
        let other = written.replace("ust_", "tok_");
        for bad in ["", "ust_", "ust__", shorter, &other, &format!("{written}0"), &format!(" {written}")] {
            assert_eq!(read_token(bad), None, "{bad}");
        }
        let not_hex = format!("{}é{}", &written[..20], &written[22..]);
        assert_eq!((not_hex.len(), read_token(&not_hex)), (written.len(), None));
    }

    #[test]
    fn only_the_right_secret_of_a_token_that_is_good_lets_in() {
        let (secret, other) = ([1; 32], [2; 32]);
        let good = write_token(TokenId(77), &secret);
        let tokens = known(token(&secret));
        let name = |tokens: &KnownTokens, text: &str, now: Time| {
            tokens.authenticate(text, now).map(|token| token.name.to_string())
        };
        assert_eq!(name(&tokens, &good, NOW), Some("ops".to_owned()));
        assert_eq!(name(&tokens, &write_token(TokenId(77), &other), NOW), None);
        assert_eq!(name(&tokens, &write_token(TokenId(78), &secret), NOW), None);
        assert_eq!(name(&tokens, "anything", NOW), None);
        assert_eq!(name(&tokens, &good, NOW + Millis(1_000)), None, "it has expired");
        let revoked = ApiToken { revoked_at: Some(NOW), ..token(&secret) };
        assert_eq!(name(&known(revoked), &good, NOW), None);
        let previous =
            unstuck_core::api_token::PreviousSecret { digest: digest_of(&secret), until: NOW + Millis(10) };
        let rotated =
            known(ApiToken { digest: digest_of(&other), previous: Some(previous), ..token(&secret) });
        assert!(name(&rotated, &good, NOW).is_some() && name(&rotated, &good, NOW + Millis(10)).is_none());
        assert!(name(&rotated, &write_token(TokenId(77), &other), NOW).is_some());
    }

    #[test]
    fn a_use_is_recorded_once_a_minute() {
        let uses = TokenUses::default();
        let due = |token: u64, at: i64| uses.is_due(TokenId(token), Time(at));
        assert_eq!(
            [due(1, 0), due(1, 1), due(2, 1), due(1, 59_999), due(1, 60_000)],
            [true, false, true, false, true]
        );
        assert!(due(1, 10), "the clock was set back");
    }
}
