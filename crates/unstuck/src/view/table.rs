//! Columns of text.

use crate::view::style::{self, Look};
use crate::view::text;

/// Rows of cells; each column is as wide as its widest cell, and the last one is broken where a terminal ends.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// A cell: what it says, and how.
pub(crate) struct Cell {
    text: String,
    style: anstyle::Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Cell {
        Cell::styled(text, anstyle::Style::new())
    }

    pub(crate) fn styled(text: impl Into<String>, style: anstyle::Style) -> Cell {
        let one_line: Vec<String> = text.into().split_whitespace().map(text::visible).collect();
        Cell { text: one_line.join(" "), style }
    }
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Formats the table for a terminal of this width. The last column is wrapped, never cut, because it holds what the
    /// list is read for. Where even the other columns do not fit, each row becomes a small block.
    pub(crate) fn lines(&self, width: Option<usize>, look: Look) -> Vec<String> {
        let widths = self.widths();
        let head: Vec<Cell> = self.head.iter().map(|title| Cell::styled(title.clone(), style::DIM)).collect();
        let has_head = self.head.iter().any(|title| !title.is_empty());
        let rows = has_head.then_some(&head).into_iter().chain(&self.rows);
        let (last, others) = widths.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
        let others = others.iter().map(|width| width + GAP).sum::<usize>();
        match width {
            Some(width) if others.saturating_sub(GAP) > width => {
                self.rows.iter().flat_map(|row| self.format_card(row, width, look)).collect()
            }
            Some(width) if others + last > width => {
                let room = width.saturating_sub(others);
                let fits = room >= NARROWEST || last <= room;
                let indent = if fits { others } else { INDENT };
                rows.flat_map(|row| wrap_row(row, &widths, (indent, fits), width, look)).collect()
            }
            Some(_) | None => rows.map(|row| format_row(row, &widths, look)).collect(),
        }
    }

    /// Returns how many rows there are, without the titles.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Formats the first rows for a screen that is drawn again and again: one line each, cut where the terminal ends. Titles are left out.
    pub(crate) fn screen_lines(&self, most: usize, width: Option<usize>, look: Look) -> Vec<String> {
        let widths = self.widths();
        let ellipsis = if look.unicode { "\u{2026}" } else { "..." };
        let lines = self.rows.iter().take(most).map(|row| match width {
            Some(width) => format_row(&cut_row(row, &widths, width, ellipsis), &widths, look),
            None => format_row(row, &widths, look),
        });
        lines.collect()
    }

    /// Returns the width of the widest cell of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|title| text::columns(title)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(text::columns(&cell.text));
            }
        }
        widths
    }

    /// Formats a row as a block: its name, the other columns with their titles, then the last one.
    fn format_card(&self, row: &[Cell], width: usize, look: Look) -> Vec<String> {
        let [name, others @ .., last] = row else {
            return row.iter().map(|cell| cell.text.clone()).collect();
        };
        let mut titles = self.head.iter().map(|title| unit_of(title));
        let (_, unit) = titles.next().unwrap_or_default();
        let name = format!("{} {unit}", name.text);
        let mut lines: Vec<String> =
            text::wrap(name.trim_end(), width).iter().map(|line| look.paint(style::BOLD, line)).collect();
        let rest = others.iter().filter_map(|cell| {
            let (title, unit) = titles.next().unwrap_or_default();
            let title = title.to_lowercase();
            (!cell.text.is_empty()).then(|| format!("{title} {} {unit}", cell.text).trim().to_owned())
        });
        let rest: Vec<String> = rest.collect();
        lines.extend(
            wrap_indented(&rest.join(", "), 2, width).iter().map(|line| look.paint(style::DIM, line)),
        );
        lines
            .extend(wrap_indented(&last.text, INDENT, width).iter().map(|line| look.paint(last.style, line)));
        lines
    }
}

/// Splits a title such as `SINCE (CET)` into the title and its unit, which goes with each value.
fn unit_of(title: &str) -> (&str, &str) {
    title.strip_suffix(')').and_then(|title| title.split_once(" (")).unwrap_or((title, ""))
}

/// Between two columns.
const GAP: usize = 2;
/// A last column that is narrower than this goes below the others.
const NARROWEST: usize = 24;
const INDENT: usize = 4;
/// How many lines of one cell are shown.
const MOST_LINES: usize = 8;

/// Formats a row with the last cell wrapped, in its column or below the others.
fn wrap_row(
    row: &[Cell],
    widths: &[usize],
    (indent, in_column): (usize, bool),
    width: usize,
    look: Look,
) -> Vec<String> {
    let Some((last, others)) = row.split_last() else { return Vec::new() };
    let mut said = wrap_indented(&last.text, indent, width);
    let first = if in_column && !said.is_empty() { said.remove(0) } else { String::new() };
    let mut start: Vec<Cell> =
        others.iter().map(|cell| Cell { text: cell.text.clone(), style: cell.style }).collect();
    start.push(Cell { text: first.trim_start().to_owned(), style: last.style });
    let mut lines = vec![format_row(&start, widths, look)];
    lines.extend(said.iter().map(|said| look.paint(last.style, said)));
    lines
}

/// Wraps a text with an indent, and cuts it after [`MOST_LINES`].
fn wrap_indented(text: &str, indent: usize, width: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let room = width.saturating_sub(indent).max(1);
    let mut lines = text::wrap(text, room);
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        if let Some(last) = lines.last_mut() {
            *last = text::cut(&format!("{last} ....."), room, "...");
        }
    }
    lines.into_iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
}

/// Returns the cells of a row that fit, the last of them cut.
fn cut_row(row: &[Cell], widths: &[usize], width: usize, ellipsis: &str) -> Vec<Cell> {
    let mut begins = 0;
    let mut cells = Vec::new();
    for (cell, column) in row.iter().zip(widths) {
        if begins >= width {
            break;
        }
        cells.push(Cell { text: text::cut(&cell.text, width - begins, ellipsis), style: cell.style });
        begins += column + GAP;
    }
    cells
}

/// Formats a row with padded columns.
fn format_row(row: &[Cell], widths: &[usize], look: Look) -> String {
    let mut line = String::new();
    for (place, (cell, column)) in row.iter().zip(widths).enumerate() {
        if !cell.text.is_empty() {
            line += &look.paint(cell.style, &cell.text);
        }
        if place + 1 < row.len() {
            line += &" ".repeat(column.saturating_sub(text::columns(&cell.text)) + GAP);
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["RUN", "STATE", ""]);
        table.row(vec![Cell::new("a"), Cell::new("held"), Cell::new("the bank\ndid \u{1b} not answer")]);
        table.row(vec![Cell::new("long"), Cell::new("completed"), Cell::new("")]);
        let wanted = ["RUN   STATE", "a     held       the bank did \u{fffd} not answer", "long  completed"];
        assert_eq!(table.lines(None, Look::PLAIN), wanted);
    }

    #[test]
    fn on_a_screen_a_row_is_one_line() {
        let mut table = Table::new(&["", "", ""]);
        table.row(vec![Cell::new("in 5s"), Cell::new("run_1"), Cell::new("policy `resets` resumes `one`")]);
        table.row(vec![Cell::new("in 1h 2m"), Cell::new("run_2"), Cell::new("")]);
        let cases: [(usize, usize, &[&str]); 5] = [
            (9, 80, &["in 5s     run_1  policy `resets` resumes `one`", "in 1h 2m  run_2"]),
            (1, 30, &["in 5s     run_1  policy `rese…"]),
            (9, 12, &["in 5s     r…", "in 1h 2m  r…"]),
            (9, 4, &["in…", "in…"]),
            (0, 80, &[]),
        ];
        for (most, width, wanted) in cases {
            assert_eq!(table.screen_lines(most, Some(width), Look::PLAIN), wanted, "in {width}");
        }
        assert_eq!(table.screen_lines(9, None, Look::PLAIN), cases[0].2);
    }

    #[test]
    fn the_last_column_is_never_cut() {
        let mut table = Table::new(&["RUN", "STATE", "CAUSE"]);
        table.row(vec![Cell::new("run_1"), Cell::new("held"), Cell::new("the bank did not answer in time")]);
        table.row(vec![Cell::new("run_2"), Cell::new("completed"), Cell::new("")]);
        let cases: [(usize, &[&str]); 4] = [
            (
                60,
                &[
                    "RUN    STATE      CAUSE",
                    "run_1  held       the bank did not answer in time",
                    "run_2  completed",
                ],
            ),
            (
                44,
                &[
                    "RUN    STATE      CAUSE",
                    "run_1  held       the bank did not answer in",
                    "                  time",
                    "run_2  completed",
                ],
            ),
            (
                30,
                &[
                    "RUN    STATE",
                    "    CAUSE",
                    "run_1  held",
                    "    the bank did not answer in",
                    "    time",
                    "run_2  completed",
                ],
            ),
            (
                12,
                &[
                    "run_1",
                    "  state held",
                    "    the bank",
                    "    did not",
                    "    answer",
                    "    in time",
                    "run_2",
                    "  state",
                    "  completed",
                ],
            ),
        ];
        for (width, wanted) in cases {
            assert_eq!(table.lines(Some(width), Look::PLAIN), wanted, "in {width}");
        }
        let mut times = Table::new(&["WHEN (CET)", "WHO", "NEXT (CET)", "CAUSE"]);
        times.row(vec![Cell::new("14:03:10"), Cell::new("ada"), Cell::new("15:00:00"), Cell::new("reset")]);
        let narrow = times.lines(Some(18), Look::PLAIN);
        assert_eq!(
            narrow,
            ["14:03:10 CET", "  who ada, next", "  15:00:00 CET", "    reset"],
            "the zone stays"
        );
        let mut endless = Table::new(&["RUN", "CAUSE"]);
        endless.row(vec![Cell::new("a"), Cell::new("word ".repeat(1_000))]);
        let lines = endless.lines(Some(40), Look::PLAIN);
        assert_eq!((lines.len(), lines[8].ends_with("...")), (MOST_LINES + 1, true), "{lines:?}");
    }
}
