//! The page on the HTTP API: what is typed there is answered as it says there.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, Store};

/// Where the page says that the server is.
const SHOWN: &str = "127.0.0.1:7070";

#[test]
fn every_request_is_answered_as_the_page_says() {
    let count = check_page("api.md");
    assert!(count > 10, "{count} commands were run");
}

#[test]
fn every_command_of_the_page_on_schedules_is_answered_as_it_says() {
    let count = check_page("schedules.md");
    assert!(count > 5, "{count} commands were run");
}

/// Types in all commands of a page, and returns how many there were.
fn check_page(name: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let mut page = std::fs::read_to_string(&path).expect("the page is there");
    let server = Server::start_on(&Store::new(), &[]);
    let mut count = 0;
    for (kind, block) in blocks(&page.clone()) {
        if kind == "yaml" {
            let name =
                block.lines().next().and_then(|first| first.strip_prefix("# ")).expect("it has a name");
            std::fs::write(server.store.folder().join(name), &block).expect("the file can be written");
        }
        for (command, wanted) in commands(&block).into_iter().filter(|_| kind == "console") {
            let said = type_in(&server, command);
            count += 1;
            if normalize(&said) == normalize(&wanted) {
                continue;
            }
            assert!(std::env::var_os("UPDATE_DOCS").is_some(), "$ {command}\n{said}\nand not\n{wanted}");
            page = page.replacen(&format!("$ {command}\n{wanted}"), &format!("$ {command}\n{said}"), 1);
            std::fs::write(&path, &page).expect("the page can be written");
        }
    }
    count
}

/// What stands between ```` ```word ```` and ```` ``` ````.
fn blocks(page: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = page.split("\n```").collect();
    let blocks = parts.iter().skip(1).step_by(2);
    blocks
        .filter_map(|part| part.split_once('\n'))
        .map(|(kind, block)| (kind.to_owned(), format!("{block}\n")))
        .collect()
}

/// The commands of a block, each with what follows it.
fn commands(block: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, output))) => output.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    commands
}

/// What a command says when it is typed into a shell.
fn type_in(server: &Server, command: &str) -> String {
    let address = server.address.to_string();
    let binary = Path::new(env!("CARGO_BIN_EXE_unstuck")).parent().expect("it is in a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([binary].into_iter().chain(std::env::split_paths(&path)));
    let mut shell = Command::new("sh");
    shell
        .env("PATH", path.expect("it is a path"))
        .envs([("UNSTUCK_SERVER", format!("http://{address}").as_str()), ("USER", "ada"), ("TZ", "UTC")])
        .args(["-c", &command.replace(SHOWN, &address)])
        .current_dir(server.store.folder())
        .stdin(Stdio::null());
    let output = shell.output().expect("there is a shell");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("it is UTF-8");
    let text = text.replace(&address, SHOWN);
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

/// The same text for what differs from run to run: ids, times, spans of time and cursors.
fn normalize(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.:".contains(letter);
    let mut words = String::new();
    for word in text.split_inclusive(|letter: char| !is_part(letter)) {
        let (word, end) =
            word.find(|letter: char| !is_part(letter)).map_or((word, ""), |at| word.split_at(at));
        let is_id = word.split_once('_').is_some_and(|(kind, rest)| {
            matches!(kind, "run" | "flow") && rest.trim_end_matches(':').len() == 13
        });
        let is_time = word.len() >= 20 && word.ends_with('Z') && word.contains('T');
        let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_cursor = word.split('.').count() == 4 && word.split('.').all(is_hex) && word.len() > 10;
        let is_request = word
            .split_once('-')
            .is_some_and(|(begin, number)| begin.len() > 8 && is_hex(begin) && is_hex(number));
        let is_date = word.len() == 10 && word.starts_with("20") && word.split('-').count() == 3;
        let is_clock = word.len() == 8 && word.split(':').count() == 3;
        let is_span =
            word.ends_with(['s', 'm', 'h', 'd']) && word.starts_with(|letter: char| letter.is_ascii_digit());
        let differs = is_id || is_time || is_cursor || is_request || is_date || is_clock || is_span;
        words += if differs { "#" } else { word };
        words += end;
    }
    // `19h 1m` is `19h` a minute earlier.
    while words.contains("# #") {
        words = words.replace("# #", "#");
    }
    // A slow machine says `1.2s ago`.
    words.replace("# ago", "just now")
}
