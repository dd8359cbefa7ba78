//! Who asks, and when.

use std::time::SystemTime;

use unstuck_core::time::Time;

/// The name of whoever types the command.
pub(crate) fn user() -> String {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| "unknown".to_owned())
}

pub(crate) fn now() -> Time {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
