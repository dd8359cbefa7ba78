//! Payloads: JSON that is carried as it came.

use serde_json::Value;
use unstuck_core::digest::digest;
use unstuck_core::json::{Json, MAX_DEPTH, Payload};

/// A payload.
pub(crate) fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(json) = Json::parse(text) else {
        assert!(serde_json::from_str::<Value>(text).is_err(), "a value is refused");
        return;
    };
    assert_eq!(json.text(), text.trim(), "it is kept as it came");
    assert_eq!(json.is_null(), json.text() == "null");
    let value = serde_json::from_str::<Value>(json.text());
    let value = value.unwrap_or_else(|error| panic!("accepted, and cannot be read: {error}"));
    assert_eq!(json.value(), value);
    assert_eq!(digest(&Json::of(&value).value()), digest(&value), "the digest is that of the value");
    let stored = serde_json::to_string(&Payload::Inline(json.clone())).expect("it can be written");
    assert_eq!(serde_json::from_str::<Payload>(&stored).ok(), Some(Payload::Inline(json.clone())));
    assert_eq!(json.depth(), depth(&value));
    if json.depth() <= MAX_DEPTH {
        assert_eq!(Json::array([&json, &json]).value(), Value::from(vec![value.clone(), value]), "in a list");
    }
}

/// How deep lists and objects are nested.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
