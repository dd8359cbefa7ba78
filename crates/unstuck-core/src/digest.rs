//! Digests: short, stable names for a value, whatever the order of its keys.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns the first 16 hexadecimal digits of the SHA-256 of a value; the order of its keys does not matter.
pub fn digest(value: &Value) -> Arc<str> {
    // `serde_json` keeps the keys of an object sorted, so the text of a value is canonical.
    digest_text(&value.to_string())
}

/// Returns whether `digest` is the digest of the value that this JSON text encodes. Most texts are already canonical,
/// so the text itself is hashed first, and parsed only if that does not match.
pub fn is_digest_of(digest: &str, json: &str) -> bool {
    *digest_text(json) == *digest
        || serde_json::from_str(json).is_ok_and(|value| *self::digest(&value) == *digest)
}

fn digest_text(text: &str) -> Arc<str> {
    let hash = Sha256::digest(text);
    let mut text = String::with_capacity(16);
    for byte in hash.iter().take(8) {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let of = |text: &str| digest(&serde_json::from_str(text).expect("valid JSON"));
        assert_eq!(of(r#"{"a":1,"b":[2,3]}"#), of(r#"{ "b": [2, 3], "a": 1 }"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":2}"#));
        assert_eq!(of("null").len(), 16);
    }

    #[test]
    fn a_text_has_the_digest_of_its_value_however_it_is_written() {
        let digest = digest(&serde_json::json!({"a": 1, "b": [2.5, "x"]}));
        for same in [r#"{"a":1,"b":[2.5,"x"]}"#, r#"{ "b": [2.5, "\u0078"], "a": 1 }"#] {
            assert!(is_digest_of(&digest, same), "{same}");
        }
        for other in [r#"{"a":2,"b":[2.5,"x"]}"#, "null", "no JSON"] {
            assert!(!is_digest_of(&digest, other), "{other}");
        }
    }
}
