//! One setting: its name, what it may be, and how its value is read and written.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use unstuck_core::duration::parse_duration;
use unstuck_core::time::Millis;
use unstuck_engine::executor::http::address::Network;

/// Something that can be set in a file, by a variable or by a flag.
#[derive(Debug)]
pub(crate) struct Setting {
    /// As a file has it: `limits.bodyTime` is `bodyTime` in the table `[limits]`.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: DefaultValue,
    /// What it is for, in a sentence.
    pub(crate) about: &'static str,
}

/// What a setting is where nothing sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// This, as it would be written.
    Is(&'static str),
    /// Not set, which means this.
    Unset(&'static str),
}

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    /// An address to listen on.
    Address,
    /// A path; one that a file names starts from the folder of that file.
    Path,
    Flag,
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// A number of bytes from the first to the second.
    Size(u64, u64),
    /// A length of time from the first to the second, in milliseconds.
    Time(u64, u64),
    OneOf(&'static [&'static str]),
    /// Networks or addresses.
    Networks,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Address(SocketAddr),
    Path(PathBuf),
    Flag(bool),
    Number(u64),
    Size(u64),
    Time(Duration),
    Texts(Vec<String>),
}

impl Setting {
    pub(crate) const fn new(
        key: &'static str,
        kind: Kind,
        default: DefaultValue,
        about: &'static str,
    ) -> Setting {
        Setting { key, kind, default, about }
    }

    /// Returns the flag without its dashes: `limits-body-time`.
    pub(crate) fn flag(&self) -> String {
        let mut flag = String::new();
        for letter in self.key.chars() {
            match letter {
                '.' => flag.push('-'),
                letter if letter.is_ascii_uppercase() => {
                    flag.extend(['-', letter.to_ascii_lowercase()]);
                }
                letter => flag.push(letter),
            }
        }
        flag
    }

    /// Returns the variable: `UNSTUCK_LIMITS_BODY_TIME`.
    pub(crate) fn variable(&self) -> String {
        format!("UNSTUCK_{}", self.flag().replace('-', "_").to_ascii_uppercase())
    }

    /// Returns the table of a file that it is in; none for those at the top.
    pub(crate) fn group(&self) -> Option<&'static str> {
        self.key.split_once('.').map(|(group, _)| group)
    }

    /// Reads a value from a flag, a variable, or a text in a file.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self.kind {
            Kind::Networks => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                self.list(parts.map(str::to_owned).collect())
            }
            _ if text.is_empty() => Err(format!("is empty; {}", self.kind.expected())),
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::Path => Ok(Value::Path(text.into())),
            Kind::Address => {
                text.parse().map(Value::Address).map_err(|_| self.kind.not_one(&format!("`{text}`")))
            }
            Kind::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(self.kind.not_one(&format!("`{text}`"))),
            },
            Kind::Number(..) | Kind::Size(..) => {
                let number =
                    if let Kind::Size(..) = self.kind { parse_size(text) } else { parse_number(text) };
                self.number(number.ok_or_else(|| self.kind.not_one(&format!("`{text}`")))?)
            }
            Kind::Time(..) => self.time(parse_duration(text)?),
            Kind::OneOf(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(self.kind.not_one(&format!("`{text}`"))),
            },
        }
    }

    /// Takes a number: bytes, seconds or just so many.
    pub(crate) fn number(&self, number: u64) -> Result<Value, String> {
        let (least, most) = match self.kind {
            Kind::Number(least, most) | Kind::Size(least, most) => (least, most),
            Kind::Time(..) => return self.time(Millis(number.saturating_mul(1_000))),
            _ => return Err(self.kind.not_one("a number")),
        };
        let value = if let Kind::Size(..) = self.kind { Value::Size } else { Value::Number };
        let shown = |number| value(number).to_text();
        if number < least {
            return Err(format!("is {}; the least is {}", shown(number), shown(least)));
        }
        if number > most {
            return Err(format!("is {}; the most is {}", shown(number), shown(most)));
        }
        Ok(value(number))
    }

    fn time(&self, length: Millis) -> Result<Value, String> {
        let millis = length.0;
        let shown = |millis| Value::Time(Duration::from_millis(millis)).to_text();
        match self.kind {
            Kind::Time(least, _) if millis < least => {
                Err(format!("is {}; the least is {}", shown(millis), shown(least)))
            }
            Kind::Time(_, most) if millis > most => {
                Err(format!("is {}; the most is {}", shown(millis), shown(most)))
            }
            _ => Ok(Value::Time(Duration::from_millis(millis))),
        }
    }

    /// Takes a list of texts.
    pub(crate) fn list(&self, texts: Vec<String>) -> Result<Value, String> {
        match self.kind {
            Kind::Networks => {
                texts.iter().try_for_each(|text| Network::parse(text).map(drop))?;
                Ok(Value::Texts(texts))
            }
            _ => Err(self.kind.not_one("a list")),
        }
    }

    /// Returns what holds where nothing sets it; none where it is not set then.
    pub(crate) fn default_value(&self) -> Option<Value> {
        match self.default {
            DefaultValue::Is(text) => self.parse(text).ok(),
            DefaultValue::Unset(_) => None,
        }
    }
}

impl Kind {
    /// Says what is to be written.
    pub(crate) fn expected(self) -> String {
        match self {
            Kind::Text => "give a text".to_owned(),
            Kind::Address => {
                "give an address and a port, such as `127.0.0.1:7070` or `[::1]:7070`".to_owned()
            }
            Kind::Path => "give a path".to_owned(),
            Kind::Flag => "give true or false".to_owned(),
            Kind::Number(least, most) => {
                format!("give a whole number from {least} to {most}")
            }
            Kind::Size(..) => "give a size, such as `64 KiB`, `4 MiB` or a number of bytes".to_owned(),
            Kind::Time(..) => "give a length of time, such as `30s`, `5m` or a number of seconds".to_owned(),
            Kind::OneOf(words) => format!("give one of {}", words.join(", ")),
            Kind::Networks => "give a list of networks, such as `10.1.0.0/16`".to_owned(),
        }
    }

    /// Says that something is not what is to be written.
    pub(crate) fn not_one(self, given: &str) -> String {
        let noun = match self {
            Kind::Text => "a text",
            Kind::Address => "an address",
            Kind::Path => "a path",
            Kind::Flag => "true or false",
            Kind::Number(..) => "a whole number",
            Kind::Size(..) => "a size",
            Kind::Time(..) => "a length of time",
            Kind::OneOf(_) => "one of its words",
            Kind::Networks => "a list of texts",
        };
        format!("{given} is not {noun}; {}", self.expected())
    }

    /// Returns how a value is called in a usage.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Kind::Text => "TEXT",
            Kind::Address => "ADDRESS",
            Kind::Path => "PATH",
            Kind::Flag => "true|false",
            Kind::Number(..) => "N",
            Kind::Size(..) => "SIZE",
            Kind::Time(..) => "TIME",
            Kind::OneOf(_) => "WORD",
            Kind::Networks => "NETWORK",
        }
    }
}

impl Value {
    /// Writes it as people read it.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Address(address) => address.to_string(),
            Value::Path(path) => path.display().to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Size(bytes) => format_size(*bytes),
            Value::Time(time) => {
                let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                // The form for people drops what is small beside the rest.
                let shown = Millis(millis).to_string();
                let is_exact = parse_duration(&shown).is_ok_and(|read| read == Millis(millis));
                if is_exact { shown } else { format!("{millis}ms") }
            }
            Value::Texts(texts) => texts.join(", "),
        }
    }

    /// Writes it as a file has it.
    pub(crate) fn to_toml(&self) -> String {
        match self {
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Texts(texts) => {
                let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
                format!("[{}]", quoted.join(", "))
            }
            Value::Text(_) | Value::Address(_) | Value::Path(_) | Value::Size(_) | Value::Time(_) => {
                quote(&self.to_text())
            }
        }
    }

    /// Writes it as JSON: sizes in bytes, lengths of time in seconds.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Flag(flag) => json!(flag),
            Value::Number(number) | Value::Size(number) => json!(number),
            Value::Time(time) => json!(time.as_secs_f64()),
            Value::Texts(texts) => json!(texts),
            Value::Text(_) | Value::Address(_) | Value::Path(_) => json!(self.to_text()),
        }
    }
}

/// Quotes a text for a file: JSON's escapes are TOML's too.
fn quote(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Parses a number with or without separators: `10000`, `10_000`.
fn parse_number(text: &str) -> Option<u64> {
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.replace('_', "").parse().ok())?
}

/// The units of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses a size: `4 MiB`, `64KiB`, `4194304`.
fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = parse_number(number.trim())?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*bytes)
}

fn format_size(bytes: u64) -> String {
    let (name, unit) =
        UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(kind: Kind) -> Setting {
        Setting::new("limits.bodyTime", kind, DefaultValue::Unset(""), "")
    }

    #[test]
    fn a_setting_has_a_flag_and_a_variable() {
        let setting = of(Kind::Flag);
        assert_eq!(setting.flag(), "limits-body-time");
        assert_eq!(setting.variable(), "UNSTUCK_LIMITS_BODY_TIME");
    }

    #[test]
    fn values_are_read_and_written() {
        let (size, time) = (of(Kind::Size(1, 1 << 40)), of(Kind::Time(0, u64::MAX)));
        let number = of(Kind::Number(1, 10_000));
        for (setting, text, wanted) in [
            (&size, "4 MiB", Ok("4 MiB")),
            (&size, "4mib", Ok("4 MiB")),
            (&size, "1024", Ok("1 KiB")),
            (&size, "1_500", Ok("1500 B")),
            (&size, "0", Err("is 0 B; the least is 1 B")),
            (&size, "9999 GiB", Err("is 9999 GiB; the most is 1024 GiB")),
            (
                &size,
                "4 MB",
                Err("`4 MB` is not a size; give a size, such as `64 KiB`, `4 MiB` or a number of bytes"),
            ),
            (&time, "90", Ok("1m 30s")),
            (&time, "PT1H", Ok("1h")),
            (&time, "90500ms", Ok("90500ms")),
            (&number, "10_000", Ok("10000")),
            (&number, "-1", Err("`-1` is not a whole number; give a whole number from 1 to 10000")),
            (&number, "10001", Err("is 10001; the most is 10000")),
            (&of(Kind::Flag), "yes", Err("`yes` is not true or false; give true or false")),
            (
                &of(Kind::OneOf(&["text", "json"])),
                "xml",
                Err("`xml` is not one of its words; give one of text, json"),
            ),
            (&of(Kind::Networks), "10.0.0.0/8, ::1", Ok("10.0.0.0/8, ::1")),
            (&of(Kind::Text), " ", Err("is empty; give a text")),
        ] {
            let read = setting.parse(text).map(|value| value.to_text());
            assert_eq!(read.as_deref().map_err(String::as_str), wanted, "{text}");
        }
    }
}
