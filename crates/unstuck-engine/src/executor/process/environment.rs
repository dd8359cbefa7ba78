//! The environment of a process: what it is told by variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde_json::value::RawValue;
use unstuck_api::Product;

use crate::executor::Job;
use crate::secrets::SECRET_VARIABLE;

/// A value of so many bytes or more goes into no variable: systems bound the size of one, and of all together.
const MAX_VALUE: usize = 64 * 1024;
/// The bound for all fields of the input together.
const MAX_FIELDS: usize = 256 * 1024;

/// What is set on top of the engine's own environment; `None` is taken out of it.
pub(super) fn variables(job: &Job, product: &Product, report: &Path) -> Vec<(String, Option<OsString>)> {
    let mut variables: Vec<(String, Option<OsString>)> = vec![
        ("UNSTUCK_RUN".to_owned(), Some(product.run.clone().into())),
        ("UNSTUCK_STEP".to_owned(), Some(product.step.clone().into())),
        ("UNSTUCK_ATTEMPT".to_owned(), Some(product.attempt.to_string().into())),
        ("UNSTUCK_TOKEN".to_owned(), Some(product.token.clone().into())),
        ("UNSTUCK_REPORT".to_owned(), Some(report.into())),
    ];
    let input = job.input.text();
    let whole = Some(input).filter(|input| input.len() < MAX_VALUE).map(OsString::from);
    variables.push(("UNSTUCK_INPUT".to_owned(), whole));
    variables.extend(fields(input).into_iter().map(|(name, value)| (name, Some(value.into()))));
    variables
}

/// The variables that hold secrets: a process gets those that its step names, in its input, and no others.
pub(super) fn secret_variables() -> impl Iterator<Item = OsString> {
    let is_secret = |name: &OsString| name.as_encoded_bytes().starts_with(SECRET_VARIABLE.as_bytes());
    std::env::vars_os().map(|(name, _)| name).filter(is_secret)
}

/// `INPUT_<NAME>` for each field of the input that is a string, a number or a boolean, and fits.
fn fields(input: &str) -> BTreeMap<String, String> {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(input) else {
        return BTreeMap::new();
    };
    let mut room = MAX_FIELDS;
    let mut variables = BTreeMap::new();
    for (name, value) in fields {
        let Some(value) = scalar(value.get()).filter(|value| value.len() < MAX_VALUE) else { continue };
        let name = variable_name(&name);
        let size = name.len() + value.len();
        if size <= room {
            room -= size;
            variables.insert(name, value);
        }
    }
    variables
}

/// The text of a string, a number as it was written, or a boolean. A variable cannot hold a zero byte.
fn scalar(json: &str) -> Option<String> {
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(json).ok().filter(|text| !text.contains('\0')),
        b't' | b'f' | b'-' | b'0'..=b'9' => Some(json.to_owned()),
        _ => None,
    }
}

fn variable_name(field: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("INPUT_{}", field.chars().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_level_scalars_become_variables() {
        let cases: [(&str, &[(&str, &str)]); 8] = [
            (
                r#"{"name": "a b", "n": 1.50, "on": true}"#,
                &[("INPUT_N", "1.50"), ("INPUT_NAME", "a b"), ("INPUT_ON", "true")],
            ),
            (r#"{"order-id": 7, "über": -1e3}"#, &[("INPUT_ORDER_ID", "7"), ("INPUT__BER", "-1e3")]),
            (r#"{"a": null, "b": [1], "c": {"d": 1}, "e": ""}"#, &[("INPUT_E", "")]),
            (r#"{"zero": "a\u0000b", "line": "a\nb"}"#, &[("INPUT_LINE", "a\nb")]),
            (r#"{"a-b": 1, "a_b": 2}"#, &[("INPUT_A_B", "2")]),
            ("[1, 2]", &[]),
            ("\"text\"", &[]),
            ("null", &[]),
        ];
        for (input, expected) in cases {
            let found = fields(input);
            let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{input}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let field = |name: &str, size: usize| format!("\"{name}\":\"{}\"", "x".repeat(size));
        let input = format!("{{{},\"small\":1}}", field("large", MAX_VALUE));
        assert_eq!(fields(&input).into_keys().collect::<Vec<_>>(), ["INPUT_SMALL"]);
        let many: Vec<String> = (0..9).map(|n| field(&format!("f{n}"), MAX_VALUE - 1_000)).collect();
        assert_eq!(fields(&format!("{{{}}}", many.join(","))).len(), 4);
    }
}
