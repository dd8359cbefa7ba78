//! An explanation on the wire.

use serde_json::{Value, json};
use unstuck_api as api;
use unstuck_core::event::Actor;
use unstuck_core::explain::{Act, Explanation};
use unstuck_core::policy::PoliciesPaused;
use unstuck_core::time::Time;

/// The same explanation, for programs.
pub fn explanation(explanation: &Explanation) -> api::Explanation {
    let Explanation {
        run, now, state, is_idle, headline, notes, happened, earlier, because, next, can, ..
    } = explanation;
    let happened = happened.iter().map(|(at, what)| api::Happened { at: at.timestamp(), what: what.clone() });
    let because = because.iter().map(|because| api::Because {
        step: because.name.clone(),
        state: because.state.to_owned(),
        why: because.why.clone(),
    });
    let next =
        next.iter().map(|next| api::Next { at: next.at.map(Time::timestamp), what: next.what.clone() });
    let can = can.iter().map(|possible| api::Possible {
        command: possible.command.clone(),
        what: possible.what.clone(),
        call: possible.act.as_ref().map(call_of),
    });
    api::Explanation {
        run: run.to_string(),
        at: now.timestamp(),
        state: state.word().to_owned(),
        idle: *is_idle,
        go_on: None,
        set_aside: None,
        headline: headline.clone(),
        notes: notes.clone(),
        happened: happened.collect(),
        earlier: *earlier,
        because: because.collect(),
        policies_paused: explanation.policies_paused.as_ref().map(policies_paused),
        next: next.collect(),
        can: can.collect(),
    }
}

/// The call of the API that does the same.
fn call_of(act: &Act) -> api::ApiCall {
    let (method, path, body) = match act {
        Act::OnRun { run, verb, arguments } => ("POST", format!("/v1/runs/{run}/{verb}"), arguments.clone()),
        Act::Explain(run) => ("GET", format!("/v1/runs/{run}/explain"), Value::Null),
        Act::UnpausePolicies => ("POST", "/v1/policies/unpause".to_owned(), json!({})),
    };
    api::ApiCall { method: method.to_owned(), path, body }
}

/// Why nothing resumes automatically, for programs.
pub fn policies_paused(paused: &PoliciesPaused) -> api::PoliciesPaused {
    let PoliciesPaused { since, by, reason } = paused;
    let by = match by {
        Actor::Engine => "engine",
        Actor::Worker => "worker",
        Actor::User(name) => name,
    };
    api::PoliciesPaused { since: since.timestamp(), by: by.to_owned(), reason: reason.to_string() }
}
