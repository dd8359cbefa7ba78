//! An explanation as a page for a terminal of 80 columns: what to do stands last, next to the prompt.

use std::fmt;

use crate::explain::{Explanation, Next, UnitBecause};
use crate::reason::words::{clock, day, time_of_day, until};

const COLUMNS: usize = 80;
/// Longer names stand on a line of their own.
const LONGEST_NAME: usize = 16;
/// A time of day, `08:00:00`.
const CLOCK: usize = 8;
/// The longest state, `completed`.
const STATE: usize = 9;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        wrapped(f, "", "", &format!("{}.", self.headline))?;
        self.happened(f)?;
        self.because(f)?;
        self.next(f)?;
        self.can(f)
    }
}

impl Explanation {
    fn happened(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.happened.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat happened (UTC)")?;
        if self.earlier > 0 {
            writeln!(f, "  {:CLOCK$}  ... {} earlier", "", self.earlier)?;
        }
        let mut shown = (day(self.now), String::new());
        for (at, what) in &self.happened {
            let (today, clock) = (day(*at), time_of_day(*at));
            if today != shown.0 {
                writeln!(f, "  {today}")?;
            }
            let column = if (&today, &clock) == (&shown.0, &shown.1) { "" } else { &clock };
            wrapped(f, &format!("  {column:CLOCK$}  "), &" ".repeat(CLOCK + 4), what)?;
            shown = (today, clock);
        }
        Ok(())
    }

    /// The steps that matter one by one, the others by their state.
    fn because(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.because.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhere its steps are, and why")?;
        let (quiet, loud): (Vec<_>, Vec<_>) = self.because.iter().partition(|because| is_quiet(because));
        let names = loud.iter().map(|because| because.name.len()).filter(|length| *length <= LONGEST_NAME);
        let width = names.max().unwrap_or(LONGEST_NAME);
        for UnitBecause { name, state, why, .. } in loud {
            let rest = " ".repeat(2 + width + 2 + STATE + 2);
            if name.len() > width {
                writeln!(f, "  {name}")?;
                wrapped(f, &format!("  {:width$}  {state:STATE$}  ", ""), &rest, why)?;
            } else {
                wrapped(f, &format!("  {name:width$}  {state:STATE$}  "), &rest, why)?;
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
            wrapped(f, &format!("  {state}: "), "    ", &names.join(", "))?;
        }
        Ok(())
    }

    fn next(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat comes next")?;
        for Next { at, what } in &self.next {
            let text = match at {
                Some(at) => format!("{}, at {}: {what}", until(self.now, *at), clock(self.now, *at)),
                None => what.clone(),
            };
            wrapped(f, "  - ", "    ", &text)?;
        }
        Ok(())
    }

    fn can(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.can.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat you can do")?;
        for possible in &self.can {
            writeln!(f, "  {}", possible.command)?;
            wrapped(f, "      ", "      ", &possible.what)?;
        }
        Ok(())
    }
}

/// Whether a step needs no sentence of its own on the page.
fn is_quiet(because: &UnitBecause) -> bool {
    matches!(because.state, "completed" | "pending" | "skipped" | "dropped" | "cancelled")
}

/// A text in lines of at most 80 columns; words that are longer stay whole.
fn wrapped(f: &mut fmt::Formatter<'_>, first: &str, rest: &str, text: &str) -> fmt::Result {
    let mut line = first.to_owned();
    let mut length = line.chars().count();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if !is_empty && length + 1 + word_length > COLUMNS {
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
