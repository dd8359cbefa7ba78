//! Ctrl-C and other termination signals: the first is handled, the second ends the process at once.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A signal this soon after the first counts as the same request.
const SAME: Duration = Duration::from_millis(250);

/// A request to end, from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// Describes the signal as the reason of an interruption.
    pub(crate) fn reason(self) -> &'static str {
        match self.0 {
            SIGINT => "Ctrl-C",
            SIGHUP => "its terminal was closed",
            _ => "SIGTERM",
        }
    }

    /// Returns the exit code by the shell's convention: 128 plus the signal.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    fn number(self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(u8::MAX)
    }
}

/// Calls `first` for the first signal, on a thread of its own, and `second` for the next one, after which the process
/// ends, whatever its other threads are doing.
pub(crate) fn listen(
    first: impl FnOnce(Signal) + Send + 'static,
    second: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut came = signals.forever();
        let Some(signal) = came.next() else { return };
        first(Signal(signal));
        let at = Instant::now();
        // A signal to a whole process group may arrive twice.
        let Some(signal) = came.find(|_| at.elapsed() > SAME) else { return };
        second();
        std::process::exit(i32::from(Signal(signal).number()));
    })?;
    Ok(())
}
