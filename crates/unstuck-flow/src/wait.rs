//! Reads the `wait` kind: how long, until which instant, or until which time of day.

use jiff::civil::{self, Weekday};
use unstuck_core::duration::parse_instant;
use unstuck_core::model::flow::WaitFor;
use unstuck_core::model::time_of_day::TimeOfDay;

use crate::computed::{self, Scope};
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::time_of_day::{self, NO_TIME_OF_DAY, OfDay};
use crate::time_value::{self, TimeValue};
use crate::tree::Content;
use crate::zone;

const EXAMPLE: &str = "write for example `{until: \"02:00\", zone: Europe/Berlin}`";

/// The days of the week; the first three letters of each are enough.
const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Reads a wait: a duration, an instant, an expression, or an object for a time of day.
pub(crate) fn read_wait(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<WaitFor> {
    if let Content::Map(_) = spot.node.content {
        return read_next_time_of_day(spot, problems).map(WaitFor::Next);
    }
    let text = spot.node.text().unwrap_or_default().trim();
    if text.contains("${") {
        return computed::compile_expression(spot, scope, problems).map(WaitFor::Computed);
    }
    if time_of_day::parse_time_of_day(text) != OfDay::SomethingElse {
        spot.refuse(problems, "a time of day needs a time zone")
            .hint(format!("write for example `{{until: \"{text}\", zone: Europe/Berlin}}`"));
        return None;
    }
    Some(match time_value::read_time_value(spot, problems)? {
        TimeValue::After(span) => WaitFor::Span(span),
        TimeValue::At(time) => {
            problems.once_past(
                time,
                spot.node.at,
                &spot.path,
                format!("{time} is in the past: no run will wait here"),
                "give a time of day (`{until: \"02:00\", zone: UTC}`), a duration, or an expression",
            );
            WaitFor::Until(time)
        }
    })
}

/// Reads a time of day with its zone and days.
fn read_next_time_of_day(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<TimeOfDay> {
    let object = Object::read(spot, fields::WAIT, "`wait`", problems)?;
    for needed in ["until", "zone"] {
        if object.spot(needed).is_none() {
            spot.refuse(problems, format!("`wait` has no `{needed}`")).hint(EXAMPLE);
        }
    }
    let at = object.spot("until").and_then(|until| read_clock_time(&until, problems));
    let zone = object.spot("zone").and_then(|zone| read_zone(&zone, problems));
    let days = object.spot("days").map_or(Some(Vec::new()), |spot| read_days(&spot, problems));
    let (zone, rules) = zone?;
    Some(TimeOfDay { at: at?, zone: zone.into(), rules, days: days? })
}

/// Reads the time of day, which must be quoted: YAML takes `02:00` for a number.
fn read_clock_time(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<civil::Time> {
    let Some(text) = spot.node.text() else {
        spot.expected(problems, "a time of day such as `\"02:00\"`, in quotes");
        return None;
    };
    match time_of_day::parse_time_of_day(text.trim()) {
        OfDay::Is(span) => {
            let seconds = i32::try_from(span.0 / 1_000).unwrap_or(0);
            let part = |n: i32| i8::try_from(n).unwrap_or(0);
            Some(civil::time(part(seconds / 3_600), part(seconds / 60 % 60), part(seconds % 60), 0))
        }
        OfDay::IsNone => {
            spot.refuse(problems, format!("`{}` {NO_TIME_OF_DAY}", text.trim()));
            None
        }
        OfDay::SomethingElse => {
            let hint = if text.contains("${") {
                "`until` cannot be an expression; to wait for a computed instant, write `wait: ${ ... }`"
                    .to_owned()
            } else if parse_instant(text).is_ok() {
                format!("for an instant, write `wait: {}`", text.trim())
            } else {
                EXAMPLE.to_owned()
            };
            spot.refuse(problems, "expected a time of day such as `02:00`").hint(hint);
            None
        }
    }
}

/// Reads a time zone and its rules.
fn read_zone(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<(String, jiff::tz::TimeZone)> {
    let name = spot.read_text(problems)?.trim();
    if name.contains("${") {
        spot.refuse(problems, "expressions are not allowed here")
            .hint("to wait for a computed instant, write `wait: ${ ... }`");
        return None;
    }
    match zone::find_zone(name) {
        Ok(rules) => Some((name.to_owned(), rules)),
        Err(unknown) => {
            spot.refuse(problems, unknown.message).hint(unknown.hint);
            None
        }
    }
}

/// Reads a day of the week, or a list of them.
fn read_days(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Vec<Weekday>> {
    let Content::List(nodes) = &spot.node.content else {
        return read_day(spot, problems).map(|day| vec![day]);
    };
    if nodes.is_empty() {
        spot.refuse(problems, "`days` is empty").hint("remove it to mean every day");
        return None;
    }
    let days: Vec<Option<Weekday>> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| {
            read_day(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems)
        })
        .collect();
    days.into_iter().collect()
}

/// Reads a day of the week, in full or as three letters.
fn read_day(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Weekday> {
    let short = DAYS.iter().find(|(name, _)| spot.node.text() == Some(&name[..3]));
    short.map_or_else(|| spot.read_word(&DAYS, problems), |(_, day)| Some(*day))
}
