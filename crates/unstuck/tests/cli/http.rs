//! `http` steps and secrets with the real binary: a server that answers, and a store that knows no secret.

use std::path::Path;
use std::process::Stdio;

use crate::support::server::Server;
use crate::support::{REFUSED, Ran, Store, run_flow};

#[test]
fn a_request_is_a_step_of_a_run() {
    let server = Server::new();
    let flow = format!(
        "
flow: orders
steps:
  - id: create
    http:
      url: {}/once/503
      body: {{order: \"${{input.order}}\"}}
    minimumDelay: 10ms
  - id: look
    http: {{url: \"{0}/orders/${{steps.create.output.body.sent}}\"}}
    if: ${{steps.create.output.status == 200}}
output: ${{steps.look.output.body.path}}
",
        server.url()
    );
    let store = Store::new();
    let ran = store.run_flow(&flow, &["--input", r#"{"order": 7}"#, "-o", "json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.json()["output"], "/orders/%7B%22order%22:7%7D");
    let seen = server.requests();
    let key = |request: &str| {
        let line = request.lines().find(|line| line.starts_with("idempotency-key: "));
        line.expect("every request has one").to_owned()
    };
    assert_eq!(seen.len(), 3);
    assert_eq!(key(&seen[0]), key(&seen[1]), "a repeated request is known as such");
    assert_eq!(key(&seen[0]), format!("idempotency-key: {}/1/create", store.latest()));
    assert_ne!(key(&seen[0]), key(&seen[2]));
    let history = store.unstuck(&["history", "@latest"]).stdout;
    assert!(history.contains(&format!("HTTP 503 from {}/once/503", server.url())), "{history}");
}

#[test]
fn a_request_is_cut_off_at_the_timeout_of_its_step() {
    let server = Server::new();
    let flow = format!(
        "flow: f\nsteps: [{{id: x, http: {{url: '{}/silent'}}, timeout: 300ms, maxStuck: 2, minimumDelay: 10ms}}]\n",
        server.url()
    );
    let ran = run_flow(&flow, &[]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("(timeout)") && ran.stdout.contains("stuck 1 of 2"), "{}", ran.stdout);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn what_goes_wrong_is_said_in_a_sentence() {
    let server = Server::new();
    let cases = [
        (format!("{}/status/404", server.url()), format!("HTTP 404 from {}/status/404", server.url())),
        ("http://127.0.0.1:9/".to_owned(), "connection refused by 127.0.0.1:9".to_owned()),
        ("http://0.0.0.0/".to_owned(), "0.0.0.0 is an unspecified address".to_owned()),
        (
            "http://me:s3cret@127.0.0.1:9/?key=s3cret".to_owned(),
            "connection refused by 127.0.0.1:9".to_owned(),
        ),
    ];
    for (url, cause) in cases {
        let ran = run_flow(
            "flow: f\nsteps: [{id: x, http: {url: '${input.url}'}}]\n",
            &["--input", &format!("{{\"url\": \"{url}\"}}")],
        );
        assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(&cause) && !ran.stdout.contains("s3cret"), "{cause}: {}", ran.stdout);
    }
}

/// Whether a text is in a file of a folder, or of a folder in it.
fn is_in_folder(folder: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    entries.map(|entry| entry.expect("an entry").path()).any(|path| {
        if path.is_dir() {
            return is_in_folder(&path, text);
        }
        // A socket is no file.
        std::fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    })
}

const SECRETS: [&str; 3] = ["s3cret-from-a-file/1", "s3cret \"from\" the environment", "s3cret-user"];

const EVERYWHERE: &str = r#"
flow: secrets
steps:
  - id: call
    http:
      url: "${input.api}/path/${secrets.FILE}?key=${secrets.ENV}"
      headers: {authorization: "Bearer ${secrets.FILE}", x-key: "${secrets.ENV}"}
      body: {key: "${secrets.ENV}", list: ["${secrets.FILE}", "$${secrets.FILE}", "${input.trick}"]}
  - id: basic
    http: {url: "${input.api}/status/500"}
    failOnError: false
  - id: process
    run: |
      echo "$INPUT_KEY" >&2
      cat >&2
      echo "{\"progress\": \"$INPUT_FILE\"}" >> "$UNSTUCK_REPORT"
      echo "not a report: $INPUT_FILE" >> "$UNSTUCK_REPORT"
      env | grep SECRET >&2
      printf '%s' "$INPUT_KEY"
    with: {key: "${secrets.ENV}", file: "${secrets.FILE}"}
    timeout: 30s
  - id: breaks
    run: 'echo "denied for $INPUT_FILE" >&2; echo "{\"error\": {\"cause\": \"no $INPUT_FILE\", \"details\": \"$INPUT_FILE\"}}" >> "$UNSTUCK_REPORT"; exit 1'
    with: {file: "${secrets.FILE}"}
    timeout: 30s
    failOnError: false
  - id: refused
    http:
      url: "${input.api}/status/422"
      headers: {x-key: "${secrets.FILE}"}
    failOnError: false
  - id: user
    http: {url: "http://${secrets.USER}:${secrets.ENV}@${input.host}/user"}
"#;

only_on_a_store! {
    "secrets are given to the server, not to a command";
#[test]
fn a_secret_is_used_everywhere_and_found_nowhere() {
    let server = Server::new();
    let store = Store::new();
    let folder = format!("{}secrets", store.folder());
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(format!("{folder}/FILE"), format!("{}\n", SECRETS[0])).expect("written");
    let path = store.write("flow.yaml", EVERYWHERE);
    let input = format!(
        r#"{{"api": "{}", "host": "{}", "trick": "${{secrets.ENV}}"}}"#,
        server.url(),
        server.address
    );
    let mut command = store.command();
    command.args(["run", &path, "--input", &input, "--secrets", &folder]);
    command
        .env("UNSTUCK_SECRET_ENV", SECRETS[1])
        .env("UNSTUCK_SECRET_USER", SECRETS[2])
        .env("UNSTUCK_LOG", "trace");
    let ran = Ran::of(command.stdin(Stdio::null()).output().expect("the binary starts"));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);

    // The server got what it was meant to get, and what looked like a reference stayed text.
    let seen = server.requests();
    assert!(
        seen[0].starts_with("POST /path/s3cret-from-a-file%2F1?key=s3cret%20%22from%22%20the%20environment "),
        "{}",
        seen[0]
    );
    assert!(seen[0].contains(&format!("\nauthorization: Bearer {}\n", SECRETS[0])), "{}", seen[0]);
    let sent: serde_json::Value =
        serde_json::from_str(seen[0].split_once("\n\n").expect("a body").1).expect("JSON");
    assert_eq!(
        sent,
        serde_json::json!({"key": SECRETS[1], "list": [SECRETS[0], "${secrets.FILE}", "${secrets.ENV}"]})
    );
    assert!(seen[3].contains("\nauthorization: Basic "), "{}", seen[3]);

    // Nobody else has it: not the store, not the log, not what any command prints.
    let mut shown = format!("{}{}", ran.stdout, ran.stderr);
    for arguments in [
        &["show", "@latest", "-o", "json"][..],
        &["show", "@latest"],
        &["history", "@latest", "-o", "json"],
        &["logs", "@latest", "-o", "json"],
        &["explain", "@latest", "-o", "json"],
        &["errors", "list", "-o", "json"],
    ] {
        shown.push_str(&store.unstuck(arguments).stdout);
    }
    assert!(shown.contains("***") && shown.contains("denied for ***"), "{shown}");
    let encoded = |secret: &str| {
        let json = serde_json::Value::from(secret).to_string();
        [secret.to_owned(), json.trim_matches('"').to_owned()]
    };
    for secret in SECRETS.iter().flat_map(|secret| encoded(secret)).chain(["s3cret%20%22".to_owned()]) {
        assert!(!shown.contains(&secret), "{secret} is shown:\n{shown}");
        assert!(!is_in_folder(Path::new(&store.path()), &secret), "{secret} is in the store");
    }
    // The test would find it.
    assert!(is_in_folder(Path::new(&folder), SECRETS[0]));
    assert!(is_in_folder(Path::new(&store.path()), "${secrets.FILE}"));
}
}

only_on_a_store! {
    "secrets are given to the server, not to a command";
#[test]
fn a_missing_secret_fails_the_attempt() {
    let flow = "flow: f\nsteps: [{id: x, run: 'true', timeout: 1m, with: {a: '${secrets.NOWHERE}'}}]\n";
    let ran = run_flow(flow, &[]);
    assert_eq!(ran.code, 1);
    let wanted = "secret `NOWHERE` is missing: $UNSTUCK_SECRET_NOWHERE is not set, and no folder of secrets is given (--secrets)";
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(wanted), "{}", ran.stdout);
    let ran = run_flow(flow, &["--secrets", "/nonexistent-folder"]);
    assert_eq!(ran.code, REFUSED, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("cannot read the folder of secrets /nonexistent-folder"), "{}", ran.stderr);
}
}

#[test]
fn requests_are_rehearsed_without_a_server() {
    let store = Store::new();
    let flow = "
flow: f
steps:
  - {id: x, http: {url: 'https://nowhere.invalid/${secrets.KEY}'}, retryStrategy: retry, backOff: 1m}
  - {id: y, set: '${steps.x.output.status}'}
";
    let path = store.write("flow.yaml", flow);
    let plan = store.write("plan.yaml", "plan: p\nsteps: {x: {sequence: [crash, pass]}}\n");
    let ran = store.unstuck(&["rehearse", &path, "--plan", &plan]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("the connection was closed before the response was complete"),
        "{}",
        ran.stdout
    );
}
