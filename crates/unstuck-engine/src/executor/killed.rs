//! A local process that a signal has ended: what is said of it, by the executor of processes and by whoever emulates it.

use rustix::process::Signal;
use serde_json::json;
use unstuck_core::json::Json;

/// The signal that an emulated crash of a process ends by.
pub(super) const EMULATED: i32 = Signal::KILL.as_raw();

/// The signals that end processes, by their names.
const NAMES: [(Signal, &str); 19] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::ILL, "SIGILL"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::KILL, "SIGKILL"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::TERM, "SIGTERM"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
    (Signal::VTALARM, "SIGVTALRM"),
    (Signal::SYS, "SIGSYS"),
];

/// The cause of its error: `killed by signal 9 (SIGKILL)`.
pub(super) fn cause(signal: i32) -> String {
    match NAMES.iter().find(|(known, _)| known.as_raw() == signal) {
        Some((_, name)) => format!("killed by signal {signal} ({name})"),
        None => format!("killed by signal {signal}"),
    }
}

/// The details of its error.
pub(super) fn details(signal: i32) -> Json {
    Json::of(&json!({ "signal": signal }))
}
