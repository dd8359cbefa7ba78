//! The server as programs use it: the real binary over real sockets, with clients that behave, and clients that do not.

mod amend;
mod client;
mod conditions;
mod configuration;
mod description;
mod docs;
mod doctor;
mod event_stream;
mod events;
mod flows;
mod items;
mod kills;
mod metrics;
mod migrate;
mod odd_clients;
mod operators;
mod policies;
mod refusals;
mod repeats;
mod roles;
mod run_command;
mod runs;
mod starting;
mod stops;
mod support;
mod tls;
