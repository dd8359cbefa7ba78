//! What is refused, where, and with which sentence; and what is only warned about.

mod flow;
mod graph;
mod http;
mod kind;
mod recovery;
mod references;
mod schedule;
mod step;
mod text;
mod warning;

use unstuck_flow::{Loaded, Problem, Severity, load};

/// What it is about, the file, and its problems as `line:column: field: message (hint)`. Flows whose names start
/// with `known` exist elsewhere.
type Case = (&'static str, &'static str, &'static [&'static str]);

fn refused(cases: &[Case]) {
    for (what, file, expected) in cases {
        let problems = read(file).err().unwrap_or_else(|| panic!("{what}: accepted"));
        assert_eq!(lines(&problems), *expected, "{what}");
        assert!(problems.iter().all(|problem| problem.severity == Severity::Error), "{what}");
    }
}

fn accepted(cases: &[Case]) {
    for (what, file, expected) in cases {
        let loaded = read(file).unwrap_or_else(|problems| panic!("{what}: {:?}", lines(&problems)));
        assert_eq!(lines(&loaded.warnings), *expected, "{what}");
        assert!(loaded.warnings.iter().all(|problem| problem.severity == Severity::Warning), "{what}");
    }
}

fn read(text: &str) -> Result<Loaded, Vec<Problem>> {
    load(text, "f", "/flows", &|name| name.starts_with("known"))
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.to_string().trim_start_matches("f:").to_owned()).collect()
}

const EVERYTHING: &[Case] = &[(
    "everything at once",
    "\
flow: 1a
deadline: soon
steps:
  - id: x
    action: work
    timeout: never
  - id: y
    needs: z
    set: ${steps.q.output}
  - id: x
    run: 'cat ${input.f}'
    exceptionHandler: gone
",
    &[
        "1:7: flow: `1a` is not a valid flow name: start with a letter, then use letters, digits, `_` and `-` (for example `a`)",
        "2:11: deadline: `soon` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds (or an instant, such as `2030-01-31T08:30:00Z`)",
        "6:14: steps.x.timeout: `never` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        "8:12: steps.y.needs: there is no step `z` (there are `x` and `x`)",
        "9:18: steps.y.set: there is no step `q` (the steps are `x`, `y`, `x`)",
        "10:9: steps.x.id: the id `x` is already used by the step on line 4 (each step of a flow needs its own id)",
        "11:15: steps.x.run: expressions are not allowed in a command (pass the value in `with`: the process gets it as JSON on stdin and in $UNSTUCK_INPUT, and each field as $INPUT_<NAME>)",
        "12:23: steps.x.exceptionHandler: the exception handler `gone` does not exist (add it to this file as another document, after `---`, or run it once to load it)",
    ],
)];

#[test]
fn every_problem_of_a_file_is_in_one_answer() {
    refused(EVERYTHING);
}

#[test]
fn a_warning_is_told_together_with_the_errors() {
    let file = "flow: a\nsteps: [{id: x, action: work, maxAttempts: 2, tiemout: 3}]\n";
    let problems = read(file).expect_err("refused");
    let severities: Vec<Severity> = problems.iter().map(|problem| problem.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
}

#[test]
fn a_problem_is_a_document_too() {
    let problems = read("flow: a\nsteps: [{id: x, wiat: 3}]\n").expect_err("refused");
    let expected = serde_json::json!({
        "file": "f",
        "line": 2,
        "column": 17,
        "field": "steps.x.wiat",
        "message": "a step has no field `wiat`",
        "hint": "did you mean `wait`?",
        "severity": "error",
    });
    assert_eq!(serde_json::to_value(&problems[1]).expect("serialises"), expected);
}

#[test]
fn what_is_too_large_is_refused() {
    let steps: String =
        (0..1_001).fold(String::new(), |text, n| text + &format!("  - {{id: s{n}, set: 1}}\n"));
    let laughs = (1..12).fold(String::from("a0: &a0 [x, x]\n"), |text, n| {
        let alias = format!("*a{}", n - 1);
        format!("{text}a{n}: &a{n} [{}]\n", [alias.as_str(); 9].join(", "))
    });
    let cases = [
        (
            format!("flow: a\nsteps:\n{steps}"),
            "f:3:3: steps: the flow has 1001 steps; the limit is 1000 (move some of them to a child flow, or use `forEach`)",
        ),
        (
            format!("flow: a\n# {}\n", "x".repeat(1 << 20)),
            "f:1:1: the file has 1048587 bytes; the limit is 1048576 (split it, or move large data to another file)",
        ),
        (
            laughs,
            "f:6:40: aliases stand for more than 200000 values (write the values out instead of aliases of aliases)",
        ),
        (
            format!("flow: a\nsteps: [{{id: x, set: [&a {}{}]}}]\n", "x".repeat(100_000), ", *a".repeat(20)),
            "f:1:1: with its aliases expanded, the flow has 2100104 bytes; the limit is 1048576 (an alias counts as the value it stands for)",
        ),
        (
            format!("flow: a\nsteps: [{{id: x, set: {{{}: 1}}}}]\n", "x".repeat(1_001)),
            "f:2:23: steps[0].set.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: a key can have at most 1000 characters",
        ),
        (
            format!("flow: a\nsteps: [{}]\n", "1,".repeat(210_000)),
            "f:2:399999: the file has more than 200000 values (split it into several files)",
        ),
    ];
    for (file, expected) in cases {
        let problems = read(&file).expect_err("refused");
        assert_eq!(problems[0].to_string(), expected);
    }
}
