//! `unstuck rehearse` as people use it: its output, its exit codes, and what it refuses.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store};

const FLOW: &str = "
flow: nightly
steps:
  - {id: extract, action: extract, retryStrategy: retry, maxAttempts: 3, backOff: 1m}
  - {id: load, action: load}
";
const POLICY: &str = "{name: again, errorSubstring: refused, maxAttempts: 5, backOff: 10m}\n";

impl Store {
    /// Runs a line of a shell that finds the binary, in the folder of the store.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let binary = Path::new(env!("CARGO_BIN_EXE_unstuck"));
        let folder = binary.parent().expect("it is in a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.folder()).env("PATH", path).stdin(Stdio::null());
        shell.env("UNSTUCK_STORE", self.path()).env("TZ", "UTC").env_remove("TERM");
        Ran::of(shell.output().expect("there is a shell"))
    }
}

/// Rehearses the flow by a plan.
fn rehearse(flow: &str, plan: &str, more: &[&str]) -> Ran {
    let store = Store::new();
    let (flow, plan) = (store.write("flow.yaml", flow), store.write("plan.yaml", plan));
    let policies = store.write("policies.yaml", POLICY);
    let more: Vec<&str> =
        more.iter().map(|word| if *word == "POLICIES" { &*policies } else { word }).collect();
    let ran = store.unstuck(&[&["rehearse", &flow, "--plan", &plan], more.as_slice()].concat());
    let is_there = std::fs::exists(store.path()).expect("it can be looked for");
    assert!(!is_there, "a rehearsal makes no store");
    ran
}

#[test]
fn a_rehearsal_tells_what_happened_and_why() {
    let plan = "{steps: {extract: [{stall: connection reset, after: 5s}, pass], load: [crash, {stall: refused}, pass]}}";
    let ran = rehearse(FLOW, plan, &["--policies", "POLICIES"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for part in [
        "Rehearsal of flow `nightly`: 1 run, 4 workers, seed 0; the clock starts at 2026-01-01T00:00:00.000Z.\n",
        "+0d 00:00:05.000  extract: attempt 1 stalled: connection reset\n",
        "extract: retrying in 1m (attempt 2 of 3)\n                    retryStrategy: retry, maxAttempts: 3, backOff: 1m\n",
        "+0d 00:01:05.000  worker-2 dies; it was running 1 attempt\n",
        "+0d 00:01:10.000  load: attempt 1 is stuck: its worker is gone. Retrying in 1s (stuck 1 of 3)\n",
        "policy `again` resumes it in",
        "  runs             1 completed\n  completed after  11m 11s\n",
        "again   1     0      1     1\n",
    ] {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
}

#[test]
fn the_same_seed_prints_the_same_bytes_and_another_one_does_not() {
    let plan = "{every: 10m, steps: {'*': {odds: {pass: 3, stall: 1, stick: 1}, duration: [1s, 10m]}}}";
    let with = |seed: &str, format: &str| {
        let more =
            ["--runs", "30", "--timeline", "all", "--seed", seed, "--policies", "POLICIES", "-o", format];
        rehearse(FLOW, plan, &more).stdout
    };
    for format in ["text", "json"] {
        assert_eq!(with("1", format), with("1", format), "{format}");
        assert_ne!(with("1", format), with("2", format), "{format}");
    }
}

#[test]
fn a_rehearsal_is_a_document_for_programs() {
    let ran = rehearse(FLOW, "{steps: {load: stall}}", &["-o", "json", "--runs", "3"]);
    let document = ran.json();
    assert_eq!(document["ends"][0]["end"], "error");
    assert_eq!((&document["ends"][0]["runs"], &document["attempts"]["stalled"]), (&json!(3), &json!(3)));
    assert_eq!(document["seed"], "0", "a seed may be more than a number can hold");
    let took = document["took"].as_f64().expect("seconds");
    assert!((0.0..3_600.0).contains(&took), "{took}");
    assert!(document["each"][0]["run"].as_str().is_some_and(|run| run.starts_with("run_")), "{document:#}");
    let timelines = document["timelines"].as_array().expect("a list");
    assert_eq!((timelines.len(), &timelines[0]["number"]), (1, &json!(1)));
    let lines = timelines[0]["lines"].as_array().expect("a list");
    let rest = lines.last().expect("there are lines");
    assert_eq!((&rest["rung"], rest["rule"].is_string()), (&json!("rest"), true), "{rest}");
    let all =
        rehearse(FLOW, "{steps: {load: stall}}", &["-o", "json", "--runs", "3", "--timeline", "all"]).json();
    assert_eq!(all["timelines"].as_array().map(Vec::len), Some(3));
}

#[test]
fn how_it_goes_does_not_change_the_exit_code_but_what_must_be_survived_does() {
    let store = Store::new();
    let weak = store.write("weak.yaml", FLOW);
    let retry = "retryStrategy: retry, maxAttempts: 3, backOff: 1m";
    let robust = format!(
        "flow: nightly\nsteps:\n  - {{id: a, action: a, {retry}}}\n  - {{id: b, action: b, {retry}}}\n"
    );
    let robust = store.write("robust.yaml", robust);
    let cases = [
        (&weak, "stall", 1, "`load` does not survive stall once: the run is in error"),
        (&weak, "stall@extract", 0, "Every required fault is survived."),
        (&weak, "crash,stick,drag,choke", 0, "Every required fault is survived."),
        (&weak, "always-crash@load", 1, "`load` does not survive crash always: the run is failed"),
        (&robust, "stall,crash,stick,choke,drag,pairs", 0, "Every required fault is survived."),
        (&robust, "all", 1, "`a` does not survive fail once"),
    ];
    for (flow, demands, code, said) in cases {
        let ran = store.unstuck(&["rehearse", flow, "--plan", "auto", "--must-survive", demands]);
        assert!(
            ran.code == code && ran.stdout.contains(said),
            "{demands}: {}\n{}{}",
            ran.code,
            ran.stdout,
            ran.stderr
        );
    }
    assert_eq!(store.unstuck(&["rehearse", &weak, "--plan", "auto"]).code, 0);
    let document =
        store.unstuck(&["rehearse", &weak, "--plan", "auto", "--must-survive", "stall", "-o", "json"]);
    assert_eq!(document.code, 1);
    let document = document.json();
    assert_eq!(document["notSurvived"][0]["step"], "load");
    assert_eq!(document["weakPoints"][0]["step"], "load");
    let plan = document["weakPoints"][0]["faults"][0]["plan"].as_str().expect("a text");
    assert_eq!(rehearse(FLOW, plan, &["-o", "json"]).json()["ends"][0]["end"], "error");
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    let ran = rehearse(FLOW, "steps:\n  exract: pass\n  load: {sequence: [stal]}\n", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""));
    for part in [
        "error: there is no step `exract`\n",
        "plan.yaml:2:3\n",
        "= hint: did you mean `extract`?\n",
        "plan.yaml:3:21\n",
        "= field: steps.load.sequence[0]\n",
        "is refused: 2 errors\n",
    ] {
        assert!(ran.stderr.contains(part), "{part} in\n{}", ran.stderr);
    }
    let ran = rehearse(FLOW, "{steps: {'x*': pass}}", &[]);
    assert!(ran.code == 0 && ran.stderr.contains("warning: `x*` matches no step"), "{}", ran.stderr);
    let ran = rehearse("flow: a\nsteps: [{id: b, acton: c}]\n", "{}", &[]);
    assert!(ran.code == REFUSED && ran.stderr.contains("did you mean `action`?"), "{}", ran.stderr);
    let ran = rehearse(FLOW, "{steps: {exract: pass}}", &["-o", "json"]);
    let error: Value = serde_json::from_str(&ran.stderr).expect("it is JSON");
    assert_eq!(error["problems"][0]["field"], "steps.exract");
}

#[test]
fn what_was_typed_wrong_is_told() {
    let cases: [(&[&str], &str); 6] = [
        (&["--must-survive", "stall"], "--must-survive works only with --plan auto"),
        (&["--max-pairs", "3"], "--max-pairs works only with --plan auto"),
        (&["--plan", "auto", "--runs", "3"], "leave out --runs and --timeline"),
        (&["--plan", "auto", "--must-survive", "stal"], "there is no fault `stal`"),
        (&["--plan", "auto", "--must-survive", "stall@nobody"], "has no step `nobody`"),
        (&["--runs", "0"], "invalid value '0'"),
    ];
    let store = Store::new();
    let flow = store.write("flow.yaml", FLOW);
    for (arguments, wanted) in cases {
        let ran = store.unstuck(&[&["rehearse", &flow], arguments].concat());
        assert!(ran.code == 2 && ran.stderr.contains(wanted), "{arguments:?}: {} {}", ran.code, ran.stderr);
    }
    let cases: [(&[&str], &str); 4] = [
        (&["--plan", "nowhere.yaml"], "there is no file nowhere.yaml"),
        (&["--flow", "weekly"], "has no flow `weekly`; it has `nightly`"),
        (&["--input", "{"], "--input is not JSON"),
        (&["--store", "nowhere"], "there is no store at "),
    ];
    for (arguments, wanted) in cases {
        let ran = store.unstuck(&[&["rehearse", &flow], arguments].concat());
        assert!(
            ran.code == REFUSED && ran.stderr.contains(wanted),
            "{arguments:?}: {} {}",
            ran.code,
            ran.stderr
        );
    }
}

#[test]
fn the_policies_of_a_store_are_rehearsed_and_those_of_files_come_on_top() {
    let store = Store::new();
    let kept = store.write("kept.yaml", POLICY);
    let made = store.run_flow("flow: made\nsteps: [{id: one, set: 1}]\n", &[]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(store.unstuck(&["policy", "load", &kept]).code, 0);
    let flow = store.write("nightly.yaml", FLOW);
    let plan = store.write("plan.yaml", "{steps: {load: [{stall: refused}, pass]}}");
    let more = store.write("more.yaml", "{name: more, flow: other, maxAttempts: 2, backOff: 1}\n");
    let path = store.path();
    let end = |more: &[&str]| {
        let arguments = [&["rehearse", &flow, "--plan", &plan, "-o", "json"], more].concat();
        let document = store.unstuck(&arguments).json();
        let names: Vec<String> = document["policies"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|policy| policy["policy"].as_str().unwrap_or_default().to_owned())
            .collect();
        (document["ends"][0]["end"].clone(), names.join(" "))
    };
    assert_eq!(end(&[]), (json!("error"), String::new()));
    assert_eq!(end(&["--store", &path]), (json!("completed"), "again".to_owned()));
    assert_eq!(end(&["--store", &path, "--policies", &more]), (json!("completed"), "again more".to_owned()));
    let kept = store.unstuck(&["policy", "export"]).stdout;
    assert!(kept.contains("name: again") && !kept.contains("name: more"), "the store is as it was: {kept}");
}

/// Its steps read what others put out, one of them through a child and one what a signal carries.
const READING: &str = "
flow: orders
steps:
  - {id: fetch, run: 'echo nothing', timeout: 1m}
  - {id: approved, signal: approval}
  - id: ship
    if: steps.fetch.output.rows.size() > 0
    forEach: ${ steps.fetch.output.rows.filter(row, row.state == 'paid') }
    action: ship-order
    with: {order: \"${ item.id }\", by: \"${ steps.approved.output.by }\"}
  - {id: sum, flow: total, with: {prices: \"${ steps.ship.output.map(one, one.price) }\"}}
  - {id: tell, action: tell, with: {total: \"${ steps.sum.output.total * 2 }\"}}
---
flow: total
steps: [{id: add, action: add}]
";

#[test]
fn every_fault_of_a_flow_that_reads_outputs_needs_examples_and_the_snippet_works_when_pasted() {
    let store = Store::new();
    let flow = store.write("flow.yaml", READING);
    let ran = store.unstuck(&["rehearse", &flow, "--plan", "auto"]);
    for part in [
        "Without any fault the run is failed (`ship`: ",
        "EXAMPLES NEEDED\n  - `ship` reads the output of `fetch`, so the rehearsal needs an example\n",
        "  - `ship` reads the output of `approved`, so the rehearsal needs an example\n",
        "  - `sum` reads the output of `ship`, so the rehearsal needs an example\n",
        "  - `tell` reads the output of `total.add`, so the rehearsal needs an example\n",
        "With these examples the run completes. Replace them with real outputs:\n",
        "cat >> outputs.yaml <<'END'\nfetch: {\"rows\":[{\"id\":\"example\",\"state\":\"paid\"}]}\n",
    ] {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
    let (_, snippet) = ran.stdout.split_once("cat >>").expect("a snippet");
    let (snippet, _) = snippet.split_once("--outputs outputs.yaml").expect("it ends with the command");
    let pasted = store.shell(&format!("cat >>{snippet}--outputs outputs.yaml\n"));
    assert!(pasted.code == 0 && !pasted.stdout.contains("Without any"), "{}{}", pasted.stdout, pasted.stderr);
    assert!(pasted.stdout.contains("once     24 faults tried"), "{}", pasted.stdout);
    for part in
        ["EXAMPLE OUTPUTS\n", "  - `fetch` from outputs.yaml\n", "  - `total.add` from outputs.yaml\n"]
    {
        assert!(pasted.stdout.contains(part), "{part} in\n{}", pasted.stdout);
    }
    let again = store.shell("unstuck rehearse flow.yaml --plan auto --outputs outputs.yaml");
    assert_eq!(again.stdout, pasted.stdout, "the same examples print the same bytes");
    let document = store.unstuck(&["rehearse", &flow, "--plan", "auto", "-o", "json"]).json();
    assert_eq!(document["missing"]["enough"], json!(true));
    assert_eq!(document["missing"]["steps"][0]["readBy"], json!("`ship`"));
    assert_eq!(document["once"]["tried"], json!(0));
}

#[test]
fn examples_of_outputs_come_from_a_file_a_plan_or_the_store_and_the_transcript_says_which() {
    let store = Store::new();
    let text = "flow: f\nsteps:\n  - {id: a, run: 'echo \"{\\\"n\\\": 4}\"', timeout: 1m}\n  - {id: b, run: 'echo 1', timeout: 1m, with: {m: \"${ steps.a.output.n + 1 }\"}}\n";
    let flow = store.write("reading.yaml", text);
    let auto = ["rehearse", &flow, "--plan", "auto"];
    let none = store.unstuck(&[&auto[..], &["--outputs-from-store"]].concat());
    assert!(none.code == REFUSED && none.stderr.contains("there is no store at "), "{}", none.stderr);
    let other = store.run_flow("flow: other\nsteps: [{id: a, set: 1}]\n", &[]);
    assert_eq!(other.code, 0);
    let none = store.unstuck(&[&auto[..], &["--outputs-from-store"]].concat());
    let wanted = "Run the flow first, or give examples with --outputs FILE";
    assert!(none.code == REFUSED && none.stderr.contains(wanted), "{}", none.stderr);
    assert_eq!(store.unstuck(&["run", &flow]).code, 0);
    let run = store.latest();
    let kept = store.unstuck(&[&auto[..], &["--outputs-from-store"]].concat());
    let wanted = format!("EXAMPLE OUTPUTS\n  - `f.a` from {run}\n  - `f.b` from {run}\n");
    assert!(kept.code == 0 && kept.stdout.contains(&wanted), "{}{}", kept.stdout, kept.stderr);
    assert!(kept.stdout.contains("once     12 faults tried"), "{}", kept.stdout);
    // A file goes before the store, and a plan of one's own has examples too.
    let file = store.write("outputs.yaml", "a: {n: 7}\n");
    let both =
        store.unstuck(&[&auto[..], &["--outputs-from-store", "--outputs", &file, "-o", "json"]].concat());
    assert_eq!(both.json()["outputs"][0], json!({"step": "a", "from": file}));
    let plan = store.write("plan.yaml", "{outputs: {a: {n: 7}}, steps: {a: [stall, pass]}}");
    let planned = store.unstuck(&["rehearse", &flow, "--plan", &plan]);
    assert!(planned.stdout.contains(&format!("`a` from {plan}")), "{}", planned.stdout);
}

#[test]
fn an_example_that_does_not_fit_or_names_no_step_is_told() {
    let text = "flow: f\nsteps:\n  - {id: a, action: a}\n  - {id: s, set: 1}\n  - {id: b, action: b, with: {m: \"${ steps.a.output.n }\"}}\n";
    let store = Store::new();
    let flow = store.write("flow.yaml", text);
    let with = |outputs: &str| {
        let file = store.write("outputs.yaml", outputs);
        store.unstuck(&["rehearse", &flow, "--plan", "auto", "--outputs", &file])
    };
    let ran = with("a: {m: 1}\n");
    for part in
        ["  - `b` reads the output of `a`, but the example from", "does not fit", "there is no field `n`"]
    {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
    let cases = [
        ("ab: 1\n", "outputs.yaml:1:1", "hint: there are `a` and `b`"),
        (
            "s: 1\n",
            "step `s` is a `set`; its output is computed",
            "give examples for the steps that it reads",
        ),
        ("[1]\n", "a map of step ids to outputs", "outputs.yaml:1:2"),
        ("", "the file contains no outputs", "write the id of a step"),
    ];
    for (outputs, what, hint) in cases {
        let ran = with(outputs);
        assert!(
            ran.code == REFUSED && ran.stderr.contains(what) && ran.stderr.contains(hint),
            "{}",
            ran.stderr
        );
    }
}
