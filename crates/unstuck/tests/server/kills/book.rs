//! What is known of a server that is killed: what it has acknowledged, what was asked without an answer, and what has ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use unstuck_core::random::Random;

use super::follower::Events;
use crate::client::Request;
use crate::support::{Server, wait_until};

/// So many of each are looked at after every restart.
const SAMPLE: usize = 12;
/// Orders that are open for people at once.
const OPEN_ORDERS: usize = 40;

/// What is done to an order, under an idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) run: String,
    /// The last part of the path: `signal` or `cancel`, which end the run, or `pause` and `unpause`.
    pub(crate) verb: &'static str,
    pub(crate) idempotency_key: String,
}

impl Act {
    pub(crate) fn request(&self) -> Request {
        let body = if self.verb == "signal" {
            json!({"name": "approve", "payload": self.idempotency_key})
        } else {
            json!({"reason": "tortured"})
        };
        Request::new("POST", &format!("/v1/runs/{}/{}", self.run, self.verb))
            .header("Idempotency-Key", &self.idempotency_key)
            .json(&body)
    }
}

/// What was asked without an answer, to be asked again.
pub(crate) struct Pending {
    pub(crate) starts: Vec<String>,
    pub(crate) acts: Vec<Act>,
}

/// What came of something that was asked under an idempotency key.
pub(crate) enum Outcome<T> {
    Acknowledged(T),
    /// There was no answer.
    Unknown(T),
}

#[derive(Default)]
pub(crate) struct Book {
    /// The run of each key, as `flow:key`.
    keyed: BTreeMap<String, String>,
    /// The run of each idempotency key.
    once: BTreeMap<String, String>,
    pending_starts: Vec<String>,
    pending_acts: Vec<Act>,
    /// Orders that nobody has acted on, and those that are paused.
    open: Vec<String>,
    paused: Vec<String>,
    /// Orders that were signalled or cancelled, and by what.
    ended: BTreeMap<String, Act>,
    /// What has ended, as it was when it was first seen so.
    documents: BTreeMap<String, String>,
    acts: u64,
}

impl Book {
    pub(crate) fn summary(&self) -> String {
        let Book { keyed, once, acts, documents, .. } = self;
        let starts = keyed.len() + once.len();
        format!("{starts} starts and {acts} acts were acknowledged, {} ends are watched", documents.len())
    }

    /// Draws what is to be done to orders, after what has no answer yet.
    pub(crate) fn take_pending(&mut self) -> Pending {
        let mut acts = std::mem::take(&mut self.pending_acts);
        for run in std::mem::take(&mut self.paused) {
            let key = format!("unpause-{run}-{}", self.acts);
            acts.push(Act { run, verb: "unpause", idempotency_key: key });
        }
        let drawn = self.open.len().saturating_sub(SAMPLE).min(OPEN_ORDERS);
        for (place, run) in self.open.drain(..drawn).enumerate() {
            let verb = ["signal", "cancel", "signal", "pause"][place % 4];
            let key = format!("{verb}-{run}-{}", self.acts);
            acts.push(Act { run, verb, idempotency_key: key });
        }
        Pending { starts: std::mem::take(&mut self.pending_starts), acts }
    }

    pub(crate) fn add_keyed(&mut self, acknowledged: Vec<(String, String)>) {
        for (key, run) in acknowledged {
            let known = self.keyed.insert(key.clone(), run.clone());
            if let Some(known) = &known {
                assert_eq!(*known, run, "{key} has two runs");
            } else if key.starts_with("order:") {
                self.open.push(run);
            }
        }
    }

    pub(crate) fn add_once(&mut self, outcomes: Vec<Outcome<(String, String)>>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Unknown((key, _)) => self.pending_starts.push(key),
                Outcome::Acknowledged((key, run)) => {
                    let known = self.once.entry(key.clone()).or_insert_with(|| run.clone());
                    assert_eq!(*known, run, "{key} has two runs");
                }
            }
        }
    }

    pub(crate) fn add_acts(&mut self, outcomes: Vec<Outcome<Act>>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Unknown(act) => self.pending_acts.push(act),
                Outcome::Acknowledged(act) => {
                    self.acts += 1;
                    match act.verb {
                        "pause" => self.paused.push(act.run),
                        "unpause" => self.open.push(act.run),
                        _ => _ = self.ended.insert(act.run.clone(), act),
                    }
                }
            }
        }
    }

    /// Looks at what was acknowledged last, and at some of what was before, as the first thing that a server is asked.
    pub(crate) fn check_some(&mut self, server: &Server, random: &mut Random) {
        let mut connection = server.connect();
        let mut read = |path: &str| connection.ask(&Request::new("GET", path)).expect("it is answered");
        let runs: Vec<&String> = self.keyed.values().chain(self.once.values()).collect();
        for _ in 0..SAMPLE.min(runs.len()) {
            let place = usize::try_from(random.draw()).unwrap_or(0) % runs.len();
            let known = read(&format!("/v1/runs/{}", runs[place])).with(200);
            assert_eq!(known["id"], runs[place].as_str());
        }
        for (name, run) in self.keyed.iter().rev().take(SAMPLE) {
            let (flow, key) = name.split_once(':').expect("it is a flow and a key");
            assert_eq!(read(&format!("/v1/flows/{flow}/keys/{key}")).with(200)["id"], run.as_str(), "{name}");
        }
        // What was acknowledged as ended is so, and stays as it was first seen.
        let last: Vec<&String> = self.ended.keys().rev().take(SAMPLE).collect();
        for run in last.into_iter().chain(runs.iter().rev().take(SAMPLE).copied()) {
            let answer = read(&format!("/v1/runs/{run}"));
            let state = answer.json()["state"].as_str().expect("it is a word").to_owned();
            if let Some(act) = self.ended.get(run) {
                let wanted = if act.verb == "cancel" { "cancelled" } else { "completed" };
                assert_eq!(state, wanted, "{act:?}");
            }
            if matches!(state.as_str(), "completed" | "cancelled") {
                let known = self.documents.entry(run.clone()).or_insert_with(|| answer.body.clone());
                assert_eq!(*known, answer.body, "what has ended has changed");
            }
        }
    }

    /// Asks again for all that has no answer, and waits until nothing moves any more.
    pub(crate) fn finish(&mut self, server: &Server) {
        for key in std::mem::take(&mut self.pending_starts) {
            let started = server.ask(&super::clients::once_request(&key)).json();
            let run = started["run"].as_str().expect("it is started").to_owned();
            self.once.insert(key, run);
        }
        for act in std::mem::take(&mut self.pending_acts) {
            server.ask(&act.request()).with(200);
            self.add_acts(vec![Outcome::Acknowledged(act)]);
        }
        wait_until("everything that needs nobody has ended", || {
            ["quick", "once", "work", "nap"].iter().all(|flow| {
                let counts = server.get(&format!("/v1/runs/counts?flow={flow}&by=state&all=true")).with(200);
                let counts = counts["counts"].as_array().expect("it is a list");
                counts.iter().all(|count| count["state"] == "completed" || count["count"] == 0)
            })
        });
    }

    /// Looks at every run of the store.
    pub(crate) fn check_all(&self, server: &Server, events: &Events) {
        let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut without_key = BTreeSet::new();
        let mut after = String::new();
        loop {
            let page = server.get(&format!("/v1/runs?limit=1000&after={after}")).with(200);
            for run in page["runs"].as_array().expect("it is a list") {
                let text = |name: &str| run[name].as_str().expect("it is a text").to_owned();
                match run["key"].as_str() {
                    Some(key) => {
                        runs.entry(format!("{}:{key}", text("flow"))).or_default().push(text("id"));
                    }
                    None => _ = without_key.insert(text("id")),
                }
            }
            let Some(next) = page["next"].as_str() else { break };
            next.clone_into(&mut after);
        }
        for (key, run) in &self.keyed {
            assert_eq!(runs.get(key), Some(&vec![run.clone()]), "{key}");
        }
        assert!(runs.values().all(|runs| runs.len() == 1), "a key has one run");
        // All of them were repeated until they were answered, so that there is one run for each and no other.
        assert_eq!(without_key, self.once.values().cloned().collect());
        for (run, act) in &self.ended {
            let fact = if act.verb == "cancel" { "run.cancelled" } else { "run.signalled" };
            assert_eq!(events.count_facts(run, fact), 1, "{act:?}");
        }
        for (run, document) in &self.documents {
            let now: Value = server.get(&format!("/v1/runs/{run}")).with(200);
            assert_eq!(now.to_string(), serde_json::from_str::<Value>(document).expect("JSON").to_string());
        }
    }
}
