//! Requests that change policies or what they have scheduled.

use std::sync::Arc;

use unstuck_api::PoliciesPaused;
use unstuck_api::policies::{
    AppliedView, NotReplaced, PassedView, PolicyChangeView, PolicyChangesView, PolicyDocument, RefusedDraft,
    ShadowedView, SwitchView,
};
use unstuck_api::request::{PolicyOperation, PolicyRequest};
use unstuck_core::decide::check_texts;
use unstuck_core::event::Actor;
use unstuck_core::policy::{
    ApplyPlan, Policies, PolicyAudit, PolicyAuditKind, PolicyDraft, PolicyOutcome, apply_command,
};
use unstuck_engine::call::Call;
use unstuck_engine::document::policies_paused;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_flow::policies::read_document;

use crate::service::{ServiceError, now, to_json};

/// Handles a request about policies, and returns the result as JSON.
pub(crate) fn change_policies(
    handle: &Handle,
    request: PolicyRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let PolicyRequest { by, dry_run, what } = request;
    let by = Actor::User(by.into());
    let names = |names: Vec<String>| names.into_iter().map(Arc::<str>::from).collect::<Vec<_>>();
    let order = Order { handle, call, dry_run };
    match what {
        PolicyOperation::Load { drafts, replace } => {
            order.load(&drafts, replace, |drafts| PolicyCommand::Load { drafts, replace, by })
        }
        PolicyOperation::Set { drafts } => {
            order.load(&drafts, false, |drafts| PolicyCommand::Set { drafts, by })
        }
        PolicyOperation::Order { names: given } => {
            order.send(PolicyCommand::Order { names: names(given), by })
        }
        PolicyOperation::Enable { names: given } => {
            order.send(PolicyCommand::Enable { names: names(given), by })
        }
        PolicyOperation::Disable { names: given } => {
            order.send(PolicyCommand::Disable { names: names(given), by })
        }
        PolicyOperation::Delete { names: given } => {
            order.send(PolicyCommand::Delete { names: names(given), by })
        }
        PolicyOperation::Pause { .. } | PolicyOperation::Unpause { .. } if dry_run => {
            Err(ServiceError::refused("pausing and unpausing policies has no dry run"))
        }
        PolicyOperation::Pause { reason } => {
            switch_auto_resumes(handle, PolicyCommand::Pause { reason: reason.into(), by }, call)
        }
        PolicyOperation::Unpause { rate } => {
            switch_auto_resumes(handle, PolicyCommand::Unpause { rate, by }, call)
        }
        PolicyOperation::Apply { names: given, .. } if dry_run => {
            plan_apply(handle, (!given.is_empty()).then(|| names(given)))
        }
        PolicyOperation::Apply { names: given, rate, reason } => {
            let only = (!given.is_empty()).then(|| names(given));
            apply_policies(handle, only, rate, (&by, reason.map(Arc::from)), call)
        }
    }
}

/// A request that changes policies, with what came with it.
struct Order<'a> {
    handle: &'a Handle,
    call: &'a Call,
    dry_run: bool,
}

impl Order<'_> {
    /// Reads policies and sends the command that has them; refused drafts are part of the result. Those that were to replace
    /// others, and are new, are named.
    fn load(
        &self,
        documents: &[PolicyDocument],
        replace: bool,
        command: impl FnOnce(Vec<PolicyDraft>) -> PolicyCommand,
    ) -> Result<String, ServiceError> {
        let refuse = |refused: Vec<RefusedDraft>| {
            to_json(&PolicyChangesView { refused, ..PolicyChangesView::default() })
        };
        let drafts = match parse_drafts(documents) {
            Ok(drafts) => drafts,
            Err(refused) => return refuse(refused),
        };
        let replacing = if replace { drafts.clone() } else { Vec::new() };
        let (outcome, view) = match self.carry_out(command(drafts)) {
            Err(EngineError::BadPolicies(problems)) => {
                let refused = problems.into_iter().map(|bad| RefusedDraft {
                    place: bad.place,
                    field: bad.problem.field.to_owned(),
                    message: bad.problem.message,
                    hint: bad.problem.hint.to_owned(),
                });
                return refuse(refused.collect());
            }
            carried_out => carried_out?,
        };
        let not_replaced = if replace { list_not_replaced(&replacing, &outcome.changes) } else { Vec::new() };
        to_json(&PolicyChangesView { not_replaced, ..view })
    }

    /// Sends a command, and returns the changes.
    fn send(&self, command: PolicyCommand) -> Result<String, ServiceError> {
        to_json(&self.carry_out(command)?.1)
    }

    /// Carries out a command, or finds out what it would come to.
    fn carry_out(&self, command: PolicyCommand) -> Result<(PolicyOutcome, PolicyChangesView), EngineError> {
        if !self.dry_run {
            let outcome = self.handle.change_policies_as(command, self.call.clone())?;
            let view = build_changes_view(&self.handle.policies()?, &outcome);
            return Ok((outcome, view));
        }
        check_texts(command.actor(), command.reason())?;
        let policies = self.handle.policies()?;
        if let Some(mark) = &self.call.expected_policies {
            let last = self.handle.reader().policy_audit(None, 1)?.first().map_or(0, |(id, _)| id.0);
            if !mark.fits(&policies, last) {
                return Err(EngineError::PoliciesChanged);
            }
        }
        let mut number = 0..;
        let fresh_id = || format!("{UNNAMED}{}", number.next().unwrap_or(0)).into();
        let (set, outcome) =
            apply_command(&policies, command, now(), 0, fresh_id).map_err(EngineError::BadPolicies)?;
        let after = Policies::new(set.policies).unwrap_or_default();
        let mut view = PolicyChangesView { dry_run: true, ..build_changes_view(&after, &outcome) };
        for change in &mut view.changes {
            change.id = change.id.take().filter(|id| !id.starts_with(UNNAMED));
        }
        Ok((outcome, view))
    }
}

/// How the ids of policies begin that would get one.
const UNNAMED: &str = "new-";

/// Builds the view of changes, with policies that can never match.
fn build_changes_view(policies: &Policies, outcome: &PolicyOutcome) -> PolicyChangesView {
    let changes: Vec<PolicyChangeView> = outcome
        .changes
        .iter()
        .map(|audit| PolicyChangeView {
            policy: audit.name.to_string(),
            id: Some(audit.policy.to_string()),
            what: audit.what.word().to_owned(),
            version: audit.after.as_ref().map(|policy| policy.version),
        })
        .collect();
    let all = policies.shadows();
    let shadowed = all
        .iter()
        .filter(|shadow| changes.iter().any(|change| *change.policy == *shadow.policy))
        .map(|shadow| ShadowedView { policy: shadow.policy.to_string(), by: shadow.by.to_string() });
    PolicyChangesView {
        shadowed: shadowed.collect(),
        changes,
        unchanged: outcome.unchanged.iter().map(ToString::to_string).collect(),
        ..PolicyChangesView::default()
    }
}

/// Lists the policies that were added although they were meant to replace others.
fn list_not_replaced(drafts: &[PolicyDraft], changes: &[PolicyAudit]) -> Vec<NotReplaced> {
    let added = changes.iter().filter(|change| change.what == PolicyAuditKind::Added);
    let new = added.map(|change| {
        let draft = drafts.iter().find(|draft| draft.name.as_ref() == Some(&change.name));
        let id = draft.and_then(|draft| draft.id.as_ref()).map(ToString::to_string);
        NotReplaced { policy: change.name.to_string(), id }
    });
    new.collect()
}

/// Applies policies to open errors, and counts what changed.
fn apply_policies(
    handle: &Handle,
    only: Option<Vec<Arc<str>>>,
    rate: u32,
    (by, reason): (&Actor, Option<Arc<str>>),
    call: &Call,
) -> Result<String, ServiceError> {
    let applied = handle.apply_as(only, rate, (by, reason), call.clone())?;
    to_json(&AppliedView {
        bulk: applied.bulk.map(|bulk| bulk.to_string()),
        moved: applied.moved,
        unscheduled: applied.unscheduled,
        unchanged: applied.unchanged,
        ..build_applied_view(handle, &applied.plan)?
    })
}

/// Counts what applying policies would change. Nothing is changed.
fn plan_apply(handle: &Handle, only: Option<Vec<Arc<str>>>) -> Result<String, ServiceError> {
    let plan = handle.plan_apply(only)?;
    to_json(&AppliedView { dry_run: true, ..build_applied_view(handle, &plan)? })
}

/// Builds the view of a plan, as far as the open errors tell.
fn build_applied_view(handle: &Handle, plan: &ApplyPlan) -> Result<AppliedView, ServiceError> {
    let outranked = plan.outranked.iter().map(|((policy, by), steps)| PassedView {
        policy: policy.to_string(),
        by: Some(by.to_string()),
        steps: *steps,
    });
    let passed = |(policy, steps): (&Arc<str>, &u64)| PassedView {
        policy: policy.to_string(),
        by: None,
        steps: *steps,
    };
    Ok(AppliedView {
        dry_run: false,
        bulk: None,
        moved: plan.moved,
        unscheduled: plan.unscheduled,
        unchanged: plan.unchanged,
        outranked: outranked.collect(),
        exhausted: plan.exhausted.iter().map(passed).collect(),
        disabled: plan.disabled.iter().map(passed).collect(),
        policies_paused: handle.policies()?.switch().paused().map(policies_paused),
    })
}

/// Pauses or unpauses automatic resumes.
fn switch_auto_resumes(handle: &Handle, order: PolicyCommand, call: &Call) -> Result<String, ServiceError> {
    let paused = |handle: &Handle| -> Result<Option<PoliciesPaused>, ServiceError> {
        Ok(handle.policies()?.switch().paused().map(policies_paused))
    };
    let was = paused(handle)?;
    let is_unpause = matches!(order, PolicyCommand::Unpause { .. });
    let already = handle.change_policies_as(order, call.clone())?.changes.is_empty();
    let due = if is_unpause && !already { handle.due_resumes()? } else { 0 };
    let was = was.filter(|_| is_unpause && !already);
    to_json(&SwitchView { already, policies_paused: paused(handle)?, was, due })
}

/// Reads policies that came as documents, or returns everything that is wrong with them.
pub(crate) fn parse_drafts(documents: &[PolicyDocument]) -> Result<Vec<PolicyDraft>, Vec<RefusedDraft>> {
    let (mut drafts, mut refused) = (Vec::new(), Vec::new());
    for (place, document) in documents.iter().enumerate() {
        match read_document(document) {
            Ok(draft) => drafts.push(draft),
            Err(problems) => refused.extend(problems.into_iter().map(|problem| RefusedDraft {
                place,
                field: problem.field,
                message: problem.message,
                hint: problem.hint.unwrap_or_default(),
            })),
        }
    }
    if refused.is_empty() { Ok(drafts) } else { Err(refused) }
}
