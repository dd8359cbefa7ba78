//! The executors, against real processes and real time.

mod emulation;
mod function;
mod http;
mod http_server;
mod left_over;
mod printed;
mod process;
mod process_groups;
mod secrets;
mod support;
