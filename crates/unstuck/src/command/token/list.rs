//! `unstuck token list`: who may use the API.

use std::process::ExitCode;

use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::table::{Cell, Table};
use unstuck_api::request::Query;
use unstuck_api::tokens::{TokenView, TokensView};

/// List tokens, newest first.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Revoked and expired ones too.
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let answer = self.store.place()?.read(Query::Tokens { all: self.all })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let TokensView { tokens } = answer.read()?;
                if tokens.is_empty() {
                    stdout.line("No tokens.");
                } else {
                    show_tokens(&tokens, &mut stdout);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_tokens(tokens: &[TokenView], stdout: &mut Output) {
    let now = unstuck_service::service::now();
    let ago = |at: Option<jiff::Timestamp>| match at {
        Some(at) => format!("{} ago", now.since(Time(at.as_millisecond()))),
        None => "never".to_owned(),
    };
    let mut table = Table::new(&["TOKEN", "NAME", "ROLE", "STATE", "CREATED", "LAST USED", "EXPIRES"]);
    for token in tokens {
        let expires = match token.expires_at {
            Some(at) if token.state == "active" => {
                format!("in {}", Time(at.as_millisecond()).since(now))
            }
            Some(_) => "expired".to_owned(),
            None => "never".to_owned(),
        };
        table.row(vec![
            Cell::new(&token.id),
            Cell::new(&token.name),
            Cell::new(&token.role),
            Cell::new(&token.state),
            Cell::new(ago(Some(token.created_at))),
            Cell::new(ago(token.last_used_at)),
            Cell::new(expires),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
