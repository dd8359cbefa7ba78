//! The server as programs use it: the real binary over real sockets, with clients that behave, and clients that do not.

mod client;
mod conditions;
mod description;
mod docs;
mod event_stream;
mod events;
mod flows;
mod kills;
mod odd_clients;
mod operators;
mod policies;
mod refusals;
mod repeats;
mod roles;
mod runs;
mod schedules;
mod starting;
mod stops;
mod support;
