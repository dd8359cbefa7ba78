//! Formats problems of files with the line they are on.

use std::fmt;

use unstuck_flow::{Problem, Severity};

use crate::view::style::{self, Look};
use crate::view::text;

/// How much of a line is shown.
const LONGEST_LINE: usize = 100;

/// A problem with its place, the line that it is on, and what to do:
///
/// ```text
/// error: there is no field `timout`
///   --> flows/nightly.yaml:7:5
///   |
/// 7 |     timout: 5s
///   |     ^^^^^^
///   = field: steps.fetch.timout
///   = hint: did you mean `timeout`?
/// ```
pub(crate) fn format_problem(problem: &Problem, source: &str, look: Look) -> String {
    let (word, colour) = match problem.severity {
        Severity::Error => ("error:", style::BAD),
        Severity::Warning => ("warning:", style::LATER),
    };
    let number = problem.line.to_string();
    let margin = " ".repeat(number.len());
    let place = format!("{}:{}:{}", problem.file, problem.line, problem.column);
    let mut lines = vec![
        format!("{} {}", look.paint(colour, word), look.paint(style::BOLD, &problem.message)),
        format!("{margin}{} {}", look.paint(style::DIM, "-->"), look.paint(style::DIM, place)),
    ];
    let bar = look.paint(style::DIM, "|");
    let line = problem.line.checked_sub(1).and_then(|line| source.lines().nth(line as usize));
    if let Some(Excerpt { line, before, caret }) = line.and_then(|line| excerpt_around(line, problem.column))
    {
        lines.push(format!("{margin} {bar}"));
        lines.push(format!("{} {bar} {}", look.paint(style::DIM, number), text::visible(&line)));
        let caret = look.paint(colour, "^".repeat(caret));
        lines.push(format!("{margin} {bar} {}{caret}", " ".repeat(before)));
    }
    let field = Some(&problem.field).filter(|field| !field.is_empty());
    for (name, text) in [("field", field), ("hint", problem.hint.as_ref())] {
        let name = look.paint(style::DIM, format!("= {name}:"));
        lines.extend(text.map(|text| format!("{margin} {name} {}", text::visible(text))));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A piece of a line, and where in it the caret goes, in columns.
struct Excerpt {
    line: String,
    before: usize,
    caret: usize,
}

/// Returns the part of a line around a column, which counts characters from 1. Nothing for an empty line.
fn excerpt_around(line: &str, column: u32) -> Option<Excerpt> {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line).replace('\t', " ");
    if line.trim().is_empty() {
        return None;
    }
    let characters: Vec<char> = line.chars().collect();
    let at = (column.saturating_sub(1) as usize).min(characters.len());
    // A long line is shown from a little before the column.
    let start = if characters.len() <= LONGEST_LINE { 0 } else { at.saturating_sub(LONGEST_LINE / 2) };
    let end = characters.len().min(start + LONGEST_LINE);
    let word = characters[at..end].iter().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let word: String = word.collect();
    let text = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
    let (left, right) = (if start > 0 { "…" } else { "" }, if end < characters.len() { "…" } else { "" });
    Some(Excerpt {
        line: format!("{left}{}{right}", text(start, end)),
        before: text::columns(left) + text::columns(&text(start, at)),
        caret: text::columns(&word).max(1),
    })
}

/// How many problems there are of each severity: `2 errors, 1 warning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
}

impl Counts {
    pub(crate) fn of(problems: &[Problem]) -> Counts {
        let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
        Counts { errors: count(Severity::Error), warnings: count(Severity::Warning) }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.errors, "error"), (self.warnings, "warning")];
        let counts = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| number_of(n, word));
        f.write_str(&counts.collect::<Vec<_>>().join(", "))
    }
}

/// `1 flow`, `2 flows`.
pub(crate) fn number_of(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: u32, column: u32) -> Problem {
        Problem {
            file: "a.yaml".to_owned(),
            line,
            column,
            field: "steps.one.timout".to_owned(),
            message: "there is no field `timout`".to_owned(),
            hint: Some("did you mean `timeout`?".to_owned()),
            severity: Severity::Error,
        }
    }

    #[test]
    fn a_problem_is_shown_with_its_line_and_a_caret_under_the_place() {
        let source = "flow: a\nsteps:\n  - id: one\n    timout: 5s\n";
        let wanted = "\
error: there is no field `timout`
 --> a.yaml:4:5
  |
4 |     timout: 5s
  |     ^^^^^^
  = field: steps.one.timout
  = hint: did you mean `timeout`?
";
        assert_eq!(format_problem(&problem(4, 5), source, Look::PLAIN), wanted);
    }

    #[test]
    fn the_caret_stands_under_the_place_whatever_the_line_is() {
        let long = format!("{}here: it is{}", "x".repeat(300), "y".repeat(300));
        let cases = [
            ("a: b", 1, "a: b", "^"),
            ("a: b", 4, "a: b", "   ^"),
            ("a:\tb", 4, "a: b", "   ^"),
            ("漢: b", 4, "漢: b", "    ^"),
            ("a: b", 99, "a: b", "    ^"),
            ("a: b", 0, "a: b", "^"),
        ];
        for (line, column, shown, caret) in cases {
            let found = excerpt_around(line, column).expect("something is shown");
            assert_eq!(found.line, shown);
            assert_eq!(
                format!("{}{}", " ".repeat(found.before), "^".repeat(found.caret)),
                caret,
                "{line} {column}"
            );
        }
        let found = excerpt_around(&long, 301).expect("something is shown");
        assert!(text::columns(&found.line) <= LONGEST_LINE + 2, "{}", found.line);
        let under: String = found.line.chars().skip(found.before).take(found.caret).collect();
        assert_eq!(under, "here");
    }

    #[test]
    fn a_place_outside_of_the_file_is_still_named() {
        for line in [0, 1, 9] {
            let shown = format_problem(&problem(line, 1), "", Look::PLAIN);
            assert!(shown.contains(&format!("a.yaml:{line}:1")) && !shown.contains('^'), "{shown}");
        }
    }

    #[test]
    fn problems_are_counted() {
        let warning = Problem { severity: Severity::Warning, ..problem(1, 1) };
        let cases = [
            (vec![problem(1, 1)], "1 error"),
            (vec![problem(1, 1), problem(2, 1), warning.clone()], "2 errors, 1 warning"),
            (vec![warning], "1 warning"),
        ];
        for (problems, wanted) in cases {
            assert_eq!(Counts::of(&problems).to_string(), wanted);
        }
    }
}
