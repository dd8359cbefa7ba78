//! Parses the text of a file into documents: YAML or JSON, within limits.

use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use crate::problem::Problems;
use crate::tree::{Content, Entry, Node, Position};

/// The largest file.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// How deep lists and maps may nest.
const MAX_DEPTH: usize = 64;
/// The longest key. As JSON it may be six times as long, and still be read again.
const MAX_KEY_CHARS: usize = 1_000;
/// The stack of the parser: about 32 KiB per level in a debug build, and as much again.
const STACK_BYTES: usize = MAX_DEPTH * 64 * 1024;
/// How many values a file may have, and how many its aliases may stand for.
const MAX_VALUES: usize = 200_000;

/// Parses the documents of a file and reports duplicate keys. Returns nothing if the text cannot be parsed.
pub(crate) fn parse_documents(problems: &mut Problems<'_>) -> Option<Vec<Node>> {
    let text = problems.text;
    if text.len() > MAX_BYTES {
        problems
            .error(
                Position::START,
                "",
                format!("the file has {} bytes; the limit is {MAX_BYTES}", text.len()),
            )
            .hint("split it, or move large data to another file");
        return None;
    }
    // The later one wins in the parser, so that both reach the tree, where each is found with its place.
    let nodes = match parse_on_large_stack(text, DuplicateKeyPolicy::LastWins) {
        Ok(nodes) => nodes,
        Err(wrong) => {
            wrong.report(problems);
            return None;
        }
    };
    let mut documents = Vec::new();
    for node in nodes {
        match node.content {
            Content::List(parts) => documents.extend(parts),
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) | Content::Map(_) => {
                documents.push(node);
            }
        }
    }
    let duplicates: usize =
        documents.iter_mut().map(|document| remove_duplicate_keys(document, "", problems)).sum();
    if duplicates == 0 {
        report_numeric_duplicate_keys(problems);
    }
    Some(documents)
}

/// What the parser could not read.
struct ParseError {
    at: Position,
    message: String,
    hint: Option<&'static str>,
}

impl ParseError {
    /// Reports the error, with a hint about quotes if the line has an expression.
    fn report(self, problems: &mut Problems<'_>) {
        let line = problems.text.lines().nth(self.at.line as usize - 1).unwrap_or_default();
        let quotes = "a `${...}` inside `{ }` or `[ ]`, or with `: ` in it, needs quotes: `\"${input.a}\"`";
        let hint = self.hint.or_else(|| line.contains("${").then_some(quotes));
        problems.error(self.at, "", self.message).maybe_hint(hint.map(str::to_owned));
    }
}

/// Parses a text on a thread with its own stack, because the parser recurses with large frames and the caller's stack
/// may be small.
fn parse_on_large_stack(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<Node>, ParseError> {
    let read = || {
        serde_saphyr::from_multiple_with_options(text, parser_options(duplicate_keys)).map_err(|error| {
            let (message, hint) = explain_parse_error(&error);
            ParseError { at: error.location().map_or(Position::START, Position::of), message, hint }
        })
    };
    let failed = |what: &str| ParseError {
        at: Position::START,
        message: format!("the file cannot be read: {what}"),
        hint: Some("free some memory and repeat the command"),
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("flow-parser".to_owned()).stack_size(STACK_BYTES);
        let reading = thread.spawn_scoped(scope, read).map_err(|error| failed(&error.to_string()))?;
        reading.join().unwrap_or_else(|_| Err(failed("the parser failed")))
    })
}

/// Returns the options of the parser: strict types and limits on size, depth and aliases.
fn parser_options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        reject_unsupported_tags: true,
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_VALUES },
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            simple_key_max_lookahead: MAX_KEY_CHARS * 8,
            // What aliases stand for is bounded above; many uses of one anchor are no harm by themselves.
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// Removes and reports every key that its map has already. Returns how many were removed.
fn remove_duplicate_keys(node: &mut Node, path: &str, problems: &mut Problems<'_>) -> usize {
    let mut removed = 0;
    match &mut node.content {
        Content::List(nodes) => {
            for (place, node) in nodes.iter_mut().enumerate() {
                removed += remove_duplicate_keys(node, &format!("{path}[{place}]"), problems);
            }
        }
        Content::Map(entries) => {
            let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
            let mut first: std::collections::HashMap<String, Position> = std::collections::HashMap::new();
            for mut entry in entries.drain(..) {
                let path = join(path, &entry.key);
                if entry.key.chars().count() > MAX_KEY_CHARS {
                    let message = format!("a key can have at most {MAX_KEY_CHARS} characters");
                    problems.error(entry.at, crate::read::shortened(&path), message);
                    continue;
                }
                if let Some(before) = first.get(&entry.key) {
                    let Position { line, .. } = *before;
                    problems
                        .error(entry.at, path, format!("given twice; the first is on line {line}"))
                        .hint("keep one of the two");
                    removed += 1;
                    continue;
                }
                first.insert(entry.key.clone(), entry.at);
                removed += remove_duplicate_keys(&mut entry.node, &path, problems);
                kept.push(entry);
            }
            *entries = kept;
        }
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {}
    }
    removed
}

/// Reports numbers that are used as a key twice: the tree never contains both, only the strict policy of the parser
/// finds them.
fn report_numeric_duplicate_keys(problems: &mut Problems<'_>) {
    if let Err(wrong) = parse_on_large_stack(problems.text, DuplicateKeyPolicy::Error) {
        wrong.report(problems);
    }
}

/// Appends a key to a path.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Turns an error of the parser into a sentence and a hint.
fn explain_parse_error(error: &Error) -> (String, Option<&'static str>) {
    match error {
        Error::AliasError { error, .. } => explain_parse_error(error),
        Error::WithSnippet { error, .. } => explain_parse_error(error),
        Error::Budget { breach: serde_saphyr::budget::BudgetBreach::Depth { .. }, .. } => (
            format!("nested deeper than {MAX_DEPTH} levels"),
            Some("write it flatter, or split it into several documents"),
        ),
        Error::Budget { .. } => {
            (format!("the file has more than {MAX_VALUES} values"), Some("split it into several files"))
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => (
            format!("aliases stand for more than {MAX_VALUES} values"),
            Some("write the values out instead of aliases of aliases"),
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => (
            "an anchor contains an alias of itself".to_owned(),
            Some("remove the alias: it would expand without end"),
        ),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or("a key".to_owned(), |key| format!("`{key}`"));
            (format!("{key} is given twice"), Some("keep one of the two"))
        }
        Error::Unexpected { expected: "string scalar", .. } => ("a key must be text".to_owned(), None),
        Error::UnknownAnchor { .. } => (
            "the alias has no anchor".to_owned(),
            Some("write `&name` before the value that `*name` stands for"),
        ),
        Error::NonFiniteFloat { value, .. } => {
            (format!("`{value}` is not a finite number"), Some("quote it if it is text"))
        }
        other => {
            let text = other.to_string();
            let message = text.split(" at line ").next().unwrap_or_default().to_owned();
            let tabs = message.contains("tab").then_some("indent with spaces");
            (message, tabs)
        }
    }
}
