//! `unstuck token rotate` and `revoke`.

use std::process::ExitCode;

use unstuck_core::duration::parse_duration;
use unstuck_core::time::Millis;

use crate::CommandResult;
use crate::Format;
use crate::access::connection::Answer;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use unstuck_api::request::TokenOperation;
use unstuck_api::tokens::TokenChangedView;
use unstuck_service::local_time;

/// Give a token a new secret. The old one is good for a while, so that nobody has to hurry.
#[derive(clap::Args)]
pub(crate) struct Rotate {
    /// Its name or id.
    token: String,

    /// How long the old secret is good.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_span)]
    overlap: Millis,

    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

/// Revoke a token: it lets nobody in from now on.
#[derive(clap::Args)]
pub(crate) struct Revoke {
    /// Its name or id.
    token: String,

    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Rotate {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = TokenOperation::Rotate { token: self.token, overlap_ms: self.overlap.0 };
        show_change(&self.store.place()?.change_tokens(what, self.reason)?, format)
    }
}

impl Revoke {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = TokenOperation::Revoke { token: self.token };
        show_change(&self.store.place()?.change_tokens(what, self.reason)?, format)
    }
}

pub(super) fn parse_span(text: &str) -> Result<Millis, String> {
    parse_duration(text)
}

/// Shows what was done to a token. The token itself is alone on its line, so that it can be copied.
pub(super) fn show_change(answer: &Answer, format: Format) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let TokenChangedView { what, token, view } = answer.read()?;
            let name = &view.name;
            stdout.line(&match what.as_str() {
                "created" => format!("Created token `{name}` ({}).", view.role),
                "rotated" => format!("Token `{name}` has a new secret."),
                "revoked" => format!("Revoked token `{name}`. It lets nobody in from now on."),
                _ => format!("Token `{name}` was revoked already."),
            });
            if let Some(until) = view.old_secret_until.filter(|_| what == "rotated") {
                stdout.line(&format!("The old one is good until {}.", local_time::format_full(until)));
            }
            if let Some(token) = token {
                stdout.line(&format!(
                    "\n  {token}\n\nThis is shown once. Keep it where only its user reads it."
                ));
            }
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}
