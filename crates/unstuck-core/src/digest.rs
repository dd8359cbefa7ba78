//! Digests: short, stable names for a value, whatever the order of its keys.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of the SHA-256 of a value, with the keys of its objects in order.
pub fn digest(value: &Value) -> Arc<str> {
    // `serde_json` keeps the keys of an object sorted, so the text of a value is canonical.
    let hash = Sha256::digest(value.to_string());
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
}
