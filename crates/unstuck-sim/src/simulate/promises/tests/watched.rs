//! What is put out, sent, paused, limited and done to many, broken on purpose.

use unstuck_core::bulk::{Bulk, BulkAction, Pace, Target, TargetResult};
use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Fact, UnitFact};
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::{PausedBy, Slot};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{PoliciesPaused, PoliciesUnpaused, PolicySwitch, SwitchState};
use unstuck_core::time::Millis;
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{Output, Request};
use unstuck_store::contract::Store as _;

use super::super::{Broken, Promise, rest};
use super::life::{Life, ada};
use super::{Doctored, fail};

/// Each of the promises about what simulated runs hand on.
pub(super) const CASES: [(&str, Promise, Doctored); 15] = [
    ("a run puts out something else", Promise::Values, another_output_of_the_run),
    ("a signal arrives as another one", Promise::Values, another_signal),
    ("a repeat is told to have another reason", Promise::Values, another_reason),
    ("a bulk action acts on what is not its target", Promise::Bulks, not_a_target),
    ("a paused run keeps its slot", Promise::Slots, slot_kept),
    ("a child that an operator has paused goes on with its parent", Promise::Paused, operators_child_goes_on),
    ("a run has a deadline that nobody gave it", Promise::Deadlines, another_deadline),
    ("a rerun keeps what depends on the chosen step", Promise::Reruns, dependent_kept),
    ("what was stuck for the first time goes to the back", Promise::Queues, at_the_back),
    ("policies are applied later than they say", Promise::Policies, applied_late),
    ("a sign of life with a void token is taken", Promise::Fenced, void_beat_taken),
    ("a loss is told, and nothing comes of it", Promise::Leases, loss_ignored),
    ("a lease is moved by nobody", Promise::Leases, lease_moved_by_nobody),
    ("a policy resumes although that is paused", Promise::PausedPolicies, resumed_in_a_pause),
    ("what has waited resumes all at once", Promise::PausedPolicies, resumed_all_at_once),
];

/// Runs in error, which a policy resumes in ten seconds.
fn scheduled(runs: usize) -> Result<Life, Broken> {
    let mut life = Life::new();
    life.load_policy(10);
    for _ in 0..runs {
        life.started("resumed");
        let job = life.job();
        life.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
        life.step()?;
    }
    Ok(life)
}

/// The watch is told that the switch for all policies stands so.
fn tell_switch(life: &mut Life, state: SwitchState) {
    let policies = life.machine.engine.policies().clone();
    life.promises.record_policies(&policies.with_switch(PolicySwitch { version: 1, state }));
}

fn resumed_in_a_pause() -> Result<(), Broken> {
    let mut life = scheduled(1)?;
    let (since, by, reason) = (life.now, ada(), "it is night".into());
    tell_switch(&mut life, SwitchState::Paused(PoliciesPaused { since, by, reason }));
    life.now = life.now + Millis::seconds(10);
    life.step()
}

fn resumed_all_at_once() -> Result<(), Broken> {
    let mut life = scheduled(2)?;
    let pause = PolicyCommand::Pause { reason: "it is night".into(), by: ada() };
    life.machine.engine.change_policies(pause, life.now).expect("pauses");
    life.promises.record_policies(life.machine.engine.policies());
    life.now = life.now + Millis::seconds(10);
    life.step()?;
    let unpause = PolicyCommand::Unpause { rate: 1_000, by: ada() };
    life.machine.engine.change_policies(unpause, life.now).expect("unpauses");
    // One a second, as far as the watch knows.
    let slower = PoliciesUnpaused { at: life.now, clock: 0, rate: 1 };
    tell_switch(&mut life, SwitchState::Unpaused(slower));
    for _ in 0..5 {
        life.step()?;
        life.now = life.now + Millis(1);
    }
    Ok(())
}

fn complete(life: &mut Life, output: &str) {
    let job = life.job();
    let output = Json::parse(output).expect("good JSON");
    life.ask_word(ExecutorReport::Report(job.attempt, Report::Complete { output }));
}

fn another_output_of_the_run() -> Result<(), Broken> {
    let mut life = Life::new();
    life.started("one");
    complete(&mut life, "7");
    life.change_facts(|fact| {
        if let Fact::Completed { output } = fact {
            *output = Payload::NULL;
        }
    })
}

fn another_signal() -> Result<(), Broken> {
    let mut life = Life::new();
    let run = life.started("waits");
    let payload = Json::parse("7").expect("good JSON");
    life.command(run, Command::Signal { name: "go".into(), payload, by: ada() });
    life.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Done { output }, .. } = fact {
            *output = Payload::NULL;
        }
    })
}

fn another_reason() -> Result<(), Broken> {
    let mut life = Life::new();
    life.started("retry");
    let job = life.job();
    life.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    life.step()?;
    life.now = life.now + Millis::seconds(11);
    life.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Queued { resumed_by, .. }, .. } = fact {
            *resumed_by = None;
        }
    })
}

fn not_a_target() -> Result<(), Broken> {
    let mut life = Life::new();
    let run = life.started("resumed");
    let job = life.job();
    life.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    life.step()?;
    let engine = &mut life.machine.engine;
    let id = engine.new_bulk_id(life.now);
    let target =
        Target { place: 0, run, unit: Some(UnitRef::step(StepIndex(0))), result: TargetResult::Pending };
    engine.put_targets(id, vec![target]).expect("kept");
    let action = BulkAction::Resume { input: None, step_input: None };
    let by = (Actor::User("crew".into()), None);
    let bulk = Bulk::new(id, action, by, "all".into(), Pace::default(), 1, life.now);
    engine.begin_bulk(bulk.clone()).expect("begins");
    life.promises.record_bulk(&bulk, &[]);
    life.step()
}

fn slot_kept() -> Result<(), Broken> {
    let mut life = Life::new();
    let run = life.started("limited");
    let mut other = life.promises.books[&run].run().cloned().expect("there");
    assert!(matches!(other.slot, Slot::Taken(_)), "{:?}", other.slot);
    other.paused = Some(PausedBy::Operator);
    let (store, flows) = life.machine.engine.reader();
    let flow = flows.get(store, other.flow).expect("there");
    rest::check_slot(&flow, None, &other, false)
}

fn operators_child_goes_on() -> Result<(), Broken> {
    let mut life = Life::new();
    let child = life.started("parent");
    life.command(child, Command::Pause { by: ada(), reason: None });
    life.step()?;
    life.invent(child, Actor::Engine, vec![Fact::Unpaused])
}

fn another_deadline() -> Result<(), Broken> {
    let mut life = Life::new();
    life.start("one", None);
    let late = life.now + Millis::seconds(5);
    life.change_facts(|fact| {
        if let Fact::Started(started) = fact {
            started.deadline = Some(late);
        }
    })
}

fn dependent_kept() -> Result<(), Broken> {
    let mut life = Life::new();
    let run = life.started("chain");
    for _ in 0..2 {
        complete(&mut life, "1");
        life.step()?;
    }
    life.command(run, Command::rerun(Rerun::Steps(vec![StepIndex(0)]), ada()));
    life.change_facts(|fact| {
        if let Fact::Reran { keep, .. } = fact {
            keep.push(StepIndex(1));
        }
    })
}

fn at_the_back() -> Result<(), Broken> {
    let mut life = Life::new();
    life.started("one");
    let job = life.job();
    life.ask_word(ExecutorReport::Lost(job.attempt));
    life.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Requeued { place, .. }, .. } = fact {
            place.front = false;
        }
    })
}

fn applied_late() -> Result<(), Broken> {
    let mut life = Life::new();
    let run = life.started("resumed");
    let job = life.job();
    life.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    life.step()?;
    life.load_policy(10);
    let (unit, after) = (UnitRef::step(StepIndex(0)), Millis(0));
    life.command(run, Command::ApplyPolicies { unit, only: None, after, by: ada() });
    life.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Scheduled { due, .. }, .. } = fact {
            *due = *due + Millis(1);
        }
    })
}

fn void_beat_taken() -> Result<(), Broken> {
    let mut life = Life::remote();
    let run = life.started("one");
    let mut attempt = life.job().attempt;
    attempt.attempt = 7;
    let says = Report::Heartbeat { progress: None };
    let ticket = life.command_unsent(run, Command::Report { attempt, report: says });
    life.promises.check_output(&Output::Reply { ticket, result: Ok(Answer::Done) }, life.now)?;
    life.step()
}

fn loss_ignored() -> Result<(), Broken> {
    let mut life = Life::remote();
    life.started("one");
    let attempt = life.job().attempt;
    life.promises.record_request(&Request::Lost { attempt, with_others: false }, life.now);
    life.step()
}

fn lease_moved_by_nobody() -> Result<(), Broken> {
    let mut life = Life::remote();
    let run = life.started("one");
    let attempt = life.job().attempt;
    life.command(run, Command::Report { attempt, report: Report::Start });
    life.step()?;
    life.now = life.now + Millis::seconds(20);
    // The watch does not hear of it.
    let command = Command::Report { attempt, report: Report::Heartbeat { progress: None } };
    life.machine.engine.submit(Request::Command { ticket: 99, run, command });
    life.step_with(|output| (!matches!(output, Output::Reply { .. })).then_some(output))?;
    assert!(life.machine.engine.store().next_due().expect("reads").is_some());
    life.promises.settled(&mut life.machine.engine, life.now)
}
