//! The command as people use it, on a server: the tests of `cli` once more, with the same expectations. What is about a store without a
//! server is left out, each with its reason.

/// Whether commands are sent to a server.
const ON_SERVER: bool = true;

/// A test whose story is about a store without a server, with the reason: it is compiled and not run.
macro_rules! only_on_a_store {
    ($why:literal; #[test] fn $name:ident() $body:block) => {
        #[expect(dead_code, reason = $why)]
        fn $name() $body
    };
}

/// What is not tested once more on a server, and why.
const ONLY_ON_A_STORE: [(&str, &str); 17] = [
    ("alone", "no process has the store open"),
    ("check", "it reads files and asks nobody"),
    ("copies", "it is about the files of a store"),
    ("crashes", "the process that executes the run is killed; `server` has the kills of a server"),
    ("damaged", "it is about the files of a store"),
    ("docs", "the pages say which store or server they are about"),
    ("docs_commands", "the pages say which store or server they are about"),
    ("files", "it is about the files of a store"),
    ("home", "no run is idle on a server"),
    ("interrupt", "Ctrl-C leaves a run on a server alone; `server` has that story"),
    ("killed", "the process that executes the run is killed"),
    ("rehearse", "it executes nothing and asks nobody"),
    ("rehearse_docs", "it executes nothing and asks nobody"),
    ("socket", "it is about the socket of a process that has the store open"),
    ("telemetry", "the log is that of the process that executes the run"),
    ("tokens", "the first token closes the server to commands without one; `server` has tokens"),
    ("unanswered", "a process that has the store open does not answer"),
];

/// How many tests of the other modules are left out. It only shrinks.
const LEFT_OUT: usize = 48;

/// Every module is tested here or listed, and no further test is left out.
#[test]
fn what_is_left_out_is_listed_and_does_not_grow() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    let (all, here) = (read("cli/main.rs"), read("cli_on_server.rs"));
    let modules = |text: &str| -> Vec<String> {
        let named = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        named.filter(|name| *name != "support").map(str::to_owned).collect()
    };
    let (all, here) = (modules(&all), modules(&here));
    let is_listed = |name: &String| ONLY_ON_A_STORE.iter().any(|(listed, _)| listed == name);
    for name in &all {
        assert!(is_listed(name) != here.contains(name), "{name} is either tested here or listed");
    }
    assert!(ONLY_ON_A_STORE.iter().all(|(listed, _)| all.iter().any(|name| name == listed)));
    let left_out = |name: &String| read(&format!("cli/{name}.rs")).matches("only_on_a_store! {").count();
    assert_eq!(here.iter().map(left_out).sum::<usize>(), LEFT_OUT, "lower the number if there are fewer");
}

#[path = "cli/support.rs"]
mod support;

#[path = "cli/bounds.rs"]
mod bounds;
#[path = "cli/bulk.rs"]
mod bulk;
#[path = "cli/bulk_verbs.rs"]
mod bulk_verbs;
#[path = "cli/by_hand.rs"]
mod by_hand;
#[path = "cli/clocks.rs"]
mod clocks;
#[path = "cli/confirms.rs"]
mod confirms;
#[path = "cli/document.rs"]
mod document;
#[path = "cli/error_groups.rs"]
mod error_groups;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/examples.rs"]
mod examples;
#[path = "cli/exit_codes.rs"]
mod exit_codes;
#[path = "cli/flows.rs"]
mod flows;
#[path = "cli/generations.rs"]
mod generations;
#[path = "cli/http.rs"]
mod http;
#[path = "cli/json.rs"]
mod json;
#[path = "cli/lists.rs"]
mod lists;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/names.rs"]
mod names;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/owner.rs"]
mod owner;
#[path = "cli/pages.rs"]
mod pages;
#[path = "cli/policies.rs"]
mod policies;
#[path = "cli/policy_pause.rs"]
mod policy_pause;
#[path = "cli/policy_stories.rs"]
mod policy_stories;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/rest.rs"]
mod rest;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/times.rs"]
mod times;
#[path = "cli/trials.rs"]
mod trials;
#[path = "cli/waits.rs"]
mod waits;
