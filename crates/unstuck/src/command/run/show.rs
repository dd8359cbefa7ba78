//! Shows a run under way: a live view on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use super::log::Line;
use super::screen::{Row, Screen};
use crate::view::output::{Output, terminal_size};
use crate::view::style::Look;
use unstuck_core::time::Time;

/// The interval between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// What a live view shows below the log.
pub(super) trait View {
    /// Builds the rows for a terminal of this size.
    fn rows(&self, now: Time, size: (usize, usize), look: Look) -> Vec<Row>;
}

/// Where a run is shown.
pub(super) enum Show {
    /// On a terminal.
    Live(Box<Live>),
    /// As lines.
    Plain(Output),
}

/// The live view, and what it has yet to show.
pub(super) struct Live {
    screen: Screen,
    look: Look,
    /// Log lines since the last frame.
    lines: Vec<Line>,
    next_frame: Instant,
}

impl Show {
    /// Chooses the live view if the output is a terminal that can redraw.
    pub(super) fn on(output: Output) -> Show {
        if !output.look.live {
            return Show::Plain(output);
        }
        let look = output.look;
        let live = Live { screen: Screen::new(output), look, lines: Vec::new(), next_frame: Instant::now() };
        Show::Live(Box::new(live))
    }

    /// Returns how long to wait for the next message before [`Show::draw_if_due`] is due.
    pub(super) fn time_to_next_frame(&self) -> Duration {
        match self {
            Show::Live(live) => live.next_frame.saturating_duration_since(Instant::now()),
            Show::Plain(_) => Duration::MAX,
        }
    }

    /// Adds log lines; a live view shows them with its next frame.
    pub(super) fn log(&mut self, lines: Vec<Line>) {
        match self {
            Show::Live(live) => live.lines.extend(lines),
            Show::Plain(output) => {
                for line in lines {
                    output.line(&line.plain());
                }
            }
        }
    }

    /// Draws a frame if one is due.
    pub(super) fn draw_if_due(&mut self, view: &impl View) {
        if let Show::Live(live) = self
            && live.next_frame <= Instant::now()
        {
            live.draw(view);
        }
    }

    /// Returns whether it is drawn again and again.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Show::Live(_))
    }

    /// Shows what is left, and returns the output for what follows below.
    pub(super) fn finish(self, view: &impl View) -> Output {
        match self {
            Show::Live(mut live) => {
                live.draw(view);
                live.screen.finish()
            }
            Show::Plain(output) => output,
        }
    }
}

impl Live {
    fn draw(&mut self, view: &impl View) {
        let size = terminal_size();
        let above: Vec<String> = self.lines.drain(..).flat_map(|line| line.rows(size.0, self.look)).collect();
        self.screen.draw(size.0, &above, view.rows(unstuck_service::service::now(), size, self.look));
        self.next_frame = Instant::now() + FRAME;
    }
}
