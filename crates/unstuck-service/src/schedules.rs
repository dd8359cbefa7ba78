//! Schedules: lists and shows them, with the times that come next, and pauses and fires them.

use std::sync::Arc;
use std::time::Duration;

use unstuck_api::request::{ScheduleOperation, ScheduleRequest};
use unstuck_api::schedules::{
    CatchUpView, ChangedScheduleView, FiringView, SchedulePausedView, ScheduleView, SchedulesView,
};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::model::schedule::{ScheduleSpec, Timing};
use unstuck_core::schedule::{Schedule, ScheduleCommand};
use unstuck_core::time::Time;
use unstuck_engine::call::Call;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{ListedFlow, Reader};

use crate::apply_flows::{describe_actor, find_version};
use crate::change_run;
use crate::list::MOST;
use crate::service::{Service, ServiceError, now, to_json};

/// How many of the times that come next are shown.
pub const SHOWN_TIMES: usize = 10;

/// Handles a request about the schedule of a flow, and returns the result as JSON.
pub(crate) fn change_schedule(
    service: &Service,
    handle: &Handle,
    request: ScheduleRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let ScheduleRequest { by, flow, reason, what } = request;
    let by = Actor::User(by.into());
    let command = match what {
        ScheduleOperation::Pause => ScheduleCommand::Pause { by, reason: reason.map(Arc::from) },
        ScheduleOperation::Unpause => ScheduleCommand::Unpause,
        ScheduleOperation::Fire => ScheduleCommand::Fire { by },
    };
    let answer = handle.change_schedule(flow.as_str().into(), command, call.clone())?;
    match answer {
        Answer::Started(run) | Answer::Exists(run) => {
            let already = matches!(answer, Answer::Exists(_));
            to_json(&change_run::describe_run(service, handle.reader(), run, already)?)
        }
        Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled => {
            let schedule = show_schedule(handle.reader(), &service.flows, &flow)?;
            to_json(&ChangedScheduleView { already: answer == Answer::Already, schedule })
        }
    }
}

/// Returns a page of the schedules, in order of the names of their flows.
pub(crate) fn list_schedules(
    reader: &dyn Reader,
    flows: &ReadFlows,
    after: Option<&str>,
    limit: usize,
) -> Result<SchedulesView, ServiceError> {
    let limit = limit.clamp(1, MOST);
    let kept = reader.schedules()?;
    let mut schedules: Vec<ScheduleView> = Vec::new();
    let mut after: Option<Arc<str>> = after.map(Arc::from);
    loop {
        let page = reader.flow_names(after.as_deref(), MOST)?;
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        // Most flows have none, and need not be compiled to know that.
        let may_have_one = |listed: &&ListedFlow| listed.newest.source.contains("\"schedule\"");
        for listed in page.iter().filter(may_have_one) {
            let flow = flows.get(reader, listed.newest.id).ok();
            let Some(spec) = flow.and_then(|flow| flow.schedule.clone()) else { continue };
            if schedules.len() == limit {
                let next = schedules.last().map(|last| last.flow.clone());
                return Ok(SchedulesView { schedules, next });
            }
            let known = kept.iter().find(|schedule| schedule.flow == listed.name);
            schedules.push(build_view(&listed.name, &spec, known));
        }
    }
    Ok(SchedulesView { schedules, next: None })
}

/// Returns the schedule of a flow.
pub(crate) fn show_schedule(
    reader: &dyn Reader,
    flows: &ReadFlows,
    name: &str,
) -> Result<ScheduleView, ServiceError> {
    let record = find_version(reader, name, None)?;
    let flow = flows.get(reader, record.id)?;
    let Some(spec) = flow.schedule.clone() else {
        let sentence = format!("flow `{name}` has no schedule. Add `schedule:` to its file and apply it");
        return Err(ServiceError::not_found(sentence).named("schedule", name));
    };
    let kept = reader.schedules()?;
    Ok(build_view(name, &spec, kept.iter().find(|schedule| *schedule.flow == *name)))
}

fn build_view(flow: &str, spec: &ScheduleSpec, kept: Option<&Schedule>) -> ScheduleView {
    let (text, time_zone) = match &spec.timing {
        Timing::Cron { cron, zone, .. } => (cron.to_string(), Some(zone.to_string())),
        Timing::Every(_) => (spec.timing.to_string(), None),
    };
    // What a server has computed by another version of the flow says nothing about this one.
    let current = kept.filter(|kept| *kept.timing == *spec.timing.to_string());
    let paused = kept.and_then(|kept| kept.paused.as_ref());
    let next = if paused.is_some() { Vec::new() } else { next_times(spec) };
    let counts = kept.map(|kept| kept.counts).unwrap_or_default();
    let now = now();
    ScheduleView {
        flow: flow.to_owned(),
        spec: text,
        time_zone,
        overlap: spec.overlap.word().to_owned(),
        catch_up: CatchUpView {
            limit: spec.catch_up.limit,
            within: spec.catch_up.within.map(|within| Duration::from_millis(within.0)),
        },
        input: serde_json::from_str(spec.input.text()).unwrap_or_default(),
        paused: paused.map(|paused| SchedulePausedView {
            at: paused.at.timestamp(),
            by: describe_actor(&paused.by),
            reason: paused.reason.as_ref().map(ToString::to_string),
        }),
        begun: kept.is_some(),
        last: kept
            .and_then(|kept| kept.last)
            .map(|last| FiringView { at: last.at.timestamp(), run: last.run.to_string() }),
        next,
        waiting_since: current
            .filter(|kept| kept.paused.is_none() && kept.wait.is_some())
            .and_then(|kept| kept.next.filter(|next| *next <= now))
            .map(Time::timestamp),
        fired: counts.fired,
        missed: counts.missed,
        last_missed: counts.last_missed.map(Time::timestamp),
        skipped: counts.skipped,
        last_skipped: counts.last_skipped.map(Time::timestamp),
        problem: current.and_then(|kept| kept.problem.as_ref()).map(ToString::to_string),
    }
}

/// The times of a schedule that come next.
pub fn next_times(spec: &ScheduleSpec) -> Vec<jiff::Timestamp> {
    spec.times(now()).take(SHOWN_TIMES).map(Time::timestamp).collect()
}
