//! Tokens of the API.

use unstuck_core::api_token::{ApiToken, PreviousSecret, Role, SecretDigest};
use unstuck_core::id::TokenId;
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user};
use crate::conformance::restarts::settle_all;
use crate::contract::{
    CallOutcome, IdempotencyKey, IdempotencyRecord, Ledger, Stage, StoreError, TokensChange,
};

/// Tokens are durable at once, in order of their ids, and changed one by one; whoever has read them is told to do so again.
pub fn tokens_are_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    assert_eq!(store.tokens(), Ok(Vec::new()));
    let before = store.versions().expect("reads").tokens;
    let (first, second) = (token(3, "ops"), token(9, "worker"));
    put(&mut store, vec![second.clone(), first.clone()], 9, before).expect("puts");
    let after = store.versions().expect("reads").tokens;
    assert!(after > before, "who keeps them reads them again");
    assert_eq!(store.reader().tokens(), Ok(vec![first.clone(), second.clone()]), "durable on return");
    let refused = put(&mut store, vec![token(12, "late")], 12, before);
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "others were quicker: {refused:?}");
    let previous = Some(PreviousSecret { digest: first.digest, until: Time(8) });
    let rotated = ApiToken { digest: SecretDigest([9; 32]), previous, ..first };
    let revoked = ApiToken { revoked_at: Some(Time(7)), ..second };
    put(&mut store, vec![rotated.clone()], 9, after).expect("puts");
    put(&mut store, vec![revoked.clone()], 9, after + 1).expect("puts");
    let mut store = store.reopen();
    assert_eq!(store.tokens(), Ok(vec![rotated, revoked]), "also after a restart");
    assert!(store.last_id().expect("reads") >= 9, "ids are given out once");
}

/// A key that was used refuses the change of a token with it.
pub fn a_token_is_made_once_under_a_key<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let key = IdempotencyKey { scope: "s".into(), key: "k".into(), digest: [1; 32] };
    let change = |id: u64| {
        let outcome = CallOutcome::Token { token: TokenId(id) };
        let record = IdempotencyRecord { key: key.clone(), at: Time(5), outcome };
        let ledger = Ledger { idempotency: Some(record), audit: Vec::new() };
        TokensChange { tokens: vec![token(id, "ops")], last_id: id, ledger }
    };
    store.put_tokens(change(3), 0).expect("puts");
    assert!(matches!(store.put_tokens(change(4), 1), Err(StoreError::Conflict(_))));
    assert_eq!(store.tokens().map(|tokens| tokens.len()), Ok(1));
}

/// When a token was last used comes with a stage, and never goes back.
pub fn uses_of_tokens_are_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let first = driver.now;
    for (token, at) in [(3, first), (3, first + Millis(70)), (3, first + Millis(20)), (1, first)] {
        driver.begin().expect("begins");
        let token_uses = vec![(TokenId(token), at)];
        driver.stage(Stage { at: driver.now, token_uses, ..Stage::default() }).expect("stages");
    }
    settle_all(&mut driver);
    let expected = vec![(TokenId(1), first), (TokenId(3), first + Millis(70))];
    assert_eq!(driver.store.reader().token_uses(), Ok(expected.clone()));
    let mut store = driver.split().0.reopen();
    assert_eq!(store.reader().token_uses(), Ok(expected));
}

fn put<S: TestStore>(
    store: &mut S,
    tokens: Vec<ApiToken>,
    last_id: u64,
    made_on: u64,
) -> Result<(), StoreError> {
    store.put_tokens(TokensChange { tokens, last_id, ledger: Ledger::default() }, made_on)
}

fn token(id: u64, name: &str) -> ApiToken {
    ApiToken {
        id: TokenId(id),
        name: name.into(),
        role: Role::Client,
        actions: Vec::new(),
        flows: vec!["f".into()],
        origin: None,
        payloads: false,
        created_at: Time(1),
        by: user(),
        expires_at: Some(Time(77)),
        revoked_at: None,
        digest: SecretDigest([7; 32]),
        previous: None,
    }
}
