//! Groups of errors, and a policy for one of them.

use jiff::Timestamp;
use serde::Serialize;
use unstuck_api::ProblemType;
use unstuck_api::errors::ErrorGroupDetails;
use unstuck_api::policies::{PoliciesView, PolicyDocument};
use unstuck_api::request::{ErrorsQuery, PolicyToTry, Query, TrialQuery};
use unstuck_api::trials::{TrialView, TrialsView};
use unstuck_flow::policies::{document_of_draft, to_yaml};
use unstuck_service::errors::suggest_policy;

use super::read_view;
use super::runs::PAGE;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

pub(crate) fn list(call: &Call) -> Answered {
    let given = &call.parameters;
    call.query(&Query::Errors(ErrorsQuery {
        flow: given.owned("flow"),
        action: given.owned("action"),
        since: given.time("since", Timestamp::now()),
        limit: call.limit(PAGE),
        after: given.owned("after"),
    }))
}

pub(crate) fn show(call: &Call) -> Answered {
    call.query(&Query::ErrorGroup { group: call.part("group").to_owned() })
}

/// A policy that is suggested. Nothing is stored.
#[derive(Serialize)]
struct Suggestion {
    policy: PolicyDocument,
    /// The same policy, as a file.
    yaml: String,
    /// What it would do to what is in error now.
    trial: Option<TrialView>,
}

pub(crate) fn suggest(call: &Call) -> Answered {
    let group = call.part("group").to_owned();
    let page: ErrorGroupDetails = read_view(&call.query_json(&Query::ErrorGroup { group })?)?;
    let known: PoliciesView = read_view(&call.query_json(&Query::Policies)?)?;
    let names: Vec<&str> = known.policies.iter().map(|line| line.policy.name.as_str()).collect();
    let group = &page.line.group;
    let draft = suggest_policy(&page.line, &names).map_err(|why| {
        Problem::new(ProblemType::Invalid, format!("no policy would help with {group}: {why}"))
    })?;
    let policy = document_of_draft(&draft).map_err(|problems| {
        let sentences: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        Problem::new(ProblemType::Internal, sentences.join("; "))
    })?;
    let of = TrialQuery { policies: PolicyToTry::Drafts(vec![policy.clone()]), past: None };
    let TrialsView { trials } = read_view(&call.query_json(&Query::Trial(of))?)?;
    let yaml = to_yaml(&policy);
    Answer::view(&Suggestion { policy, yaml, trial: trials.into_iter().next() })
}
