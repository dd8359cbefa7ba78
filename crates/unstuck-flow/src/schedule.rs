//! Reads the `schedule` of a flow: when a server starts its runs by the clock.

use std::sync::Arc;

use unstuck_core::duration::parse_duration;
use unstuck_core::json::Json;
use unstuck_core::model::cron::Cron;
use unstuck_core::model::flow::CheckInput;
use unstuck_core::model::schedule::{
    CatchUp, MAX_CATCH_UP, Overlap, SHORTEST_INTERVAL, ScheduleSpec, Timing,
};
use unstuck_core::time::Millis;

use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object, shortened};
use crate::tree::Content;
use crate::zone;

const EXAMPLE: &str = "write for example `{cron: \"0 3 * * *\", timeZone: Europe/Berlin}` or `{every: 15m}`";

const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("queue", Overlap::Queue), ("allow", Overlap::Allow)];

/// Reads a schedule: a cron expression, `every 15m`, or an object. Its input is checked by the schema of the flow.
pub(crate) fn read_schedule(
    spot: &LocatedNode<'_>,
    schema: Option<&Arc<dyn CheckInput>>,
    problems: &mut Problems<'_>,
) -> Option<ScheduleSpec> {
    let Content::Map(_) = spot.node.content else {
        let timing = read_short_form(spot, problems)?;
        let (overlap, catch_up) = (Overlap::default(), CatchUp::default());
        check_input(spot, None, schema, problems);
        return Some(ScheduleSpec { timing, overlap, catch_up, input: Json::NULL });
    };
    let object = Object::read(spot, fields::SCHEDULE, "`schedule`", problems)?;
    let timing = read_timing(spot, &object, problems);
    let overlap =
        object.spot("overlap").map_or(Some(Overlap::default()), |spot| spot.read_word(&OVERLAPS, problems));
    let catch_up =
        object.spot("catchUp").map_or(Some(CatchUp::default()), |spot| read_catch_up(&spot, problems));
    let input = object.spot("input");
    let is_fixed = input.as_ref().is_none_or(|input| refuse_expressions(input, problems));
    if is_fixed {
        check_input(spot, input.as_ref(), schema, problems);
    }
    let input = input.map_or(Json::NULL, |input| Json::of(&input.node.value()));
    Some(ScheduleSpec { timing: timing?, overlap: overlap?, catch_up: catch_up?, input })
}

/// Reads `0 3 * * *`, `@daily` or `every 15m`.
fn read_short_form(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Timing> {
    let Some(text) = spot.node.text() else {
        spot.report_expected(problems, "a cron expression in quotes, or an object");
        return None;
    };
    let text = text.trim();
    if let Some(every) = text.strip_prefix("every ") {
        return match parse_duration(every.trim()) {
            Ok(every) => check_interval(spot, every, problems),
            Err(message) => {
                spot.refuse(problems, message).hint("write for example `every 15m`");
                None
            }
        };
    }
    if parse_duration(text).is_ok() {
        spot.refuse(problems, format!("`{}` is not a cron expression", shortened(text)))
            .hint(format!("for an interval, write `{{every: {}}}`", shortened(text)));
        return None;
    }
    read_cron(spot, text, problems).map(utc)
}

fn utc(cron: Cron) -> Timing {
    Timing::Cron { cron, zone: "UTC".into(), rules: jiff::tz::TimeZone::UTC }
}

/// Reads `cron` with its zone, or `every`: exactly one of them.
fn read_timing(spot: &LocatedNode<'_>, object: &Object<'_>, problems: &mut Problems<'_>) -> Option<Timing> {
    let zone = object.spot("timeZone");
    match (object.spot("cron"), object.spot("every")) {
        (None, None) => {
            spot.refuse(problems, "`schedule` has neither `cron` nor `every`").hint(EXAMPLE);
            None
        }
        (Some(_), Some(every)) => {
            every
                .refuse(problems, "`cron` and `every` cannot be given together")
                .hint("keep one of them, or make two flows");
            None
        }
        (None, Some(every)) => {
            if let Some(zone) = zone {
                zone.refuse(problems, "an interval has no time zone")
                    .hint("remove it, or use `cron` for times of day");
            }
            let span = every.read_duration(problems)?;
            check_interval(&every, span, problems)
        }
        (Some(cron), None) => {
            let expression = cron.read_text(problems).and_then(|text| read_cron(&cron, text, problems));
            let Some(zone) = zone else { return expression.map(utc) };
            let name = zone.read_text(problems)?.trim();
            match zone::find_zone(name) {
                Ok(rules) => Some(Timing::Cron { cron: expression?, zone: name.into(), rules }),
                Err(unknown) => {
                    zone.refuse(problems, unknown.message).hint(unknown.hint);
                    None
                }
            }
        }
    }
}

fn read_cron(spot: &LocatedNode<'_>, text: &str, problems: &mut Problems<'_>) -> Option<Cron> {
    if text.contains("TZ=") {
        spot.refuse(problems, "a cron expression has no time zone")
            .hint("write `{cron: \"0 3 * * *\", timeZone: Europe/Berlin}`");
        return None;
    }
    match Cron::parse(text) {
        Ok(cron) => Some(cron),
        Err(bad) => {
            spot.refuse(problems, bad.message).hint(bad.hint);
            None
        }
    }
}

fn check_interval(spot: &LocatedNode<'_>, every: Millis, problems: &mut Problems<'_>) -> Option<Timing> {
    if every < SHORTEST_INTERVAL {
        let message = format!("{every} is too short: the shortest interval is {SHORTEST_INTERVAL}");
        spot.refuse(problems, message).hint("write `every: 1s` or longer");
        return None;
    }
    Some(Timing::Every(every))
}

/// Reads how much is made up for: a number, or an object.
fn read_catch_up(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<CatchUp> {
    if !matches!(spot.node.content, Content::Map(_)) {
        return Some(CatchUp { limit: read_limit(spot, problems)?, ..CatchUp::default() });
    }
    let object = Object::read(spot, fields::CATCH_UP, "`catchUp`", problems)?;
    let limit = object.spot("limit").map_or(Some(1), |spot| read_limit(&spot, problems));
    let within = match object.spot("within") {
        Some(spot) => Some(spot.read_positive_duration(problems)?),
        None => None,
    };
    Some(CatchUp { limit: limit?, within })
}

fn read_limit(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<u32> {
    let limit: u32 = spot.read_whole(0, &format!("a whole number from 0 to {MAX_CATCH_UP}"), problems)?;
    if limit > MAX_CATCH_UP {
        let message = format!("at most {MAX_CATCH_UP} missed times are made up for, not {limit}");
        spot.refuse(problems, message).hint("a run for each of them would start at once");
        return None;
    }
    Some(limit)
}

/// Runs are started with what is written here: there is nothing yet that an expression could read.
fn refuse_expressions(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> bool {
    let text = spot.node.value().to_string();
    if text.contains("${") {
        spot.refuse(problems, "expressions are not allowed here")
            .hint("steps can read the time of the run from its key: `${run.key}`");
        return false;
    }
    true
}

/// A run would be refused each time, so the file is.
fn check_input(
    spot: &LocatedNode<'_>,
    input: Option<&LocatedNode<'_>>,
    schema: Option<&Arc<dyn CheckInput>>,
    problems: &mut Problems<'_>,
) {
    let Some(schema) = schema else { return };
    let value = input.map_or(serde_json::Value::Null, |input| input.node.value());
    let Err(found) = schema.check(&value) else { return };
    match input {
        Some(input) => {
            for problem in found {
                input.refuse(problems, format!("the flow would refuse this: {problem}"));
            }
        }
        None => {
            spot.refuse(problems, "the flow needs an input, and its `schedule` gives none")
                .hint("write for example `{cron: \"0 3 * * *\", input: {...}}`");
        }
    }
}
