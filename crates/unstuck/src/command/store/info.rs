//! `unstuck store info`: where the store is, who has it open, and what it holds.

use std::process::ExitCode;
use unstuck_service::owner::state_phrase;

use serde::Serialize;
use unstuck_core::id::RunId;

use crate::CommandResult;
use crate::Format;
use crate::access::location::LocalStoreArgument;
use crate::access::socket;
use crate::access::socket::SocketError;
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::clock::ClockView;
use unstuck_api::request::{Query, Request};
use unstuck_service::clock::Clock;

/// Show where the store is, which process has it open, and what it contains.
///
/// It changes nothing and can run while a run is in progress.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: LocalStoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store info
  unstuck store info -o json | jq .runs.held";

/// What is told, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About {
    /// Its folder.
    store: String,
    /// The process that has it open and answers.
    owner: Option<u32>,
    schema: u32,
    files: Vec<StoreFile>,
    /// How many there are in each state, by its word.
    runs: serde_json::Map<String, serde_json::Value>,
    /// How many were ever written.
    events: u64,
    flows: Vec<FlowVersions>,
    oldest: Option<String>,
    newest: Option<String>,
    /// How the clock was set, and whether times lie ahead of it.
    clock: ClockView,
    #[serde(skip)]
    sentences: Vec<String>,
}

#[derive(Serialize)]
struct StoreFile {
    name: String,
    bytes: u64,
}

#[derive(Serialize)]
struct FlowVersions {
    flow: String,
    versions: Vec<String>,
}

/// How many versions of a flow are listed in text: the last ones.
const VERSIONS: usize = 5;

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        let owner = match socket::send_request(&place.directory, "", &Request::Query(Query::Owner)) {
            Ok(process) => process.parse().ok(),
            Err(SocketError::Nobody | SocketError::HungUp) => None,
            // Everything it has written can be read from the file.
            Err(SocketError::Stopped(sentence, process) | SocketError::Silent(sentence, process)) => {
                Output::stderr().line(&format!("note: {sentence}"));
                process
            }
            Err(unheard) => return Err(unheard.into()),
        };
        let info = unstuck_sqlite::info(&place.directory)?;
        let clock = Clock { record: &info.clock, last: info.last_time, now: unstuck_service::service::now() };
        let id = |run: Option<RunId>| run.map(|run| run.to_string());
        let about = About {
            store: place.directory.to_string_lossy().into_owned(),
            owner,
            schema: info.schema,
            files: info.files.into_iter().map(|(name, bytes)| StoreFile { name, bytes }).collect(),
            runs: info
                .runs
                .into_iter()
                .map(|(state, count)| (state.word().to_owned(), count.into()))
                .collect(),
            events: info.events,
            flows: info.flows.into_iter().map(versions).collect(),
            oldest: id(info.oldest),
            newest: id(info.newest),
            clock: clock.document(),
            sentences: clock.local_sentences(),
        };
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let json = serde_json::to_string(&about)
                    .map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => about.show(&mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn versions((flow, versions): (std::sync::Arc<str>, Vec<std::sync::Arc<str>>)) -> FlowVersions {
    FlowVersions { flow: flow.to_string(), versions: versions.iter().map(ToString::to_string).collect() }
}

impl About {
    /// Shows the facts about the store as text.
    fn show(&self, stdout: &mut Output) {
        let files: Vec<String> =
            self.files.iter().map(|file| format!("{} {}", file.name, format_size(file.bytes))).collect();
        let runs: Vec<String> =
            self.runs.iter().map(|(state, count)| format!("{count} {}", state_phrase(state))).collect();
        let owner = match self.owner {
            Some(process) => format!("process {process}"),
            None => "none".to_owned(),
        };
        let mut fields = vec![
            ("path", self.store.clone()),
            ("owner", owner),
            ("schema", self.schema.to_string()),
            ("files", files.join(", ")),
            ("runs", if runs.is_empty() { "none".to_owned() } else { runs.join(", ") }),
            ("events", self.events.to_string()),
        ];
        fields.extend(self.oldest.clone().map(|run| ("oldest run", run)));
        fields.extend(self.newest.clone().map(|run| ("newest run", run)));
        for (place, FlowVersions { flow, versions }) in self.flows.iter().enumerate() {
            let left_out = versions.len().saturating_sub(VERSIONS);
            let more = if left_out > 0 { format!("{left_out} more, ") } else { String::new() };
            let word = if versions.len() == 1 { "version" } else { "versions" };
            let line = format!("{flow} ({word} {more}{})", versions[left_out..].join(", "));
            fields.push((if place == 0 { "flows" } else { "" }, line));
        }
        for (place, sentence) in self.sentences.iter().enumerate() {
            fields.push((if place == 0 { "clock" } else { "" }, sentence.clone()));
        }
        for (name, value) in fields {
            let name = stdout.look.paint(style::DIM, format!("{name:12}"));
            stdout.line(&format!("{name}{}", text::visible(&value)));
        }
    }
}

/// Formats a size: `1.5 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let (mut rest, mut unit) = (bytes.saturating_mul(10) / 1024, 0);
    while rest >= 10_240 && unit + 1 < units.len() {
        rest /= 1024;
        unit += 1;
    }
    if bytes < 1024 { format!("{bytes} B") } else { format!("{}.{} {}", rest / 10, rest % 10, units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_reading() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (98_304, "96.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (5 << 30, "5.0 GiB"),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(format_size(bytes), wanted);
        }
    }
}
