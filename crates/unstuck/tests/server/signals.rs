//! Signals that wait in a run until a step consumes them.

use serde_json::{Value, json};

use crate::support::Server;

const FLOW: &str = "\
flow: order
steps:
  - {id: approve, signal: approve}
  - {id: ship, signal: ship}
  - {id: close, signal: close}
";

#[test]
fn signals_that_wait_are_listed_with_the_time_of_the_oldest() {
    let server = Server::start();
    server.apply(FLOW).with(200);
    let run = server.start_run("order");
    let signals = || server.get(&format!("/v1/runs/{run}/signals")).with(200)["signals"].clone();
    let send = |name: &str| {
        server.post(&format!("/v1/runs/{run}/signal"), &json!({"name": name, "payload": 1})).with(200);
    };
    assert_eq!(signals(), json!([]));
    for _ in 0..3 {
        send("ship");
    }
    send("other");
    let came = |number: usize| -> Value {
        let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
        let events = history["events"].as_array().expect("a list").clone();
        let kept = events.iter().filter(|event| {
            event["facts"][0]["type"] == "run.signalled" && event["facts"][0]["signal"] == "ship"
        });
        kept.clone().nth(number).expect("it is there")["at"].clone()
    };
    let listed = signals();
    assert_eq!((&listed[0]["name"], &listed[0]["waiting"]), (&json!("other"), &json!(1)));
    assert_eq!(listed[1], json!({"name": "ship", "waiting": 3, "oldest": came(0)}));
    // The oldest is consumed first.
    send("approve");
    assert_eq!(signals()[1], json!({"name": "ship", "waiting": 2, "oldest": came(1)}));
    let refused = server.get("/v1/runs/run_0s87qa6w80000/signals").with(404);
    assert_eq!(refused["type"], "/problems/not-found");
}
