//! Columns of text.

use crate::style::{self, Look};
use crate::text;

/// Rows of cells; each column is as wide as its widest cell, and the last one is cut where a terminal ends.
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

    /// The lines of it, for a terminal of so many columns.
    pub(crate) fn lines(&self, width: Option<usize>, look: Look) -> Vec<String> {
        let mut widths: Vec<usize> = self.head.iter().map(|title| text::columns(title)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(text::columns(&cell.text));
            }
        }
        let head: Vec<Cell> = self.head.iter().map(|title| Cell::styled(title.clone(), style::DIM)).collect();
        let has_head = self.head.iter().any(|title| !title.is_empty());
        let rows = has_head.then_some(&head).into_iter().chain(&self.rows);
        rows.map(|row| line(row, &widths, width, look)).collect()
    }
}

fn line(row: &[Cell], widths: &[usize], width: Option<usize>, look: Look) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (place, (cell, column)) in row.iter().zip(widths).enumerate() {
        let is_last = place + 1 == row.len();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(used));
        let shown = if is_last { text::cut(&cell.text, room, "...") } else { cell.text.clone() };
        if !shown.is_empty() {
            line += &look.paint(cell.style, &shown);
        }
        if !is_last {
            line += &" ".repeat(column - text::columns(&shown) + 2);
            used += column + 2;
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
        assert_eq!(table.lines(Some(30), Look::PLAIN)[1], "a     held       the bank d...");
    }
}
