//! Durations and timestamps in expressions. No clock is read: `now` is bound from outside, and time zone rules are
//! compiled in.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use unstuck_core::duration::{parse_duration, parse_instant};

use super::arithmetic::unsupported_operands_error;
use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::syntax::Operator;
use super::value::Val;
use crate::zone;

/// Parses the argument of `duration('...')`: as everywhere in a flow file, with an optional sign.
pub(super) fn parse_signed_duration(text: &str) -> Result<SignedDuration, String> {
    let (negative, span) = match text.trim().strip_prefix('-') {
        Some(span) => (true, span),
        None => (false, text),
    };
    let millis = i64::try_from(parse_duration(span)?.0).unwrap_or(i64::MAX);
    Ok(SignedDuration::from_millis(if negative { -millis } else { millis }))
}

/// Parses the argument of `timestamp('...')`.
pub(super) fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let instant = parse_instant(text)?;
    Ok(text.trim().parse().unwrap_or_else(|_| instant.timestamp()))
}

/// Formats a duration as `3600s` or `1.5s`, which both CEL and flow files parse.
pub(super) fn duration_text(span: SignedDuration) -> String {
    let (seconds, nanos) = (span.as_secs().unsigned_abs(), span.subsec_nanos().unsigned_abs());
    let sign = if span.is_negative() { "-" } else { "" };
    let fraction = format!("{nanos:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{seconds}s"),
        digits => format!("{sign}{seconds}.{digits}s"),
    }
}

/// Applies `+` or `-` to durations and timestamps.
pub(super) fn apply_to_times<'a>(
    operator: Operator,
    a: &Val<'a>,
    b: &Val<'a>,
) -> Result<Val<'a>, EvaluationError> {
    let result = match (operator, a, b) {
        (Operator::Add, Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration),
        (Operator::Subtract, Val::Duration(a), Val::Duration(b)) => a.checked_sub(*b).map(Val::Duration),
        (Operator::Add, Val::Timestamp(at), Val::Duration(span))
        | (Operator::Add, Val::Duration(span), Val::Timestamp(at)) => {
            at.checked_add(*span).ok().map(Val::Timestamp)
        }
        (Operator::Subtract, Val::Timestamp(at), Val::Duration(span)) => {
            at.checked_sub(*span).ok().map(Val::Timestamp)
        }
        (Operator::Subtract, Val::Timestamp(a), Val::Timestamp(b)) => {
            Some(Val::Duration(a.duration_since(*b)))
        }
        _ => return Err(unsupported_operands_error(operator, a, b)),
    };
    result.ok_or_else(|| {
        EvaluationError::Wrong(format!(
            "{} {} {} is outside the range of dates",
            a.described(),
            operator.symbol(),
            b.described()
        ))
    })
}

/// Evaluates `getHours()` and its like: of a timestamp in UTC or in a zone, or of a whole duration.
pub(super) fn part_of_time<'a>(
    function: Function,
    arguments: &[Val<'a>],
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    let (of, zone) = match arguments {
        [of, zone] => (of, Some(zone)),
        [of] => (of, None),
        _ => return EvaluationError::wrong(format!("`{}` is called on a timestamp", function.name())),
    };
    match (of, zone) {
        (Val::Timestamp(at), zone) => {
            let zone = zone.map_or(Ok(TimeZone::UTC), |zone| find_time_zone(function, zone, meter))?;
            Ok(Val::Integer(calendar_part(function, &at.to_zoned(zone))))
        }
        (Val::Duration(_), Some(_)) => {
            EvaluationError::wrong(format!("{} is not a timestamp and has no time zone", of.described()))
        }
        (Val::Duration(span), None) => match function {
            Function::Hours => Ok(Val::Integer(span.as_hours())),
            Function::Minutes => Ok(Val::Integer(span.as_mins())),
            Function::Seconds => Ok(Val::Integer(span.as_secs())),
            Function::Milliseconds => Ok(Val::Integer(i64::from(span.subsec_millis()))),
            _ => EvaluationError::wrong(format!("{} is not a timestamp and has no date", of.described())),
        },
        (other, _) => EvaluationError::wrong(format!(
            "{} is not a timestamp; convert a string with `parse_timestamp(...)`",
            other.described()
        )),
    }
}

/// Finds the zone of an argument; pays extra, because the lookup costs more than most operations.
fn find_time_zone(function: Function, zone: &Val<'_>, meter: &Meter) -> Result<TimeZone, EvaluationError> {
    let Val::Text(name) = zone else {
        return EvaluationError::wrong(format!(
            "`{}` takes a time zone such as 'Europe/Berlin', not {}",
            function.name(),
            zone.described()
        ));
    };
    meter.spend(20)?;
    zone::find_zone(name.as_str()).or_else(|unknown| {
        meter.spend(5_000)?;
        EvaluationError::wrong(format!("{}; {}", unknown.message, unknown.hint))
    })
}

/// Returns a part of a date as CEL counts: months, days of the month and of the year from 0, `getDate` from 1, Sunday
/// is 0.
fn calendar_part(function: Function, at: &Zoned) -> i64 {
    match function {
        Function::FullYear => i64::from(at.year()),
        Function::Month => i64::from(at.month()) - 1,
        Function::Date => i64::from(at.day()),
        Function::DayOfMonth => i64::from(at.day()) - 1,
        Function::DayOfWeek => i64::from(at.weekday().to_sunday_zero_offset()),
        Function::DayOfYear => i64::from(at.day_of_year()) - 1,
        Function::Hours => i64::from(at.hour()),
        Function::Minutes => i64::from(at.minute()),
        Function::Seconds => i64::from(at.second()),
        _ => i64::from(at.millisecond()),
    }
}
