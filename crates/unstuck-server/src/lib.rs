//! The HTTP API of a store and its engine: connections, who calls and what they may do, a table of routes, and handlers that
//! read a request, ask the service once and write its view. Nothing is decided here. It is tested over real sockets, in the tests of the binary.

mod access;
mod activity;
mod answer;
mod app;
mod body;
mod call;
mod connections;
mod content_coding;
mod dispatch;
mod event_cursor;
mod event_outbox;
mod event_pages;
mod events;
mod handler;
mod health;
mod metrics;
mod open_streams;
mod openapi;
mod pages;
mod parameter;
mod pressure;
mod problem;
mod rates;
mod reason;
mod receive;
mod route;
mod routes;
mod run_waiters;
mod settings;
mod store_jobs;
mod tls;
mod trace;
mod trace_runs;
mod transport;
mod waiting;

pub use app::App;
pub use connections::{Server, Stopping};
pub use settings::{Limits, Rates, ServerSettings};
pub use store_jobs::StoreTool;
pub use tls::{Tls, TlsFiles};
pub use trace::{AttributeValue, Span, SpanId, SpanKind, SpanSink, TraceId};
