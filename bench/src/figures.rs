//! What the system tells of this process: its memory, and what it has written.

use std::fs;
use std::time::Duration;

/// The most memory that the process has had at once, in bytes (`VmHWM`).
pub fn peak_memory() -> u64 {
    field("/proc/self/status", "VmHWM:") * 1_024
}

/// The memory that the process has now, in bytes (`VmRSS`).
pub fn memory() -> u64 {
    field("/proc/self/status", "VmRSS:") * 1_024
}

/// The bytes that the process has handed to write calls (`wchar`).
pub fn written() -> u64 {
    field("/proc/self/io", "wchar:")
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
