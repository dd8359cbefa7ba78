//! Payloads: JSON text that is carried as it came and parsed only where an expression reads it.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::id::PayloadId;

/// The largest payload in bytes that is stored in the event itself.
pub const INLINE_BYTES: usize = 128;

/// The deepest nesting of a computed value. The parser accepts 127 levels, and what is computed must be readable again.
pub const MAX_DEPTH: usize = 120;

/// Valid JSON text, cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Option<Arc<str>>);

impl Json {
    /// The JSON `null`.
    pub const NULL: Json = Json(None);

    /// Checks that `text` is one JSON document.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Json::from_raw(raw)
    }

    /// The text of a value.
    pub fn of(value: &Value) -> Json {
        if value.is_null() { Json::NULL } else { Json(Some(value.to_string().into())) }
    }

    /// Joins values into a JSON array without parsing them.
    pub fn array<'a>(parts: impl IntoIterator<Item = &'a Json>) -> Json {
        let mut text = String::from("[");
        for part in parts {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(part.text());
        }
        text.push(']');
        Json(Some(text.into()))
    }

    pub fn text(&self) -> &str {
        self.0.as_deref().unwrap_or("null")
    }

    /// Parses the text.
    pub fn value(&self) -> Value {
        self.0.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or(Value::Null))
    }

    /// Returns how deep lists and objects are nested.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0usize, 0, false, false);
        for byte in self.text().bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = !in_text,
                b'[' | b'{' if !in_text => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Takes text that is JSON by its syntax, after checking that it can be parsed as a value too.
    fn from_raw(raw: &RawValue) -> Result<Json, serde_json::Error> {
        if needs_full_parse(raw.get()) {
            serde_json::from_str::<Value>(raw.get())?;
        }
        let text = raw.get().trim();
        Ok(if text == "null" { Json::NULL } else { Json(Some(text.into())) })
    }
}

impl Default for Json {
    fn default() -> Json {
        Json::NULL
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_unit(),
            Some(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Json::from_raw(&raw).map_err(D::Error::custom)
    }
}

/// Returns whether syntactically valid JSON may still fail to parse as a value: it has escapes, a number that may
/// overflow, or deep nesting. A cheap scan, so that most payloads are never parsed.
fn needs_full_parse(text: &str) -> bool {
    let (mut brackets, mut digits) = (0, 0);
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'.' if digits > 0 => {}
            b'e' | b'E'
                if digits > 0 && (digits > 200 || has_long_exponent(&text.as_bytes()[place + 1..])) =>
            {
                return true;
            }
            b'[' | b'{' => (brackets, digits) = (brackets + 1, 0),
            _ => digits = 0,
        }
        if brackets > 100 || digits > 300 {
            return true;
        }
    }
    text.contains("\\u")
}

/// Returns whether an exponent has three digits or more, so that the number may overflow. Most matches of `1e5` are
/// parts of ids, and parsing such payloads for nothing would cost.
fn has_long_exponent(rest: &[u8]) -> bool {
    let unsigned = rest.strip_prefix(b"+").or_else(|| rest.strip_prefix(b"-")).unwrap_or(rest);
    unsigned.len() >= 3 && unsigned[..3].iter().all(u8::is_ascii_digit)
}

/// Where a payload is: small ones travel with the event, others are stored once, apart from the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// Kept here.
    Inline(Json),
    /// Kept in the store under this id.
    Stored(PayloadId),
}

impl Payload {
    /// The payload `null`.
    pub const NULL: Payload = Payload::Inline(Json::NULL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_checked_and_kept_as_it_came() {
        assert_eq!(
            Json::parse(" {\"a\":  1} ").map(|j| j.text().to_owned()).ok().as_deref(),
            Some("{\"a\":  1}")
        );
        assert!(Json::parse("{a: 1}").is_err());
        assert!(Json::parse(&format!("{}{}", "[".repeat(1_000), "]".repeat(1_000))).is_err(), "too deep");
        assert!(Json::parse(r#""\ud800""#).is_err(), "half a character");
        assert!(Json::parse(r#""\u00e9""#).is_ok());
        for beyond in [
            "1e999",
            "[-1E+400]",
            &"9".repeat(400),
            r#"{"a": 12.5e308}"#,
            &format!("{}.5e90", "9".repeat(250)),
        ] {
            assert!(Json::parse(beyond).is_err(), "{beyond}: no number");
        }
        for number in ["1e99", "-1E-999", "0.5e+3", &"9".repeat(301), r#""7e9999""#] {
            assert!(Json::parse(number).is_ok(), "{number}");
        }
        assert!(Json::parse(" null ").is_ok_and(|json| json.is_null()));
        assert_eq!(Json::array([&Json::NULL, &Json::of(&Value::from(2))]).text(), "[null,2]");
    }

    #[test]
    fn depth_counts_what_is_open_at_once() {
        let cases = [
            ("1", 0),
            ("[]", 1),
            (r#"[{"a": []}, [2]]"#, 3),
            (r#""[[[""#, 0),
            (r#"["\"[[", {"[{": "]"}]"#, 2),
            (r#"["\\", [1]]"#, 2),
        ];
        for (text, depth) in cases {
            assert_eq!(Json::parse(text).map(|json| json.depth()).ok(), Some(depth), "{text}");
        }
    }

    #[test]
    fn json_survives_serde() {
        let json = Json::of(&serde_json::json!({"a": [1, "x"]}));
        let text = serde_json::to_string(&json).expect("serialises");
        assert_eq!(serde_json::from_str::<Json>(&text).expect("parses"), json);
        let none: Json = serde_json::from_str("null").expect("parses");
        assert!(none.is_null());
    }
}
