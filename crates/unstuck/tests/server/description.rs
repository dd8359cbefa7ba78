//! The description of the API: every operation that it has answers as it says.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Value, json};
use unstuck_api::ProblemType;

use crate::client::{Answer, Request};
use crate::event_stream::EventStream;
use crate::support::{FLOWS, Server, Store, wait_until};

/// The description, and which of its operations have been called.
struct Description {
    document: Value,
    called: BTreeMap<String, Vec<u16>>,
}

impl Description {
    fn of(server: &Server) -> Description {
        let document = server.get("/openapi.json").with(200);
        assert_eq!(document["openapi"], "3.1.0");
        Description { document, called: BTreeMap::new() }
    }

    /// Every operation, by its name, with its method and path.
    fn operations(&self) -> BTreeMap<String, (String, String)> {
        let paths = self.document["paths"].as_object().expect("it is an object");
        let mut operations = BTreeMap::new();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().expect("it is an object") {
                let name = operation["operationId"].as_str().expect("it has a name").to_owned();
                operations.insert(name, (method.to_ascii_uppercase(), path.clone()));
            }
        }
        operations
    }

    fn operation(&self, name: &str) -> &Value {
        let operations = self.operations();
        let (method, path) = operations.get(name).unwrap_or_else(|| panic!("there is no {name}"));
        &self.document["paths"][path][method.to_ascii_lowercase()]
    }

    /// Checks that an answer of an operation is one that the description has.
    fn check(&mut self, name: &str, answer: &Answer) {
        let responses = &self.operation(name)["responses"];
        let said = &responses[answer.status.to_string()];
        let said = if said.is_null() { &responses["default"] } else { said };
        let media =
            answer.header("content-type").map(|kind| kind.split(';').next().unwrap_or_default().to_owned());
        let is_problem = media.as_deref() == Some("application/problem+json");
        assert_eq!(is_problem, responses[answer.status.to_string()].is_null(), "{name}: {answer:?}");
        match media {
            None => assert!(said["content"].is_null() && answer.body.is_empty(), "{name}: {answer:?}"),
            Some(media) => {
                let content = &said["content"][&media];
                assert!(!content.is_null(), "{name} does not say that it answers {} {media}", answer.status);
                if !content["schema"].is_null() {
                    self.validate(&content["schema"], &answer.json(), name);
                }
            }
        }
        self.called.entry(name.to_owned()).or_default().push(answer.status);
    }

    fn validate(&self, schema: &Value, instance: &Value, name: &str) {
        let mut schema = schema.clone();
        schema["components"] = self.document["components"].clone();
        let validator: Validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
        let wrong: Vec<String> = validator
            .iter_errors(instance)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{instance:#}");
    }
}

/// Things that paths name, of every kind.
struct Names {
    run: String,
    group: String,
    bulk: String,
}

fn fill_store(server: &Server) -> Names {
    server.apply("flow: daily\nschedule: '@daily'\nsteps: [{id: a, set: 1}]\n").with(200);
    let run = server.start_run("broken");
    server.start_run("held");
    server.start_order("o-1");
    server.start_run("quick");
    let policy = json!({"name": "later", "flow": "broken", "maxAttempts": 9, "backOff": {"delay": 86_400}});
    server.post("/v1/policies", &policy).with(200);
    let group = server.get("/v1/errors?flow=broken").with(200)["groups"][0]["group"].clone();
    let order = json!({"action": "ack", "flow": "held", "reason": "known"});
    let mut bulk = server.post("/v1/bulk", &order).with(202)["bulk"].clone();
    if bulk.is_null() {
        let order = json!({"action": "ack", "flow": "broken", "reason": "known"});
        bulk = server.post("/v1/bulk", &order).with(202)["bulk"].clone();
    }
    let text = |value: &Value| value.as_str().expect("it is a name").to_owned();
    Names { run, group: text(&group), bulk: text(&bulk) }
}

/// A body that is fine for an operation, where it takes one.
fn body_of(operation: &str) -> Option<Value> {
    Some(match operation {
        "applyFlows" => json!({"flow": "new", "steps": [{"id": "a", "set": 1}]}),
        "startRun" => json!({"flow": "quick"}),
        "startRuns" => json!({"runs": [{"flow": "quick"}, {"flow": "none"}]}),
        "amendRun" => json!({"priority": 1}),
        "acknowledgeErrors" | "pausePolicies" => json!({"reason": "known"}),
        "chooseForStep" => json!({"step": "fetch", "choice": "retry"}),
        "completeStep" | "skipStep" => json!({"step": "fetch"}),
        "copyStore" => json!({}),
        "createToken" => json!({"name": "ops", "role": "operator"}),
        "enablePolicies" | "disablePolicies" | "deletePolicies" => json!({"names": ["later"]}),
        "signalRun" => json!({"name": "approve"}),
        "signalKey" => json!({"flow": "order", "key": "o-1", "name": "approve"}),
        "loadPolicies" => json!({"name": "more", "flow": "held", "maxAttempts": 2, "backOff": {"delay": 1}}),
        "replacePolicies" | "replacePolicy" => {
            json!({"name": "later", "flow": "broken", "maxAttempts": 8, "backOff": {"delay": 86_400}})
        }
        "orderPolicies" => json!({"names": ["more", "later"]}),
        "previewPolicies" => json!({"names": ["later"]}),
        "backtestPolicies" => json!({"names": ["later"], "since": "1h"}),
        "beginBulk" => json!({"action": "resume", "flow": "broken"}),
        "resumeRun" | "pauseRun" | "unpauseRun" | "cancelRun" | "rerunRun" | "applyPolicies"
        | "migrateRun" | "migrateFlow" | "unpausePolicies" | "enablePolicy" | "disablePolicy"
        | "pauseBulk" | "unpauseBulk" | "cancelBulk" | "pauseSchedule" | "unpauseSchedule"
        | "fireSchedule" => json!({}),
        _ => return None,
    })
}

#[test]
fn every_operation_answers_as_it_is_described() {
    let server = Server::start();
    let names = fill_store(&server);
    let mut description = Description::of(&server);
    let operations = description.operations();
    assert!(operations.len() > 50, "{}", operations.len());
    // What removes things comes last, and then what lets in only those who have a token.
    let order =
        |name: &str, method: &str| (name.ends_with("Token"), method == "DELETE" || name == "deletePolicies");
    let mut all: Vec<_> = operations.into_iter().collect();
    all.sort_by_key(|(name, (method, _))| order(name, method));
    for (operation, (method, path)) in all {
        if operation == "streamEvents" {
            let mut stream = EventStream::open(&server, "?after=0.0.0", None);
            assert_eq!(stream.next().map(|message| message.kind), Some("reset".to_owned()));
            description.called.insert(operation, vec![200]);
            continue;
        }
        let real = [
            ("{run}", names.run.as_str()),
            ("{group}", &names.group),
            ("{bulk}", &names.bulk),
            ("{flow}", if path.starts_with("/v1/schedules") { "daily" } else { "order" }),
            ("{key}", "o-1"),
            ("{name}", "later"),
            ("{type}", "in-use"),
            ("{token}", "ops"),
        ];
        let fill = |with: &dyn Fn(&'static str, &str) -> String| {
            real.iter().fold(path.clone(), |path, (part, name)| path.replace(part, &with(part, name)))
        };
        let request = |path: &str| {
            let request = Request::new(&method, path);
            body_of(&operation).map_or(request.clone(), |body| request.json(&body))
        };
        // With a thing that is there, and with one that is not; with a parameter that there is not.
        let needed = if operation == "getPayload" { "?of=input" } else { "" };
        let there = format!("{}{needed}", fill(&|_, name| name.to_owned()));
        description.check(&operation, &server.ask(&request(&there)));
        let missing = fill(&|_, _| "missing".to_owned());
        if missing != path.as_str() {
            description.check(&operation, &server.ask(&request(&missing)));
        }
        description.check(&operation, &server.ask(&request(&format!("{path}?nothing=1"))));
    }
    let called = &description.called;
    let went_well = |statuses: &Vec<u16>| statuses.iter().any(|status| *status < 300);
    let not: Vec<&String> =
        called.iter().filter(|(_, statuses)| !went_well(statuses)).map(|(name, _)| name).collect();
    // All are tried on the same things, which do not always let it.
    assert!(not.iter().all(|name| TRIED_APART.contains(&name.as_str())), "{not:?} of {called:?}");
}

/// What needs a run or a bulk action of its own to go well.
const TRIED_APART: [&str; 19] = [
    "cancelBulk",
    "cancelRun",
    "chooseForStep",
    "completeStep",
    "copyStore",
    "deleteFlow",
    "forgetRun",
    "getStoreJob",
    "migrateRun",
    "pauseBulk",
    "pauseRun",
    "deletePolicy",
    "rerunRun",
    "revokeToken",
    "rotateToken",
    "signalRun",
    "skipStep",
    "unpauseBulk",
    "unpauseRun",
];

#[test]
fn what_is_answered_only_sometimes_is_described_too() {
    let store = Store::new();
    let copies = store.folder().join("copies");
    let server = Server::start_on(&store, &["--copies", copies.to_str().expect("a plain path")]);
    server.apply(FLOWS).with(200);
    let mut description = Description::of(&server);
    let run = server.start_run("held");
    description.check("startRun", &server.post("/v1/runs?wait=30s", &json!({"flow": "quick", "key": "k"})));
    description.check("startRun", &server.post("/v1/runs", &json!({"flow": "quick", "key": "k"})));
    let path = format!("/v1/runs/{run}");
    let ask =
        |path: &str, name: &str, value: &str| server.ask(&Request::new("GET", path).header(name, value));
    description.check("getRun", &ask(&path, "If-None-Match", "*"));
    description.check("getFlow", &ask("/v1/flows/order", "If-None-Match", "*"));
    description.check("getRunOfKey", &ask("/v1/flows/quick/keys/k", "If-None-Match", "*"));
    description.check("explainRun", &ask(&format!("{path}/explain"), "Accept", "text/plain"));
    description.check("listPolicies", &ask("/v1/policies", "Accept", "application/yaml"));
    description.check("listPolicies", &ask("/v1/policies", "If-None-Match", "*"));
    let order = json!({"action": "cancel", "flow": "held"});
    description.check("beginBulk", &server.post("/v1/bulk?dryRun=true", &order));
    let chosen = server.post(&format!("{path}/choose"), &json!({"step": "upload", "choice": "none"}));
    description.check("chooseForStep", &chosen);
    server.rest(&run);
    description.check("rerunRun", &server.post(&format!("{path}/rerun?dryRun=true"), &json!({})));
    description.check("rerunRun", &server.post(&format!("{path}/rerun"), &json!({})));
    server.rest(&run);
    description.check("cancelRun", &server.post(&format!("{path}/cancel"), &json!({})));
    description.check("forgetRun", &server.delete(&path));
    description.check("deleteFlow", &server.delete("/v1/flows/held"));
    let broken = server.start_run("broken");
    description
        .check("skipStep", &server.post(&format!("/v1/runs/{broken}/skip"), &json!({"step": "fetch"})));
    let broken = server.start_run("broken");
    description.check(
        "completeStep",
        &server.post(&format!("/v1/runs/{broken}/complete"), &json!({"step": "fetch"})),
    );
    let copy = server.post("/v1/store/copies", &json!({"name": "one"}));
    let job = format!("/v1/store/jobs/{}", copy.json()["job"].as_str().expect("it has an id"));
    description.check("copyStore", &copy);
    wait_until("it is over", || server.get(&job).json()["state"] != "running");
    description.check("getStoreJob", &server.get(&job));
    try_on_runs_of_their_own(&server, &mut description);
    for name in TRIED_APART {
        let statuses = &description.called[name];
        assert!(statuses.iter().any(|status| *status < 300), "{name}: {statuses:?}");
    }
}

fn try_on_runs_of_their_own(server: &Server, description: &mut Description) {
    let order = server.start_order("o-1");
    for (operation, verb, body) in [
        ("migrateRun", "migrate", json!({})),
        ("pauseRun", "pause", json!({})),
        ("unpauseRun", "unpause", json!({})),
        ("signalRun", "signal", json!({"name": "approve"})),
    ] {
        description.check(operation, &server.post(&format!("/v1/runs/{order}/{verb}"), &body));
    }
    for _ in 0..3 {
        server.start_run("broken");
    }
    let slow = json!({"action": "resume", "flow": "broken", "rate": 1, "canary": 1});
    let bulk = server.post("/v1/bulk", &slow).with(202)["bulk"].as_str().expect("it is an id").to_owned();
    for (operation, verb) in [("pauseBulk", "pause"), ("unpauseBulk", "unpause"), ("cancelBulk", "cancel")] {
        description.check(operation, &server.post(&format!("/v1/bulk/{bulk}/{verb}"), &json!({})));
    }
    let policy = json!({"name": "later", "flow": "broken", "maxAttempts": 9, "backOff": {"delay": 86_400}});
    description.check("loadPolicies", &server.post("/v1/policies", &policy));
    description.check("deletePolicy", &server.delete("/v1/policies/later"));
    let made = server.post("/v1/tokens", &json!({"name": "root", "role": "admin"}));
    description.check("createToken", &made);
    let token = format!("Bearer {}", made.json()["token"].as_str().expect("it is shown once"));
    description.check("listTokens", &server.get("/v1/tokens"));
    for (operation, method, path) in [
        ("rotateToken", "POST", "/v1/tokens/root/rotate"),
        ("listTokens", "GET", "/v1/tokens"),
        ("revokeToken", "DELETE", "/v1/tokens/root"),
    ] {
        let request = Request::new(method, path).header("Authorization", &token);
        description.check(operation, &server.ask(&request));
    }
}

#[test]
fn an_event_of_a_stream_is_as_it_is_described() {
    let server = Server::start();
    let description = Description::of(&server);
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    server.start_run("held");
    for event in EventStream::open(&server, &format!("?after={begin}"), None).until_caught_up() {
        description.validate(&json!({"$ref": "#/components/schemas/streamEvent"}), &event, "streamEvents");
    }
    let policy = json!({"name": "later", "flow": "held", "maxAttempts": 2, "backOff": {"delay": 60}});
    server.post("/v1/policies", &policy).with(200);
    let bulk =
        server.post("/v1/bulk", &json!({"action": "cancel", "flow": "held"})).with(202)["bulk"].clone();
    let path = format!("/v1/bulk/{}", bulk.as_str().expect("it is an id"));
    wait_until("it is done", || server.get(&path).with(200)["state"] == "done");
    assert_eq!(server.delete("/v1/flows/quick?reason=old").status, 204);
    let others = format!("?after={begin}&class=flow&class=policy&class=bulk");
    let told = EventStream::open(&server, &others, None).until_caught_up();
    let facts: Vec<&Value> = told.iter().map(|event| &event["facts"][0]).collect();
    assert_eq!(facts, ["policy.added", "bulk.begun", "bulk.done", "flow.deleted"]);
    for event in told {
        description.validate(&json!({"$ref": "#/components/schemas/streamChange"}), &event, "streamEvents");
    }
}

#[test]
fn every_type_of_problem_has_a_page() {
    let server = Server::start();
    for kind in ProblemType::ALL {
        let page = server.get(&format!("/problems/{}", kind.slug()));
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.body.contains(kind.title()) && page.body.contains(kind.slug()), "{}", page.body);
    }
    let docs = server.get("/docs");
    for (method, path) in Description::of(&server).operations().into_values() {
        assert!(docs.body.contains(&format!("<code>{method} {path}</code>")), "{method} {path}");
    }
    // Nothing is fetched from elsewhere.
    assert!(
        !docs.body.contains("http://") && !docs.body.contains("https://") && !docs.body.contains("<script")
    );
}
