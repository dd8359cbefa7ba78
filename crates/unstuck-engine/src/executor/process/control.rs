//! What others tell the thread that watches a process, and how they wake it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// Shared between the executor, the thread that watches a process, and the one that waits for its exit.
pub(super) struct Control {
    asked: AtomicU8,
    exited: AtomicBool,
    /// Zero while there is none.
    process: AtomicU32,
    wake: UnixStream,
}

/// What was asked of an attempt. The later one is the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing = 0,
    Stop = 1,
    Interrupt = 2,
}

impl Control {
    /// With what becomes readable whenever there is something to look at.
    pub(super) fn new() -> io::Result<(Control, UnixStream)> {
        let (wake, wakes) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let control = Control {
            asked: AtomicU8::new(Asked::Nothing as u8),
            exited: AtomicBool::new(false),
            process: AtomicU32::new(0),
            wake,
        };
        Ok((control, wakes))
    }

    pub(super) fn ask(&self, asked: Asked) {
        self.asked.fetch_max(asked as u8, Ordering::AcqRel);
        self.wake();
    }

    pub(super) fn asked(&self) -> Asked {
        match self.asked.load(Ordering::Acquire) {
            0 => Asked::Nothing,
            1 => Asked::Stop,
            _ => Asked::Interrupt,
        }
    }

    pub(super) fn started(&self, process: u32) {
        self.process.store(process, Ordering::Release);
    }

    /// The process has exited, and has not been reaped.
    pub(super) fn exited(&self) {
        self.exited.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exited.load(Ordering::Acquire)
    }

    /// Nothing is left of the process.
    pub(super) fn ended(&self) {
        self.process.store(0, Ordering::Release);
    }

    pub(super) fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::Acquire)).filter(|process| *process != 0)
    }

    fn wake(&self) {
        // A full socket means that a wake is on its way already.
        let _ = (&self.wake).write(&[1]);
    }
}
