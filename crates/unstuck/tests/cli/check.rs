//! `unstuck check`, `unstuck schema`, `unstuck completions` and `unstuck man`.

use serde_json::{Value, json};

use crate::support::{Folder, REFUSED, unstuck, unstuck_reading};

const GOOD: &str = "flow: a\nsteps:\n  - {id: one, set: 1}\n---\nflow: b\nsteps:\n  - {id: two, set: 2}\n  - {id: three, set: 3}\n";
const WARNED: &str = "flow: a\nsteps:\n  - {id: one, run: [ls]}\n";
const BAD: &str = "flow: a\nsteps:\n  - {id: one, set: 1, needs: zero}\n  - {id: one, wait: soon}\n";

#[test]
fn the_exit_code_tells_whether_a_file_is_refused() {
    let folder = Folder::new();
    let (good, warned) = (folder.write("good.yaml", GOOD), folder.write("warned.yaml", WARNED));
    let (bad, missing) = (folder.write("bad.yaml", BAD), folder.path("missing.yaml"));
    let cases: [(&[&str], i32, String); 7] = [
        (&[&good], 0, format!("{good}: ok (2 flows, 3 steps)\n")),
        (&[&warned], 0, format!("{warned}: ok (1 flow, 1 step, 1 warning)\n")),
        (&[&warned, "--deny-warnings"], 1, format!("{warned}: ok (1 flow, 1 step, 1 warning)\n")),
        (&[&bad], 1, format!("{bad}: refused (3 errors)\n")),
        (&[&missing], 1, format!("{missing}: refused (1 error)\n")),
        (&[&bad, &good], 1, format!("{good}: ok (2 flows, 3 steps)\n3 errors in 2 files\n")),
        (&["-"], 0, "-: ok (2 flows, 3 steps)\n".to_owned()),
    ];
    for (arguments, code, end) in cases {
        let ran = unstuck_reading(&[&["check"], arguments].concat(), GOOD);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stdout);
        assert!(ran.stdout.ends_with(&end), "{end} in\n{}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn every_problem_of_every_file_is_told_in_one_answer() {
    let folder = Folder::new();
    let (bad, warned) = (folder.write("bad.yaml", BAD), folder.write("warned.yaml", WARNED));
    let missing = folder.path("missing.yaml");
    let ran = unstuck(&["check", "-o", "json", &bad, &missing, &warned]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let checked = ran.json();
    let problems = &checked["problems"];
    let found: Vec<(&str, u64, &str)> = problems
        .as_array()
        .expect("it is a list")
        .iter()
        .map(|problem| {
            let text = |field: &str| problem[field].as_str().expect("it is a text");
            (text("file"), problem["line"].as_u64().expect("it is a number"), text("severity"))
        })
        .collect();
    let wanted = [
        (&*bad, 3, "error"),
        (&*bad, 4, "error"),
        (&*bad, 4, "error"),
        (&*missing, 1, "error"),
        (&*warned, 3, "warning"),
    ];
    assert_eq!(found, wanted, "{problems:#}");
    let files: Vec<(&Value, &Value, &Value)> = checked["files"]
        .as_array()
        .expect("it is a list")
        .iter()
        .map(|file| (&file["file"], &file["errors"], &file["warnings"]))
        .collect();
    let (bad, missing, warned) = (json!(bad), json!(missing), json!(warned));
    let [none, one, three] = [0, 1, 3].map(|n| json!(n));
    assert_eq!(files, [(&bad, &three, &none), (&missing, &one, &none), (&warned, &none, &one)]);
    let clean = unstuck(&["check", "-o", "json", "examples/wait.yaml"]).json();
    let file = json!({"file": "examples/wait.yaml", "flows": 1, "steps": 4, "errors": 0, "warnings": 0});
    assert_eq!(clean, json!({"files": [file], "problems": []}));
}

#[test]
fn the_schema_is_json_with_a_description_for_every_field() {
    let ran = unstuck(&["schema"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let schema = ran.json();
    for field in ["/properties/flow", "/$defs/step/properties/heartbeatTimeout"] {
        assert!(schema.pointer(field).is_some_and(|field| field["description"].is_string()), "{field}");
    }
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = unstuck(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        for word in ["deny-warnings", "unpause", "continue", "store"] {
            assert!(ran.stdout.contains(word), "{word} for {shell}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let ran = unstuck(&["man"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let section = |name: &str| ran.stdout.lines().any(|line| line == format!(".SH {name}"));
    for name in ["NAME", "SYNOPSIS", "OPTIONS", "SUBCOMMANDS", "VERSION"] {
        assert!(section(name), "{name}: {}", ran.stdout);
    }

    let folder = Folder::new();
    let pages = folder.path("share/man/man1");
    let ran = unstuck(&["man", "--dir", &pages]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    for (page, words) in [
        ("unstuck.1", "recovers stuck work"),
        ("unstuck-run.1", "\\-\\-continue"),
        ("unstuck-policy-load.1", "\\-\\-replace"),
        ("unstuck-man.1", "manual page"),
    ] {
        let text = std::fs::read_to_string(format!("{pages}/{page}")).expect(page);
        assert!(text.starts_with(".ie") && text.contains(words), "{page}: {text}");
    }
}

#[test]
fn manual_pages_that_cannot_be_written_are_refused() {
    let (_folder, file) = Folder::with("file", "");
    let ran = unstuck(&["man", "--dir", &file]);
    assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""));
    assert!(
        ran.stderr.starts_with(&format!("error: the manual pages cannot be written into {file}: ")),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.ends_with("; give another folder with --dir\n"), "{}", ran.stderr);
}

#[test]
fn help_and_version_go_to_stdout() {
    let commands = "run runs show explain history choose resume pause unpause cancel signal rerun forget store \
                    store:info store:check check schema completions man";
    for command in commands.split_whitespace() {
        let mut arguments: Vec<&str> = command.split(':').collect();
        arguments.push("--help");
        let ran = unstuck(&arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
        assert!(ran.stdout.contains("Example"), "{command}: {}", ran.stdout);
        assert!(ran.stdout.lines().all(|line| line.len() <= 120), "{command}: {}", ran.stdout);
    }
    assert_eq!(unstuck(&["--version"]).stdout, concat!("unstuck ", env!("CARGO_PKG_VERSION"), "\n"));
}
