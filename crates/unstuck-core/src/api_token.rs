//! Tokens of the API: who may do what, until when. Of the secret only a digest is known.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::event::Actor;
use crate::id::TokenId;
use crate::time::{Millis, Time};

/// The longest name of a token, in characters.
pub const MAX_TOKEN_NAME: usize = 128;
/// So many tokens there may be that are not revoked.
pub const MAX_TOKENS: usize = 10_000;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    pub id: TokenId,
    /// Of those that are not revoked, one has it.
    pub name: Arc<str>,
    pub role: Role,
    /// The actions that a worker may take; all if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Arc<str>>,
    /// The flows that a client may start; all if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Arc<str>>,
    /// The name of the server that a peer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<str>>,
    /// Whether it may read payloads.
    pub payloads: bool,
    pub created_at: Time,
    pub by: Actor,
    /// It is good until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
    pub digest: SecretDigest,
    /// The secret before the last rotation, for as long as it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecret>,
}

/// A secret that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviousSecret {
    pub digest: SecretDigest,
    pub until: Time,
}

/// What whoever has a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Read.
    Viewer,
    /// Start runs, send signals, read runs.
    Client,
    /// Work.
    Worker,
    /// Act on runs, policies and all that moves them.
    Operator,
    /// Everything.
    Admin,
    /// Another server.
    Peer,
}

impl Role {
    pub const ALL: [Role; 6] =
        [Role::Viewer, Role::Client, Role::Worker, Role::Operator, Role::Admin, Role::Peer];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Admin => "admin",
            Role::Peer => "peer",
        }
    }

    /// The role of this word.
    pub fn of(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest(pub [u8; 32]);

impl fmt::Debug for SecretDigest {
    /// Nobody needs to see it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

impl Serialize for SecretDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = self.0.iter().fold(String::new(), |mut hex, byte| {
            let _ = fmt::Write::write_fmt(&mut hex, format_args!("{byte:02x}"));
            hex
        });
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for SecretDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretDigest, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = text.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let digest = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        digest.map(SecretDigest).ok_or_else(|| de::Error::custom("the digest of a secret has 64 hex digits"))
    }
}

impl ApiToken {
    /// Whether nobody is let in with it any more.
    pub fn is_over(&self, now: Time) -> bool {
        self.revoked_at.is_some() || self.expires_at.is_some_and(|expires| expires <= now)
    }

    /// The digests of the secrets that are good now: the newest, then the one before it.
    pub fn good_digests(&self, now: Time) -> impl Iterator<Item = &SecretDigest> {
        let newest = (!self.is_over(now)).then_some(&self.digest);
        let previous = self.previous.as_ref().filter(|previous| previous.until > now);
        newest.into_iter().chain(previous.filter(|_| !self.is_over(now)).map(|previous| &previous.digest))
    }
}

/// Something that is asked about tokens.
#[derive(Clone, Debug)]
pub enum TokenCommand {
    Create(Box<NewToken>),
    /// Let nobody in with it any more.
    Revoke {
        token: Arc<str>,
    },
    /// Give it another secret. The old one is good for so long.
    Rotate {
        token: Arc<str>,
        digest: SecretDigest,
        overlap: Millis,
    },
}

/// A token to make.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: Arc<str>,
    pub role: Role,
    pub actions: Vec<Arc<str>>,
    pub flows: Vec<Arc<str>>,
    pub origin: Option<Arc<str>>,
    pub payloads: bool,
    pub expires_in: Option<Millis>,
    pub digest: SecretDigest,
}

/// What was done to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenChange {
    pub what: TokenChangeKind,
    pub before: Option<ApiToken>,
    pub after: ApiToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenChangeKind {
    Created,
    Revoked,
    Rotated,
    /// It was revoked already.
    Unchanged,
}

impl TokenChangeKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            TokenChangeKind::Created => "created",
            TokenChangeKind::Revoked => "revoked",
            TokenChangeKind::Rotated => "rotated",
            TokenChangeKind::Unchanged => "unchanged",
        }
    }
}

/// Why nothing was done about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// There is none of this name or id.
    Unknown(Arc<str>),
    NameTaken(Arc<str>),
    /// It is revoked or has expired.
    Over(Arc<str>),
    BadName(Arc<str>),
    /// A field that the role has no use for, or lacks.
    Misfit {
        role: Role,
        field: &'static str,
        is_needed: bool,
    },
    TooMany,
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenRefusal::Unknown(token) => {
                write!(f, "there is no token `{token}`; `unstuck token list` lists all")
            }
            TokenRefusal::NameTaken(name) => write!(
                f,
                "there is a token `{name}` already. Rotate it, revoke it first, or choose another name"
            ),
            TokenRefusal::Over(token) => {
                write!(f, "token `{token}` was revoked or has expired. Create a new one")
            }
            TokenRefusal::BadName(name) => write!(
                f,
                "`{name}` is no name for a token: it has 1 to {MAX_TOKEN_NAME} letters, digits and any of . _ : -"
            ),
            TokenRefusal::Misfit { role, field, is_needed: true } => {
                write!(f, "a token for a {} needs `{field}`", role.word())
            }
            TokenRefusal::Misfit { role, field, is_needed: false } => {
                write!(
                    f,
                    "a token for a {} has no `{field}`. Leave it out, or choose another role",
                    role.word()
                )
            }
            TokenRefusal::TooMany => {
                write!(f, "there are {MAX_TOKENS} tokens. Revoke those that nobody uses first")
            }
        }
    }
}

/// Decides a command about tokens. `fresh_id` gives the id of a new one.
pub fn decide_token(
    tokens: &[ApiToken],
    command: TokenCommand,
    by: &Actor,
    now: Time,
    fresh_id: impl FnOnce() -> TokenId,
) -> Result<TokenChange, TokenRefusal> {
    match command {
        TokenCommand::Create(new) => create(tokens, *new, by, now, fresh_id),
        TokenCommand::Revoke { token } => {
            let before = find(tokens, &token)?;
            if before.revoked_at.is_some() {
                return Ok(change(TokenChangeKind::Unchanged, before, before.clone()));
            }
            let after = ApiToken { revoked_at: Some(now), previous: None, ..before.clone() };
            Ok(change(TokenChangeKind::Revoked, before, after))
        }
        TokenCommand::Rotate { token, digest, overlap } => {
            let before = find(tokens, &token)?;
            if before.is_over(now) {
                return Err(TokenRefusal::Over(before.name.clone()));
            }
            let old = PreviousSecret { digest: before.digest, until: now + overlap };
            let after =
                ApiToken { digest, previous: Some(old).filter(|_| overlap > Millis(0)), ..before.clone() };
            Ok(change(TokenChangeKind::Rotated, before, after))
        }
    }
}

fn change(what: TokenChangeKind, before: &ApiToken, after: ApiToken) -> TokenChange {
    TokenChange { what, before: Some(before.clone()), after }
}

/// The token of this id, or of this name: one that is not revoked first, else the newest.
fn find<'a>(tokens: &'a [ApiToken], wanted: &Arc<str>) -> Result<&'a ApiToken, TokenRefusal> {
    if let Ok(id) = wanted.parse::<TokenId>() {
        return tokens.iter().find(|token| token.id == id).ok_or(TokenRefusal::Unknown(wanted.clone()));
    }
    let named = tokens.iter().filter(|token| token.name == *wanted);
    let found = named.max_by_key(|token| (token.revoked_at.is_none(), token.id));
    found.ok_or(TokenRefusal::Unknown(wanted.clone()))
}

fn create(
    tokens: &[ApiToken],
    new: NewToken,
    by: &Actor,
    now: Time,
    fresh_id: impl FnOnce() -> TokenId,
) -> Result<TokenChange, TokenRefusal> {
    let NewToken { name, role, actions, flows, origin, payloads, expires_in, digest } = new;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._:-".contains(letter);
    if name.is_empty() || name.len() > MAX_TOKEN_NAME || !name.chars().all(is_plain) {
        return Err(TokenRefusal::BadName(name));
    }
    let misfit = |field, is_needed| Err(TokenRefusal::Misfit { role, field, is_needed });
    let given = [
        ("actions", Role::Worker, !actions.is_empty()),
        ("flows", Role::Client, !flows.is_empty()),
        ("origin", Role::Peer, origin.is_some()),
    ];
    if let Some((field, ..)) = given.into_iter().find(|(_, of, is_given)| *of != role && *is_given) {
        return misfit(field, false);
    }
    if role == Role::Peer && origin.is_none() {
        return misfit("origin", true);
    }
    let live = || tokens.iter().filter(|token| token.revoked_at.is_none());
    if live().any(|token| token.name == name) {
        return Err(TokenRefusal::NameTaken(name));
    }
    if live().count() >= MAX_TOKENS {
        return Err(TokenRefusal::TooMany);
    }
    let after = ApiToken {
        id: fresh_id(),
        name,
        role,
        actions,
        flows,
        origin,
        payloads,
        created_at: now,
        by: by.clone(),
        expires_at: expires_in.map(|span| now + span),
        revoked_at: None,
        digest,
        previous: None,
    };
    Ok(TokenChange { what: TokenChangeKind::Created, before: None, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000);

    fn new(name: &str, role: Role) -> NewToken {
        NewToken {
            name: name.into(),
            role,
            actions: Vec::new(),
            flows: Vec::new(),
            origin: None,
            payloads: true,
            expires_in: None,
            digest: SecretDigest([1; 32]),
        }
    }

    fn ada() -> Actor {
        Actor::User("ada".into())
    }

    fn decide(tokens: &[ApiToken], command: TokenCommand, now: Time) -> Result<TokenChange, TokenRefusal> {
        decide_token(tokens, command, &ada(), now, || TokenId(tokens.len() as u64 + 1))
    }

    fn made(tokens: &[ApiToken], new: NewToken) -> Result<ApiToken, TokenRefusal> {
        decide(tokens, TokenCommand::Create(Box::new(new)), NOW).map(|change| change.after)
    }

    #[test]
    fn a_token_is_made_once_under_a_good_name_with_what_its_role_needs() {
        let first = made(&[], new("ops-1", Role::Admin)).expect("is made");
        assert_eq!((first.created_at, &first.by, first.is_over(NOW)), (NOW, &ada(), false));
        let one = std::slice::from_ref(&first);
        let cases: [(NewToken, TokenRefusal); 8] = [
            (new("ops-1", Role::Viewer), TokenRefusal::NameTaken("ops-1".into())),
            (new("", Role::Viewer), TokenRefusal::BadName("".into())),
            (new("a b", Role::Viewer), TokenRefusal::BadName("a b".into())),
            (new(&"x".repeat(129), Role::Viewer), TokenRefusal::BadName("x".repeat(129).into())),
            (
                NewToken { actions: vec!["a".into()], ..new("b", Role::Client) },
                TokenRefusal::Misfit { role: Role::Client, field: "actions", is_needed: false },
            ),
            (
                NewToken { flows: vec!["a".into()], ..new("b", Role::Admin) },
                TokenRefusal::Misfit { role: Role::Admin, field: "flows", is_needed: false },
            ),
            (
                NewToken { origin: Some("a".into()), ..new("b", Role::Worker) },
                TokenRefusal::Misfit { role: Role::Worker, field: "origin", is_needed: false },
            ),
            (
                new("b", Role::Peer),
                TokenRefusal::Misfit { role: Role::Peer, field: "origin", is_needed: true },
            ),
        ];
        for (new, refusal) in cases {
            assert_eq!(made(one, new), Err(refusal));
        }
        assert!(made(one, NewToken { actions: vec!["a".into()], ..new("w", Role::Worker) }).is_ok());
        assert!(made(one, NewToken { origin: Some("a".into()), ..new("p", Role::Peer) }).is_ok());
    }

    #[test]
    fn a_revoked_or_expired_token_lets_nobody_in() {
        let token = made(&[], NewToken { expires_in: Some(Millis(100)), ..new("a", Role::Viewer) });
        let token = token.expect("is made");
        let good = |token: &ApiToken, now: i64| token.good_digests(Time(NOW.0 + now)).count();
        assert_eq!([good(&token, 0), good(&token, 99), good(&token, 100)], [1, 1, 0]);
        let revoke = |tokens: &[ApiToken]| decide(tokens, TokenCommand::Revoke { token: "a".into() }, NOW);
        let revoked = revoke(std::slice::from_ref(&token)).expect("is revoked");
        assert_eq!((revoked.what, good(&revoked.after, 0)), (TokenChangeKind::Revoked, 0));
        let again = revoke(std::slice::from_ref(&revoked.after)).expect("it is so already");
        assert_eq!((again.what, again.before), (TokenChangeKind::Unchanged, Some(again.after)));
        assert_eq!(revoke(&[]), Err(TokenRefusal::Unknown("a".into())));
        let other = made(std::slice::from_ref(&revoked.after), new("a", Role::Viewer));
        assert!(other.is_ok(), "its name is free");
    }

    #[test]
    fn a_rotated_token_has_two_secrets_for_a_while() {
        let token = made(&[], new("a", Role::Viewer)).expect("is made");
        let rotate = |token: &ApiToken, overlap: u64, now: Time| {
            let (name, digest) = (token.id.to_string().into(), SecretDigest([2; 32]));
            let command = TokenCommand::Rotate { token: name, digest, overlap: Millis(overlap) };
            decide(std::slice::from_ref(token), command, now)
        };
        let rotated = rotate(&token, 50, NOW).expect("is rotated").after;
        let good = |token: &ApiToken, now: i64| -> Vec<u8> {
            token.good_digests(Time(NOW.0 + now)).map(|digest| digest.0[0]).collect()
        };
        assert_eq!(
            (good(&rotated, 0), good(&rotated, 49), good(&rotated, 50)),
            (vec![2, 1], vec![2, 1], vec![2])
        );
        assert_eq!(good(&rotate(&token, 0, NOW).expect("is rotated").after, 0), [2], "at once");
        let revoked = ApiToken { revoked_at: Some(NOW), ..rotated };
        assert_eq!(good(&revoked, 0), Vec::<u8>::new());
        assert_eq!(rotate(&revoked, 50, NOW), Err(TokenRefusal::Over("a".into())));
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_its_digest_is_not_shown() {
        let token = made(&[], NewToken { flows: vec!["f".into()], ..new("a", Role::Client) });
        let token = token.expect("is made");
        let text = serde_json::to_string(&token).expect("can be written");
        assert!(text.contains(&"01".repeat(32)), "{text}");
        assert_eq!(serde_json::from_str::<ApiToken>(&text).expect("can be read"), token);
        assert!(!format!("{token:?}").contains("01, 01") && !format!("{token:?}").contains("0101"));
        for bad in ["\"01\"", "\"zz\"", "7"] {
            assert!(serde_json::from_str::<SecretDigest>(bad).is_err(), "{bad}");
        }
        assert_eq!(Role::ALL.map(|role| Role::of(role.word())), Role::ALL.map(Some));
    }
}
