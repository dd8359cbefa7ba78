//! How a command reaches a store: where it is, who owns it, over the socket or by opening it.

pub(crate) mod connection;
pub(crate) mod engine;
pub(crate) mod location;
pub(crate) mod socket;
pub(crate) mod user;
