//! How a command reaches a store: where it is, who owns it, over the socket or by opening it.

pub(crate) mod connection;
pub(crate) mod engine;
pub(crate) mod location;
pub(crate) mod socket;

/// Returns the name of the user who runs the command.
pub(crate) fn user_name() -> String {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| "unknown".to_owned())
}
