//! What a client is to ask and what came of it: plain data, on its way from one process to another.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One call, as it is sent again and again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    method: String,
    target: String,
    token: Option<String>,
    /// The type of the body.
    content: String,
    body: String,
}

impl Call {
    pub fn get(name: &str, target: &str) -> Call {
        let (name, target) = (name.to_owned(), target.to_owned());
        let (content, body) = ("application/json".to_owned(), String::new());
        Call { name, method: "GET".to_owned(), target, token: None, content, body }
    }

    pub fn post(name: &str, target: &str, body: String) -> Call {
        Call { method: "POST".to_owned(), body, ..Call::get(name, target) }
    }

    /// Puts flows in, as YAML.
    pub fn apply(flows: &str) -> Call {
        let content = "application/yaml".to_owned();
        Call { content, ..Call::post("apply", "/v1/flows", flows.to_owned()) }
    }

    /// A start of one run.
    pub fn start(flow: &str) -> Call {
        Call::post("start", "/v1/runs", format!("{{\"flow\":\"{flow}\"}}"))
    }

    /// A start of so many runs.
    pub fn start_many(flow: &str, count: u64) -> Call {
        let runs: Vec<String> = (0..count).map(|_| format!("{{\"flow\":\"{flow}\"}}")).collect();
        Call::post("start many", "/v1/runs/batch", format!("{{\"runs\":[{}]}}", runs.join(",")))
    }

    #[must_use]
    pub fn with_token(self, token: Option<&str>) -> Call {
        Call { token: token.map(str::to_owned), ..self }
    }

    /// The call as it goes over the wire.
    pub fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let Call { method, target, content, body, .. } = self;
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        let content = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: {content}\r\ncontent-length: {}\r\n", body.len())
        };
        let token = token.unwrap_or_default();
        format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\n{token}{content}\r\n{body}").into_bytes()
    }
}

/// What a client does: these calls in turn, on so many connections, one at a time on each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub address: SocketAddr,
    pub connections: u32,
    pub time: Duration,
    /// So many calls a second on all connections together; without it, each follows the answer to the one before.
    pub pace: Option<f64>,
    pub calls: Vec<Call>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub took: Duration,
    /// For each call of the plan.
    pub answers: Vec<Answers>,
    /// What is wrong with the first answer that was refused, and how many were.
    pub refused: Option<(u64, String)>,
}

/// The answers to one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers {
    pub name: String,
    pub count: u64,
    pub median: Duration,
    pub p99: Duration,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Outcome {
    /// Answers to all calls.
    pub fn count(&self) -> u64 {
        self.answers.iter().map(|answers| answers.count).sum()
    }

    /// The same in a second.
    pub fn per_second(&self) -> f64 {
        self.count() as f64 / self.took.as_secs_f64()
    }
}

/// Readers of a stream of events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamPlan {
    pub address: SocketAddr,
    pub readers: u32,
    /// What each reads.
    pub target: String,
    /// Events that each is sent.
    pub events: u64,
    /// Who makes them: runs of this flow, each an event; none where the server sends them by itself.
    pub flow: Option<String>,
    /// Runs in a request.
    pub batch: u64,
    /// Before that, so many runs one at a time: each when the one before has reached all readers.
    pub singles: u32,
}

/// What came of streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// From the first start until the last reader had all events.
    pub took: Duration,
    /// Events that readers had, all together.
    pub delivered: u64,
    /// From a start that is sent until its answer, and until the last reader has its event, of 50 and 99 in 100.
    pub answered: (Duration, Duration),
    pub heard: (Duration, Duration),
}

impl StreamOutcome {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn per_second(&self) -> f64 {
        self.delivered as f64 / self.took.as_secs_f64()
    }
}
