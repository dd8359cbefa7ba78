//! What the system tells of a process: its memory, its processor time, and what it has written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most memory that the process has had at once, in bytes (`VmHWM`).
pub fn peak_memory() -> u64 {
    field("/proc/self/status", "VmHWM:") * 1_024
}

/// The memory that the process has now, in bytes (`VmRSS`).
pub fn memory() -> u64 {
    field("/proc/self/status", "VmRSS:") * 1_024
}

/// The memory that a process has now, in bytes.
pub fn memory_of(process: u32) -> u64 {
    field(&format!("/proc/{process}/status"), "VmRSS:") * 1_024
}

/// The processor time that a process has taken, with threads that have ended; to a hundredth of a second.
pub fn time_of(process: u32) -> Duration {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    // The name of the program stands in parentheses, and may have spaces.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The bytes that the process has handed to write calls (`wchar`).
pub fn written() -> u64 {
    field("/proc/self/io", "wchar:")
}

/// The processor time that the threads of this process have taken: the one that asks, and all others that live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    pub own: Duration,
    pub others: Duration,
}

impl ProcessorTime {
    /// What has been taken until now.
    pub fn now() -> ProcessorTime {
        let own = thread_time(Path::new("/proc/thread-self"));
        let tasks = fs::read_dir("/proc/self/task").expect("threads are listed");
        let all: Duration = tasks.flatten().map(|task| thread_time(&task.path())).sum();
        ProcessorTime { own, others: all.saturating_sub(own) }
    }

    /// What has been taken since.
    #[must_use]
    pub fn since(self, before: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            own: self.own.saturating_sub(before.own),
            others: self.others.saturating_sub(before.others),
        }
    }

    /// In microseconds for each of so many.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn of_each(self, count: u64) -> String {
        let each = |time: Duration| time.as_secs_f64() * 1_000_000.0 / count.max(1) as f64;
        format!("{:.1} + {:.1} us", each(self.own), each(self.others))
    }
}

/// The first number of `schedstat` is the time on a processor, in nanoseconds; a thread may end meanwhile.
fn thread_time(task: &Path) -> Duration {
    let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn field(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{path} has no {name}"))
}

/// The value that so many of a hundred do not exceed. It sorts them.
pub fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort_unstable();
    let place = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_do_not_exceed_it() {
        let cases: [(u64, usize, u64); 6] =
            [(0, 50, 0), (1, 50, 1), (1, 99, 1), (100, 50, 51), (100, 99, 100), (1_000, 99, 991)];
        for (count, percent, expected) in cases {
            let mut values: Vec<Duration> = (1..=count).rev().map(Duration::from_millis).collect();
            let found = percentile(&mut values, percent);
            assert_eq!(found, Duration::from_millis(expected), "{percent} of {count}");
        }
    }
}
