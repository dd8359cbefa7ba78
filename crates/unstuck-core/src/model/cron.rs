//! Times by a cron expression: five fields, as in a crontab, on the clocks of a time zone.

use std::fmt;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::model::time_of_day::instants_of;
use crate::time::Time;

/// A cron expression: `minute hour day-of-month month day-of-week`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: Arc<str>,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    /// From Sunday, which is 0.
    weekdays: Field,
}

/// Why a text is no cron expression, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCron {
    pub message: String,
    pub hint: &'static str,
}

/// The values of one field, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether it was written as `*` or `*/n`: then it does not restrict what another field says of days.
    is_star: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }

    fn values(self) -> impl Iterator<Item = i8> {
        (0..60).filter(move |value| self.has(*value))
    }
}

/// What a field is called, its lowest and its highest value, and the names of its values from the lowest on.
struct FieldKind {
    name: &'static str,
    lowest: u8,
    highest: u8,
    names: &'static [&'static str],
}

const MINUTE: FieldKind = FieldKind { name: "minute", lowest: 0, highest: 59, names: &[] };
const HOUR: FieldKind = FieldKind { name: "hour", lowest: 0, highest: 23, names: &[] };
const DAY: FieldKind = FieldKind { name: "day of the month", lowest: 1, highest: 31, names: &[] };
const MONTH: FieldKind = FieldKind {
    name: "month",
    lowest: 1,
    highest: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// 7 is Sunday too.
const WEEKDAY: FieldKind = FieldKind {
    name: "day of the week",
    lowest: 0,
    highest: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The days of each month, in a leap year.
const MONTH_DAYS: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The expressions that have names.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const FIVE_FIELDS: &str = "write minute, hour, day of the month, month and day of the week, for example `0 3 * * *` for every day at 03:00";

/// A 29th of February that falls on one day of the week can be 40 years away. Months without a time are passed over.
const MAX_DAYS: usize = 50 * 366;

impl Cron {
    /// Reads an expression. Refused is also one that no day fits.
    pub fn parse(text: &str) -> Result<Cron, BadCron> {
        let text = text.trim();
        let named = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if text.starts_with('@') && named.is_none() {
            let message = format!("`{}` is not a named schedule", shortened(text));
            let hint = "use `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`, or five fields";
            return Err(BadCron { message, hint });
        }
        let fields: Vec<&str> = named.map_or(text, |(_, fields)| fields).split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            let count = fields.len();
            let message = format!("a cron expression has five fields, not {count}");
            let hint = if count == 6 || count == 7 {
                "seconds and years are not supported: leave them out, or use `every` for intervals below a minute"
            } else {
                FIVE_FIELDS
            };
            return Err(BadCron { message, hint });
        };
        let mut weekdays = read_field(weekday, &WEEKDAY)?;
        // Sunday has two numbers.
        weekdays.bits = (weekdays.bits | weekdays.bits >> 7) & 0x7f;
        let cron = Cron {
            text: fields.join(" ").into(),
            minutes: read_field(minute, &MINUTE)?,
            hours: read_field(hour, &HOUR)?,
            days: read_field(day, &DAY)?,
            months: read_field(month, &MONTH)?,
            weekdays,
        };
        if cron.fits_a_day() {
            return Ok(cron);
        }
        let message = format!("`{}` never fires: no such month has such a day", cron.text);
        Err(BadCron { message, hint: "check the day of the month and the month" })
    }

    /// Lists the times after `after`, in order. Where clocks are set forward, what they skip comes once, at the end of the
    /// gap. Where they are set back, what they show twice comes the first time; with `*` for the hour, which means
    /// throughout the day, both times.
    pub fn times(&self, after: Time, rules: &TimeZone) -> CronTimes {
        let date = after.timestamp().to_zoned(rules.clone()).date();
        let (cron, rules) = (self.clone(), rules.clone());
        CronTimes { cron, rules, after, date: date.yesterday().ok(), found: Vec::new() }
    }

    fn fits_a_day(&self) -> bool {
        let is_in_month = |month: i8| {
            (1..=MONTH_DAYS[usize::try_from(month - 1).unwrap_or(0)]).any(|day| self.days.has(day))
        };
        let either = !self.days.is_star && !self.weekdays.is_star;
        either || self.months.values().any(is_in_month)
    }

    /// Where both kinds of days are restricted, either is enough, as in every crontab.
    fn fits(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let (day, weekday) = (self.days.has(date.day()), self.weekdays.has(weekday));
        let fits_days =
            if self.days.is_star || self.weekdays.is_star { day && weekday } else { day || weekday };
        self.months.has(date.month()) && fits_days
    }

    /// The times of one day after `after`, the latest first.
    fn times_on(&self, date: Date, rules: &TimeZone, after: Time) -> Vec<Time> {
        if !self.fits(date) {
            return Vec::new();
        }
        let mut times = Vec::new();
        for hour in self.hours.values() {
            for minute in self.minutes.values() {
                let Some((first, second)) = instants_of(rules, date.at(hour, minute, 0, 0)) else { continue };
                times.push(first);
                times.extend(second.filter(|_| self.hours.is_star));
            }
        }
        times.retain(|at| *at > after);
        times.sort_unstable_by(|one, other| other.cmp(one));
        times.dedup();
        times
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The times of a cron expression, in order: see [`Cron::times`].
#[derive(Clone, Debug)]
pub struct CronTimes {
    cron: Cron,
    rules: TimeZone,
    /// The last one that was given.
    after: Time,
    /// The day to look at next; none after the end of the calendar.
    date: Option<Date>,
    /// Of the day before it, the latest first.
    found: Vec<Time>,
}

impl Iterator for CronTimes {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        for _ in 0..MAX_DAYS {
            if let Some(next) = self.found.pop() {
                // The end of a gap may be the first time of the next day.
                if next > self.after {
                    self.after = next;
                    return Some(next);
                }
                continue;
            }
            let date = self.date?;
            if self.cron.months.has(date.month()) {
                self.found = self.cron.times_on(date, &self.rules, self.after);
                self.date = date.tomorrow().ok();
            } else {
                self.date = date.last_of_month().tomorrow().ok();
            }
        }
        None
    }
}

fn read_field(text: &str, kind: &FieldKind) -> Result<Field, BadCron> {
    let mut bits = 0;
    for part in text.split(',') {
        bits |= read_part(part, text, kind)?;
    }
    Ok(Field { bits, is_star: text.starts_with('*') })
}

/// Reads `*`, a value or a range, each with or without a step.
fn read_part(part: &str, field: &str, kind: &FieldKind) -> Result<u64, BadCron> {
    let bad = |hint: &'static str| BadCron {
        message: format!("`{}` cannot be the {} of a cron expression", shortened(field), kind.name),
        hint,
    };
    let (range, step) = match part.split_once('/') {
        None => (part, None),
        Some((range, step)) => {
            let step = step.parse::<u8>().ok().filter(|step| (1..=kind.highest).contains(step));
            (range, Some(step.ok_or_else(|| bad("a step is a whole number above zero, for example `*/15`"))?))
        }
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (kind.lowest, if kind.highest == 7 { 6 } else { kind.highest }),
        None => {
            let first = read_value(range, kind).ok_or_else(|| bad(allowed(kind)))?;
            (first, if step.is_some() { kind.highest } else { first })
        }
        Some((first, last)) => {
            let value = |text| read_value(text, kind).ok_or_else(|| bad(allowed(kind)));
            (value(first)?, value(last)?)
        }
    };
    if first > last {
        return Err(bad(
            "a range goes from the lower to the higher value; join two with a comma, for example `5-6,0-1`",
        ));
    }
    let values = (first..=last).step_by(usize::from(step.unwrap_or(1)));
    Ok(values.fold(0, |bits, value| bits | 1 << value))
}

fn read_value(text: &str, kind: &FieldKind) -> Option<u8> {
    let named = kind.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let named = named.and_then(|place| u8::try_from(place).ok()).map(|place| place + kind.lowest);
    let is_number = !text.is_empty() && text.len() <= 2 && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = || text.parse().ok().filter(|_| is_number);
    named.or_else(number).filter(|value| (kind.lowest..=kind.highest).contains(value))
}

fn allowed(kind: &FieldKind) -> &'static str {
    match kind.name {
        "minute" => "use `*`, 0 to 59, a range `0-29`, a list `0,30` or a step `*/15`",
        "hour" => "use `*`, 0 to 23, a range `9-17`, a list `6,18` or a step `*/6`",
        "day of the month" => "use `*`, 1 to 31, a range `1-7`, a list `1,15` or a step `*/2`",
        "month" => "use `*`, 1 to 12 or JAN to DEC, a range `APR-SEP`, a list `1,7` or a step `*/3`",
        _ => "use `*`, 0 (Sunday) to 6 or SUN to SAT, a range `MON-FRI` or a list `1,4`",
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::parse_instant;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn times(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let rules = if zone == "UTC" { TimeZone::UTC } else { TimeZone::posix(zone).expect("rules") };
        let after = parse_instant(after).expect("an instant");
        let cron = Cron::parse(cron).unwrap_or_else(|bad| panic!("{cron}: {}", bad.message));
        let minute = |at: Time| at.to_string().replace(":00.000Z", "");
        cron.times(after, &rules).take(count).map(minute).collect()
    }

    #[test]
    fn times_come_in_order_and_never_at_the_moment_itself() {
        let cases: [(&str, &str, &[&str]); 14] = [
            ("0 3 * * *", "2026-01-10T02:59:59Z", &["2026-01-10T03:00", "2026-01-11T03:00"]),
            ("0 3 * * *", "2026-01-10T03:00:00Z", &["2026-01-11T03:00", "2026-01-12T03:00"]),
            (
                "*/20 * * * *",
                "2026-01-10T23:30:00Z",
                &["2026-01-10T23:40", "2026-01-11T00:00", "2026-01-11T00:20"],
            ),
            (
                "5,35 9-10 * * *",
                "2026-01-10T09:10:00Z",
                &["2026-01-10T09:35", "2026-01-10T10:05", "2026-01-10T10:35"],
            ),
            (
                "10/25 0 * * *",
                "2026-01-10T00:00:00Z",
                &["2026-01-10T00:10", "2026-01-10T00:35", "2026-01-11T00:10"],
            ),
            ("0 0 31 * *", "2026-01-31T00:00:00Z", &["2026-03-31T00:00", "2026-05-31T00:00"]),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", &["2028-02-29T00:00", "2032-02-29T00:00"]),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", &["2104-02-29T00:00"]),
            ("0 8 * * MON-FRI", "2026-01-09T08:00:00Z", &["2026-01-12T08:00", "2026-01-13T08:00"]),
            ("0 8 * * 7", "2026-01-09T08:00:00Z", &["2026-01-11T08:00", "2026-01-18T08:00"]),
            ("0 8 * * sun,Sat", "2026-01-09T08:00:00Z", &["2026-01-10T08:00", "2026-01-11T08:00"]),
            // Either kind of day is enough where both are restricted.
            ("0 0 13 * FRI", "2026-02-07T00:00:00Z", &["2026-02-13T00:00", "2026-02-20T00:00"]),
            ("0 0 1 JAN-MAR/2 *", "2026-01-01T00:00:00Z", &["2026-03-01T00:00", "2027-01-01T00:00"]),
            ("@weekly", "2026-01-10T00:00:00Z", &["2026-01-11T00:00", "2026-01-18T00:00"]),
        ];
        for (cron, after, wanted) in cases {
            assert_eq!(times(cron, "UTC", after, wanted.len()), wanted, "{cron} after {after}");
        }
    }

    #[test]
    fn what_clocks_skip_or_show_twice_comes_once() {
        let cases: [(&str, &str, &[&str]); 7] = [
            // Clocks are set forward from 02:00 to 03:00 in the night to the 29th: 02:30 comes at 03:00.
            ("30 2 * * *", "2026-03-28T12:00:00Z", &["2026-03-29T01:00", "2026-03-30T00:30"]),
            ("0 2,3 * * *", "2026-03-28T12:00:00Z", &["2026-03-29T01:00", "2026-03-30T00:00"]),
            (
                "*/30 * * * *",
                "2026-03-29T00:10:00Z",
                &["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"],
            ),
            // They are set back from 03:00 to 02:00 in the night to the 25th: 02:30 comes the first time.
            ("30 2 * * *", "2026-10-24T12:00:00Z", &["2026-10-25T00:30", "2026-10-26T01:30"]),
            ("30 2 * * *", "2026-10-25T00:30:00Z", &["2026-10-26T01:30"]),
            (
                "*/30 2 * * *",
                "2026-10-24T12:00:00Z",
                &["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-26T01:00"],
            ),
            // With `*` for the hour it goes on through the hour that comes twice.
            (
                "30 * * * *",
                "2026-10-25T00:00:00Z",
                &["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"],
            ),
        ];
        for (cron, after, wanted) in cases {
            assert_eq!(times(cron, BERLIN, after, wanted.len()), wanted, "{cron} after {after}");
        }
    }

    #[test]
    fn nothing_comes_after_the_end_of_the_calendar() {
        let cron = Cron::parse("0 3 * * *").expect("an expression");
        assert_eq!(cron.times(Time(i64::MAX), &TimeZone::UTC).next(), None);
    }

    #[test]
    fn a_mistake_is_refused_with_what_to_write() {
        let cases = [
            ("", "a cron expression has five fields, not 0", "for example `0 3 * * *`"),
            ("0 3 * *", "five fields, not 4", "for example `0 3 * * *`"),
            ("0 0 3 * * *", "five fields, not 6", "seconds and years are not supported"),
            ("60 3 * * *", "`60` cannot be the minute", "0 to 59"),
            ("0 24 * * *", "`24` cannot be the hour", "0 to 23"),
            ("0 0 0 * *", "`0` cannot be the day of the month", "1 to 31"),
            ("0 0 1 13 *", "`13` cannot be the month", "JAN to DEC"),
            ("0 0 * * FUN", "`FUN` cannot be the day of the week", "MON-FRI"),
            ("0 0 * * FRI-MON", "`FRI-MON` cannot be the day of the week", "from the lower to the higher"),
            ("*/0 * * * *", "`*/0` cannot be the minute", "a step is a whole number above zero"),
            ("*/x * * * *", "`*/x` cannot be the minute", "a step is a whole number above zero"),
            ("0 0 L * *", "`L` cannot be the day of the month", "1 to 31"),
            ("1,, 0 * * *", "`1,,` cannot be the minute", "0 to 59"),
            ("+1 0 * * *", "`+1` cannot be the minute", "0 to 59"),
            ("0 0 30 2 *", "`0 0 30 2 *` never fires", "check the day of the month"),
            ("0 0 31 4,6,9,11 *", "never fires", "check the day of the month"),
            ("@reboot", "`@reboot` is not a named schedule", "`@hourly`"),
        ];
        for (text, message, hint) in cases {
            let bad = Cron::parse(text).expect_err(text);
            assert!(bad.message.contains(message), "{text}: {}", bad.message);
            assert!(bad.hint.contains(hint), "{text}: {}", bad.hint);
        }
        assert!(Cron::parse(&"9".repeat(10_000)).expect_err("too long").message.len() < 200);
    }
}
