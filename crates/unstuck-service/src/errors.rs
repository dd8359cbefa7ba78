//! Errors: their groups, and what is in error now.

use unstuck_api::errors::{
    ErrorGroupDetails, ErrorGroupView, ErrorGroupsView, ErrorRecordsView, ErrorView, FlowCount,
    OpenErrorView, OpenErrorsView, PolicyCount,
};
use unstuck_api::request::{ErrorRecordsQuery, ErrorsQuery, PolicyToTry, TrialQuery};
use unstuck_api::trials::SuggestionView;
use unstuck_api::{PoliciesPaused, ProblemDocument, ProblemType};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::error::Reason;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{ErrorSample, NotSuggested, PolicyDraft, suggest, why_retry_cannot_help};
use unstuck_core::time::Time;
use unstuck_store::contract::{
    ErrorFilter, ErrorGroup, ErrorId, GroupFilter, GroupPlace, OpenErrorFilter, Reader,
};

use crate::service::ServiceError;
use crate::{convert, policies, try_policies};

/// So many groups are read at once, at most.
const MOST: usize = 1_000;
/// So many steps in error are shown with their group.
const SHOWN_OPEN: usize = 20;
/// So many times so many groups are looked at for those with something in error.
const OPEN_PAGES: usize = 10;
/// Characters of a bad cursor that are repeated.
const LONGEST_CURSOR: usize = 64;
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
    let (groups, next) = if wanted.open_only {
        find_open_groups(reader, &filter, after, limit)?
    } else {
        let mut groups = reader.error_groups(&filter, after.as_ref(), limit + 1)?;
        let next = (groups.len() > limit).then(|| format_cursor(&groups[limit - 1]));
        groups.truncate(limit);
        (groups, next)
    };
    let paused = policies::load_pause(reader)?;
    Ok(ErrorGroupsView {
        groups: groups.iter().map(|group| build_group_view(group, paused.as_ref())).collect(),
        next,
    })
}

/// Finds groups with something in error, and where the list goes on. No index serves this, so that a bounded number of groups is
/// looked at: the page may be short, and the next one goes on.
fn find_open_groups(
    reader: &dyn Reader,
    filter: &GroupFilter,
    mut after: Option<GroupPlace>,
    limit: usize,
) -> Result<(Vec<ErrorGroup>, Option<String>), ServiceError> {
    let mut found: Vec<ErrorGroup> = Vec::new();
    for _ in 0..OPEN_PAGES {
        let page = reader.error_groups(filter, after.as_ref(), MOST)?;
        let is_end = page.len() < MOST;
        after = page.last().map(|last| GroupPlace { last: last.last, group: last.group.clone() });
        found.extend(page.into_iter().filter(|group| group.open > 0));
        if found.len() > limit {
            found.truncate(limit);
            let next = found.last().map(format_cursor);
            return Ok((found, next));
        }
        if is_end {
            return Ok((found, None));
        }
    }
    Ok((found, after.map(|place| format_place(&place))))
}

/// Writes where a page ends: groups are ordered by when they were last seen, then by name, so the cursor has both.
fn format_cursor(group: &ErrorGroup) -> String {
    format_place(&GroupPlace { last: group.last, group: group.group.clone() })
}

fn format_place(place: &GroupPlace) -> String {
    format!("{:x}.{}", place.last.0, place.group)
}

/// Parses what [`format_cursor`] wrote.
fn parse_cursor(text: &str) -> Result<GroupPlace, ServiceError> {
    let place = text.split_once('.').and_then(|(last, group)| {
        let last = Time(i64::from_str_radix(last, 16).ok()?);
        group.starts_with(PREFIX).then(|| GroupPlace { last, group: group.into() })
    });
    place.ok_or_else(|| bad_cursor(text))
}

fn bad_cursor(text: &str) -> ServiceError {
    let text: String = text.chars().take(LONGEST_CURSOR).collect();
    ServiceError::bad_cursor(format!(
        "`{text}` is not the end of a page; give `next` of the page before, as it is"
    ))
}

/// Lists what is in error now in a group, in the order of the runs.
pub(crate) fn list_open(
    reader: &dyn Reader,
    group: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<OpenErrorsView, ServiceError> {
    let after = after.map(|text| parse_open_cursor(text).ok_or_else(|| bad_cursor(text))).transpose()?;
    let group = find_group(reader, group)?.group;
    let filter = OpenErrorFilter { group: Some(group), ..OpenErrorFilter::default() };
    let limit = limit.clamp(1, MOST);
    let mut found = reader.open_errors(&filter, after, limit + 1)?;
    let next = (found.len() > limit).then(|| format_open_cursor(&found[limit - 1].record));
    found.truncate(limit);
    Ok(OpenErrorsView { open: found.iter().map(build_open_error_view).collect(), next })
}

/// Writes where a page of open errors ends: after this step, or item, of this run.
fn format_open_cursor(record: &ErrorRecord) -> String {
    let UnitRef { step, item } = record.unit;
    let item = item.map_or_else(String::new, |item| format!(".{item}"));
    format!("{}.{}{item}", record.run, step.0)
}

/// Parses what [`format_open_cursor`] wrote.
fn parse_open_cursor(text: &str) -> Option<(RunId, UnitRef)> {
    let mut parts = text.split('.');
    let (run, step, item) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next());
    let item = item.map(str::parse).transpose().ok()?;
    parts.next().is_none().then_some((run, UnitRef { step: StepIndex(step), item }))
}

/// Lists the errors that a group has had, newest first.
pub(crate) fn list_records(
    reader: &dyn Reader,
    wanted: &ErrorRecordsQuery,
) -> Result<ErrorRecordsView, ServiceError> {
    let parse = |text: &String| u64::from_str_radix(text, 16).map_err(|_| bad_cursor(text));
    let before = wanted.after.as_ref().map(parse).transpose()?.map(ErrorId);
    let filter = ErrorFilter {
        since: wanted.since.map(convert::to_core_time),
        until: wanted.until.map(convert::to_core_time),
        group: Some(find_group(reader, &wanted.group)?.group),
        ..ErrorFilter::default()
    };
    let limit = wanted.limit.clamp(1, MOST);
    let mut found = reader.errors_before(&filter, before, limit + 1)?;
    let next = (found.len() > limit).then(|| format!("{:x}", found[limit - 1].0.0));
    found.truncate(limit);
    Ok(ErrorRecordsView { records: found.iter().map(|(_, record)| build_error_view(record)).collect(), next })
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
