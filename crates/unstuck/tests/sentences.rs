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

#[path = "sentences/command_line.rs"]
mod command_line;
#[path = "sentences/decisions.rs"]
mod decisions;
#[path = "sentences/endings.rs"]
mod endings;
#[path = "sentences/errors.rs"]
mod errors;
#[path = "sentences/explanations.rs"]
mod explanations;
#[path = "sentences/flow_files.rs"]
mod flow_files;
#[path = "sentences/processes.rs"]
mod processes;
#[path = "sentences/refusals.rs"]
mod refusals;
#[path = "sentences/rehearsal.rs"]
mod rehearsal;
#[path = "sentences/requests.rs"]
mod requests;
#[path = "sentences/scenes.rs"]
mod scenes;
#[path = "sentences/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Where a sentence comes from, in a word or two, and the sentence. One of several lines is shown below its label; without a
/// label it is an empty line.
type Line = (String, String);

/// The heading of a section, and where its lines come from.
type Section = (&'static str, fn() -> Vec<Line>);

/// The sections of the file, in order.
const SECTIONS: &[Section] = &[
    ("What happened: the lines of a log", decisions::facts),
    ("Why: the rule and the reason of each decision", decisions::reasons),
    ("Explanations: the headline, the steps, what comes next, what can be done", explanations::lines),
    ("Why a worker is not handed an attempt", endings::of_hand_overs),
    ("How attempts and targets of bulk actions end", endings::of_attempts),
    ("Why attempts of local processes fail", processes::lines),
    ("Why attempts of HTTP requests fail", requests::lines),
    ("Refused commands", refusals::lines),
    ("Refused policies", endings::of_policies),
    ("Errors of the engine", errors::of_the_engine),
    ("Errors of a store", errors::of_a_store),
    ("Stores that cannot be opened", endings::of_folders),
    ("What a check of a store promises", errors::promises),
    ("What a check of a store finds in a history", errors::findings),
    ("Problems of flow files", flow_files::of_flows),
    ("Problems of expressions", flow_files::of_expressions),
    ("Problems of policy files", flow_files::of_policies),
    ("Problems of plans", flow_files::of_plans),
    ("Rehearsals", rehearsal::lines),
    ("Commands", command_line::lines),
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

/// What is left of a sentence without the name of its step and without numbers: those of one shape say the same.
fn shape(sentence: &str) -> String {
    let of_step = sentence.split_once(": ").filter(|(name, _)| !name.contains(' '));
    let text = of_step.map_or(sentence, |(_, text)| text);
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>().replace("attempts", "attempt")
}

/// The lines in the order of these labels, one of each shape. Every label has at least one.
fn in_order(labels: &[&str], mut lines: Vec<(&'static str, String)>) -> Vec<Line> {
    let mut ordered: Vec<Line> = Vec::new();
    for label in labels {
        let before = ordered.len();
        let mut shapes = BTreeSet::new();
        let (of_label, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(other, _)| other == label);
        lines = others;
        for (_, sentence) in of_label {
            if shapes.insert(shape(&sentence)) {
                ordered.push(((*label).to_owned(), sentence));
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
            if label.is_empty() {
                text.push('\n');
            } else if sentence.contains('\n') {
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
