//! `wait`: for how long, until which instant, or until which time of day.

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

/// The days of the week; the first three letters of each will do.
const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Reads it.
pub(crate) fn read(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<WaitFor> {
    if let Content::Map(_) = spot.node.content {
        return time_of_day(spot, problems).map(WaitFor::Next);
    }
    let text = spot.node.text().unwrap_or_default().trim();
    if text.contains("${") {
        return computed::compile_expression(spot, scope, problems).map(WaitFor::Computed);
    }
    if time_of_day::read(text) != OfDay::SomethingElse {
        spot.refuse(problems, "a time of day needs a time zone")
            .hint(format!("write for example `{{until: \"{text}\", zone: Europe/Berlin}}`"));
        return None;
    }
    Some(match time_value::read(spot, problems)? {
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

fn time_of_day(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<TimeOfDay> {
    let object = Object::read(spot, fields::WAIT, "`wait`", problems)?;
    for needed in ["until", "zone"] {
        if object.spot(needed).is_none() {
            spot.refuse(problems, format!("`wait` has no `{needed}`")).hint(EXAMPLE);
        }
    }
    let at = object.spot("until").and_then(|until| clock(&until, problems));
    let zone = object.spot("zone").and_then(|zone| zone_of(&zone, problems));
    let days = object.spot("days").map_or(Some(Vec::new()), |spot| days(&spot, problems));
    let (zone, rules) = zone?;
    Some(TimeOfDay { at: at?, zone: zone.into(), rules, days: days? })
}

fn clock(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<civil::Time> {
    let Some(text) = spot.node.text() else {
        spot.expected(problems, "a time of day such as `\"02:00\"`, in quotes");
        return None;
    };
    match time_of_day::read(text.trim()) {
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

fn zone_of(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<(String, jiff::tz::TimeZone)> {
    let name = spot.text(problems)?.trim();
    if name.contains("${") {
        spot.refuse(problems, "expressions are not allowed here")
            .hint("to wait for a computed instant, write `wait: ${ ... }`");
        return None;
    }
    match zone::find(name) {
        Ok(rules) => Some((name.to_owned(), rules)),
        Err(unknown) => {
            spot.refuse(problems, unknown.message).hint(unknown.hint);
            None
        }
    }
}

/// A day of the week, or several.
fn days(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Vec<Weekday>> {
    let Content::List(nodes) = &spot.node.content else {
        return day(spot, problems).map(|day| vec![day]);
    };
    if nodes.is_empty() {
        spot.refuse(problems, "`days` is empty").hint("remove it to mean every day");
        return None;
    }
    let days: Vec<Option<Weekday>> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| day(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems))
        .collect();
    days.into_iter().collect()
}

fn day(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Weekday> {
    let short = DAYS.iter().find(|(name, _)| spot.node.text() == Some(&name[..3]));
    short.map_or_else(|| spot.one_of(&DAYS, problems), |(_, day)| Some(*day))
}
