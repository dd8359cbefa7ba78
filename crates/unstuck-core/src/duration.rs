//! Durations and instants as people write them: `PT30M`, `1h 30m`, `90`, `2030-01-01T00:00:00Z`.

use std::borrow::Cow;

use jiff::civil::DateTime;
use jiff::{Span, Timestamp};
use serde_json::Value;

use crate::time::{Millis, Time};

/// 10,000 years: more than anybody waits, and far from where arithmetic would saturate.
const LONGEST: Millis = Millis(10_000 * 365 * 24 * 60 * 60 * 1_000);
const NANOS_PER_MILLI: i128 = 1_000_000;
const EXAMPLES: &str = "write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds";

/// Parses ISO-8601 (`PT30M`, `P1DT2H`, `P1W`), friendly text (`30s`, `1h 30m`, `500ms`) or a bare number of seconds
/// (`90`, `0.5`). A day has 24 hours, a week 7 days; fractions of a millisecond are rounded up.
pub fn parse_duration(text: &str) -> Result<Millis, String> {
    let trimmed = text.trim();
    let text = &*truncate_for_message(text);
    if is_number(trimmed.strip_prefix('-').unwrap_or(trimmed)) {
        let seconds = trimmed.parse().map_err(|_| describe_not_a_duration(text))?;
        return millis_from_seconds(seconds, text);
    }
    let span: Span = trimmed.parse().map_err(|error: jiff::Error| describe_parse_error(text, &error))?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(format!(
            "`{text}` uses months or years, whose lengths vary: write days instead, such as `30d`"
        ));
    }
    if span.is_negative() {
        return Err(describe_negative(text));
    }
    millis_from_nanos(span_to_nanos(&span), text)
}

/// Parses an RFC 3339 instant with `Z` or an offset. A time without a zone is refused, because it could mean several
/// instants.
pub fn parse_instant(text: &str) -> Result<Time, String> {
    let trimmed = text.trim();
    let text = &*truncate_for_message(text);
    if let Ok(timestamp) = trimmed.parse::<Timestamp>() {
        return Ok(Time(timestamp.as_millisecond()));
    }
    match trimmed.parse::<DateTime>() {
        Ok(local) => Err(format!(
            "`{text}` has no time zone: add `Z` for UTC, as in `{local}Z`, or an offset, as in `{local}+02:00`"
        )),
        Err(_) => Err(format!("`{text}` is not an instant: write for example `2030-01-31T08:30:00Z`")),
    }
}

/// Reads a duration from a JSON value: a text for [`parse_duration`], or a number of seconds.
pub fn read_duration(value: &Value) -> Result<Millis, String> {
    match value {
        Value::String(text) => parse_duration(text),
        Value::Number(number) => {
            let seconds = number.as_f64().ok_or_else(|| describe_not_a_duration(&number.to_string()))?;
            millis_from_seconds(seconds, &number.to_string())
        }
        Value::Null => Err(format!("null is not a duration: {EXAMPLES}")),
        Value::Bool(word) => Err(describe_not_a_duration(&word.to_string())),
        Value::Array(_) => Err(format!("a list is not a duration: {EXAMPLES}")),
        Value::Object(_) => Err(format!("a map is not a duration: {EXAMPLES}")),
    }
}

/// Cuts a text to 60 characters for an error message: it may come from a payload and be of any length.
fn truncate_for_message(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Converts seconds to milliseconds, rounding fractions up; `text` is quoted if the number is refused.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates from f64, and what is too long is refused"
)]
fn millis_from_seconds(seconds: f64, text: &str) -> Result<Millis, String> {
    if seconds.is_sign_negative() && seconds != 0.0 {
        return Err(describe_negative(text));
    }
    // To nanoseconds first: 1.1 is a little more than 1100 ms in binary, and must not become 1101.
    millis_from_nanos((seconds * 1e9).round() as i128, text)
}

/// Adds up the fixed-length units of a span (weeks and smaller) in nanoseconds.
fn span_to_nanos(span: &Span) -> i128 {
    let days = i128::from(span.get_weeks()) * 7 + i128::from(span.get_days());
    let hours = days * 24 + i128::from(span.get_hours());
    let minutes = hours * 60 + i128::from(span.get_minutes());
    let seconds = minutes * 60 + i128::from(span.get_seconds());
    let millis = seconds * 1_000 + i128::from(span.get_milliseconds());
    let micros = millis * 1_000 + i128::from(span.get_microseconds());
    micros * 1_000 + i128::from(span.get_nanoseconds())
}

/// Converts nanoseconds to milliseconds, rounding up. Refuses what is longer than [`LONGEST`].
fn millis_from_nanos(nanos: i128, text: &str) -> Result<Millis, String> {
    let whole = nanos / NANOS_PER_MILLI;
    let millis = if nanos % NANOS_PER_MILLI == 0 { whole } else { whole + 1 };
    match u64::try_from(millis).map(Millis) {
        Ok(span) if span <= LONGEST => Ok(span),
        _ => Err(describe_too_long(text)),
    }
}

/// Turns an error of the parser into our own sentence. Its message speaks of the parser's internals, and it does not
/// always say that a number is out of range: ten digits in a row count as that.
fn describe_parse_error(text: &str, error: &jiff::Error) -> String {
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if error.is_range() || digits >= 10 { describe_too_long(text) } else { describe_not_a_duration(text) }
}

fn describe_not_a_duration(text: &str) -> String {
    format!("`{text}` is not a duration: {EXAMPLES}")
}

fn describe_negative(text: &str) -> String {
    format!("`{text}` is negative: write the duration without the sign")
}

fn describe_too_long(text: &str) -> String {
    format!("`{text}` is longer than 10,000 years: write a shorter duration, such as `30d`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("PT30M", 1_800_000),
            ("P1D", 86_400_000),
            ("P1DT2H", 93_600_000),
            ("P1W", 604_800_000),
            ("PT0.5S", 500),
            ("PT0S", 0),
            ("pt1m", 60_000),
            ("30s", 30_000),
            ("2h", 7_200_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("2 hours, 5 minutes", 7_500_000),
            ("1d", 86_400_000),
            ("2w", 1_209_600_000),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("1.5h", 5_400_000),
            ("90", 90_000),
            ("0", 0),
            ("0.5", 500),
            ("1.1", 1_100),
            ("2.3", 2_300),
            (" 30s ", 30_000),
            ("1us", 1),
            ("0.0001", 1),
            ("1500us", 2),
            ("3650000d", 315_360_000_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_duration(text), Ok(Millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_reason() {
        let cases = [
            ("", "is not a duration: write for example `30s`"),
            ("soon", "is not a duration"),
            ("30 parsecs", "is not a duration"),
            ("30S", "is not a duration"),
            ("1.2.3", "is not a duration"),
            ("1e3", "is not a duration"),
            ("NaN", "is not a duration"),
            ("inf", "is not a duration"),
            ("P1M", "months or years, whose lengths vary: write days"),
            ("1y", "months or years"),
            ("1mo", "months or years"),
            ("-5s", "is negative"),
            ("-5", "is negative"),
            ("-PT5S", "is negative"),
            ("5s ago", "is negative"),
            ("4000000d", "longer than 10,000 years"),
            ("99999999999999999999s", "longer than 10,000 years"),
            ("99999999999999999999999999999999999999999999999", "longer than 10,000 years"),
            ("P9999999999D", "longer than 10,000 years"),
        ];
        for (text, part) in cases {
            let refusal = parse_duration(text).expect_err(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
            assert!(refusal.starts_with(&format!("`{text}`")), "{text}: {refusal}");
        }
        let long = parse_duration(&"x".repeat(1_000_000)).expect_err("not a duration");
        assert!(long.starts_with(&format!("`{}...` is not a duration", "x".repeat(60))), "{long}");
    }

    #[test]
    fn durations_are_read_from_json() {
        let good =
            [(json!("1m"), 60_000), (json!(90), 90_000), (json!(0.25), 250), (json!(0), 0), (json!(-0.0), 0)];
        for (value, ms) in good {
            assert_eq!(read_duration(&value), Ok(Millis(ms)), "{value}");
        }
        let bad = [
            (json!(null), "null is not a duration"),
            (json!(true), "`true` is not a duration"),
            (json!([1]), "a list is not a duration"),
            (json!({}), "a map is not a duration"),
            (json!(-1), "`-1` is negative"),
            (json!(1e300), "longer than 10,000 years"),
            (json!(u64::MAX), "longer than 10,000 years"),
        ];
        for (value, part) in bad {
            let refusal = read_duration(&value).expect_err(part);
            assert!(refusal.contains(part), "{value}: {refusal}");
        }
    }

    #[test]
    fn instants_need_a_time_zone() {
        let good = [
            ("1970-01-01T00:00:01Z", 1_000),
            ("1970-01-01T02:00:00+02:00", 0),
            ("2030-01-31T08:30:00.250Z", 1_896_078_600_250),
            (" 1970-01-01 00:00:00Z ", 0),
        ];
        for (text, ms) in good {
            assert_eq!(parse_instant(text), Ok(Time(ms)), "{text}");
        }
        let bad = [
            ("2030-01-31T08:30:00", "add `Z` for UTC, as in `2030-01-31T08:30:00Z`"),
            ("2030-01-31", "as in `2030-01-31T00:00:00Z`"),
            ("tomorrow", "is not an instant: write for example `2030-01-31T08:30:00Z`"),
            ("2030-13-31T08:30:00Z", "is not an instant"),
            ("", "is not an instant"),
        ];
        for (text, part) in bad {
            let refusal = parse_instant(text).expect_err(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
