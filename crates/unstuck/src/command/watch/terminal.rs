//! A terminal that is used as one screen: what was there before comes back, whatever happens.

use std::os::fd::AsFd;

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::CommandError;
use crate::view::output::Output;
use crate::view::style::Look;

/// The other screen of a terminal, without a cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const CLEAR: &str = "\u{1b}[2J";
/// What is between these two is shown at once, by terminals that know them.
const BEGIN_FRAME: &str = "\u{1b}[?2026h\u{1b}[H";
const END_FRAME: &str = "\u{1b}[J\u{1b}[?2026l";
const CLEAR_LINE: &str = "\u{1b}[2K";

/// The terminal while it is a screen.
pub(super) struct Terminal {
    output: Output,
    leave: Leave,
    is_entered: bool,
}

/// How the terminal was before.
#[derive(Clone)]
pub(super) struct Leave {
    /// None where nobody types.
    before: Option<Termios>,
}

impl Leave {
    /// Lets the terminal be as it was.
    pub(super) fn restore(&self) {
        Output::stdout().text(LEAVE);
        if let Some(before) = &self.before {
            // A terminal that has gone cannot be changed.
            let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, before);
        }
    }
}

impl Terminal {
    pub(super) fn enter() -> Terminal {
        let before = tcgetattr(std::io::stdin().as_fd()).ok();
        let mut terminal = Terminal { output: Output::stdout(), leave: Leave { before }, is_entered: false };
        terminal.begin();
        terminal
    }

    fn begin(&mut self) {
        if let Some(before) = &self.leave.before {
            let mut keys = before.clone();
            // Each key is read at once and not shown; Ctrl-C is a key, too.
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            // A terminal that has gone is found by reading from it.
            let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, &keys);
        }
        self.output.text(ENTER);
        self.is_entered = true;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_entered) {
            self.leave.restore();
        }
    }

    /// Returns whether somebody can type.
    pub(super) fn reads_keys(&self) -> bool {
        self.leave.before.is_some()
    }

    /// Returns how to restore the terminal from another thread.
    pub(super) fn leave(&self) -> Leave {
        self.leave.clone()
    }

    pub(super) fn look(&self) -> Look {
        self.output.look
    }

    /// Draws these lines, which fit, in one write to avoid flicker.
    pub(super) fn draw(&mut self, lines: &[String]) {
        let lines: Vec<String> = lines.iter().map(|line| format!("{CLEAR_LINE}{line}")).collect();
        self.output.text(&format!("{BEGIN_FRAME}{}{END_FRAME}", lines.join("\r\n")));
    }

    /// Forgets what is on the screen.
    pub(super) fn clear(&mut self) {
        self.output.text(CLEAR);
    }

    /// Stops, as Ctrl-Z stops other commands, until somebody continues it.
    pub(super) fn suspend(&mut self) {
        self.end();
        // It fails only where there is no process group.
        let _ = kill_current_process_group(Signal::TSTP);
        self.begin();
    }

    /// Gives the terminal back.
    pub(super) fn finish(mut self) -> Result<(), CommandError> {
        self.end();
        let output = std::mem::replace(&mut self.output, Output::stdout());
        output.finish()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.end();
    }
}
