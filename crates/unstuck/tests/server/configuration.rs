//! The configuration of a server: what wins, what is refused and where it is, and what is printed of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::{FLOWS, Server, Store};

/// The configuration as it is printed, by key.
fn print(store: &Store, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let all = [&["serve", "--print-config", "-o", "json"], arguments].concat();
    let output = store.command(&all).envs(variables.iter().copied()).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let settings = printed["settings"].as_array().expect("it is a list");
    settings
        .iter()
        .map(|setting| (setting["key"].as_str().expect("it is a text").to_owned(), setting.clone()))
        .collect()
}

#[test]
fn a_flag_wins_over_a_variable_over_a_file_over_the_default() {
    let store = Store::new();
    std::fs::write(store.folder().join("own.toml"), "\n[limits]\nitems = 10\nbody = '1 MiB'\nstreams = 3\n")
        .expect("it is written");
    let held = print(
        &store,
        &["--config", "own.toml", "--limits-items", "30"],
        &[("UNSTUCK_LIMITS_ITEMS", "20"), ("UNSTUCK_LIMITS_BODY", "2 MiB")],
    );
    for (key, value, source, place) in [
        ("limits.items", json!(30), "flag", "--limits-items"),
        ("limits.body", json!(2 << 20), "variable", "$UNSTUCK_LIMITS_BODY"),
        ("limits.streams", json!(3), "file", "own.toml:5"),
        ("limits.queries", json!(16), "default", "default"),
        ("limits.bodyTime", json!(30.0), "default", "default"),
    ] {
        let setting = &held[key];
        assert_eq!(
            (&setting["value"], setting["source"].as_str(), setting["place"].as_str()),
            (&value, Some(source), Some(place)),
            "{key}"
        );
    }
    assert_eq!(held["limits.streams"]["line"], 5);
}

#[test]
fn the_file_is_found_by_flag_variable_or_its_usual_place() {
    let store = Store::new();
    let write = |path: &str, name: &str| {
        let path = store.folder().join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        std::fs::write(path, format!("name = '{name}'\n")).expect("it is written");
    };
    write("config/unstuck/unstuck.toml", "usual");
    write("variable.toml", "variable");
    write("flag.toml", "flag");
    let usual = store.folder().join("config").to_string_lossy().into_owned();
    for (arguments, variable, wanted) in [
        (&[][..], "", "usual"),
        (&[], "variable.toml", "variable"),
        (&["--config", "flag.toml"], "variable.toml", "flag"),
    ] {
        let variables = [("XDG_CONFIG_HOME", usual.as_str()), ("UNSTUCK_CONFIG", variable)];
        assert_eq!(print(&store, arguments, &variables)["name"]["value"], wanted);
    }
    let (code, said) = store.run(&["serve", "--config", "nowhere.toml"]);
    let wanted = "error: cannot read the configuration file nowhere.toml: No such file or directory. Name another with --config PATH or UNSTUCK_CONFIG\n";
    assert_eq!((code, said.as_str()), (5, wanted));
}

#[test]
fn every_problem_of_a_file_is_told_with_its_place() {
    let store = Store::new();
    let text = "alowRun = true\n[limits]\nbody = 'much'\n";
    std::fs::write(store.folder().join("bad.toml"), text).expect("it is written");
    let (code, said) = store.run(&["serve", "--config", "bad.toml"]);
    let wanted = "\
error: there is no setting `alowRun`
 --> bad.toml:1:1
  |
1 | alowRun = true
  | ^^^^^^^
  = field: alowRun
  = hint: did you mean `allowRun`?

error: `much` is not a size
 --> bad.toml:3:8
  |
3 | body = 'much'
  |        ^
  = field: limits.body
  = hint: give a size, such as `64 KiB`, `4 MiB` or a number of bytes

error: bad.toml is refused: 2 errors
";
    assert_eq!((code, said.as_str()), (5, wanted));
    assert!(!store.path().exists(), "nothing was made");
    let (_, said) = store.run(&["serve", "--config", "bad.toml", "-o", "json"]);
    let problem: Value = serde_json::from_str(&said).expect("it is a problem document");
    assert_eq!(problem["problems"][0]["line"], 1, "{problem}");
}

#[test]
fn what_is_printed_is_a_file_that_sets_the_same() {
    let store = Store::new();
    let arguments = ["serve", "--print-config", "--limits-body", "5 MiB", "--name", "a \"b\""];
    let (code, printed) = store.run(&arguments);
    assert_eq!(code, 0, "{printed}");
    std::fs::write(store.folder().join("again.toml"), &printed).expect("it is written");
    let held = print(&store, &["--config", "again.toml"], &[]);
    assert_eq!((&held["limits.body"]["value"], &held["name"]["value"]), (&json!(5 << 20), &json!("a \"b\"")));
}

#[test]
fn what_does_not_go_together_is_refused_and_what_is_misspelt_is_told() {
    let store = Store::new();
    for (arguments, wanted) in [
        (
            &["--max-load", "2"][..],
            "error: maxLoad (--max-load) bounds `run:` steps, and this server does not execute them. Add --allow-run, or leave it out\n",
        ),
        (&["--tls-cert", "a.pem"], "error: tls.cert (--tls-cert) needs tls.key too. Add --tls-key PATH\n"),
        (
            &["--log", "loud"],
            "error: --log is `loud`, and `loud` is no level; give a level (error, warn, info, debug, trace or off) such as `debug`, or levels of parts such as `unstuck_engine=debug,unstuck_sqlite=info`\n",
        ),
    ] {
        assert_eq!(store.run(&[&["serve"], arguments].concat()), (5, wanted.to_owned()));
    }
    let output = store
        .command(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", "a", "--tls-key", "b"])
        .env("UNSTUCK_LIMITS_BDOY", "1")
        .output();
    let said = String::from_utf8(output.expect("it starts").stderr).expect("it is UTF-8");
    assert!(
        said.starts_with(
            "warning: the variable UNSTUCK_LIMITS_BDOY sets nothing; did you mean UNSTUCK_LIMITS_BODY?\n"
        ),
        "{said}"
    );
    let output = store.command(&["serve"]).env("UNSTUCK_LIMITS_ITEMS", "many").output().expect("it starts");
    let wanted =
        "error: UNSTUCK_LIMITS_ITEMS: `many` is not a whole number; give a whole number from 1 to 100000\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), wanted);
}

#[test]
fn limits_hold_as_they_are_configured() {
    let server = Server::start_on(&Store::new(), &["--limits-body", "2 KiB", "--limits-json-depth", "4"]);
    let answer = server.ask(&Request::new("POST", "/v1/flows").body("application/yaml", "x".repeat(3_000)));
    assert_eq!((answer.status, answer.json()["max"].as_u64()), (413, Some(2_048)));
    let answer = server.ask(&Request::new("POST", "/v1/runs").body("application/json", "[[[[[]]]]]"));
    assert_eq!(answer.problem().2, "the body is nested more than 4 deep");
}

#[test]
fn a_reason_is_required_where_that_is_configured() {
    let server = Server::start_on(&Store::new(), &["--audit-require-reason"]);
    let (status, kind, detail) = server.apply(FLOWS).problem();
    assert_eq!((status, kind.as_str()), (422, "invalid"), "{detail}");
    server.ask(&Request::new("POST", "/v1/flows?reason=first").body("application/yaml", FLOWS)).with(200);
    // Programs start runs without one.
    let run = server.start_order("a");
    let cancel = format!("/v1/runs/{run}/cancel");
    for body in [json!({}), json!({"reason": " "}), json!({"reason": null})] {
        assert_eq!(
            server.post(&cancel, &body).problem().2,
            "this server requires a reason for changes (audit.requireReason); give one as `reason`, with a command as --reason TEXT"
        );
    }
    assert_eq!(server.get(&format!("/v1/runs/{run}")).with(200)["state"], "waiting");
    server.post(&cancel, &json!({"reason": "not wanted"})).with(200);
}

#[test]
fn a_token_that_asks_too_often_is_told_when_to_come_back() {
    let server = Server::start_on(&Store::new(), &["--rates-requests", "1", "--rates-burst", "2"]);
    server.apply(FLOWS).with(200);
    let token = |name: &str| {
        let made =
            server.ask(&Request::new("POST", "/v1/tokens").json(&json!({"name": name, "role": "viewer"})));
        made.with(201)["token"].as_str().expect("it is a text").to_owned()
    };
    // From the first token on everybody needs one, and whoever has none is not limited.
    let viewer = token("ada");
    let ask = |token: &str| {
        server.ask(&Request::new("GET", "/v1/runs").header("Authorization", &format!("Bearer {token}")))
    };
    let mut statuses = Vec::new();
    let refused = loop {
        let answer = ask(&viewer);
        statuses.push(answer.status);
        if answer.status != 200 || statuses.len() > 50 {
            break answer;
        }
    };
    let (status, kind, detail) = refused.problem();
    assert_eq!(
        (status, kind.as_str(), detail.as_str()),
        (429, "too-many", "the token `ada` makes more than 1 requests a second; repeat this one in a moment")
    );
    let millis = refused.json()["retryAfterMs"].as_u64().expect("it is a number");
    assert!((1..=2_000).contains(&millis), "{millis}");
    let seconds: u64 = refused.header("retry-after").expect("it is there").parse().expect("it is a number");
    assert_eq!(seconds, millis.div_ceil(1_000));
    assert!(statuses.len() >= 3, "a burst is let through: {statuses:?}");
}

#[test]
fn the_log_has_requests_and_never_what_is_in_them() {
    for format in ["text", "json"] {
        let server = Server::start_on(&Store::new(), &["--log", "trace", "--log-format", format]);
        server.apply(FLOWS).with(200);
        let made = server.post("/v1/tokens", &json!({"name": "boss", "role": "admin"})).with(201);
        let token = made["token"].as_str().expect("it is a text").to_owned();
        let request = Request::new("POST", "/v1/runs?wait=30s")
            .header("Authorization", &format!("Bearer {token}"))
            .header("Request-Id", "my-request-7")
            .json(&json!({"flow": "quick", "input": {"card": "p4yload-4242"}, "key": "k3y-17"}));
        server.ask(&request).with(201);
        let wrong = Request::new("GET", "/v1/runs?cause=qu3ry-text")
            .header("Authorization", "Bearer ust_wr0ng_t0ken");
        assert_eq!(server.ask(&wrong).status, 401);
        server.begin_to_stop();
        let (_, log) = server.wait();
        let secret = token.rsplit('_').next().expect("it has parts");
        for hidden in [token.as_str(), secret, "p4yload", "qu3ry", "wr0ng_t0ken", "Bearer"] {
            assert!(!log.contains(hidden), "{hidden} is in the log:\n{log}");
        }
        let line = log.lines().find(|line| line.contains("my-request-7")).expect("the request is logged");
        for wanted in ["/v1/runs", "201", "boss", "POST"] {
            assert!(line.contains(wanted), "{wanted} is missing: {line}");
        }
        if format == "json" {
            let line: Value = serde_json::from_str(line).expect("it is JSON");
            assert_eq!(
                (line["route"].as_str(), line["status"].as_u64(), line["level"].as_str()),
                (Some("/v1/runs"), Some(201), Some("debug")),
                "{line}"
            );
            assert!(
                log.lines()
                    .filter(|line| line.starts_with('{'))
                    .all(|line| serde_json::from_str::<Value>(line).is_ok())
            );
        }
    }
}

/// The page that lists every setting, held against the table that the server goes by.
#[test]
fn the_page_lists_every_setting() {
    let (code, schema) = Store::new().run(&["schema", "--configuration"]);
    assert_eq!(code, 0, "{schema}");
    let schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    let wanted = format_table(&schema["properties"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = ("<!-- settings -->\n", "<!-- end of settings -->");
    let from = page.find(begin).expect("the page has the mark") + begin.len();
    let to = page.find(end).expect("the page has the mark");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{}{wanted}{}", &page[..from], &page[to..]))
            .expect("it can be written");
        return;
    }
    assert_eq!(&page[from..to], wanted, "UPDATE_DOCS=1 writes it");
}

fn format_table(properties: &Value) -> String {
    let mut lines = vec!["| key | default | what |".to_owned(), "|---|---|---|".to_owned()];
    let mut groups = Vec::new();
    for (name, property) in properties.as_object().expect("it is an object") {
        match property.get("properties") {
            None => lines.push(format_row(name, property)),
            Some(inner) => {
                let inner = inner.as_object().expect("it is an object");
                groups.extend(
                    inner.iter().map(|(last, property)| format_row(&format!("{name}.{last}"), property)),
                );
            }
        }
    }
    lines.extend(groups);
    lines.join("\n") + "\n"
}

fn format_row(key: &str, property: &Value) -> String {
    let default = match property["x-default"].as_str() {
        Some(default) => format!("`{default}`"),
        None => property["x-unset"].as_str().expect("it is one of both").to_owned(),
    };
    format!("| `{key}` | {default} | {} |", property["description"].as_str().expect("it is described"))
}
