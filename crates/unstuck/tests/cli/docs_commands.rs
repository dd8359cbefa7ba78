//! The pages on the commands: what stands there is what they say.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::docs::{PageUpdate, blocks};
use crate::support::under_way::wait_until;
use crate::support::{Store, repository};

/// Where the page says that the store is.
const SHOWN: &str = "/srv/unstuck";

#[test]
fn every_example_says_what_the_page_says() {
    all_said("docs/commands.md", 20);
}

#[test]
fn bulk_actions_say_what_the_page_says() {
    all_said("docs/bulk-actions.md", 10);
}

#[test]
fn policies_say_what_the_page_says() {
    all_said("docs/policies.md", 25);
}

#[test]
fn json_is_what_the_page_says() {
    all_said("docs/json.md", 10);
}

/// Everything that is typed on this page says what stands there; there is more of it than `least`.
fn all_said(page: &str, least: usize) {
    let mut update = PageUpdate::of(page);
    let store = Store::new();
    symlink(repository().join("examples"), format!("{}/examples", store.folder())).expect("it can be linked");
    let mut count = 0;
    for (line, kind, block) in blocks(&update.text.clone()) {
        match kind.as_str() {
            "yaml" => {
                let name =
                    block.lines().next().and_then(|first| first.strip_prefix("# ")).expect("it has a name");
                store.write(name, &block);
            }
            "console" => {
                for (command, wanted) in commands(&block) {
                    let said = said(&store, command);
                    if words(&said) != words(&wanted)
                        && !update.replace(&format!("$ {command}\n"), &wanted, &said)
                    {
                        assert_eq!(words(&said), words(&wanted), "line {line}: {command}\n{said}");
                    }
                    count += 1;
                }
            }
            _ => panic!("line {line}: what is {kind}?"),
        }
    }
    assert!(count > least, "{count} commands were run");
}

/// The commands of a block, each with what follows it.
fn commands(block: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => panic!("{line} follows no command"),
        }
    }
    commands
}

/// What a command says when it is typed into a shell.
fn said(store: &Store, command: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_unstuck");
    let folder = std::path::Path::new(binary).parent().expect("it is in a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    // The shell leaves what goes on in the background to itself.
    shell.args(["-c", command]).current_dir(store.folder()).env("PATH", path).stdin(Stdio::null());
    shell.env("UNSTUCK_STORE", store.path()).env("USER", "ada").env("TZ", "UTC").env_remove("TERM");
    let before = command.ends_with('&').then(|| newest(store));
    let output = shell.output().expect("there is a shell");
    if let Some(before) = before {
        // In the background: until it waits for something.
        wait_until(|| newest(store) != before && state(store) == "waiting");
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&store.path(), SHOWN);
    if command.starts_with("unstuck signal ") {
        wait_until(|| {
            state(store) == "completed"
                && !std::fs::exists(format!("{}/socket", store.path())).is_ok_and(|there| there)
        });
    }
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn newest(store: &Store) -> String {
    store.latest()
}

fn state(store: &Store) -> String {
    let shown = store.unstuck(&["show", "@latest", "-o", "json"]).json();
    shown["state"].as_str().expect("it is a text").to_owned()
}

/// The words of a text. Ids, times and sizes differ from run to run; plain numbers do not, but for process ids, versions of
/// the schema, and the number of events, which depends on what happens to come together.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let before = words.last().map_or("", String::as_str);
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        let plain = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let is_number = has_digit && plain.bytes().all(|byte| byte.is_ascii_digit());
        let is_unit = before == "#" && matches!(plain, "B" | "KiB" | "MiB");
        // `just now` and `1.2s ago` are the same to a slow machine.
        let tells_when = matches!((before, plain), ("just", "now") | ("#", "ago"));
        let is_one_of_many = matches!(before, "process" | "events" | "schema");
        let counts_events = plain == "events" && before.contains(|c: char| c.is_ascii_digit());
        if counts_events || tells_when {
            words.pop();
        }
        let differs = (has_digit && !is_number) || is_one_of_many || is_unit || tells_when;
        words.push(if differs { "#".to_owned() } else { word.to_owned() });
    }
    words
}
