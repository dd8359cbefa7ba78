//! The configuration of a server: defaults, a file, variables and flags, in rising order, and where each value came from.

pub(crate) mod arguments;
mod file;
mod print;
mod setting;
pub(crate) mod table;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use unstuck_flow::suggest::find_nearest;

use crate::configuration::arguments::SettingArguments;
use crate::configuration::setting::{DefaultValue, Kind, Setting, Value};
use crate::configuration::table::SETTINGS;
use crate::error::CommandError;

/// Variables that begin as ours do and are no settings of a server.
const OTHER_VARIABLES: [&str; 6] = [
    "UNSTUCK_CONFIG",
    "UNSTUCK_SERVER",
    "UNSTUCK_TOKEN",
    "UNSTUCK_TOKEN_FILE",
    "UNSTUCK_CA_FILE",
    "UNSTUCK_SEED",
];

/// What holds for a server.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// One for each setting, in the order of the table.
    values: Vec<Held>,
}

/// A setting as it holds.
#[derive(Debug)]
struct Held {
    setting: &'static Setting,
    /// None where it is not set.
    value: Option<Value>,
    origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// The line of the file.
    File(PathBuf, u32),
    Variable(String),
    Flag(String),
}

impl Origin {
    /// Says where, as people look for it.
    pub(crate) fn place(&self) -> String {
        match self {
            Origin::Default => "default".to_owned(),
            Origin::File(path, line) => format!("{}:{line}", path.display()),
            Origin::Variable(name) => format!("${name}"),
            Origin::Flag(flag) => format!("--{flag}"),
        }
    }
}

impl Configuration {
    /// Gathers what is set, from the least to the most important.
    pub(crate) fn load(arguments: &SettingArguments) -> Result<Configuration, CommandError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = file::find(arguments.file.clone(), variable);
        let mut configuration = Configuration::defaults();
        if let Some(path) = path {
            let read = file::read(&path)?;
            for (setting, value, line) in read.values {
                configuration.set(setting, value, Origin::File(read.path.clone(), line));
            }
            configuration.file = Some(read.path);
        }
        for setting in SETTINGS {
            let name = setting.variable();
            if let Some(text) = variable(&name) {
                let value = parse_variable(setting, &name, &text)?;
                configuration.set(setting, value, Origin::Variable(name));
            }
        }
        for (setting, value) in &arguments.given {
            configuration.set(setting, value.clone(), Origin::Flag(setting.flag()));
        }
        Ok(configuration)
    }

    pub(crate) fn defaults() -> Configuration {
        let values = SETTINGS.iter().map(|setting| Held {
            setting,
            value: setting.default_value(),
            origin: Origin::Default,
        });
        Configuration { file: None, values: values.collect() }
    }

    fn set(&mut self, setting: &'static Setting, value: Value, origin: Origin) {
        if let Some(held) = self.values.iter_mut().find(|held| std::ptr::eq(held.setting, setting)) {
            (held.value, held.origin) = (Some(value), origin);
        }
    }

    fn value(&self, setting: &'static Setting) -> Option<&Value> {
        let held = self.values.iter().find(|held| std::ptr::eq(held.setting, setting));
        held.and_then(|held| held.value.as_ref())
    }

    /// Returns where the value of a setting came from.
    pub(crate) fn origin(&self, setting: &'static Setting) -> Origin {
        let held = self.values.iter().find(|held| std::ptr::eq(held.setting, setting));
        held.map_or(Origin::Default, |held| held.origin.clone())
    }

    pub(crate) fn text(&self, setting: &'static Setting) -> Option<&str> {
        match self.value(setting) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, setting: &'static Setting) -> &[String] {
        match self.value(setting) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    pub(crate) fn path(&self, setting: &'static Setting) -> Option<&Path> {
        match self.value(setting) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn address(&self, setting: &'static Setting) -> Option<SocketAddr> {
        match self.value(setting) {
            Some(Value::Address(address)) => Some(*address),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, setting: &'static Setting) -> bool {
        matches!(self.value(setting), Some(Value::Flag(true)))
    }

    /// Returns a number, or a number of bytes, if it is set.
    pub(crate) fn number(&self, setting: &'static Setting) -> Option<u64> {
        match self.value(setting) {
            Some(Value::Number(number) | Value::Size(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn time(&self, setting: &'static Setting) -> Option<Duration> {
        match self.value(setting) {
            Some(Value::Time(time)) => Some(*time),
            _ => None,
        }
    }
}

/// Reads the value of a variable.
fn parse_variable(setting: &Setting, name: &str, text: &OsString) -> Result<Value, CommandError> {
    if let Kind::Path = setting.kind {
        return Ok(Value::Path(text.into()));
    }
    let wrong = |why: &str| {
        let joint = if why.starts_with("is ") { " " } else { ": " };
        CommandError::new(format!("{name}{joint}{why}"))
    };
    let text = text.to_str().ok_or_else(|| wrong("is not UTF-8"))?;
    setting.parse(text).map_err(|why| wrong(&why))
}

/// Finds variables that look like a setting and are none, each with the one that may be meant.
pub(crate) fn find_misspelt_variables() -> Vec<(String, String)> {
    let known: Vec<String> = SETTINGS.iter().map(|setting| setting.variable()).collect();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = names.filter(|name| name.starts_with("UNSTUCK_") && !name.starts_with("UNSTUCK_SECRET_"));
    let unknown = ours.filter(|name| !known.contains(name) && !OTHER_VARIABLES.contains(&name.as_str()));
    let suggest = |name: String| {
        let near = find_nearest(&name, known.iter().map(String::as_str))?.to_owned();
        Some((name, near))
    };
    unknown.filter_map(suggest).collect()
}

/// Builds the JSON Schema of configuration files, for editors and for the page that lists all settings.
pub(crate) fn schema() -> Json {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration of an Unstuck server",
        "type": "object",
        "additionalProperties": false,
        "properties": {},
    });
    for setting in SETTINGS {
        let mut described = describe_kind(setting.kind);
        described["description"] = json!(setting.about);
        described["x-flag"] = json!(format!("--{}", setting.flag()));
        described["x-variable"] = json!(setting.variable());
        match setting.default {
            DefaultValue::Is(_) => {
                described["default"] = setting.default_value().map_or(Json::Null, |value| value.to_json());
                described["x-default"] = json!(setting.default_value().map(|value| value.to_toml()));
            }
            DefaultValue::Unset(means) => described["x-unset"] = json!(means),
        }
        let properties = &mut schema["properties"];
        match setting.key.split_once('.') {
            None => properties[setting.key] = described,
            Some((group, name)) => {
                let table = &mut properties[group];
                table["type"] = json!("object");
                table["additionalProperties"] = json!(false);
                table["properties"][name] = described;
            }
        }
    }
    schema
}

fn describe_kind(kind: Kind) -> Json {
    match kind {
        Kind::Text | Kind::Address | Kind::Path => json!({"type": "string"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Size(least, most) => json!({"type": ["string", "integer"], "minimum": least, "maximum": most}),
        Kind::Time(..) => json!({"type": ["string", "integer"], "minimum": 0}),
        Kind::OneOf(words) => json!({"type": "string", "enum": words}),
        Kind::Networks => json!({"type": ["array", "string"], "items": {"type": "string"}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_read_and_every_name_is_used_once() {
        let mut names: Vec<String> = Vec::new();
        for setting in SETTINGS {
            if let DefaultValue::Is(text) = setting.default {
                assert!(setting.parse(text).is_ok(), "{}: {:?}", setting.key, setting.parse(text));
            }
            names.push(setting.variable());
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_last_that_sets_a_value_counts() {
        let mut configuration = Configuration::defaults();
        assert_eq!(configuration.number(&table::ITEMS), Some(1_000));
        assert_eq!(configuration.origin(&table::ITEMS).place(), "default");
        configuration.set(&table::ITEMS, Value::Number(5), Origin::File("a.toml".into(), 3));
        assert_eq!(configuration.origin(&table::ITEMS).place(), "a.toml:3");
        configuration.set(&table::ITEMS, Value::Number(6), Origin::Flag(table::ITEMS.flag()));
        assert_eq!(
            (configuration.number(&table::ITEMS), configuration.origin(&table::ITEMS).place().as_str()),
            (Some(6), "--limits-items")
        );
    }
}
