//! Resume policies: which there are, changes of them, what they would do, and all of them paused.

use axum::http::StatusCode;
use jiff::Timestamp;
use unstuck_api::http::{
    ApplyBody, NamesBody, PausePoliciesBody, ReasonBody, TrialBody, UnpausePoliciesBody,
};
use unstuck_api::policies::{PolicyChangesView, PolicyDetails, PolicyDocument};
use unstuck_api::request::{
    PastErrors, PolicyOperation, PolicyRequest, PolicyToTry, Query, Request, TrialQuery,
};
use unstuck_api::trials::TrialsView;
use unstuck_api::{ProblemDocument, ProblemPart, ProblemType};
use unstuck_service::policies::{load_set_version, read_policy_file, write_policy_file};

use super::read_view;
use crate::answer::{Answer, Content};
use crate::call::Call;
use crate::parameter::parse_time;
use crate::problem::Problem;
use crate::route::Answered;

/// Steps a second, where nobody says otherwise.
const RATE: u32 = 50;
/// Changes on a page, where nobody says otherwise.
const AUDIT_PAGE: usize = 20;

pub(crate) fn list(call: &Call) -> Answered {
    let version = load_set_version(call.app.reader())?;
    call.answer_if_changed(&format!("\"{version}\""), || {
        if call.accepts("application/yaml") {
            let file = write_policy_file(call.app.reader(), &[])?;
            return Ok(Answer::new(StatusCode::OK, Content::Yaml(file)));
        }
        call.query(&Query::Policies)
    })
}

pub(crate) fn show(call: &Call) -> Answered {
    let name = call.part("name").to_owned();
    let json = call.query_json(&Query::Policy { name: name.clone() })?;
    let found: PolicyDetails = read_view(&json)?;
    let id = found.line.policy.id.unwrap_or_default();
    let etag = format!("\"{id}.{}\"", found.line.version);
    call.answer_if_changed(&etag, || {
        if call.accepts("application/yaml") {
            let file = write_policy_file(call.app.reader(), &[name])?;
            return Ok(Answer::new(StatusCode::OK, Content::Yaml(file)));
        }
        Ok(Answer::json(json))
    })
}

/// Adds or changes policies: one, a list, or a file, as a whole or not at all.
pub(crate) fn load_file(call: &Call) -> Answered {
    let drafts = read_policy_file(call.body_text()?)?;
    let replace = call.parameters.flag("replace").unwrap_or(false);
    load(call, &drafts, PolicyOperation::Load { drafts: drafts.clone(), replace })
}

/// Replaces all policies: those that are not given are deleted.
pub(crate) fn replace_all(call: &Call) -> Answered {
    let text = call.body_text()?;
    let is_empty = serde_json::from_str::<[(); 0]>(text).is_ok();
    let drafts = if is_empty { Vec::new() } else { read_policy_file(text)? };
    load(call, &drafts, PolicyOperation::Set { drafts: drafts.clone() })
}

/// Adds or replaces the policy that the path names.
pub(crate) fn replace_one(call: &Call) -> Answered {
    let drafts = read_policy_file(call.body_text()?)?;
    let name = call.part("name");
    match drafts.as_slice() {
        [draft] if draft.name == name || draft.id.as_deref() == Some(name) => {}
        [draft] => {
            let sentence = format!("the path names `{name}`, and the policy is `{}`", draft.name);
            return Err(Problem::bad_field("name", sentence + "; a policy keeps its name here"));
        }
        several => {
            let sentence = format!(
                "there are {} policies, and one is taken here; `PUT /v1/policies` takes all",
                several.len()
            );
            return Err(Problem::new(ProblemType::BadRequest, sentence));
        }
    }
    load(call, &drafts, PolicyOperation::Load { drafts: drafts.clone(), replace: true })
}

/// Puts all policies into an order.
pub(crate) fn order(call: &Call) -> Answered {
    let NamesBody { names, reason } = call.json()?;
    change_for(call, PolicyOperation::Order { names }, reason)
}

/// Sends policies that were written down. What is wrong with them is a problem with each of its parts.
fn load(call: &Call, drafts: &[PolicyDocument], what: PolicyOperation) -> Answered {
    let answer = change_for(call, what, call.parameters.owned("reason"))?;
    let changes: PolicyChangesView = read_view(answer.json_text())?;
    if changes.refused.is_empty() {
        return Ok(answer);
    }
    let sentence = |bad: &unstuck_api::policies::RefusedDraft| {
        let name = drafts.get(bad.place).map_or("", |draft| &draft.name);
        format!("policy `{name}`: {}; {}", bad.message, bad.hint)
    };
    let sentences: Vec<String> = changes.refused.iter().map(sentence).collect();
    let mut document = ProblemDocument::new(ProblemType::Invalid, sentences.join("\n"));
    document.about.problems = changes.refused.into_iter().map(refused_part).collect();
    Err(Problem::from(document))
}

fn refused_part(bad: unstuck_api::policies::RefusedDraft) -> ProblemPart {
    ProblemPart {
        file: None,
        line: None,
        column: None,
        field: bad.field,
        message: bad.message,
        hint: Some(bad.hint).filter(|hint| !hint.is_empty()),
        severity: "error".to_owned(),
        place: Some(bad.place),
    }
}

pub(crate) fn delete(call: &Call) -> Answered {
    let reason = call.parameters.owned("reason");
    change_for(call, PolicyOperation::Delete { names: vec![call.part("name").to_owned()] }, reason)
}

pub(crate) fn enable(call: &Call) -> Answered {
    let ReasonBody { reason } = call.json()?;
    change_for(call, PolicyOperation::Enable { names: vec![call.part("name").to_owned()] }, reason)
}

pub(crate) fn disable(call: &Call) -> Answered {
    let ReasonBody { reason } = call.json()?;
    change_for(call, PolicyOperation::Disable { names: vec![call.part("name").to_owned()] }, reason)
}

/// Enables, disables or deletes several policies, as a whole or not at all.
pub(crate) fn enable_many(call: &Call) -> Answered {
    let NamesBody { names, reason } = call.json()?;
    change_for(call, PolicyOperation::Enable { names }, reason)
}

pub(crate) fn disable_many(call: &Call) -> Answered {
    let NamesBody { names, reason } = call.json()?;
    change_for(call, PolicyOperation::Disable { names }, reason)
}

pub(crate) fn delete_many(call: &Call) -> Answered {
    let NamesBody { names, reason } = call.json()?;
    change_for(call, PolicyOperation::Delete { names }, reason)
}

pub(crate) fn pause(call: &Call) -> Answered {
    let PausePoliciesBody { reason } = call.json()?;
    change(call, PolicyOperation::Pause { reason })
}

pub(crate) fn unpause(call: &Call) -> Answered {
    let UnpausePoliciesBody { rate } = call.json()?;
    change(call, PolicyOperation::Unpause { rate: rate.unwrap_or(RATE) })
}

pub(crate) fn apply(call: &Call) -> Answered {
    let ApplyBody { names, rate, reason } = call.json()?;
    change(call, PolicyOperation::Apply { names, rate: rate.unwrap_or(RATE), reason })
}

/// Shows what policies would do to what is in error now.
pub(crate) fn preview(call: &Call) -> Answered {
    let body: TrialBody = call.json()?;
    if body.since.is_some() || body.until.is_some() {
        return Err(Problem::bad_field(
            "since",
            "a preview is about what is in error now; use backtest for the past",
        ));
    }
    try_policies(call, body, None)
}

/// Shows what policies would have done to the errors of a past period.
pub(crate) fn backtest(call: &Call) -> Answered {
    let body: TrialBody = call.json()?;
    let now = Timestamp::now();
    let read = |field: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => parse_time(text, now).map(Some).ok_or_else(|| {
            Problem::bad_field(field, format!("`{text}` is neither an instant nor an age such as `7d`"))
        }),
    };
    let since = read("since", &body.since)?
        .ok_or_else(|| Problem::bad_field("since", "say which errors, for example `7d`"))?;
    let until = read("until", &body.until)?;
    try_policies(call, body, Some(&PastErrors { since, until }))
}

fn try_policies(call: &Call, body: TrialBody, past: Option<&PastErrors>) -> Answered {
    let tried: Vec<PolicyToTry> = match (body.policies.is_empty(), body.names.is_empty()) {
        (false, true) => vec![PolicyToTry::Drafts(body.policies)],
        (true, false) => body.names.into_iter().map(PolicyToTry::Named).collect(),
        (true, true) | (false, false) => {
            return Err(Problem::bad_field("policies", "give either `policies` or `names`"));
        }
    };
    let most = call.app.settings.limits.items;
    if tried.len() > most {
        return Err(Problem::bad_field(
            "names",
            format!("there are {}, and {most} is the maximum", tried.len()),
        ));
    }
    let mut all = TrialsView { trials: Vec::new() };
    for policies in tried {
        let of = TrialQuery { policies, past: past.cloned() };
        let view: TrialsView = read_view(&call.query_json(&Query::Trial(of))?)?;
        all.trials.extend(view.trials);
    }
    Answer::view(&all)
}

pub(crate) fn audit(call: &Call) -> Answered {
    let (name, before) = (call.parameters.owned("name"), call.parameters.number("after"));
    call.query(&Query::Audit { name, before, limit: call.limit(AUDIT_PAGE) })
}

fn change(call: &Call, what: PolicyOperation) -> Answered {
    change_for(call, what, None)
}

/// The same, with a reason that only the audit has a place for.
fn change_for(call: &Call, what: PolicyOperation, reason: Option<String>) -> Answered {
    let dry_run = call.parameters.flag("dryRun").unwrap_or(false);
    call.change_because(&Request::Policies(PolicyRequest { by: call.by(), dry_run, what }), reason)
}
