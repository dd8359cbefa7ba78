//! Every way to ask for what cannot be done, and the sentence for it.

use serde_json::{Value, json};

use crate::support::{Folder, REFUSED, run_flow, unstuck, unstuck_reading};

const HELLO: &str = "flow: hello\nsteps:\n  - {id: say, set: hello}\n";

#[test]
fn files_that_cannot_be_read_are_named_with_the_reason() {
    let folder = Folder::new();
    let (empty, binary) =
        (folder.write("empty.yaml", ""), folder.write("binary.yaml", b"flow: a\n\xff\xfe\n"));
    let (missing, directory) = (folder.path("missing.yaml"), folder.path(""));
    let cases = [
        (&missing, format!("error: there is no file {missing}; check the path\n")),
        (&directory, format!("error: {directory} is a directory; name a file in it\n")),
        (&binary, format!("error: {binary} is not text: line 2 is not UTF-8; save it as UTF-8\n")),
        (
            &empty,
            format!(
                "error: the file contains no flow\n --> {empty}:1:1\n  = hint: start with `flow: <name>` and `steps:`\n\n\
                 error: {empty} is refused: 1 error\n"
            ),
        ),
    ];
    for (path, wanted) in cases {
        let ran = unstuck(&["run", path]);
        assert_eq!(
            (ran.code, ran.stderr.as_str(), ran.stdout.as_str()),
            (REFUSED, wanted.as_str(), ""),
            "{path}"
        );
    }
}

#[test]
fn bad_inputs_are_refused_with_their_place() {
    let folder = Folder::new();
    let flow = folder.write(
        "flow.yaml",
        "flow: count\ninput: {type: object, required: [n], properties: {n: {type: integer}}}\nsteps:\n  - {id: a, set: 1}\n",
    );
    let bad = folder.write("bad.json", "{\n  \"n\": 1,\n  \"m\": x\n}");
    let at_bad = format!("@{bad}");
    let cases = [
        ("{\"n\": }", "--input is not JSON: line 1, column 7: expected value".to_owned()),
        ("n=1", "--input is not JSON: line 1, column 2: expected ident; give JSON, @FILE for a file, or - for stdin".to_owned()),
        ("", "--input is empty; give JSON, such as {\"n\": 1}".to_owned()),
        (&at_bad, format!("{bad} is not JSON: line 3, column 8: expected value")),
        ("@nowhere.json", "there is no file nowhere.json; check the path".to_owned()),
        ("-", "--input from stdin is not JSON: line 1, column 3: key must be a string".to_owned()),
    ];
    for (input, wanted) in cases {
        let ran = unstuck_reading(&["run", &flow, "--input", input], "{ x }");
        assert_eq!((ran.code, ran.stderr), (REFUSED, format!("error: {wanted}\n")), "{input}");
    }
    for (input, wanted) in
        [("{\"n\": \"x\"}", "\"x\" is not of type \"integer\""), ("{}", "\"n\" is a required property")]
    {
        let ran = unstuck(&["run", &flow, "--input", input]);
        assert_eq!(ran.code, REFUSED);
        let start = "error: the input does not match the flow: ";
        assert!(ran.stderr.starts_with(start) && ran.stderr.contains(wanted), "{}", ran.stderr);
    }
}

#[test]
fn a_flow_that_is_not_in_the_file_is_refused_with_those_that_are() {
    let (_folder, path) = Folder::with("flow.yaml", format!("{HELLO}---\n{}", HELLO.replace("hello", "bye")));
    let ran = unstuck(&["run", &path, "--flow", "hullo"]);
    assert_eq!(
        (ran.code, ran.stderr),
        (REFUSED, format!("error: {path} has no flow `hullo`; it has `hello`, `bye`\n"))
    );
    let ran = unstuck(&["run", &path, "--flow", "bye", "-o", "json"]);
    assert_eq!((ran.code, &ran.json()["flow"]), (0, &json!("bye")));
}

#[test]
fn stdin_cannot_be_both_flow_and_input() {
    let ran = unstuck_reading(&["run", "-", "--input", "-"], HELLO);
    let wanted = "error: the flow and its input cannot both come from stdin; put one of them in a file\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (REFUSED, wanted));
    let ran = unstuck_reading(&["run", "-"], HELLO);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_definition_error_is_shown_where_it_is() {
    let (_folder, path) =
        Folder::with("flow.yaml", "flow: a\nsteps:\n  - id: one\n    set: 1\n    timout: 5s\n");
    let ran = unstuck(&["run", &path]);
    assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""));
    for part in [
        &format!(" --> {path}:5:5\n"),
        "5 |     timout: 5s\n  |     ^^^^^^\n",
        "= hint: ",
        "is refused: 1 error\n",
    ] {
        assert!(ran.stderr.contains(part), "{part} in\n{}", ran.stderr);
    }
}

#[test]
fn with_json_errors_are_json_too() {
    let sentence = unstuck(&["run", "nowhere.yaml", "-o", "json"]);
    let error: Value = serde_json::from_str(&sentence.stderr).expect("stderr is JSON");
    let wanted = json!({
        "type": "/problems/bad-request", "title": "The request is not understood", "status": 400,
        "detail": "there is no file nowhere.yaml; check the path",
    });
    assert_eq!(error, wanted);
    assert_eq!((sentence.code, sentence.stdout.as_str()), (REFUSED, ""));

    let refused = run_flow("flow: a\nsteps: []\n", &["-o", "json"]);
    let error: Value = serde_json::from_str(&refused.stderr).expect("stderr is JSON");
    assert_eq!((&error["type"], &error["status"]), (&json!("/problems/invalid"), &json!(422)), "{error}");
    assert_eq!(error["problems"][0]["severity"], "error", "{error}");
    assert_eq!((refused.code, refused.stdout.as_str()), (REFUSED, ""));
}

#[test]
fn a_wrong_use_exits_with_2() {
    let cases: [&[&str]; 7] = [
        &[],
        &["walk"],
        &["run"],
        &["check"],
        &["run", "x.yaml", "--max-load", "0"],
        &["run", "x.yaml", "-o", "xml"],
        &["completions", "csh"],
    ];
    for arguments in cases {
        let ran = unstuck(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("Usage:") || ran.stderr.contains("--help"),
            "{arguments:?}: {}",
            ran.stderr
        );
        let json = unstuck(&[&["-o", "json"], arguments].concat());
        // An output that is not known cannot be JSON.
        if !arguments.contains(&"xml") {
            let problem: Value = serde_json::from_str(&json.stderr).expect("stderr is JSON");
            assert_eq!((json.code, json.stdout.as_str()), (2, ""), "{arguments:?}: {problem}");
            assert_eq!(problem["type"], "/problems/bad-request", "{arguments:?}");
            let detail = problem["detail"].as_str().expect("a sentence");
            assert!(!detail.is_empty() && !detail.contains("Usage:"), "{arguments:?}: {detail}");
        }
    }
}
