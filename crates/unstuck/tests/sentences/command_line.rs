//! What the commands say, by the real binary on one store: answers, refusals, hints and questions.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Where a sentence comes from, and the sentence.
type Line = (String, String);

/// How much of what a command says is shown.
#[derive(Clone, Copy)]
enum Shown {
    All,
    /// The first line: what follows it is about the run.
    First,
    /// Nothing: it is there for what comes after it.
    Nothing,
}

use Shown::{All, First, Nothing};

pub(crate) fn lines() -> Vec<Line> {
    let folder = TempDir::new().expect("a folder can be made");
    for (name, text) in FILES {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    let mut lines = Vec::new();
    for (shown, typed) in TYPED {
        let said = said(folder.path(), typed);
        let first = said.lines().next().unwrap_or_default().to_owned();
        match shown {
            All => lines.push((format!("$ {typed}"), said)),
            First => lines.push((format!("$ {typed}"), first)),
            Nothing => {}
        }
    }
    lines
}

/// What a line of a shell says, without what differs from run to run.
fn said(folder: &Path, typed: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_unstuck"));
    let path = binary.parent().expect("it is in a folder").display();
    let mut shell = Command::new("sh");
    shell.args(["-c", typed]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap_or_default()));
    shell.env("UNSTUCK_STORE", folder.join("store")).env("USER", "ada").env("TZ", "UTC").env_remove("TERM");
    let output = shell.output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.to_string_lossy(), "");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    said.lines().map(steady).collect::<Vec<_>>().join("\n")
}

/// A line with its ids, times and spans replaced, and with one width between columns.
fn steady(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let columns = line.trim().split("  ").filter(|column| !column.is_empty());
    let columns = columns.map(|column| {
        let words = column.trim().split(' ').map(steady_word);
        words.collect::<Vec<_>>().join(" ")
    });
    format!("{}{}", " ".repeat(indent.min(8)), columns.collect::<Vec<_>>().join("  "))
}

fn steady_word(word: &str) -> String {
    for kind in ["run_", "bulk_", "pol_"] {
        if let Some(place) = word.find(kind) {
            let id = &word[place + kind.len()..];
            let end = id.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(id.len());
            if end == 13 {
                return format!("{}{kind}ID{}", &word[..place], &id[end..]);
            }
        }
    }
    let plain = word.trim_matches(|c: char| "()+,.;:".contains(c));
    let is_clock =
        plain.len() >= 8 && plain.bytes().all(|byte| byte.is_ascii_digit() || b":-.".contains(&byte));
    let number = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &plain[number.len()..];
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_span = is_number && matches!(unit, "ms" | "s");
    if is_clock {
        word.replace(plain, "TIME")
    } else if is_span || matches!(unit, "KiB") {
        word.replace(plain, "SPAN")
    } else {
        word.to_owned()
    }
}

const FILES: &[(&str, &str)] = &[
    (
        "error.yaml",
        "flow: import\nsteps:\n  - {id: fetch, type: HTTP, emulate: {sequence: [stall, pass], cause: connection reset by peer}, timeout: 1m}\n",
    ),
    (
        "hold.yaml",
        "flow: payout\nsteps:\n  - {id: transfer, retryStrategy: hold, emulate: {sequence: [stall], cause: no answer}, timeout: 1m}\n",
    ),
    (
        "fatal.yaml",
        "flow: report\nsteps:\n  - {id: print, emulate: {sequence: [fail], cause: 'TypeError: x'}, timeout: 1m}\n",
    ),
    ("fine.yaml", "flow: fine\nsteps:\n  - {id: a, set: 1}\n"),
    ("wrong.yaml", "flow: f\nsteps:\n  - {id: a, sett: 1}\n"),
    (
        "policy.yaml",
        "name: resets\nerrorSubstring: connection reset\nactionType: HTTP\nmaxAttempts: 5\nbackOff: 2h\n",
    ),
    (
        "shadowed.yaml",
        "name: never\nerrorSubstring: connection reset by\nactionType: HTTP\nmaxAttempts: 4\npriority: 1\nbackOff: 1h\n",
    ),
    ("bad.json", "{"),
];

/// What is typed, one after the other, on one store.
const TYPED: &[(Shown, &str)] = &[
    // Without a store.
    (All, "unstuck runs"),
    (All, "unstuck store info"),
    (All, "unstuck run --continue"),
    (All, "unstuck run"),
    (All, "unstuck run nowhere.yaml"),
    (All, "unstuck run ."),
    (All, "unstuck run wrong.yaml"),
    (All, "unstuck run fine.yaml --input @bad.json"),
    (All, "unstuck run fine.yaml --input ''"),
    (All, "unstuck run - --input -"),
    (All, "unstuck run fine.yaml --flow other"),
    (All, "unstuck check fine.yaml wrong.yaml"),
    (Nothing, "unstuck run fine.yaml"),
    (All, "unstuck status"),
    (All, "unstuck watch"),
    (All, "unstuck policy list"),
    (All, "unstuck policy audit"),
    (All, "unstuck errors"),
    (All, "unstuck bulk list"),
    (All, "unstuck bulk list --open"),
    (All, "unstuck schedule list"),
    (All, "unstuck runs --state held"),
    (All, "unstuck runs --since soon"),
    (All, "unstuck runs --since 2030-01-31"),
    (All, "unstuck runs --label x"),
    (All, "unstuck history @latest --after 100"),
    (All, "unstuck logs @latest"),
    (All, "unstuck forget @latest"),
    (All, "unstuck run --continue nope"),
    (All, "unstuck run --continue"),
    // A key that has a run.
    (Nothing, "unstuck run fine.yaml --key k"),
    (All, "unstuck run fine.yaml --key k"),
    (Nothing, "unstuck run error.yaml --key k"),
    (All, "unstuck show k"),
    (All, "unstuck show run_"),
    // An error.
    (All, "unstuck errors"),
    (First, "unstuck errors show $(unstuck errors -o json | grep -o 'err_[0-9a-f]*' | head -1)"),
    (All, "unstuck errors show nope"),
    (All, "unstuck errors --open"),
    (First, "unstuck errors open $(unstuck errors -o json | grep -o 'err_[0-9a-f]*' | head -1)"),
    (First, "unstuck errors records $(unstuck errors -o json | grep -o 'err_[0-9a-f]*' | head -1)"),
    (All, "unstuck errors records $(unstuck errors -o json | grep -o 'err_[0-9a-f]*' | head -1) --until 1d"),
    (All, "unstuck errors open err_ --after x"),
    (All, "unstuck policy suggest $(unstuck errors -o json | grep -o 'err_[0-9a-f]*' | head -1)"),
    (All, "unstuck policy preview policy.yaml"),
    (All, "unstuck policy preview nope"),
    (All, "unstuck policy load policy.yaml --dry-run"),
    (All, "unstuck policy load policy.yaml"),
    (All, "unstuck policy load policy.yaml --replace --dry-run"),
    (All, "unstuck policy load policy.yaml --replace-all"),
    (All, "unstuck policy order nope"),
    (All, "unstuck policy apply --dry-run"),
    (All, "unstuck policy load policy.yaml --replace"),
    (All, "unstuck policy load shadowed.yaml --replace"),
    (All, "unstuck policy load - -"),
    (All, "unstuck policy list"),
    (First, "unstuck policy show resets"),
    (First, "unstuck policy show never"),
    (All, "unstuck policy show nope"),
    (All, "unstuck policy apply never"),
    (All, "unstuck policy apply"),
    (All, "unstuck policy apply"),
    (All, "unstuck policy disable resets"),
    (All, "unstuck policy apply resets"),
    (All, "unstuck policy enable resets"),
    (All, "unstuck policy delete never"),
    (All, "unstuck policy preview resets"),
    (All, "unstuck policy pause --reason ' '"),
    (All, "unstuck policy pause --reason 'an outage'"),
    (All, "unstuck policy pause --reason 'an outage'"),
    (All, "unstuck runs --flow import"),
    (All, "unstuck policy unpause"),
    (All, "unstuck policy unpause"),
    (All, "unstuck policy delete resets"),
    // One run.
    (First, "unstuck ack import:k fetch --reason known"),
    (First, "unstuck ack import:k fetch --reason known"),
    (First, "unstuck resume import:k nope"),
    (First, "unstuck resume import:k fetch"),
    (All, "unstuck runs --flow import"),
    (First, "unstuck pause import:k"),
    (First, "unstuck pause import:k"),
    (First, "unstuck unpause import:k"),
    (First, "unstuck unpause import:k"),
    (First, "unstuck signal import:k go '{'"),
    (First, "unstuck signal import:k go"),
    (First, "unstuck skip import:k fetch"),
    (First, "unstuck skip import:k fetch"),
    (Nothing, "unstuck run error.yaml --key c"),
    (First, "unstuck complete import:c fetch --output 1"),
    (First, "unstuck complete import:c fetch --output 1"),
    (Nothing, "unstuck run hold.yaml --key h"),
    (First, "unstuck choose payout:h transfer maybe"),
    (First, "unstuck choose payout:h"),
    (First, "unstuck choose payout:h transfer retry"),
    (Nothing, "unstuck run --continue payout:h"),
    (First, "unstuck choose payout:h transfer none"),
    (First, "unstuck rerun payout:h"),
    (First, "unstuck cancel payout:h"),
    (First, "unstuck cancel payout:h"),
    (All, "unstuck forget payout:h --yes"),
    // Many runs.
    (Nothing, "unstuck run error.yaml --key e1; unstuck run error.yaml --key e2"),
    (All, "unstuck resume --flow import --dry-run"),
    (All, "unstuck resume --flow nope"),
    (All, "unstuck resume import:e1 --flow import"),
    (All, "unstuck cancel --flow import"),
    (All, "unstuck skip --flow import fetch"),
    (All, "unstuck rerun --state completed --yes"),
    (All, "unstuck rerun"),
    (All, "unstuck ack --flow import --canary 3"),
    (All, "unstuck resume --flow import --canary 1"),
    (All, "unstuck bulk pause @latest"),
    (All, "unstuck bulk cancel @latest"),
    (All, "unstuck bulk show nope"),
    (All, "unstuck forget --state completed"),
    (Nothing, "unstuck run fatal.yaml"),
    (
        All,
        "unstuck policy suggest $(unstuck errors --flow report -o json | grep -o 'err_[0-9a-f]*' | head -1)",
    ),
    // The store itself, and rehearsals.
    (First, "unstuck store check"),
    (First, "unstuck store copy copied"),
    (First, "unstuck store copy store"),
    (All, "unstuck rehearse error.yaml --must-survive stall"),
    (All, "unstuck rehearse error.yaml --plan auto --must-survive nope"),
    (All, "unstuck rehearse fine.yaml --plan auto --must-survive stall"),
    (All, "unstuck rehearse hold.yaml --plan auto --must-survive stall"),
    (All, "unstuck rehearse fine.yaml --outputs-from-store"),
];
