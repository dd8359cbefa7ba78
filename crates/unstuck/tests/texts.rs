//! Every sentence about files, rehearsals and commands, in one file: `texts.txt` beside this one.
//!
//! A changed sentence changes that file, so that a diff shows it. `UPDATE_SENTENCES=1 cargo test -p unstuck --test texts`
//! writes it. Each section is a module with a function that returns its lines; a new section is a line in [`SECTIONS`].

#[path = "sentences/command_line.rs"]
mod command_line;
#[path = "sentences/flow_files.rs"]
mod flow_files;
#[path = "sentences/rehearsal.rs"]
mod rehearsal;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Where a sentence comes from, in a word or two, and the sentence. One of several lines is shown below its label.
type Line = (String, String);

/// A heading, and where the lines below it come from.
type Section = (&'static str, fn() -> Vec<Line>);

/// The sections of the file, in order.
const SECTIONS: &[Section] = &[
    ("Flow files", flow_files::of_flows),
    ("Expressions", flow_files::of_expressions),
    ("Policy files", flow_files::of_policies),
    ("Plans", flow_files::of_plans),
    ("Rehearsals", rehearsal::lines),
    ("Commands", command_line::lines),
];

#[test]
fn every_sentence_is_in_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts.txt");
    let now = text();
    if env::var_os("UPDATE_SENTENCES").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let is_new = |line: &&str| !stored.lines().any(|known| known == *line);
    let is_gone = |line: &&str| !now.lines().any(|known| known == *line);
    let new: Vec<&str> = now.lines().filter(is_new).collect();
    let gone: Vec<&str> = stored.lines().filter(is_gone).collect();
    assert!(
        stored == now,
        "The sentences have changed. Gone: {gone:#?}\nNew: {new:#?}\nTo write them: UPDATE_SENTENCES=1 cargo test -p unstuck --test texts"
    );
}

fn text() -> String {
    let mut text = "Every sentence about files, rehearsals and commands. Written by: \
        UPDATE_SENTENCES=1 cargo test -p unstuck --test texts\n"
        .to_owned();
    for (heading, lines) in SECTIONS {
        let _ = write!(text, "\n\n# {heading}\n\n");
        for (label, sentence) in lines() {
            if sentence.contains('\n') {
                let _ = writeln!(text, "{label}:\n    {}", sentence.trim_end().replace('\n', "\n    "));
            } else {
                let _ = writeln!(text, "{label}: {sentence}");
            }
        }
    }
    text
}
