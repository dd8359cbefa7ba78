//! What an operator can do now: commands that can be typed as printed, each of which would be accepted.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::explain::upcoming::running_handler;
use crate::explain::{Act, PossibleAction, RunContext, SHOWN, SlotHolder, output_fields};
use crate::id::RunId;
use crate::model::error::Reason;
use crate::model::flow::Step;
use crate::model::run::{Origin, PausedBy, Phase, RunOutcome, RunState};
use crate::model::unit::{Unit, UnitRef, UnitState, Waiting};
use crate::reason::phrases;

/// More steps in error than this are resumed together, and of more held ones some are shown.
const ONE_BY_ONE: usize = 3;

/// At most this many steps that wait for a retry are offered one by one.
const RETRIED: usize = 3;

/// Lists all actions that would help or may be wanted, the most useful first.
pub(super) fn possible_actions(view: &RunContext<'_>) -> Vec<PossibleAction> {
    let run = view.run.id;
    if let Phase::Ended(ended) = &view.run.phase {
        return actions_for_ended(view, &ended.how);
    }
    let mut all = Vec::new();
    let in_error = view.units_where(|unit| matches!(unit.state, UnitState::Error { .. })).len();
    if in_error > 1 {
        all.push(on_run(run, "resume", "", json!({}), format!("resume all {in_error} steps in error")));
    }
    // Of many units only the first few get a command of their own.
    let mut held = 0;
    for (unit, state) in view.units_where(|_| true) {
        let rests = matches!(state.state, UnitState::Error { .. });
        let is_held = matches!(state.state, UnitState::Held { .. });
        held += usize::from(is_held);
        let is_one_of_many = (rests && in_error > ONE_BY_ONE) || (is_held && held > ONE_BY_ONE);
        if !is_one_of_many {
            all.extend(actions_for_unit(view, unit, state));
        }
    }
    all.extend(retry_now_actions(view, in_error));
    if view.policies_paused.is_some() {
        let what = "let policies resume errors again, in this run and all others";
        all.push(PossibleAction {
            act: Some(Act::UnpausePolicies),
            ..action("unstuck policy unpause", what)
        });
    }
    all.extend(view.holders.iter().map(slot_holder_action));
    all.extend(other_actions(view));
    if let Some((handler, state)) = running_handler(view) {
        let what = format!("explain the exception handler, which is {}", phrases::state(state));
        all.push(explain(handler, what));
    }
    let mut seen = BTreeSet::new();
    all.retain(|possible| seen.insert(possible.command.clone()));
    all.truncate(SHOWN);
    all.push(pause_action(view));
    let what = "cancel the run: running attempts are stopped, children are cancelled";
    all.push(on_run(run, "cancel", "", json!({}), what));
    all
}

fn action(command: impl Into<String>, what: impl Into<String>) -> PossibleAction {
    PossibleAction { command: command.into(), what: what.into(), act: None }
}

/// Builds an action on a run: the command is that of the verb, with `words` after the run.
fn on_run(
    run: RunId,
    verb: &'static str,
    words: &str,
    arguments: Value,
    what: impl Into<String>,
) -> PossibleAction {
    let words = if words.is_empty() { String::new() } else { format!(" {words}") };
    let act = Some(Act::OnRun { run, verb, arguments });
    PossibleAction { act, ..action(format!("unstuck {verb} {run}{words}"), what) }
}

/// Builds the action that explains another run.
fn explain(run: RunId, what: impl Into<String>) -> PossibleAction {
    PossibleAction { act: Some(Act::Explain(run)), ..action(format!("unstuck explain {run}"), what) }
}

/// Lists the actions for a run that has ended: a rerun, or a look at its parent.
fn actions_for_ended(view: &RunContext<'_>, how: &RunOutcome) -> Vec<PossibleAction> {
    let run = view.run.id;
    let rerun = |run: RunId, what: String| on_run(run, "rerun", "", json!({}), what);
    match (how, &view.run.origin) {
        (RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. }, Origin::Root) => {
            let again =
                "start the next generation from the point of failure; completed steps are not run again";
            let mut all = vec![rerun(run, format!("{again}{}", hint_for_bad_data(how)))];
            if let RunOutcome::Failed { handler: Some((handler, Some(_))), .. } = how {
                let what = "rerun only the exception handler that failed; this run stays failed";
                all.push(rerun(*handler, what.to_owned()));
            }
            all
        }
        (RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. }, Origin::Handler { parent, .. }) => vec![
            rerun(
                run,
                format!(
                    "rerun this handler from the point of failure; its parent stays failed{}",
                    hint_for_bad_data(how)
                ),
            ),
            explain(*parent, "explain the run whose error it handles"),
        ],
        (RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. }, Origin::Child { parent, .. }) => {
            vec![explain(*parent, "explain its parent, which decides what follows")]
        }
        (RunOutcome::Superseded { by }, _) => vec![explain(*by, "explain the run that replaced it")],
        (RunOutcome::Completed { .. }, _) => Vec::new(),
    }
}

/// Returns the hint to correct the input, where the data caused the failure and a rerun would fail again.
fn hint_for_bad_data(how: &RunOutcome) -> &'static str {
    match how {
        RunOutcome::Failed { error, .. } if error.error.reason == Reason::Data => {
            ". The data is at fault: give a corrected input with --input"
        }
        RunOutcome::Failed { .. }
        | RunOutcome::Completed { .. }
        | RunOutcome::Cancelled { .. }
        | RunOutcome::Superseded { .. } => "",
    }
}

/// Lists the actions for one unit, by its state.
fn actions_for_unit(view: &RunContext<'_>, unit: UnitRef, state: &Unit) -> Vec<PossibleAction> {
    let run = view.run.id;
    let name = phrases::unit_name(view.flow, unit);
    let word = shell_word(&name);
    let choose = |choice: &str, what: String| {
        let arguments = json!({"step": name, "choice": choice});
        on_run(run, "choose", &format!("{word} {choice}"), arguments, what)
    };
    match &state.state {
        UnitState::Held { .. } => vec![
            choose("retry", "retry once more in this round".to_owned()),
            choose("none", describe_choice_none(view.step(unit))),
        ],
        UnitState::Error { .. } => {
            let what = "retry in a new round with full budgets";
            vec![on_run(run, "resume", &word, json!({"step": name}), what)]
        }
        UnitState::Waiting(Waiting::Signal { name, .. }) => vec![signal_action(view, unit, name)],
        UnitState::Active(_) => child_actions(view, unit, state),
        UnitState::Waiting(Waiting::Again { .. } | Waiting::Timer { .. })
        | UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => Vec::new(),
    }
}

/// Suggests the signal that a step waits for, with the fields that the flow reads of it: without them the run would
/// fail.
fn signal_action(view: &RunContext<'_>, unit: UnitRef, name: &str) -> PossibleAction {
    let (run, signal, name) = (view.run.id, name, shell_word(name));
    let (completes, step) = (completion_verb(view), view.quoted_name(unit));
    let fields = output_fields::output_fields_read(view.flow, unit.step);
    if fields.is_empty() {
        let what = format!("{completes} {step}; JSON after the name becomes its output");
        return on_run(run, "signal", &name, json!({"name": signal}), what);
    }
    let payload: Map<String, Value> = fields.iter().map(|field| (field.clone(), json!(false))).collect();
    let values: Vec<String> = fields.iter().map(|field| format!("\"{field}\": false")).collect();
    let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    let what = format!(
        "{completes} {step} with this output. The flow reads {} from it: give the real values",
        phrases::join_list(&fields)
    );
    let words = format!("{name} {}", shell_word(&format!("{{{}}}", values.join(", "))));
    on_run(run, "signal", &words, json!({"name": signal, "payload": payload}), what)
}

/// Suggests to retry at once what waits for a retry or a deferral: all together, or one by one if other steps are in
/// error.
fn retry_now_actions(view: &RunContext<'_>, in_error: usize) -> Vec<PossibleAction> {
    let run = view.run.id;
    let waiting = view.units_where(|unit| matches!(unit.state, UnitState::Waiting(Waiting::Again { .. })));
    if view.run.paused.is_some() {
        return Vec::new();
    }
    if waiting.len() > 1 && in_error == 0 {
        let what = format!("retry all {} waiting steps now, in a new round", waiting.len());
        return vec![on_run(run, "resume", "", json!({}), what)];
    }
    let one = |(unit, _): &(UnitRef, &Unit)| {
        let name = phrases::unit_name(view.flow, *unit);
        let what = "retry now, in a new round with full budgets";
        on_run(run, "resume", &shell_word(&name), json!({"step": name}), what)
    };
    waiting.iter().take(RETRIED).map(one).collect()
}

/// Suggests what to do about the run that holds the slot: continue it if it is idle, else explain it.
fn slot_holder_action(holder: &SlotHolder) -> PossibleAction {
    let SlotHolder { run, root, .. } = holder;
    if holder.is_idle {
        let what = format!("continue {run}, which has a slot but is idle");
        return action(format!("unstuck run --continue {root}"), what);
    }
    explain(*run, format!("explain {}, which has a slot", holder.description()))
}

/// Suggests what can be done about steps in error besides a resume: skip, complete, acknowledge. For several steps only
/// what applies to all of them, to keep the page short.
fn other_actions(view: &RunContext<'_>) -> Vec<PossibleAction> {
    let run = view.run.id;
    let rests = |unit: &Unit| matches!(unit.state, UnitState::Error { .. } | UnitState::Held { .. });
    let is_open = |unit: &Unit| matches!(unit.state, UnitState::Error { acknowledged: None, .. });
    let open = view.units_where(is_open).len();
    let mut all = Vec::new();
    match (view.units_where(rests).as_slice(), open) {
        ([(unit, state)], _) => {
            let name = phrases::unit_name(view.flow, *unit);
            let word = shell_word(&name);
            if is_open(state) {
                let what = "leave it in error: no policy resumes it, and it no longer counts as open";
                let arguments = json!({"step": name, "reason": "known"});
                all.push(on_run(run, "ack", &format!("{word} --reason known"), arguments, what));
            }
            let output = "mark it completed by hand; give the output that it would have had";
            let arguments = json!({"step": name, "output": null});
            all.push(on_run(run, "complete", &format!("{word} --output null"), arguments, output));
            let without = "continue without it; its output is null";
            all.push(on_run(run, "skip", &word, json!({"step": name}), without));
        }
        (_, 0) => {}
        (_, _) => {
            let what = "leave every step in error: no policy resumes them, and they no longer count as open";
            all.push(on_run(run, "ack", "--reason known", json!({"reason": "known"}), what));
        }
    }
    all
}

/// Returns the verb for what a signal does to the step: at once, or once the run continues.
fn completion_verb(view: &RunContext<'_>) -> &'static str {
    if view.run.can_schedule() { "complete" } else { "complete, once the run continues," }
}

/// Describes what `none` would do to a held step.
fn describe_choice_none(step: &Step) -> String {
    match (&step.exception_handler, step.fail_on_error) {
        (_, false) => "stop retrying; the flow continues with output null".to_owned(),
        (Some(handler), true) => {
            format!("stop retrying; exception handler `{handler}` runs, then the run fails")
        }
        (None, true) => "stop retrying; the run fails".to_owned(),
    }
}

/// Suggests to explain a child that does not continue by itself.
fn child_actions(view: &RunContext<'_>, unit: UnitRef, state: &Unit) -> Vec<PossibleAction> {
    let Some((child, state)) = view.awaited_child(state) else { return Vec::new() };
    match state {
        RunState::Held | RunState::Error | RunState::Waiting | RunState::Paused | RunState::Queued => {
            let what = format!(
                "explain the child of {}, which is {}",
                view.quoted_name(unit),
                phrases::state(state)
            );
            vec![explain(child, what)]
        }
        RunState::Running
        | RunState::Completed
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded => Vec::new(),
    }
}

/// Suggests to pause the run, or to unpause it or the parent that it was paused with.
fn pause_action(view: &RunContext<'_>) -> PossibleAction {
    let run = view.run.id;
    match (view.run.paused, &view.run.origin) {
        (Some(PausedBy::Operator), _) | (Some(PausedBy::Parent), Origin::Root) => {
            on_run(run, "unpause", "", json!({}), "continue the run")
        }
        (Some(PausedBy::Parent), Origin::Child { parent, .. } | Origin::Handler { parent, .. }) => {
            on_run(*parent, "unpause", "", json!({}), "continue its parent, and this run with it")
        }
        (None, _) => on_run(run, "pause", "", json!({}), "let running attempts finish and start nothing new"),
    }
}

/// Quotes a word for a shell if it needs it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
