//! Gathers what a rehearsal needs: flows, policies and the plan, from files or a store.

use std::sync::Arc;

use unstuck_core::event::Actor;
use unstuck_core::model::flow::Flow;
use unstuck_core::policy::{Policies, Policy, PolicyCommand, PolicyDraft, apply_command};
use unstuck_core::time::Time;
use unstuck_flow::plan::{self, Plan, SignalPlan};
use unstuck_flow::policies::read_document;
use unstuck_sim::rehearse::{Keep, Rehearsal};

use super::{AUTO, Arguments, MOST_EVENTS, UNTIL, WORKERS, outputs};
use crate::command::policy::load;
use crate::error::{CommandError, Refused};
use crate::input::source::{STDIN, Source};
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::problems;
use crate::view::text;
use unstuck_api::policies::{KeptPolicyView, PoliciesView};
use unstuck_api::request::Query;

/// Reads everything that the arguments name, or returns all problems.
pub(super) fn gather(arguments: &Arguments) -> Result<Rehearsal, CommandError> {
    let stdin = [Some(&arguments.file), arguments.plan.as_ref(), arguments.input.as_ref()];
    let named = stdin
        .into_iter()
        .flatten()
        .chain(&arguments.policies)
        .chain(&arguments.outputs)
        .filter(|name| *name == STDIN);
    if named.count() > 1 {
        return Err(CommandError::new("stdin can be read only once; name `-` once"));
    }
    let flows = load_flows(arguments)?;
    let flow = choose_flow(arguments, &flows)?;
    let flows = keep_reachable_flows(flows, &flow);
    let mut plan = match arguments.plan.as_deref() {
        None => Plan::default(),
        Some(AUTO) => Plan { signals: SignalPlan::AsAwaited, ..Plan::default() },
        Some(file) => load_plan(file, &flows)?,
    };
    plan.outputs = outputs::gather_examples(arguments, plan.outputs, &flows)?;
    let policies = load_policies(arguments)?;
    Ok(Rehearsal {
        input: arguments.input(&plan)?,
        workers: arguments.workers.or(plan.workers.count).unwrap_or(WORKERS),
        runs: arguments.runs.unwrap_or(1),
        seed: arguments.seed,
        until: arguments.until.or(plan.until).unwrap_or(UNTIL),
        max_events: MOST_EVENTS,
        keep: Keep::None,
        flows,
        flow,
        policies,
        plan,
    })
}

/// Loads the flows of the file.
fn load_flows(arguments: &Arguments) -> Result<Vec<Flow>, CommandError> {
    let source = Source::read(&arguments.file)?;
    // Warnings are left to `unstuck check`; the report has its own.
    source.load(&|_| false).map(|loaded| loaded.flows).map_err(|problems| refused_error(&source, problems))
}

/// Returns the name of the flow to rehearse: the one named, else the first.
fn choose_flow(arguments: &Arguments, flows: &[Flow]) -> Result<Arc<str>, CommandError> {
    let found = match &arguments.flow {
        None => flows.first(),
        Some(name) => flows.iter().find(|flow| *flow.name == **name),
    };
    found.map(|flow| flow.name.clone()).ok_or_else(|| {
        let names: Vec<String> = flows.iter().map(|flow| format!("`{}`", flow.name)).collect();
        let wanted = arguments.flow.as_deref().unwrap_or_default();
        CommandError::not_found(format!(
            "{} has no flow `{wanted}`; it has {}",
            arguments.file,
            names.join(", ")
        ))
    })
}

/// Keeps the flow that is run with its children and handlers, and theirs; other flows of the file play no part.
fn keep_reachable_flows(flows: Vec<Flow>, root: &Arc<str>) -> Vec<Flow> {
    let mut names = vec![root.clone()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        let Some(flow) = flows.iter().find(|flow| flow.name == name) else { continue };
        for other in flow.steps.iter().flat_map(unstuck_sim::rehearse::other_flows) {
            if !names.contains(&other) {
                names.push(other);
            }
        }
    }
    flows.into_iter().filter(|flow| names.contains(&flow.name)).collect()
}

/// Loads the plan and shows its warnings.
fn load_plan(file: &str, flows: &[Flow]) -> Result<Plan, CommandError> {
    let source = Source::read(file)?;
    let loaded =
        plan::load(&source.text, &source.file, flows).map_err(|problems| refused_error(&source, problems))?;
    show_warnings(&source, &loaded.warnings);
    Ok(loaded.plan)
}

/// Loads policies from files, and from a store if one is named.
fn load_policies(arguments: &Arguments) -> Result<Vec<Policy>, CommandError> {
    let mut kept: Vec<Policy> = Vec::new();
    if arguments.store.is_given() {
        let place = arguments.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        kept = policies_of_store(place.read(Query::Kept { names: Vec::new() })?.read()?)?;
        let PoliciesView { policies: lines, .. } = place.read(Query::Policies)?.read()?;
        if let Some(since) = lines.first().and_then(|line| line.policies_paused.as_ref()) {
            let words = paused_policies::describe_paused(since);
            let note =
                format!("automatic resumes are paused in this store {words}. The rehearsal ignores that");
            Output::stderr().line(&format!("note: {}", text::visible(&note)));
        }
    }
    if arguments.policies.is_empty() {
        return Ok(kept);
    }
    let files = load::read_policy_files(&arguments.policies)?;
    let drafts: Vec<PolicyDraft> =
        files.iter().flat_map(|file| &file.policies).map(|policy| policy.draft.clone()).collect();
    let order = PolicyCommand::Load { drafts, replace: true, by: Actor::Engine };
    let known =
        Policies::new(kept).map_err(|_| CommandError::internal("the policies of the store conflict"))?;
    let mut number = 0;
    let fresh_id = || {
        number += 1;
        format!("rehearsed-{number}").into()
    };
    let refuse = |problems: Vec<unstuck_core::policy::BadPolicy>| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CommandError::new(lines.join("\n"))
    };
    apply_command(&known, order, Time(0), 0, fresh_id).map(|(set, _)| set.policies).map_err(refuse)
}

/// Converts the policies of a store, which come in matching order: that order decides between equal priorities.
fn policies_of_store(kept: Vec<KeptPolicyView>) -> Result<Vec<Policy>, CommandError> {
    let unreadable = || CommandError::internal("a policy of the store cannot be read");
    let policy = |(age, kept): (u64, KeptPolicyView)| {
        let draft = read_document(&kept.policy).map_err(|_| unreadable())?;
        let checked = draft.check(&"".into(), age).map_err(|_| unreadable())?;
        Ok(Policy { version: kept.version, ..checked })
    };
    (0..).zip(kept).map(policy).collect()
}

pub(super) fn refused_error(source: &Source, problems: Vec<unstuck_flow::Problem>) -> CommandError {
    CommandError::Refused(vec![Refused { file: source.file.clone(), text: source.text.clone(), problems }])
}

pub(super) fn show_warnings(source: &Source, warnings: &[unstuck_flow::Problem]) {
    let mut stderr = Output::stderr();
    for warning in warnings {
        stderr.line(&problems::format_problem(warning, &source.text, stderr.look));
    }
}
