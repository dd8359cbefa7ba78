//! The log on stderr, which `UNSTUCK_LOG` switches on.

mod json_log;
pub(crate) mod otlp;

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{fmt, registry};

use crate::error::CommandError;

/// What is told, and of which parts.
const VARIABLE: &str = "UNSTUCK_LOG";

/// The parts that tell something.
const PARTS: [&str; 3] = ["unstuck_engine", "unstuck_server", "unstuck_sqlite"];

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts the log, if the variable asks for it.
pub(crate) fn start_log() -> Result<(), CommandError> {
    let Some(wanted) = std::env::var_os(VARIABLE) else { return Ok(()) };
    start_log_with(VARIABLE, &wanted.to_string_lossy(), LogFormat::Text)
}

/// Starts the log as it is wanted by this variable, flag or line of a file.
pub(crate) fn start_log_with(whence: &str, wanted: &str, format: LogFormat) -> Result<(), CommandError> {
    let filter = parse_filter(wanted).map_err(|wrong| {
        CommandError::new(format!(
            "{whence} is `{wanted}`, and {wrong}; give a level (error, warn, info, debug, trace or off) such as `debug`, or \
             levels of parts such as `unstuck_engine=debug,unstuck_sqlite=info`"
        ))
    })?;
    let Some(filter) = filter else { return Ok(()) };
    // A closed stderr must not end a run.
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false).log_internal_errors(false);
    // This fails only if a subscriber is set already.
    let _ = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(registry().with(lines).with(filter)),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(registry().with(json_log::JsonLines).with(filter))
        }
    };
    Ok(())
}

/// Parses the value of the variable: `None` if nothing is to be logged.
fn parse_filter(wanted: &str) -> Result<Option<Targets>, String> {
    let mut filter = None;
    for directive in wanted.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let (part, level) =
            directive.split_once('=').map_or((None, directive), |(part, level)| (Some(part), level));
        let level = parse_level(level)?;
        let so_far: Targets = filter.take().unwrap_or_default();
        filter = Some(match part {
            None => so_far.with_default(level),
            Some(part) => {
                let is_known = PARTS.iter().any(|known| {
                    let rest = part.strip_prefix(known);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                });
                if !is_known {
                    return Err(format!("there is no part `{part}` (there are {})", PARTS.join(", ")));
                }
                so_far.with_target(part, level)
            }
        });
    }
    Ok(filter)
}

/// Parses a level by its name.
fn parse_level(word: &str) -> Result<LevelFilter, String> {
    // The parser accepts numbers and an empty text too, which nobody would understand.
    let is_word = word.chars().next().is_some_and(char::is_alphabetic);
    word.parse().ok().filter(|_| is_word).ok_or_else(|| format!("`{word}` is no level"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        assert_eq!(parse_filter(""), Ok(None));
        assert_eq!(parse_filter("debug"), Ok(Some(Targets::new().with_default(LevelFilter::DEBUG))));
        let both =
            Targets::new().with_default(LevelFilter::WARN).with_target("unstuck_sqlite", LevelFilter::DEBUG);
        assert_eq!(parse_filter("warn, unstuck_sqlite=DEBUG"), Ok(Some(both)));
        for (wanted, wrong) in [
            ("loud", "`loud` is no level"),
            ("3", "`3` is no level"),
            ("debug,unstuck_engine=", "`` is no level"),
            (
                "sqlite=debug",
                "there is no part `sqlite` (there are unstuck_engine, unstuck_server, unstuck_sqlite)",
            ),
        ] {
            assert_eq!(parse_filter(wanted), Err(wrong.to_owned()), "{wanted}");
        }
    }
}
