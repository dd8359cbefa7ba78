//! Runs that are under way are moved to another version of their flow.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::Server;

const SECOND: &str = "\
flow: order
version: '2'
labels: {team: billing}
steps:
  - {id: total, set: '${input.amount * 2}'}
  - {id: approve, signal: approve}
  - {id: tell, set: told}
  - {id: ship, set: '${steps.tell.output}'}
output: '${steps.ship.output}'
";

/// Another version whose first step is another one.
const OTHER: &str = "\
flow: order
version: '3'
steps:
  - {id: total, set: '${input.amount * 3}'}
  - {id: approve, signal: approve}
output: '${steps.approve.output}'
";

fn migrate(server: &Server, query: &str, body: &Value) -> Value {
    server.post(&format!("/v1/flows/order/migrate?{query}"), body).with(200)
}

#[test]
fn a_run_is_tried_moved_and_goes_on_as_the_new_version_says() {
    let server = Server::start();
    let run = server.start_order("o-1");
    server.apply(SECOND).with(200);
    let path = format!("/v1/runs/{run}/migrate");
    let tried = server.post(&format!("{path}?dryRun=true"), &json!({})).with(200);
    assert_eq!((&tried["to"], &tried["moved"], &tried["dryRun"]), (&json!("2"), &json!(1), &json!(true)));
    assert_eq!(server.get(&format!("/v1/runs/{run}")).with(200)["version"], "1");
    assert_eq!(server.post(&path, &json!({"reason": "mended"})).with(200)["already"], false);
    assert_eq!(server.post(&path, &json!({"to": "2"})).with(200)["already"], true);
    let shown = server.get(&format!("/v1/runs/{run}")).with(200);
    assert_eq!((&shown["version"], &shown["state"]), (&json!("2"), &json!("waiting")));
    let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
    let fact = &history["events"][1]["facts"][0];
    assert_eq!(
        (&fact["type"], &fact["version"], &fact["reason"]),
        (&json!("run.migrated"), &json!("2"), &json!("mended"))
    );
    let said = history["events"][1]["what"][0].as_str().expect("it is a sentence");
    assert!(said.contains("moved from version `1` to version `2` by local"), "{said}");
    assert_eq!(
        server.get("/v1/audit?what=run.migrate").with(200)["entries"].as_array().map(Vec::len),
        Some(1)
    );
    // Over a restart it is still of that version.
    let store = server.stop();
    store.assert_clean();
    let server = Server::start_on(&store, &[]);
    server.post(&format!("/v1/runs/{run}/signal"), &json!({"name": "approve"})).with(200);
    let done = server.rest(&run);
    assert_eq!((&done["state"], &done["output"]), (&json!("completed"), &json!("told")));
    server.stop().assert_clean();
}

#[test]
fn runs_of_a_flow_are_moved_page_by_page_and_those_that_cannot_be_are_named() {
    let server = Server::start();
    let runs: Vec<String> = (0..3).map(|n| server.start_order(&n.to_string())).collect();
    server.apply(SECOND).with(200);
    server.apply(OTHER).with(200);
    let tried = migrate(&server, "dryRun=true", &json!({}));
    assert_eq!((&tried["to"], &tried["moved"], &tried["total"]), (&json!("3"), &json!(0), &json!(3)));
    let not = &tried["notMoved"][0];
    assert_eq!((&not["run"], &not["step"]), (&json!(runs[2]), &json!("total")));
    let why = "the run cannot be moved to version `3`: step `total` is completed, and is defined in another way there";
    assert_eq!(not["why"], why);
    let first = migrate(&server, "limit=2", &json!({"to": "2", "from": "1"}));
    assert_eq!((&first["moved"], &first["total"]), (&json!(2), &json!(2)));
    let next = first["next"].as_str().expect("there is more").to_owned();
    let second = migrate(&server, &format!("limit=2&after={next}"), &json!({"to": "2", "from": "1"}));
    assert_eq!((&second["moved"], &second["next"]), (&json!(1), &Value::Null));
    assert_eq!(migrate(&server, "", &json!({"to": "2"}))["total"], 0);
    let back = migrate(&server, "", &json!({"to": "1", "runs": [runs[0]]}));
    assert_eq!((&back["moved"], &back["total"]), (&json!(1), &json!(1)));
    assert_eq!(server.get(&format!("/v1/runs/{}", runs[0])).with(200)["version"], "1");
}

#[test]
fn what_cannot_be_moved_is_refused_with_the_step() {
    let server = Server::start();
    let (open, done) = (server.start_order("o-1"), server.start_run("quick"));
    server.apply(OTHER).with(200);
    let refused = server.post(&format!("/v1/runs/{open}/migrate"), &json!({}));
    let (status, kind, detail) = refused.problem();
    assert_eq!(
        (status, kind.as_str(), &refused.json()["step"]),
        (422, "invalid", &json!("total")),
        "{detail}"
    );
    for (path, body, wanted) in [
        (format!("/v1/runs/{done}/migrate"), json!({}), (409, "final")),
        (format!("/v1/runs/{open}/migrate"), json!({"to": "9"}), (404, "not-found")),
        (format!("/v1/runs/{open}/migrate"), json!({"too": "9"}), (400, "bad-request")),
        ("/v1/flows/nothing/migrate".to_owned(), json!({}), (404, "not-found")),
        ("/v1/flows/order/migrate?after=x".to_owned(), json!({}), (400, "bad-cursor")),
        ("/v1/flows/order/migrate".to_owned(), json!({"runs": ["nothing"]}), (404, "not-found")),
    ] {
        let (status, kind, detail) = server.post(&path, &body).problem();
        assert_eq!((status, kind.as_str()), wanted, "{path} {body}: {detail}");
    }
    assert_eq!(
        server.get(&format!("/v1/runs/{open}/history")).with(200)["events"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn the_command_moves_runs_of_a_server() {
    let server = Server::start();
    server.start_order("o-1");
    server.apply(SECOND).with(200);
    let url = format!("http://{}", server.address);
    let (code, said) = server.store.run(&["flow", "migrate", "order", "--dry-run", "--server", &url]);
    assert_eq!(
        (code, said.as_str()),
        (0, "1 of 1 run of flow `order` can be moved to version 2. Nothing was changed.\n")
    );
    let (code, said) = server.store.run(&["flow", "migrate", "order", "--server", &url]);
    assert_eq!((code, said.as_str()), (0, "Moved 1 of 1 run of flow `order` to version 2.\n"));
    let (code, said) =
        server.store.run(&["amend", "o-1", "--priority", "4", "--label", "a=b", "--server", &url]);
    assert!(code == 0 && said.starts_with("Changed the run.\n"), "{said}");
    let (code, said) = server.store.run(&["rerun", "o-1", "--dry-run", "--cancel-first", "--server", &url]);
    assert!(
        code == 0 && said.contains("approve, tell, ship") && said.contains("would begin generation 2"),
        "{said}"
    );
    let (code, said) = server.store.run(&["payload", "o-1", "total.output", "--server", &url]);
    assert_eq!((code, said.as_str()), (0, "42\n"));
    let (code, said) = server.store.run(&["items", "o-1", "--server", &url]);
    assert_eq!((code, said.as_str()), (0, "No items.\n"));
    let (code, said) = server.store.run(&["show", "o-1", "--server", &url]);
    assert!(code == 0 && said.contains("priority   4"), "{said}");
}

#[test]
fn a_file_can_be_applied_and_its_runs_moved_in_one_request() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let apply = |query: &str, file: &str| -> Value {
        let request = Request::new("POST", &format!("/v1/flows?{query}")).body("application/yaml", file);
        server.ask(&request).with(200)["flows"][0].clone()
    };
    let version = || server.get(&format!("/v1/runs/{run}")).with(200)["version"].clone();
    let tried = apply("migrate=true&dryRun=true", SECOND);
    assert_eq!(
        (&tried["what"], &tried["migration"]["moved"], &tried["migration"]["dryRun"], version()),
        (&json!("changed"), &json!(1), &json!(true), json!("1"))
    );
    let tried = apply("migrate=true&dryRun=true", OTHER);
    let kept = &tried["migration"]["notMoved"][0];
    assert_eq!((&kept["run"], &kept["step"]), (&json!(run), &json!("total")), "{tried}");
    let moved = apply("migrate=true", SECOND);
    assert_eq!((&moved["version"], &moved["migration"]["moved"]), (&json!("2"), &json!(1)));
    assert_eq!(version(), "2");
    let again = apply("migrate=true", SECOND);
    assert_eq!((&again["what"], &again["migration"]["total"]), (&json!("unchanged"), &json!(0)));
    let without = apply("", SECOND);
    assert_eq!(without.get("migration"), None);
}
