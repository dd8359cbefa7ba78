//! Secrets: where their values come from, and how they get into an attempt that is handed over, and nowhere else.
//!
//! What is stored has references ([`unstuck_core::model::secret`]). Whoever hands an attempt over puts the values in, on a copy
//! that is never stored, and keeps them out of everything that is said about the attempt ([`Redactor`]).

mod redact;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::error::{Error, SECRET_ACTION};
use unstuck_core::model::flow::Step;
use unstuck_core::model::secret::{SecretPart, is_secret_name, parse};

pub(crate) use self::redact::percent_encode;
pub use self::redact::{Redactor, StreamRedactor};
use crate::executor::{Job, lock};

/// How the variables of secrets begin.
pub const SECRET_VARIABLE: &str = "UNSTUCK_SECRET_";
/// The longest secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

/// Where secrets come from. A secret is read whenever an attempt needs it, so that a new value holds from the next attempt on.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Sources>);

#[derive(Default)]
struct Sources {
    /// Given by a program that embeds the engine.
    values: BTreeMap<String, String>,
    folder: Option<PathBuf>,
    environment: bool,
    /// What was put into attempts by this process.
    handed_out: Mutex<Redactor>,
}

impl Secrets {
    /// Secrets from files of this folder, each named like its secret, or else from variables `UNSTUCK_SECRET_<NAME>`.
    pub fn new(folder: Option<PathBuf>) -> Secrets {
        Secrets(Arc::new(Sources { folder, environment: true, ..Sources::default() }))
    }

    /// These secrets and no others.
    pub fn of_values<N: Into<String>, V: Into<String>>(values: impl IntoIterator<Item = (N, V)>) -> Secrets {
        let values = values.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Secrets(Arc::new(Sources { values, ..Sources::default() }))
    }

    /// Finds the values of the secrets that the input of a step refers to, or says why the attempt has failed.
    pub fn resolve(&self, step: &Step) -> Result<SecretValues, Report> {
        let mut values = BTreeMap::new();
        for name in step.secrets() {
            values.insert(name.clone(), self.find(name).map_err(failed)?);
        }
        let values = SecretValues(values);
        if !values.0.is_empty() {
            lock(&self.0.handed_out).extend(&values.redactor());
        }
        Ok(values)
    }

    /// Keeps every secret that this process has handed out to anybody out of a text. For reports of workers, which come
    /// without the step that they are about.
    pub fn redactor(&self) -> Redactor {
        lock(&self.0.handed_out).clone()
    }

    /// Finds one secret, or says in a sentence where it was looked for.
    fn find(&self, name: &str) -> Result<Arc<str>, String> {
        let sources = &*self.0;
        if !is_secret_name(name) {
            return Err(format!("`{name}` cannot be the name of a secret"));
        }
        if let Some(value) = sources.values.get(name) {
            return check_value(name, value.clone().into_bytes());
        }
        if let Some(value) =
            sources.folder.as_deref().map(|folder| read_file(folder, name)).transpose()?.flatten()
        {
            return check_value(name, value);
        }
        let variable = format!("{SECRET_VARIABLE}{name}");
        let value = Some(&variable).filter(|_| sources.environment).and_then(std::env::var_os);
        match value {
            Some(value) => check_value(name, std::os::unix::ffi::OsStringExt::into_vec(value)),
            None => Err(self.missing(name, &variable)),
        }
    }

    fn missing(&self, name: &str, variable: &str) -> String {
        let folder = match &self.0.folder {
            Some(folder) => format!("there is no file `{name}` in `{}`", folder.display()),
            None => "no folder of secrets is given (--secrets)".to_owned(),
        };
        if self.0.environment {
            return format!("secret `{name}` is missing: ${variable} is not set, and {folder}");
        }
        format!("secret `{name}` is missing: this program gives no such secret")
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

/// Reads the file of a secret; nothing where there is none.
fn read_file(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, String> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(mut value) => {
            // Editors and `echo` end a file with a line break that nobody means.
            for end in [b'\n', b'\r'] {
                if value.last() == Some(&end) {
                    value.pop();
                }
            }
            Ok(Some(value))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("secret `{name}` cannot be read from `{}`: {error}", path.display())),
    }
}

fn check_value(name: &str, value: Vec<u8>) -> Result<Arc<str>, String> {
    if value.is_empty() {
        return Err(format!("secret `{name}` is empty"));
    }
    if value.len() > MAX_SECRET_BYTES {
        return Err(format!(
            "secret `{name}` is too large ({} bytes, at most {MAX_SECRET_BYTES})",
            value.len()
        ));
    }
    match String::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(text.into()),
        Ok(_) | Err(_) => Err(format!("secret `{name}` is not text: encode it, for example as base64")),
    }
}

fn failed(cause: String) -> Report {
    Report::Fail { error: Box::new(Error::found_by(SECRET_ACTION, cause)), fatal: true }
}

/// The values of the secrets of one attempt. They are shown nowhere.
#[derive(Clone, Default)]
pub struct SecretValues(BTreeMap<Arc<str>, Arc<str>>);

impl SecretValues {
    /// Whether the step uses no secrets: its input is as it stands then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the values into a text, each as `write` gives it for its place: the number of its part.
    pub fn put_into_text(&self, text: &str, write: impl Fn(usize, &str) -> String) -> Result<String, Report> {
        let mut whole = String::new();
        for (place, part) in parse(text).into_iter().enumerate() {
            match part {
                SecretPart::Text(text) => whole.push_str(&text),
                SecretPart::Reference(name) => whole.push_str(&write(place, self.get(name)?)),
            }
        }
        Ok(whole)
    }

    /// Puts the values into every text of a value.
    pub fn put_into_value(&self, value: Value) -> Result<Value, Report> {
        Ok(match value {
            Value::String(text) => Value::String(self.put_into_text(&text, |_, secret| secret.to_owned())?),
            Value::Array(items) => Value::Array(
                items.into_iter().map(|item| self.put_into_value(item)).collect::<Result<_, _>>()?,
            ),
            Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| Ok((key, self.put_into_value(value)?)));
                Value::Object(entries.collect::<Result<_, Report>>()?)
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
        })
    }

    /// Keeps these values out of what is recorded.
    pub fn redactor(&self) -> Redactor {
        Redactor::of(self.0.values().map(|value| &**value))
    }

    /// An input that somebody changed by hand may refer to the secrets of its step, and to no others.
    fn get(&self, name: &str) -> Result<&str, Report> {
        self.0.get(name).map(|value| &**value).ok_or_else(|| {
            failed(format!(
                "the input refers to secret `{name}`, which the step in the flow does not use: only the flow decides which \
                 secrets a step gets"
            ))
        })
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Job {
    /// Puts the secrets into its input that this refers to, and returns what keeps them out of all that is said about the
    /// attempt. Whoever hands the attempt over calls it, once, right before. Returns how the attempt has failed if one is missing.
    pub fn put_in_secrets(&mut self, secrets: &Secrets) -> Result<Redactor, Report> {
        let values = secrets.resolve(self.step())?;
        if !values.is_empty() {
            self.input = Json::of(&values.put_into_value(self.input.value())?);
        }
        Ok(values.redactor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_its_file_or_the_sentence_says_where_it_was_looked_for() {
        let folder = std::env::temp_dir().join(format!("unstuck-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, value: &[u8]| std::fs::write(folder.join(name), value).expect("written");
        write("PLAIN", b"s3cret");
        write("LINE", b"s3cret\r\n");
        write("LINES", b"a\nb\n\n");
        write("EMPTY", b"\n");
        write("BINARY", b"\xff\xfe");
        let secrets = Secrets::new(Some(folder.clone()));
        let found = |name: &str| match secrets.find(name) {
            Ok(value) => value.to_string(),
            Err(sentence) => format!("! {}", sentence.replace(&folder.display().to_string(), "DIR")),
        };
        let cases = [
            ("PLAIN", "s3cret"),
            ("LINE", "s3cret"),
            ("LINES", "a\nb\n"),
            ("EMPTY", "! secret `EMPTY` is empty"),
            ("BINARY", "! secret `BINARY` is not text: encode it, for example as base64"),
            (
                "NONE",
                "! secret `NONE` is missing: $UNSTUCK_SECRET_NONE is not set, and there is no file `NONE` in `DIR`",
            ),
            ("../PLAIN", "! `../PLAIN` cannot be the name of a secret"),
        ];
        for (name, expected) in cases {
            assert_eq!(found(name), expected, "{name}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
        let nowhere = Secrets::new(None).find("NONE").expect_err("missing");
        assert_eq!(
            nowhere,
            "secret `NONE` is missing: $UNSTUCK_SECRET_NONE is not set, and no folder of secrets is given (--secrets)"
        );
        let long = Secrets::of_values([("A", "x".repeat(MAX_SECRET_BYTES + 1))]).find("A");
        assert_eq!(long.expect_err("too long"), "secret `A` is too large (65537 bytes, at most 65536)");
    }

    #[test]
    fn values_are_shown_nowhere() {
        let secrets = Secrets::of_values([("A", "s3cret")]);
        let values = SecretValues([("A".into(), "s3cret".into())].into());
        let shown = format!("{secrets:?} {values:?} {:?}", values.redactor());
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn only_the_secrets_of_the_step_are_put_in() {
        let values = SecretValues([("A".into(), "s3cret".into())].into());
        let put = |value: Value| values.put_into_value(value).map(|value| value.to_string());
        let value = serde_json::json!({"a": ["Bearer ${secrets.A}", 1], "${secrets.A}": "$$5", "n": null});
        let expected = r#"{"${secrets.A}":"$5","a":["Bearer s3cret",1],"n":null}"#;
        assert_eq!(put(value).ok().as_deref(), Some(expected));
        let Err(Report::Fail { error, fatal: true }) = put(serde_json::json!("${secrets.B}")) else {
            panic!("it is refused");
        };
        assert!(error.cause.starts_with("the input refers to secret `B`"), "{}", error.cause);
    }
}
