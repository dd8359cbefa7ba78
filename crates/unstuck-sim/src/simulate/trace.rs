//! The trace of a simulation: one line for everything that was done and came of it, and a digest of all lines.

use std::fmt::{self, Write as _};

use unstuck_core::time::Time;

/// When simulations begin.
pub(crate) const BEGIN: Time = Time(1_800_000_000_000);

/// The lines, or only their digest.
#[derive(Debug)]
pub(crate) struct Trace {
    digest: u64,
    line: String,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its lines, or only their digest.
    pub(crate) fn new(keeps_lines: bool) -> Trace {
        Trace { digest: 0xcbf2_9ce4_8422_2325, line: String::new(), lines: keeps_lines.then(Vec::new) }
    }

    /// At this time of the world, this.
    pub(crate) fn say(&mut self, at: Time, what: fmt::Arguments<'_>) {
        self.line.clear();
        // Nothing can go wrong when a text grows.
        let _ = write!(self.line, "{} {what}", Since(at));
        for byte in self.line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// The digest, and the lines if they were kept.
    pub(crate) fn end(self) -> (u64, Vec<String>) {
        (self.digest, self.lines.unwrap_or_default())
    }
}

/// The time since the beginning: `0:00:12.345`.
struct Since(Time);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.since(BEGIN).0;
        let (s, ms) = (ms / 1_000, ms % 1_000);
        write!(f, "{}:{:02}:{:02}.{ms:03}", s / 3_600, s / 60 % 60, s % 60)
    }
}
