//! Every file in `examples/`, run.

use std::collections::BTreeSet;
use std::thread;

use crate::support::{repository, unstuck};

struct Example {
    file: &'static str,
    input: &'static str,
    code: i32,
    state: &'static str,
    /// Steps and items in order, with the state that each ends in and how many attempts it took.
    steps: &'static [(&'static str, &'static str, usize)],
    output: &'static str,
}

const EXAMPLES: &[Example] = &[
    Example {
        file: "first.yaml",
        input: r#"{"title": "Why things get stuck"}"#,
        code: 0,
        state: "completed",
        steps: &[
            ("download", "completed", 3),
            ("encode", "completed", 2),
            ("upload", "completed", 2),
            ("notify", "completed", 1),
        ],
        output: r#"{"message":"Why things get stuck (47 min) is online: https://media.example/talk.mp4","url":"https://media.example/talk.mp4"}"#,
    },
    Example {
        file: "children.yaml",
        input: "{}",
        code: 0,
        state: "completed",
        steps: &[("build", "completed", 1), ("deploy", "failed", 1), ("report", "completed", 0)],
        output: r#""built, but not deployed""#,
    },
    Example {
        file: "for-each.yaml",
        input: "{}",
        code: 0,
        state: "completed",
        steps: &[
            ("fetch", "completed", 0),
            ("fetch[0]", "completed", 1),
            ("fetch[1]", "completed", 2),
            ("fetch[2]", "completed", 1),
            ("fetch[3]", "completed", 2),
            ("fetch[4]", "completed", 1),
            ("fetch[5]", "failed", 2),
            ("count", "completed", 0),
        ],
        output: r#"{"fetched":5,"of":6}"#,
    },
    Example {
        file: "for-each.yaml",
        input: r#"{"pages": ["a"]}"#,
        code: 0,
        state: "completed",
        steps: &[("fetch", "completed", 0), ("fetch[0]", "completed", 1), ("count", "completed", 0)],
        output: r#"{"fetched":1,"of":1}"#,
    },
    Example {
        file: "hold.yaml",
        input: "{}",
        code: 3,
        state: "held",
        steps: &[("transfer", "held", 1), ("receipt", "pending", 0), ("statistics", "completed", 0)],
        output: "null",
    },
    Example {
        file: "process.yaml",
        input: r#"{"name": "Ada"}"#,
        code: 0,
        state: "completed",
        steps: &[
            ("product", "completed", 1),
            ("greet", "completed", 1),
            ("copy", "completed", 2),
            ("convert", "completed", 2),
            ("validate", "failed", 1),
        ],
        output: r#"{"files":7,"greeting":"hello, Ada","saw":"red","valid":false}"#,
    },
    Example {
        file: "signal.yaml",
        input: "{}",
        code: 0,
        state: "completed",
        steps: &[("approved", "failed", 1), ("publish", "skipped", 0), ("outcome", "completed", 0)],
        output: r#""nobody approved it in time""#,
    },
    Example {
        file: "wait.yaml",
        input: r#"{"seconds": 0.1}"#,
        code: 0,
        state: "completed",
        steps: &[
            ("a-while", "completed", 0),
            ("as-long-as-asked", "completed", 0),
            ("until", "completed", 0),
            ("done", "completed", 0),
        ],
        output: r#""it was worth the wait""#,
    },
];

#[test]
fn every_example_does_what_it_says() {
    thread::scope(|scope| {
        for example in EXAMPLES {
            scope.spawn(|| example.check());
        }
    });
}

#[test]
fn every_example_is_run_and_none_has_a_warning() {
    let there: BTreeSet<String> = std::fs::read_dir(repository().join("examples"))
        .expect("there are examples")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        // What is only rehearsed is in a folder of its own, and run by the page on rehearsals.
        .filter(|name| name != "rehearsal")
        .collect();
    let run: BTreeSet<String> = EXAMPLES.iter().map(|example| example.file.to_owned()).collect();
    assert_eq!(there, run);
    let files: Vec<String> = there.iter().map(|file| format!("examples/{file}")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let checked = unstuck(&[&["check", "--deny-warnings"], files.as_slice()].concat());
    assert_eq!(checked.code, 0, "{}", checked.stdout);
}

impl Example {
    fn check(&self) {
        let file = format!("examples/{}", self.file);
        let ran = unstuck(&["run", &file, "--input", self.input, "-o", "json"]);
        assert_eq!(ran.code, self.code, "{file}: {}", ran.stderr);
        let document = ran.json();
        assert_eq!(document["state"], self.state, "{file}");
        assert_eq!(document["output"].to_string(), self.output, "{file}");
        let steps: Vec<(&str, &str, usize)> = document["steps"]
            .as_array()
            .expect("there are steps")
            .iter()
            .map(|step| {
                let text = |field: &str| step[field].as_str().expect("it is a text");
                (text("id"), text("state"), step["attempts"].as_array().expect("it is a list").len())
            })
            .collect();
        assert_eq!(steps, self.steps, "{file}");
    }
}
