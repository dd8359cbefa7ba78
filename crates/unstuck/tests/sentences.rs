//! Every sentence that people read, in one file: `sentences.txt` beside this one.
//!
//! A changed sentence changes that file, so that a diff shows it. `UPDATE_SENTENCES=1 cargo test -p unstuck --test sentences`
//! writes it. Each section is a module with a function that returns its lines; a new section is a line in [`SECTIONS`].

/// A function that labels every variant of an enum, and the list of those labels. The match has no wildcard: a new variant
/// does not compile until it has a label, and [`in_order`] fails until the label has a sentence.
macro_rules! labels {
    ($all:ident, $name:ident($type:ty), { $($pattern:pat => $label:literal,)+ }) => {
        const $all: &[&str] = &[$($label),+];

        fn $name(value: &$type) -> &'static str {
            match value {
                $($pattern => $label,)+
            }
        }
    };
}

#[path = "sentences/errors.rs"]
mod errors;
#[path = "sentences/refusals.rs"]
mod refusals;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Where a sentence comes from, in a word or two, and the sentence. One of several lines is shown below its label.
type Line = (String, String);

/// The sections of the file, in order: the heading, and where its lines come from.
const SECTIONS: &[(&str, fn() -> Vec<Line>)] = &[
    ("Refused commands", refusals::lines),
    ("Errors of the engine", errors::of_the_engine),
    ("Errors of a store", errors::of_a_store),
    ("What a check of a store promises", errors::promises),
];

#[test]
fn every_sentence_is_in_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentences.txt");
    let now = text();
    if env::var_os("UPDATE_SENTENCES").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == now,
        "The sentences have changed:\n{}\nTo write them to {}:\nUPDATE_SENTENCES=1 cargo test -p unstuck --test sentences",
        difference(&stored, &now),
        "crates/unstuck/tests/sentences.txt",
    );
}

/// The lines in the order of these labels, each once. Every label has at least one.
fn in_order(labels: &[&str], lines: Vec<(&'static str, String)>) -> Vec<Line> {
    let mut ordered: Vec<Line> = Vec::new();
    for label in labels {
        let before = ordered.len();
        for (_, sentence) in lines.iter().filter(|(other, _)| other == label) {
            if !ordered[before..].iter().any(|(_, known)| known == sentence) {
                ordered.push(((*label).to_owned(), sentence.clone()));
            }
        }
        assert!(ordered.len() > before, "`{label}` has no sentence: add a case that leads to it");
    }
    ordered
}

fn text() -> String {
    let mut text = "Every sentence that people read. Written by: \
        UPDATE_SENTENCES=1 cargo test -p unstuck --test sentences\n"
        .to_owned();
    for (heading, lines) in SECTIONS {
        let _ = write!(text, "\n\n# {heading}\n\n");
        for (label, sentence) in lines() {
            if sentence.contains('\n') {
                let below = sentence.trim_end().replace('\n', "\n    ");
                let _ = writeln!(text, "{label}:\n    {below}");
            } else {
                let _ = writeln!(text, "{label}: {sentence}");
            }
        }
    }
    text
}

/// The lines that one text has and the other has not, in the order of a diff without context.
fn difference(before: &str, after: &str) -> String {
    let gone = before.lines().filter(|line| !after.lines().any(|other| other == *line));
    let new = after.lines().filter(|line| !before.lines().any(|other| other == *line));
    let mut shown: Vec<String> = gone.map(|line| format!("-{line}")).collect();
    shown.extend(new.map(|line| format!("+{line}")));
    if shown.is_empty() {
        shown.push("the same lines in another order".to_owned());
    }
    shown.join("\n")
}
