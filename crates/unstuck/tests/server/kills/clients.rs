//! Clients of a server that is about to be killed: each works until there is no answer, and says what was acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use unstuck_core::random::Random;

use super::book::{Act, Outcome};
use crate::client::{Answer, Connection, Request};

/// The time between a start of the server and its end.
pub(crate) struct Period<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) seed: u64,
    /// Answers so far.
    pub(crate) acknowledged: &'a AtomicU64,
}

impl Period<'_> {
    /// Asks, and counts what is acknowledged. What is refused because there is too much was not done.
    fn ask(&self, connection: &mut Connection, request: &Request, fits: &[u16]) -> Option<Answer> {
        let answer = connection.ask(request).ok()?;
        assert!(answer.status == 503 || fits.contains(&answer.status), "{} {}", answer.status, answer.body);
        self.acknowledged.fetch_add(1, Ordering::AcqRel);
        Some(answer)
    }
}

fn run_of(answer: &Value) -> String {
    answer["run"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Starts runs with keys, each of them twice: the second time it is there already.
pub(crate) fn start_one_by_one(period: &Period<'_>) -> Vec<(String, String)> {
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = Connection::try_open(period.address) else { return acknowledged };
    for number in 0.. {
        let flow = ["order", "work", "quick", "nap"][number % 4];
        let key = format!("{:x}-{number}", period.seed);
        let request = Request::new("POST", "/v1/runs").json(&json!({"flow": flow, "key": key}));
        for _ in 0..2 {
            let Some(answer) = period.ask(&mut connection, &request, &[200, 201]) else {
                return acknowledged;
            };
            if answer.status != 503 {
                acknowledged.push((format!("{flow}:{key}"), run_of(&answer.json())));
            }
        }
    }
    acknowledged
}

/// Starts runs by 256 and by fewer, in one request each.
pub(crate) fn start_many(period: &Period<'_>) -> Vec<(String, String)> {
    let (mut acknowledged, mut random) = (Vec::new(), Random::new(period.seed));
    let Ok(mut connection) = Connection::try_open(period.address) else { return acknowledged };
    for number in 0.. {
        let count = if number % 8 == 0 { 256 } else { random.between(1, 32) };
        let flow = ["quick", "order", "nap", "quick"][number % 4];
        // Few of these wait for people.
        let count = if flow == "order" { count.min(8) } else { count };
        let keys: Vec<String> =
            (0..count).map(|place| format!("{:x}-m{number}-{place}", period.seed)).collect();
        let runs: Vec<Value> = keys.iter().map(|key| json!({"flow": flow, "key": key})).collect();
        let request = Request::new("POST", "/v1/runs/batch").json(&json!({"runs": runs}));
        let Some(answer) = period.ask(&mut connection, &request, &[200]) else { break };
        if answer.status == 200 {
            let answer = answer.json();
            let results = answer["results"].as_array().expect("it is a list");
            assert_eq!(results.len(), keys.len());
            // One that the engine's line had no room for has a problem in place of its run.
            let started = results.iter().zip(keys).filter(|(result, _)| result["status"] != 503);
            acknowledged.extend(started.map(|(result, key)| (format!("{flow}:{key}"), run_of(result))));
        }
    }
    acknowledged
}

pub(crate) fn once_request(key: &str) -> Request {
    let body = json!({"flow": "once", "input": {"name": key}});
    Request::new("POST", "/v1/runs").header("Idempotency-Key", key).json(&body)
}

/// Starts runs under idempotency keys: first those that had no answer from an earlier server.
pub(crate) fn start_under_idempotency_keys(
    period: &Period<'_>,
    pending: Vec<String>,
) -> Vec<Outcome<(String, String)>> {
    let mut outcomes = Vec::new();
    let mut pending = pending.into_iter();
    let connection = Connection::try_open(period.address);
    if let Ok(mut connection) = connection {
        for number in 0.. {
            let key = pending.next().unwrap_or_else(|| format!("{:x}-o{number}", period.seed));
            let Some(answer) = period.ask(&mut connection, &once_request(&key), &[201]) else {
                outcomes.push(Outcome::Unknown((key, String::new())));
                break;
            };
            outcomes.push(match answer.status {
                201 => Outcome::Acknowledged((key, run_of(&answer.json()))),
                _ => Outcome::Unknown((key, String::new())),
            });
        }
    }
    outcomes.extend(pending.map(|key| Outcome::Unknown((key, String::new()))));
    outcomes
}

/// Does to orders what people do, each act under a key.
pub(crate) fn act(period: &Period<'_>, acts: Vec<Act>) -> Vec<Outcome<Act>> {
    let mut outcomes = Vec::new();
    let mut connection = Connection::try_open(period.address).ok();
    for act in acts {
        let answer =
            connection.as_mut().and_then(|connection| period.ask(connection, &act.request(), &[200]));
        if answer.is_none() {
            connection = None;
        }
        outcomes.push(match answer {
            Some(answer) if answer.status == 200 => {
                assert_eq!(run_of(&answer.json()), act.run);
                Outcome::Acknowledged(act)
            }
            Some(_) | None => Outcome::Unknown(act),
        });
    }
    outcomes
}
