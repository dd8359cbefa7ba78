//! Errors: their groups, and what is in error now.

use unstuck_api::errors::{
    ErrorGroupDetails, ErrorGroupView, ErrorGroupsView, ErrorView, FlowCount, OpenErrorView, PolicyCount,
};
use unstuck_api::request::{ErrorsQuery, PolicyToTry, TrialQuery};
use unstuck_api::trials::SuggestionView;
use unstuck_api::{PoliciesPaused, ProblemDocument, ProblemType};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::model::error::Reason;
use unstuck_core::policy::{ErrorSample, NotSuggested, PolicyDraft, suggest, why_retry_cannot_help};
use unstuck_core::time::Time;
use unstuck_store::contract::{ErrorGroup, GroupFilter, GroupPlace, OpenErrorFilter, Reader};

use crate::service::ServiceError;
use crate::{convert, policies, try_policies};

/// So many groups are read at once, at most.
const MOST: usize = 1_000;
/// So many steps in error are shown with their group.
const SHOWN_OPEN: usize = 20;
/// How the names of groups begin.
const PREFIX: &str = "err_";

/// Suggests a policy for a group under a free name, or says why a retry cannot help.
pub fn suggest_policy(group: &ErrorGroupView, taken: &[&str]) -> Result<PolicyDraft, NotSuggested> {
    with_sample(group, |sample| suggest(sample, taken))
}

/// Suggests a policy for a group that is given by name, and says what it would do. Nothing is stored.
pub fn suggest_for_group(reader: &dyn Reader, group: &str) -> Result<SuggestionView, ServiceError> {
    let page = show_group(reader, group)?;
    let known = policies::list_policies(reader)?;
    let names: Vec<&str> = known.policies.iter().map(|line| line.policy.name.as_str()).collect();
    let draft = suggest_policy(&page.line, &names).map_err(|why| {
        let problem = ProblemDocument::new(
            ProblemType::Invalid,
            format!("no policy would help with {}: {why}", page.line.group),
        );
        ServiceError::Refused(Box::new(problem))
    })?;
    let policy = policies::to_wire(&draft)?;
    let of = TrialQuery { policies: PolicyToTry::Drafts(vec![policy.clone()]), past: None };
    let trial = try_policies::try_on_store(reader, of)?.trials.into_iter().next();
    Ok(SuggestionView { yaml: unstuck_flow::policies::to_yaml(&policy), policy, trial })
}

/// Returns why a retry cannot help with a group, if it cannot.
pub fn why_no_policy(group: &ErrorGroupView) -> Option<NotSuggested> {
    with_sample(group, why_retry_cannot_help)
}

/// Builds the sample of a group from its examples, and calls `judge` on it.
fn with_sample<T>(group: &ErrorGroupView, judge: impl FnOnce(&ErrorSample<'_>) -> T) -> T {
    let examples = &group.examples;
    let causes: Vec<&str> = examples.iter().map(|example| example.cause.as_str()).collect();
    let all = |is: fn(&ErrorView) -> bool| !examples.is_empty() && examples.iter().all(is);
    judge(&ErrorSample {
        action: &group.action,
        pattern: &group.pattern,
        causes: &causes,
        is_fatal: all(|example| example.fatal),
        is_data: all(|example| example.reason == Reason::Data.word()),
    })
}

/// Lists groups, the most recently seen first. One more than the page is read, to know whether there is a next one.
pub(crate) fn list_groups(
    reader: &dyn Reader,
    wanted: &ErrorsQuery,
) -> Result<ErrorGroupsView, ServiceError> {
    let after = wanted.after.as_deref().map(parse_cursor).transpose()?;
    let filter = GroupFilter {
        group: None,
        flow: wanted.flow.as_deref().map(Into::into),
        action: wanted.action.as_deref().map(Into::into),
        since: wanted.since.map(convert::to_core_time),
    };
    let limit = wanted.limit.clamp(1, MOST);
    let mut groups = reader.error_groups(&filter, after.as_ref(), limit + 1)?;
    let next = (groups.len() > limit).then(|| format_cursor(&groups[limit - 1]));
    groups.truncate(limit);
    let paused = policies::load_pause(reader)?;
    Ok(ErrorGroupsView {
        groups: groups.iter().map(|group| build_group_view(group, paused.as_ref())).collect(),
        next,
    })
}

/// Writes where a page ends: groups are ordered by when they were last seen, then by name, so the cursor has both.
fn format_cursor(group: &ErrorGroup) -> String {
    format!("{:x}.{}", group.last.0, group.group)
}

/// Parses what [`format_cursor`] wrote.
fn parse_cursor(text: &str) -> Result<GroupPlace, ServiceError> {
    let place = text.split_once('.').and_then(|(last, group)| {
        let last = Time(i64::from_str_radix(last, 16).ok()?);
        group.starts_with(PREFIX).then(|| GroupPlace { last, group: group.into() })
    });
    place.ok_or_else(|| {
        ServiceError::bad_cursor(format!(
            "`{text}` is not the end of a page; give `next` of the page before, as it is"
        ))
    })
}

/// Shows a group with its open errors.
pub(crate) fn show_group(reader: &dyn Reader, name: &str) -> Result<ErrorGroupDetails, ServiceError> {
    let group = find_group(reader, name)?;
    let filter = OpenErrorFilter { group: Some(group.group.clone()), ..OpenErrorFilter::default() };
    let now = reader.open_errors(&filter, None, SHOWN_OPEN)?;
    let paused = policies::load_pause(reader)?;
    Ok(ErrorGroupDetails {
        line: build_group_view(&group, paused.as_ref()),
        now: now.iter().map(build_open_error_view).collect(),
    })
}

/// Finds a group by its name or the start of it, with or without `err_`.
pub(crate) fn find_group(reader: &dyn Reader, name: &str) -> Result<ErrorGroup, ServiceError> {
    let exact = GroupFilter { group: Some(name.into()), ..GroupFilter::default() };
    if let Some(group) = reader.error_groups(&exact, None, 1)?.pop() {
        return Ok(group);
    }
    let digits = name.strip_prefix(PREFIX).unwrap_or(name);
    let begins = |group: &ErrorGroup| {
        !digits.is_empty() && group.group.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with(digits))
    };
    let mut found = Vec::new();
    let mut after: Option<GroupPlace> = None;
    loop {
        let page = reader.error_groups(&GroupFilter::default(), after.as_ref(), MOST)?;
        after = page.last().map(|last| GroupPlace { last: last.last, group: last.group.clone() });
        let is_end = page.len() < MOST;
        found.extend(page.into_iter().filter(begins));
        if is_end {
            break;
        }
    }
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 => Err(ServiceError::not_found(format!(
            "there is no group of errors `{name}`; `unstuck errors` lists them"
        ))
        .named("group", name)),
        _ => {
            let names: Vec<String> = found
                .iter()
                .take(5)
                .map(|group| format!("  {}  {}: {}", group.group, group.action, group.pattern))
                .collect();
            let candidates = found.iter().take(5).map(|group| group.group.to_string()).collect();
            Err(ServiceError::ambiguous(
                format!("several groups start with `{name}`; give more of the name:\n{}", names.join("\n")),
                candidates,
            ))
        }
    }
}

/// Builds the view of a group; its scheduled resumes wait while policies are paused, so the pause is shown with them.
fn build_group_view(group: &ErrorGroup, paused: Option<&PoliciesPaused>) -> ErrorGroupView {
    ErrorGroupView {
        policies_paused: paused.filter(|_| !group.scheduled.is_empty()).cloned(),
        group: group.group.to_string(),
        action: group.action.to_string(),
        pattern: group.pattern.to_string(),
        first: group.first.timestamp(),
        last: group.last.timestamp(),
        count: group.count,
        flows: group
            .flows
            .iter()
            .map(|(flow, count)| FlowCount { flow: flow.to_string(), count: *count })
            .collect(),
        open: group.open,
        runs: group.runs,
        acknowledged: group.acknowledged,
        scheduled: group
            .scheduled
            .iter()
            .map(|(policy, count)| PolicyCount { policy: policy.to_string(), count: *count })
            .collect(),
        examples: group.examples.iter().map(build_error_view).collect(),
    }
}

fn build_error_view(record: &ErrorRecord) -> ErrorView {
    ErrorView {
        run: record.run.to_string(),
        generation: record.generation,
        step: record.step.to_string(),
        attempt: record.attempt,
        at: record.at.timestamp(),
        flow: record.root_flow.to_string(),
        action_type: record.action_type.as_deref().map(str::to_owned),
        found_by: record.found_by.as_deref().map(str::to_owned),
        cause: record.cause.to_string(),
        fatal: record.fatal,
        reason: record.reason.word().to_owned(),
        policy: record.policy.as_ref().map(|policy| policy.name.to_string()),
    }
}

fn build_open_error_view(open: &OpenError) -> OpenErrorView {
    let (next_auto_resume, next_auto_resume_reason) = match &open.resume {
        Some((at, policy)) => (Some(at.timestamp()), Some(policy.name.to_string())),
        None => (None, None),
    };
    OpenErrorView {
        run: open.record.run.to_string(),
        step: open.record.step.to_string(),
        rounds: open.record.rounds,
        since: open.record.at.timestamp(),
        cause: open.record.cause.to_string(),
        acknowledged: open.acknowledged,
        next_auto_resume,
        next_auto_resume_reason,
    }
}
