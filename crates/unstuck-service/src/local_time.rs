//! Times as people read them: in the local time zone, with its name. JSON has them in UTC.

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unstuck_core::time::Time;

use crate::service;

/// Returns the zone of `TZ`, else of the machine, else UTC.
pub fn local_zone() -> TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    let zone = ZONE.get_or_init(|| match TimeZone::try_system() {
        Ok(zone) if !zone.is_unknown() => zone,
        Ok(_) | Err(_) => TimeZone::UTC,
    });
    zone.clone()
}

/// Formats a time in the local zone by a pattern of `strftime`.
fn format_local(at: Timestamp, format: &str) -> String {
    at.to_zoned(local_zone()).strftime(format).to_string()
}

/// `2026-11-17 14:03:10 CET`.
pub fn format_full(at: Timestamp) -> String {
    format_local(at, "%F %T %Z")
}

/// `2026-11-17 14:03:10 CET (2m ago)`, or `(in 5m 3s)`.
pub fn format_full_and_relative(at: Timestamp) -> String {
    format!("{} ({})", format_full(at), format_relative(at))
}

/// Formats a time relative to now: `2m ago`, `in 5m 3s`, or `now`.
pub fn format_relative(at: Timestamp) -> String {
    let (at, now) = (Time(at.as_millisecond()), service::now());
    match at.0.cmp(&now.0) {
        std::cmp::Ordering::Less => format!("{} ago", now.since(at)),
        std::cmp::Ordering::Equal => "now".to_owned(),
        std::cmp::Ordering::Greater => format!("in {}", at.since(now)),
    }
}

/// `2026-11-17 CET`.
pub fn format_day(at: Timestamp) -> String {
    format_local(at, "%F %Z")
}

/// `14:03:10.250`.
pub fn format_clock(at: Timestamp) -> String {
    format_local(at, "%T%.3f")
}

/// A column of times: the title names the zone where all of them share one, and else each time does. They differ where
/// clocks were set for the summer in between.
pub struct Column {
    zone: Option<String>,
}

impl Column {
    /// Finds out whether all times of a column share one zone.
    pub fn of(times: impl IntoIterator<Item = Timestamp>) -> Column {
        let mut zones: Vec<String> = times.into_iter().map(|at| format_local(at, "%Z")).collect();
        zones.sort_unstable();
        zones.dedup();
        Column { zone: if zones.len() == 1 { zones.pop() } else { None } }
    }

    /// `SINCE (CET)`.
    pub fn title(&self, title: &str) -> String {
        match &self.zone {
            Some(zone) => format!("{title} ({zone})"),
            None => title.to_owned(),
        }
    }

    /// `2026-11-17 14:03:10`, with the zone where the title has none.
    pub fn cell(&self, at: Timestamp) -> String {
        format_local(at, if self.zone.is_some() { "%F %T" } else { "%F %T %Z" })
    }

    /// `14:03:10`, for a second time on the same line.
    pub fn time_of_day(&self, at: Timestamp) -> String {
        format_local(at, if self.zone.is_some() { "%T" } else { "%T %Z" })
    }
}
