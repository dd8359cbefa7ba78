//! Parses points in time from the command line.

use jiff::Timestamp;
use unstuck_core::duration::{parse_duration, parse_instant};

use crate::error::CommandError;

/// Parses a duration ago, or an instant; `option` names it in errors.
pub(crate) fn parse_past_time(given: &str, option: &str) -> Result<Timestamp, CommandError> {
    match (parse_duration(given), parse_instant(given)) {
        (Ok(span), _) => {
            let ago = i64::try_from(span.0).unwrap_or(i64::MAX);
            let then = unstuck_service::service::now().0.saturating_sub(ago);
            Ok(Timestamp::from_millisecond(then).unwrap_or(Timestamp::MIN))
        }
        (Err(_), Ok(instant)) => Ok(instant.timestamp()),
        (Err(no_span), Err(no_instant)) => {
            let is_dated = given.bytes().take_while(u8::is_ascii_digit).count() == 4 && given.contains('-');
            let what = if is_dated {
                no_instant
            } else {
                format!("{no_span}, or an instant such as `2030-01-31T08:30:00Z`")
            };
            Err(CommandError::new(format!("{option}: {what}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_so_long_ago_or_an_instant() {
        let before = unstuck_service::service::now();
        let week = parse_past_time("7d", "--since").ok().expect("a span");
        assert!(before.0.abs_diff(week.as_millisecond() + 7 * 86_400_000) < 60_000);
        assert_eq!(
            parse_past_time("1970-01-01T00:00:01Z", "--since").ok(),
            Timestamp::from_millisecond(1_000).ok()
        );
        let cases = [
            (
                "soon",
                "--since: `soon` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds, or an instant such as `2030-01-31T08:30:00Z`",
            ),
            (
                "2030-01-31",
                "--since: `2030-01-31` has no time zone: add `Z` for UTC, as in `2030-01-31T00:00:00Z`, or an offset, as in `2030-01-31T00:00:00+02:00`",
            ),
        ];
        for (given, wanted) in cases {
            assert_eq!(
                parse_past_time(given, "--since").err().map(|failure| failure.sentence()).as_deref(),
                Some(wanted)
            );
        }
    }
}
