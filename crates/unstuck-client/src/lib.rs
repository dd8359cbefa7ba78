//! Talks to a server over its HTTP API. [`Client::request`] takes the same requests as the local socket of a store and gives the same
//! views, so that a command does not care where it is answered.

mod address;
mod client;
mod events;
mod http_call;
mod tls;

pub use address::{Address, BadAddress};
pub use client::{Client, ClientError};
pub use events::StreamMessage;
pub use tls::PeerCertificate;
