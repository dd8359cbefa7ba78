//! Parameters of query strings: each route says which it takes, so that an unknown one is refused, and the description of the API
//! is true.

use std::time::Duration;

use jiff::Timestamp;
use unstuck_core::duration;
use unstuck_core::time::Millis;
use unstuck_service::find_nearest;

use crate::problem::Problem;

/// A parameter that a route takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
    /// Whether it may be given several times, meaning any of these.
    pub(crate) is_repeated: bool,
    pub(crate) about: &'static str,
}

/// What a parameter looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParameterKind {
    Text,
    /// A whole number from this to that.
    Number(u64, u64),
    Flag,
    /// `PT30M`, `30s`, `90` (seconds).
    Duration,
    /// An instant, or an age such as `7d`.
    Time,
    OneOf(&'static [&'static str]),
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
        Parameter { name, kind, is_repeated: false, about }
    }

    /// The same, given any number of times.
    pub(crate) const fn repeated(self) -> Parameter {
        Parameter { is_repeated: true, ..self }
    }
}

/// The parameters of one request, all of them known to its route and well-formed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads a query string by what its route takes. A parameter without a value counts as absent.
    pub(crate) fn read(query: Option<&str>, known: &[Parameter]) -> Result<Parameters, Problem> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
                return Err(unknown_parameter(&name, known));
            };
            if value.is_empty() {
                continue;
            }
            // This is what stands for bytes that are no text.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(Problem::bad_field(parameter.name, "it is not UTF-8; send it as UTF-8"));
            }
            if !parameter.is_repeated && given.iter().any(|(other, _)| *other == name) {
                return Err(Problem::bad_field(parameter.name, "it is given twice; give it once"));
            }
            check_form(parameter, &value)?;
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Parameters(given))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|value| value.parse().ok())
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|value| value == "true")
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        self.text(name).and_then(parse_duration).map(Millis::duration)
    }

    /// Returns an instant; an age is counted from `now`.
    pub(crate) fn time(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.text(name).and_then(|value| parse_time(value, now))
    }
}

fn unknown_parameter(name: &str, known: &[Parameter]) -> Problem {
    let name: String = name.chars().take(64).collect();
    let message = match find_nearest(&name, known.iter().map(|parameter| parameter.name)) {
        Some(similar) => format!("there is no such parameter; is `{similar}` meant?"),
        None if known.is_empty() => "there is no such parameter; this call takes none".to_owned(),
        None => {
            let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
            format!("there is no such parameter; there are {}", names.join(", "))
        }
    };
    Problem::bad_field(&name, message)
}

/// Refuses a value that is not of its parameter's form.
fn check_form(parameter: &Parameter, value: &str) -> Result<(), Problem> {
    let wanted = match parameter.kind {
        ParameterKind::Text => return Ok(()),
        ParameterKind::Number(least, most) => {
            if value.parse::<u64>().is_ok_and(|number| (least..=most).contains(&number)) {
                return Ok(());
            }
            format!("a whole number from {least} to {most}")
        }
        ParameterKind::Flag if matches!(value, "true" | "false") => return Ok(()),
        ParameterKind::Flag => "`true` or `false`".to_owned(),
        ParameterKind::Duration if parse_duration(value).is_some() => return Ok(()),
        ParameterKind::Duration => "a length of time such as `30s`, `PT30M` or `90`".to_owned(),
        ParameterKind::Time if parse_time(value, Timestamp::UNIX_EPOCH).is_some() => return Ok(()),
        ParameterKind::Time => "an instant such as `2030-01-31T08:30:00Z`, or an age such as `7d`".to_owned(),
        ParameterKind::OneOf(words) if words.contains(&value) => return Ok(()),
        ParameterKind::OneOf(words) => format!("one of {}", words.join(", ")),
    };
    let value: String = value.chars().take(64).collect();
    Err(Problem::bad_field(parameter.name, format!("`{value}` is not {wanted}")))
}

fn parse_duration(text: &str) -> Option<Millis> {
    duration::parse_duration(text).ok()
}

/// Reads an instant, or an age that is counted back from `now`.
pub(crate) fn parse_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let age = parse_duration(text)?;
    now.checked_sub(age.duration()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] = &[
        Parameter::new("flow", ParameterKind::Text, "").repeated(),
        Parameter::new("limit", ParameterKind::Number(1, 1_000), ""),
        Parameter::new("all", ParameterKind::Flag, ""),
        Parameter::new("wait", ParameterKind::Duration, ""),
        Parameter::new("since", ParameterKind::Time, ""),
        Parameter::new("until", ParameterKind::OneOf(&["rest", "final"]), ""),
    ];

    #[test]
    fn what_is_given_is_read_by_its_form() {
        let query = "flow=a%20b&flow=c&limit=20&all=true&wait=PT30S&since=2030-01-31T08:30:00Z&until=rest";
        let given = Parameters::read(Some(query), KNOWN).expect("all is known");
        let now = Timestamp::from_second(1_000).expect("it is in range");
        assert_eq!(given.all("flow").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!((given.number("limit"), given.flag("all")), (Some(20), Some(true)));
        assert_eq!(given.duration("wait"), Some(Duration::from_secs(30)));
        assert_eq!(given.time("since", now).map(|at| at.to_string()), Some("2030-01-31T08:30:00Z".into()));
        let aged = Parameters::read(Some("since=10s&limit="), KNOWN).expect("all is known");
        assert_eq!(aged.time("since", now), Timestamp::from_second(990).ok());
        assert_eq!(aged.number("limit"), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_name() {
        for (query, wanted) in [
            ("flwo=a", "`flwo`: there is no such parameter; is `flow` meant?"),
            ("limit=1001", "`limit`: `1001` is not a whole number from 1 to 1000"),
            ("limit=0", "`limit`: `0` is not a whole number from 1 to 1000"),
            ("limit=-1", "`limit`: `-1` is not a whole number from 1 to 1000"),
            ("limit=1&limit=2", "`limit`: it is given twice; give it once"),
            ("all=yes", "`all`: `yes` is not `true` or `false`"),
            ("wait=soon", "`wait`: `soon` is not a length of time such as `30s`, `PT30M` or `90`"),
            ("flow=a%ffb", "`flow`: it is not UTF-8; send it as UTF-8"),
            ("until=x", "`until`: `x` is not one of rest, final"),
        ] {
            let problem = Parameters::read(Some(query), KNOWN).expect_err(query).into_document(None);
            assert_eq!((problem.status, problem.detail.as_str()), (400, wanted));
        }
    }
}
