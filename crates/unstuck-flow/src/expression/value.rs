//! Values during evaluation: JSON is borrowed, and only new values are allocated.

use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::sentence;

/// A value. Cloning one is cheap.
#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer of JSON that is too large for the others.
    Large(u64),
    Double(f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    Type(Kind),
    /// What `.?` and `[?]` give: a value that may be absent.
    Optional(Option<Rc<Val<'a>>>),
}

#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

#[derive(Clone, Debug)]
pub(super) enum List<'a> {
    Json(&'a [Value]),
    Made(Rc<[Val<'a>]>),
}

#[derive(Clone, Debug)]
pub(super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Value>),
    /// From a literal, so it is short enough to be searched.
    Made(Rc<[(Val<'a>, Val<'a>)]>),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Integer,
    Double,
    Text,
    List,
    Map,
    Duration,
    Timestamp,
    Type,
    Optional,
}

impl Kind {
    /// Returns the name of the type in CEL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null_type",
            Kind::Bool => "bool",
            Kind::Integer => "int",
            Kind::Double => "double",
            Kind::Text => "string",
            Kind::List => "list",
            Kind::Map => "map",
            Kind::Duration => "duration",
            Kind::Timestamp => "timestamp",
            Kind::Type => "type",
            Kind::Optional => "optional",
        }
    }

    /// Returns the type with this name, for comparisons with `type(x)`.
    pub(super) fn named(name: &str) -> Option<Kind> {
        let kinds = [Kind::Null, Kind::Bool, Kind::Integer, Kind::Double, Kind::Text, Kind::List, Kind::Map];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

impl<'a> Val<'a> {
    /// Borrows a JSON value.
    pub(super) fn json(value: &'a Value) -> Val<'a> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(value) => Val::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Val::Integer(value),
                (None, Some(value)) => Val::Large(value),
                (None, None) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Val::Text(Text::Borrowed(text)),
            Value::Array(items) => Val::List(List::Json(items)),
            Value::Object(entries) => Val::Map(Map::Json(entries)),
        }
    }

    /// Makes a string; the caller has paid for it.
    pub(super) fn text(text: impl Into<Rc<str>>) -> Val<'a> {
        Val::Text(Text::Made(text.into()))
    }

    /// Makes a list; the caller has paid for it.
    pub(super) fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(List::Made(items.into()))
    }

    /// Makes an integer from a length or an index.
    pub(super) fn count(n: usize) -> Val<'a> {
        Val::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Val::Null => Kind::Null,
            Val::Bool(_) => Kind::Bool,
            Val::Integer(_) | Val::Large(_) => Kind::Integer,
            Val::Double(_) => Kind::Double,
            Val::Text(_) => Kind::Text,
            Val::List(_) => Kind::List,
            Val::Map(_) => Kind::Map,
            Val::Duration(_) => Kind::Duration,
            Val::Timestamp(_) => Kind::Timestamp,
            Val::Type(_) => Kind::Type,
            Val::Optional(_) => Kind::Optional,
        }
    }

    /// Describes the value for a message, shortened.
    pub(super) fn described(&self) -> String {
        match self {
            Val::Null => "null".to_owned(),
            Val::Bool(value) => value.to_string(),
            Val::Integer(n) => format!("the integer {n}"),
            Val::Large(n) => format!("the integer {n}"),
            Val::Double(n) => format!("the double {n:?}"),
            Val::Text(text) => format!("the string {:?}", sentence::shortened(text.as_str(), 40)),
            Val::List(list) => match list.len() {
                0 => "an empty list".to_owned(),
                n => format!("a list of {n}"),
            },
            Val::Map(map) if map.len() == 0 => "an empty map".to_owned(),
            Val::Map(map) => format!("a map with {}", map.listed()),
            Val::Duration(span) => format!("the duration {}", super::time_functions::duration_text(*span)),
            Val::Timestamp(at) => format!("the timestamp {at}"),
            Val::Type(kind) => format!("the type {}", kind.name()),
            Val::Optional(Some(inner)) => format!("an optional with {}", inner.described()),
            Val::Optional(None) => "an empty optional".to_owned(),
        }
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Made(items) => items.len(),
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<Val<'a>> {
        match self {
            List::Json(items) => items.get(at).map(Val::json),
            List::Made(items) => items.get(at).cloned(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Json(entries) => entries.len(),
            Map::Made(entries) => entries.len(),
        }
    }

    /// Returns the value of a string key.
    pub(super) fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Map::Json(entries) => entries.get(name).map(Val::json),
            Map::Made(entries) => entries
                .iter()
                .find(|(key, _)| matches!(key, Val::Text(text) if text.as_str() == name))
                .map(|(_, value)| value.clone()),
        }
    }

    /// Returns the value of a key. Only maps from literals have keys that are no strings.
    pub(super) fn get(&self, key: &Val<'_>) -> Option<Val<'a>> {
        match (key, self) {
            (Val::Text(name), _) => self.field(name.as_str()),
            (_, Map::Made(entries)) => {
                entries.iter().find(|(known, _)| same_key(known, key)).map(|(_, value)| value.clone())
            }
            (_, Map::Json(_)) => None,
        }
    }

    pub(super) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Json(entries) => entries.keys().map(|key| Val::Text(Text::Borrowed(key))).collect(),
            Map::Made(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// Lists the keys, for a message.
    pub(super) fn listed(&self) -> String {
        match self {
            Map::Json(entries) => sentence::list_names(entries.keys().map(String::as_str)),
            Map::Made(entries) => {
                let names: Vec<String> = entries.iter().map(|(key, _)| key_name(key)).collect();
                sentence::list_names(names.iter().map(String::as_str))
            }
        }
    }

    /// Finds the field that was probably meant, among the first 100.
    pub(super) fn nearest(&self, name: &str) -> Option<&str> {
        match self {
            Map::Json(entries) => {
                sentence::find_similar_name(name, entries.keys().map(String::as_str).take(100))
            }
            Map::Made(entries) => sentence::find_similar_name(
                name,
                entries.iter().filter_map(|(key, _)| match key {
                    Val::Text(text) => Some(text.as_str()),
                    _ => None,
                }),
            ),
        }
    }
}

/// Converts a key to a field name of JSON.
pub(super) fn key_name(key: &Val<'_>) -> String {
    match key {
        Val::Text(text) => text.as_str().to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Integer(n) => n.to_string(),
        other => other.described(),
    }
}

/// Compares two keys, which are strings, integers or booleans.
pub(super) fn same_key(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::Text(a), Val::Text(b)) => a.as_str() == b.as_str(),
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Integer(a), Val::Integer(b)) => a == b,
        _ => false,
    }
}
