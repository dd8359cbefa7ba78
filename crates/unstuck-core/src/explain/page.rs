//! Formats an explanation as a page for a terminal; what to do comes last, next to the prompt.

use std::fmt;

use jiff::tz::TimeZone;

use crate::explain::{Explanation, UnitReason, Upcoming};
use crate::reason::phrases::until;
use crate::time::Time;

/// The default and largest width of a page.
const COLUMNS: usize = 80;
/// Below this width, the state of a step stands above its reason.
const WIDE: usize = 60;
const NARROWEST: usize = 20;
/// Longer names stand on a line of their own.
const LONGEST_NAME: usize = 16;
/// A time of day, `08:00:00`.
const CLOCK: usize = 8;
/// The longest state, `completed`.
const STATE: usize = 9;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.page(COLUMNS).fmt(f)
    }
}

impl Explanation {
    /// Formats the page for a terminal of this width, at most [`COLUMNS`], with times in UTC.
    pub fn page(&self, columns: usize) -> impl fmt::Display {
        self.page_in(columns, TimeZone::UTC)
    }

    /// As [`Explanation::page`], with times in this zone.
    pub fn page_in(&self, columns: usize, zone: TimeZone) -> impl fmt::Display {
        Page { explanation: self, columns: columns.clamp(NARROWEST, COLUMNS), zone }
    }
}

/// An explanation for a terminal of this width.
struct Page<'a> {
    explanation: &'a Explanation,
    columns: usize,
    /// In which times are shown.
    zone: TimeZone,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_wrapped(f, "", "", &format!("{}.", self.explanation.headline))?;
        for note in &self.explanation.notes {
            self.write_wrapped(f, "", "", note)?;
        }
        self.write_happened(f)?;
        self.write_because(f)?;
        self.write_next(f)?;
        self.write_actions(f)
    }
}

impl Page<'_> {
    /// Writes the section about what happened; each line has its time, each new day its date.
    fn write_happened(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explanation.happened.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat happened ({})", self.format_time(self.explanation.now, "%Z"))?;
        if self.explanation.earlier > 0 {
            writeln!(f, "  {:CLOCK$}  ... {} left out", "", self.explanation.earlier)?;
        }
        let mut shown = (self.format_time(self.explanation.now, "%F"), String::new());
        for (at, what) in &self.explanation.happened {
            let (today, clock) = (self.format_time(*at, "%F"), self.format_time(*at, "%T"));
            if today != shown.0 {
                writeln!(f, "  {today}")?;
            }
            let column = if (&today, &clock) == (&shown.0, &shown.1) { "" } else { &clock };
            self.write_wrapped(
                f,
                &format!("  {column:CLOCK$}  "),
                &" ".repeat(if self.columns < WIDE { 4 } else { CLOCK + 4 }),
                what,
            )?;
            shown = (today, clock);
        }
        Ok(())
    }

    fn format_time(&self, at: Time, format: &str) -> String {
        at.timestamp().to_zoned(self.zone.clone()).strftime(format).to_string()
    }

    /// Formats a time of day, with its date unless it is today, and with the zone unless it is UTC.
    fn format_clock(&self, at: Time) -> String {
        let is_today = self.format_time(at, "%F") == self.format_time(self.explanation.now, "%F");
        let clock = self.format_time(at, if is_today { "%T" } else { "%F %T" });
        if self.zone == TimeZone::UTC { clock } else { format!("{clock} {}", self.format_time(at, "%Z")) }
    }

    /// Writes the section about steps: those that need attention with their reasons, the others grouped by state.
    fn write_because(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explanation.because.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhere its steps are, and why")?;
        let (quiet, loud): (Vec<_>, Vec<_>) =
            self.explanation.because.iter().partition(|because| is_quiet(because));
        let names = loud.iter().map(|because| because.name.len()).filter(|length| *length <= LONGEST_NAME);
        let width = names.max().unwrap_or(LONGEST_NAME);
        for alike in loud.chunk_by(|one, other| one.state == other.state && one.why == other.why) {
            let (Some(UnitReason { state, why, .. }), name) = (alike.first(), &range_of_names(alike)) else {
                continue;
            };
            if self.columns < WIDE {
                self.write_wrapped(f, "  ", "  ", &format!("{name}: {state}"))?;
                self.write_wrapped(f, "    ", "    ", why)?;
                continue;
            }
            let rest = " ".repeat(2 + width + 2 + STATE + 2);
            if name.len() > width {
                writeln!(f, "  {name}")?;
                self.write_wrapped(f, &format!("  {:width$}  {state:STATE$}  ", ""), &rest, why)?;
            } else {
                self.write_wrapped(f, &format!("  {name:width$}  {state:STATE$}  "), &rest, why)?;
            }
        }
        let mut states: Vec<&str> = Vec::new();
        for because in &quiet {
            if !states.contains(&because.state) {
                states.push(because.state);
            }
        }
        for state in states {
            let names: Vec<&str> =
                quiet.iter().filter(|because| because.state == state).map(|because| &*because.name).collect();
            self.write_wrapped(f, &format!("  {state}: "), "    ", &names.join(", "))?;
        }
        Ok(())
    }

    /// Writes the section about what comes next.
    fn write_next(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat comes next")?;
        for Upcoming { at, what } in &self.explanation.next {
            let text = match at {
                Some(at) => {
                    format!("{}, at {}: {what}", until(self.explanation.now, *at), self.format_clock(*at))
                }
                None => what.clone(),
            };
            self.write_wrapped(f, "  - ", "    ", &text)?;
        }
        Ok(())
    }

    /// Writes the section about what an operator can do.
    fn write_actions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explanation.can.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat you can do")?;
        for possible in &self.explanation.can {
            writeln!(f, "  {}", possible.command)?;
            self.write_wrapped(f, "      ", "      ", &possible.what)?;
        }
        Ok(())
    }

    /// Writes a text in lines that fit the page; words that are longer than a line stay whole.
    fn write_wrapped(&self, f: &mut fmt::Formatter<'_>, first: &str, rest: &str, text: &str) -> fmt::Result {
        let mut line = first.to_owned();
        let mut length = line.chars().count();
        let mut is_empty = true;
        for word in text.split_whitespace() {
            let word_length = word.chars().count();
            if !is_empty && length + 1 + word_length > self.columns {
                writeln!(f, "{}", line.trim_end())?;
                rest.clone_into(&mut line);
                length = rest.chars().count();
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
            is_empty = false;
        }
        writeln!(f, "{}", line.trim_end())
    }
}

/// Names a step, or a range of units that share a reason: `a[0] to a[9] (10)`.
fn range_of_names(alike: &[&UnitReason]) -> String {
    match alike {
        [first, .., last] => format!("{} to {} ({})", first.name, last.name, alike.len()),
        one => one.iter().map(|because| because.name.clone()).collect(),
    }
}

/// Returns whether a step needs no sentence of its own on the page.
fn is_quiet(because: &UnitReason) -> bool {
    matches!(because.state, "completed" | "pending" | "skipped" | "dropped" | "cancelled")
}
