//! Who asks, and when.

/// The name of whoever types the command.
pub(crate) fn user() -> String {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| "unknown".to_owned())
}
