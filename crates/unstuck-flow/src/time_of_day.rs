//! Parses a time of day: `02:00`, `2:05`, `23:59:59`.

use unstuck_core::time::Millis;

/// The result of parsing a time of day.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OfDay {
    /// It is this one, counted from midnight.
    Is(Millis),
    /// It looks like one that there is not.
    IsNone,
    /// It is something else.
    SomethingElse,
}

/// The message for a time of day that does not exist.
pub(crate) const NO_TIME_OF_DAY: &str = "is not a time of day: use `00:00` to `23:59`";

/// Parses a time of day. Tells an impossible one (`25:00`) apart from a text of another form.
pub(crate) fn parse_time_of_day(text: &str) -> OfDay {
    let parts: Vec<&str> = text.split(':').collect();
    let looks_right = matches!(parts.len(), 2 | 3)
        && parts.iter().all(|part| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    if !looks_right {
        return OfDay::SomethingElse;
    }
    let numbers: Vec<u64> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = (numbers[0], numbers[1], numbers.get(2).copied().unwrap_or(0));
    if hours >= 24 || minutes >= 60 || seconds >= 60 {
        return OfDay::IsNone;
    }
    OfDay::Is(Millis::seconds((hours * 60 + minutes) * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_hours_and_minutes() {
        let cases = [
            ("02:00", OfDay::Is(Millis(7_200_000))),
            ("2:05", OfDay::Is(Millis(7_500_000))),
            ("23:59:59", OfDay::Is(Millis(86_399_000))),
            ("24:00", OfDay::IsNone),
            ("12:60", OfDay::IsNone),
            ("2h", OfDay::SomethingElse),
            ("12", OfDay::SomethingElse),
            ("1:2:3:4", OfDay::SomethingElse),
            ("ab:cd", OfDay::SomethingElse),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_time_of_day(text), wanted, "{text}");
        }
    }
}
