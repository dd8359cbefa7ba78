//! `kill -9` of the server under load, again and again: every acknowledged start is there, exactly once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::support::{FLOWS, Server, Store, wait_until};

const KILLS: u64 = 30;
const STARTERS: u64 = 3;

/// Keys, and the run of each that was acknowledged.
type Acknowledged = BTreeMap<String, String>;

#[test]
fn every_acknowledged_start_survives_thirty_kills() {
    let store = Store::new();
    let server = Server::start_on(&store, &[]);
    server.apply(FLOWS).with(200);
    server.stop();
    let mut all = Acknowledged::new();
    for kill in 0..KILLS {
        let server = Server::start_on(&store, &[]);
        // What was acknowledged before the last kill is there before anything else is done.
        check_last(&server, &all);
        let new = start_until_killed(server, kill);
        assert!(!new.is_empty(), "nothing was acknowledged before kill {kill}");
        all.extend(new);
    }
    let server = Server::start_on(&store, &[]);
    check_all(&server, &all);
    server.stop().assert_clean();
}

/// Starts runs from several threads, and kills the server in the middle of it.
fn start_until_killed(server: Server, kill: u64) -> Acknowledged {
    let (address, answers) = (server.address, AtomicU64::new(0));
    thread::scope(|scope| {
        let answers = &answers;
        let start = |thread| scope.spawn(move || start_runs(address, kill, thread, answers));
        let starters: Vec<_> = (0..STARTERS).map(start).collect();
        // At another moment each time, and never before something was acknowledged.
        wait_until("something is acknowledged", || answers.load(Ordering::Acquire) > 0);
        thread::sleep(Duration::from_millis(kill * 37 % 60));
        server.kill();
        starters.into_iter().flat_map(|starter| starter.join().expect("it ends")).collect()
    })
}

/// Starts runs one by one and by the dozen until there is no answer. Every key is used twice: what is sent again is not
/// started again.
fn start_runs(address: SocketAddr, kill: u64, thread: u64, answers: &AtomicU64) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    let Ok(mut connection) = Connection::try_open(address) else { return acknowledged };
    for number in 0.. {
        let names: Vec<String> = (0..12).map(|place| format!("{kill}-{thread}-{number}-{place}")).collect();
        let body = |key: &String| json!({"flow": "quick", "key": key});
        let one = Request::new("POST", "/v1/runs").json(&body(&names[0]));
        let runs: Vec<Value> = names.iter().map(body).collect();
        let many = Request::new("POST", "/v1/runs/batch").json(&json!({"runs": runs}));
        let Ok(first) = connection.ask(&one) else { break };
        let mut keep = |key: &String, answer: &Value| {
            let run = answer["run"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
            let known = acknowledged.insert(key.clone(), run.clone());
            assert!(known.is_none_or(|known| known == run), "{key} has two runs");
        };
        keep(&names[0], &first.with(201));
        answers.fetch_add(1, Ordering::AcqRel);
        let Ok(rest) = connection.ask(&many) else { break };
        let rest = rest.with(200);
        for (key, answer) in names.iter().zip(rest["results"].as_array().expect("it is a list")) {
            keep(key, answer);
        }
    }
    acknowledged
}

/// Looks at some of what was acknowledged last.
fn check_last(server: &Server, all: &Acknowledged) {
    let mut connection = server.connect();
    for (key, run) in all.iter().rev().take(20) {
        let request = Request::new("GET", &format!("/v1/flows/quick/keys/{key}"));
        let found = connection.ask(&request).expect("it is answered").with(200);
        assert_eq!(found["id"], run.as_str(), "{key}");
    }
}

/// Looks at every run of the store: each key that was acknowledged has one, the one that was told.
fn check_all(server: &Server, all: &Acknowledged) {
    let (mut found, mut after) = (BTreeMap::<String, Vec<String>>::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/runs?limit=1000&after={after}")).with(200);
        for run in page["runs"].as_array().expect("it is a list") {
            let text = |name: &str| run[name].as_str().expect("it is a text").to_owned();
            found.entry(text("key")).or_default().push(text("id"));
        }
        let Some(next) = page["next"].as_str() else { break };
        next.clone_into(&mut after);
    }
    for (key, run) in all {
        assert_eq!(found.get(key), Some(&vec![run.clone()]), "{key}");
    }
    assert!(found.values().all(|runs| runs.len() == 1));
    println!("{} starts were acknowledged, {} were made", all.len(), found.len());
}
