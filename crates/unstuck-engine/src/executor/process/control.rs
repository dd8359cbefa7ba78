//! What others tell the thread that watches a process, and how they wake it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::executor::lock;

/// Shared between the executor, the thread that watches a process, and the one that waits for its exit.
pub(super) struct WatchControl {
    stop_request: AtomicU8,
    exited: AtomicBool,
    /// Zero while there is none.
    process: AtomicU32,
    /// The token that the process has in its environment.
    token: OnceLock<String>,
    wake: UnixStream,
    /// How often somebody has asked for a look, and up to which time of asking it was had.
    looks: AtomicU64,
    looked: Mutex<u64>,
    has_looked: Condvar,
}

/// What was asked of an attempt. The later one is the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopRequest {
    Nothing = 0,
    Stop = 1,
    Interrupt = 2,
}

impl WatchControl {
    /// With what becomes readable whenever there is something to look at.
    pub(super) fn new() -> io::Result<(WatchControl, UnixStream)> {
        let (wake, wakes) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let control = WatchControl {
            stop_request: AtomicU8::new(StopRequest::Nothing as u8),
            exited: AtomicBool::new(false),
            process: AtomicU32::new(0),
            token: OnceLock::new(),
            wake,
            looks: AtomicU64::new(0),
            looked: Mutex::new(0),
            has_looked: Condvar::new(),
        };
        Ok((control, wakes))
    }

    pub(super) fn request_stop(&self, stop_request: StopRequest) {
        self.stop_request.fetch_max(stop_request as u8, Ordering::AcqRel);
        self.wake();
    }

    pub(super) fn stop_requested(&self) -> StopRequest {
        match self.stop_request.load(Ordering::Acquire) {
            0 => StopRequest::Nothing,
            1 => StopRequest::Stop,
            _ => StopRequest::Interrupt,
        }
    }

    /// A process is being started with this token.
    pub(super) fn starting(&self, token: &str) {
        let _ = self.token.set(token.to_owned());
    }

    pub(super) fn token(&self) -> Option<String> {
        self.token.get().cloned()
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

    /// Asks for a look at the process and its report. Gives which time this is.
    pub(super) fn ask_look(&self) -> u64 {
        let look = self.looks.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        look
    }

    /// How often a look was asked for.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Acquire)
    }

    /// All that is to be said up to this time of asking is said.
    pub(super) fn looked(&self, look: u64) {
        let mut looked = lock(&self.looked);
        *looked = look.max(*looked);
        self.has_looked.notify_all();
    }

    /// Waits for that.
    pub(super) fn await_look(&self, look: u64, until: Instant) {
        let patience = until.saturating_duration_since(Instant::now());
        let waited =
            self.has_looked.wait_timeout_while(lock(&self.looked), patience, |looked| *looked < look);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn wake(&self) {
        // A full socket means that a wake is on its way already.
        let _ = (&self.wake).write(&[1]);
    }
}
