//! A terminal with a block at the bottom that is redrawn in place while lines scroll by above it.

use crate::view::output::Output;
use crate::view::text;

/// Lines that go into the scrollback, and a block below them that is redrawn.
pub(super) struct Screen {
    output: Output,
    /// The columns of each row of the block that is on the screen.
    drawn: Vec<usize>,
}

/// A row of the block: what it says, and the same with colours.
pub(super) struct Row {
    pub(super) columns: usize,
    pub(super) painted: String,
}

impl Screen {
    pub(super) fn new(output: Output) -> Screen {
        Screen { output, drawn: Vec::new() }
    }

    /// Writes lines above the block and redraws the block, in one write to avoid flicker.
    pub(super) fn draw(&mut self, width: usize, above: &[String], block: Vec<Row>) {
        let frame = render_frame(&self.drawn, width, above, &block);
        self.output.text(&frame);
        self.drawn = block.into_iter().map(|row| row.columns).collect();
    }

    /// Leaves the block as it is; further output goes below it.
    pub(super) fn finish(self) -> Output {
        self.output
    }
}

/// Builds the text that replaces the rows `drawn` on a terminal of this width and leaves the cursor below them.
fn render_frame(drawn: &[usize], width: usize, above: &[String], block: &[Row]) -> String {
    const BEGIN: &str = "\u{1b}[?2026h";
    const END: &str = "\u{1b}[?2026l";
    const CLEAR_LINE: &str = "\u{1b}[2K";
    const CLEAR_BELOW: &str = "\u{1b}[J";
    // A terminal that became narrower has wrapped rows that no longer fit.
    let up: usize = drawn.iter().map(|columns| columns.div_ceil(width).max(1)).sum();
    let up = if up == 0 { String::new() } else { format!("\u{1b}[{up}A") };
    let mut text = format!("{BEGIN}\r{up}");
    for line in above.iter().chain(block.iter().map(|row| &row.painted)) {
        text += CLEAR_LINE;
        text += line;
        text += "\r\n";
    }
    text + CLEAR_BELOW + END
}

impl Row {
    /// A row of one text without colours, cut where the terminal ends.
    pub(super) fn new(line: &str, width: usize, ellipsis: &str) -> Row {
        let painted = text::cut(&text::visible(line), width, ellipsis);
        Row { columns: text::columns(&painted), painted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row::new(text, 80, "…")
    }

    #[test]
    fn a_frame_replaces_the_block_that_was_drawn() {
        let cases: [(&[usize], usize, &str); 4] = [
            (&[], 80, "\r"),
            (&[10, 20], 80, "\r\u{1b}[2A"),
            // Each of these rows has become two.
            (&[30, 40], 20, "\r\u{1b}[4A"),
            // An empty row is a row.
            (&[0, 5], 80, "\r\u{1b}[2A"),
        ];
        for (drawn, width, start) in cases {
            let text = render_frame(drawn, width, &["log".to_owned()], &[row("one")]);
            let wanted = format!("{start}\u{1b}[2Klog\r\n\u{1b}[2Kone\r\n\u{1b}[J");
            assert_eq!(text, format!("\u{1b}[?2026h{wanted}\u{1b}[?2026l"));
        }
    }
}
