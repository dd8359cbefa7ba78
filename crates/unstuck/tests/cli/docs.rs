//! The examples of the documentation, run.

use std::thread;

use crate::support::server::Server;
use crate::support::{Folder, Ran, Store, repository, unstuck};

#[test]
fn every_flow_in_the_page_on_flow_files_runs() {
    assert!(run_blocks_of("docs/flow-files.md") > 10);
}

#[test]
fn the_flow_in_the_readme_runs() {
    assert_eq!(run_blocks_of("README.md"), 1);
}

/// Runs a flow that calls the server in its input with a secret.
fn run_with_server(path: &str) -> Ran {
    let server = Server::new();
    let input = format!(r#"{{"api": "{}"}}"#, server.url());
    let store = Store::new();
    let mut command = store.command();
    command.args(["run", path, "--input", &input]).env("UNSTUCK_SECRET_API_TOKEN", "s3cret-token");
    let ran = Ran::of(command.output().expect("the binary starts"));
    assert!(server.requests().iter().any(|request| request.contains("s3cret-token")), "the secret was sent");
    ran
}

/// Runs every flow of a page, and gives how many there are.
fn run_blocks_of(page: &str) -> usize {
    let page = std::fs::read_to_string(repository().join(page)).expect("the page is there");
    let blocks: Vec<(usize, String, String)> =
        blocks(&page).into_iter().filter(|(_, kind, _)| kind == "yaml").collect();
    let count = blocks.len();
    thread::scope(|scope| {
        for (line, _, block) in blocks {
            scope.spawn(move || {
                let wanted = match block.lines().next() {
                    Some("# exits 3" | "# ends held") => 3,
                    Some("# exits 1" | "# ends failed") => 1,
                    Some(_) | None => 0,
                };
                let (_folder, path) = Folder::with("flow.yaml", &block);
                // What would take days is rehearsed.
                let is_long = block.starts_with("# try it in virtual time: unstuck rehearse ");
                let ran = if block.starts_with("# unstuck run ") {
                    run_with_server(&path)
                } else {
                    unstuck(&[if is_long { "rehearse" } else { "run" }, &path])
                };
                let is_completed = !is_long || ran.stdout.contains("  1 completed\n");
                assert!(is_completed, "line {line}:\n{block}\n{}{}", ran.stdout, ran.stderr);
                assert_eq!(ran.code, wanted, "line {line}:\n{block}\n{}{}", ran.stdout, ran.stderr);
            });
        }
    });
    count
}

/// A page whose outputs are compared with what commands print; with `UPDATE_DOCS=1` those that differ are written to it.
pub(crate) struct PageUpdate {
    path: std::path::PathBuf,
    pub(crate) text: String,
}

impl PageUpdate {
    pub(crate) fn of(page: &str) -> PageUpdate {
        let path = repository().join(page);
        let text = std::fs::read_to_string(&path).expect("the page is there");
        PageUpdate { path, text }
    }

    /// Puts what a command printed in the place of what the page says. Gives whether that is wanted.
    pub(crate) fn replace(&mut self, command: &str, before: &str, printed: &str) -> bool {
        if std::env::var_os("UPDATE_DOCS").is_none() {
            return false;
        }
        let (before, after) = (format!("{command}{before}"), format!("{command}{printed}"));
        self.text = self.text.replacen(&before, &after, 1);
        std::fs::write(&self.path, &self.text).expect("the page can be written");
        true
    }
}

/// What stands between ```` ```yaml ```` (or another word) and ```` ``` ````, with the line that it starts on.
pub(crate) fn blocks(page: &str) -> Vec<(usize, String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((number + 2, kind.to_owned(), String::new())),
            (None, None) => {}
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some((_, _, block)), _) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "the last block has an end");
    blocks
}
