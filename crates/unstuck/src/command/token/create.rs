//! `unstuck token create`: a new token, shown once.

use unstuck_core::time::Millis;

use super::change::{parse_span, show_change};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use unstuck_api::request::{NewTokenRequest, TokenOperation};

/// Create a token. It is printed once: the store keeps a digest of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Its name: 1 to 128 letters, digits and any of . _ : -
    name: String,

    /// What it may do: `viewer` reads; `client` starts runs and sends signals; `worker` takes work; `operator` acts on
    /// runs and policies; `admin` does everything; `peer` is another server.
    #[arg(long, value_name = "ROLE", value_parser = ["viewer", "client", "worker", "operator", "admin", "peer"])]
    role: String,

    /// For a worker: only this action; repeat it for more.
    #[arg(long = "action", value_name = "ACTION")]
    actions: Vec<String>,

    /// For a client: only this flow; repeat it for more.
    #[arg(long = "flow", value_name = "FLOW")]
    flows: Vec<String>,

    /// For a peer: the name of the other server.
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,

    /// It does not read inputs, outputs and other payloads.
    #[arg(long)]
    no_payloads: bool,

    /// It expires after this time, for example 90d. Without it, it never does.
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    expires_in: Option<Millis>,

    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let new = NewTokenRequest {
            name: self.name,
            role: self.role,
            actions: self.actions,
            flows: self.flows,
            origin: self.origin,
            payloads: Some(!self.no_payloads),
            expires_in_ms: self.expires_in.map(|span| span.0),
        };
        let place = self.store.place()?;
        let answer = place.change_tokens(TokenOperation::Create(new), self.reason)?;
        show_change(&answer, format)
    }
}
