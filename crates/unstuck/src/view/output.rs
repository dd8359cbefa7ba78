//! Writes to stdout and stderr without ever panicking, even if the reader stops reading.

use std::io::{self, ErrorKind, Write};

use unstuck_api::ProblemType;

use crate::error::CommandError;
use crate::view::style::{self, Look};
use crate::view::text;

/// Returns the current columns and rows of the terminal: a window can change its size.
pub(crate) fn terminal_size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    let size = size.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
    (size.0.max(1), size.1.max(1))
}

/// Where text goes.
pub(crate) struct Output {
    stream: Box<dyn Write>,
    name: &'static str,
    pub(crate) look: Look,
    /// Why nothing is written any more.
    broken: Option<io::Error>,
}

impl Output {
    pub(crate) fn stdout() -> Output {
        Output::to(io::stdout(), "stdout", Look::of(&io::stdout()))
    }

    pub(crate) fn stderr() -> Output {
        Output::to(io::stderr(), "stderr", Look::of(&io::stderr()))
    }

    fn to(stream: impl Write + 'static, name: &'static str, look: Look) -> Output {
        Output { stream: Box::new(stream), name, look, broken: None }
    }

    /// Returns the width of the terminal; nothing if the output is no terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        let size = || terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        self.look.live.then(size)
    }

    /// Writes a name and its value, which is wrapped with a hanging indent.
    pub(crate) fn field(&mut self, name: &str, columns: usize, value: &str) {
        let value: Vec<&str> = value.split_whitespace().collect();
        let value = text::visible(&value.join(" "));
        let indent = columns + 3;
        let lines = match self.width() {
            Some(width) => text::wrap(&value, width.saturating_sub(indent).max(16)),
            None => vec![value],
        };
        for (place, line) in lines.iter().enumerate() {
            let name = if place == 0 { name } else { "" };
            let name = self.look.paint(style::DIM, format!("{name:columns$}"));
            self.line(format!("  {name} {line}").trim_end());
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Writes a text at once. After an error nothing more is written: the command does its work even if nobody reads
    /// the output.
    pub(crate) fn text(&mut self, text: &str) {
        if self.broken.is_none() {
            let written = self.stream.write_all(text.as_bytes()).and_then(|()| self.stream.flush());
            self.broken = written.err();
        }
    }

    /// Returns whether everything was written. A reader that closed the pipe is no failure.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        match self.broken {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(CommandError::unknown(
                ProblemType::Internal,
                format!("cannot write to {}: {}", self.name, crate::error::without_os_number(&error)),
            )),
            Some(_) | None => Ok(()),
        }
    }
}
