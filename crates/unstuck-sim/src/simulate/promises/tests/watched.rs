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

use super::super::{Broken, Promise, rest, unless_away};
use super::bench::{Bench, ada};
use super::{Doctored, fail};

/// Each of the promises about what simulated runs hand on.
pub(super) const CASES: [(&str, Promise, Doctored); 17] = [
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
    ("a reader does not see what was told", Promise::Shown, told_and_not_shown),
    ("a reader has seen what a crash takes back", Promise::Shown, shown_and_not_kept),
];

/// Runs in error, which a policy resumes in ten seconds.
fn scheduled(runs: usize) -> Result<Bench, Broken> {
    let mut bench = Bench::new();
    bench.load_policy(10);
    for _ in 0..runs {
        bench.started("resumed");
        let job = bench.job();
        bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
        bench.step()?;
    }
    Ok(bench)
}

/// The watch is told that the switch for all policies stands so.
fn tell_switch(bench: &mut Bench, state: SwitchState) {
    let policies = bench.machine.engine.policies().clone();
    bench.promises.record_policies(&policies.with_switch(PolicySwitch { version: 1, state }));
}

fn resumed_in_a_pause() -> Result<(), Broken> {
    let mut bench = scheduled(1)?;
    let (since, by, reason) = (bench.now, ada(), "it is night".into());
    tell_switch(&mut bench, SwitchState::Paused(PoliciesPaused { since, by, reason }));
    bench.now = bench.now + Millis::seconds(10);
    bench.step()
}

fn resumed_all_at_once() -> Result<(), Broken> {
    let mut bench = scheduled(2)?;
    let pause = PolicyCommand::Pause { reason: "it is night".into(), by: ada() };
    bench.machine.engine.change_policies(pause, bench.now).expect("pauses");
    bench.promises.record_policies(bench.machine.engine.policies());
    bench.now = bench.now + Millis::seconds(10);
    bench.step()?;
    let unpause = PolicyCommand::Unpause { rate: 1_000, by: ada() };
    bench.machine.engine.change_policies(unpause, bench.now).expect("unpauses");
    // One a second, as far as the watch knows.
    let slower = PoliciesUnpaused { at: bench.now, clock: 0, rate: 1 };
    tell_switch(&mut bench, SwitchState::Unpaused(slower));
    for _ in 0..5 {
        bench.step()?;
        bench.now = bench.now + Millis(1);
    }
    Ok(())
}

fn told_and_not_shown() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let mut other = Bench::new();
    let reader = other.machine.engine.store();
    let checked = bench.promises.check_shown(reader, &[run].into_iter().collect());
    unless_away(checked)
}

fn shown_and_not_kept() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    bench.promises.shown.insert(run, 99);
    bench.try_crash()
}

fn complete(bench: &mut Bench, output: &str) {
    let job = bench.job();
    let output = Json::parse(output).expect("good JSON");
    bench.ask_word(ExecutorReport::Report(job.attempt, Report::Complete { output }));
}

fn another_output_of_the_run() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    complete(&mut bench, "7");
    bench.change_facts(|fact| {
        if let Fact::Completed { output } = fact {
            *output = Payload::NULL;
        }
    })
}

fn another_signal() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("waits");
    let payload = Json::parse("7").expect("good JSON");
    bench.command(run, Command::Signal { name: "go".into(), payload, by: ada() });
    bench.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Done { output }, .. } = fact {
            *output = Payload::NULL;
        }
    })
}

fn another_reason() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("retry");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()?;
    bench.now = bench.now + Millis::seconds(11);
    bench.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Queued { resumed_by, .. }, .. } = fact {
            *resumed_by = None;
        }
    })
}

fn not_a_target() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("resumed");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()?;
    let engine = &mut bench.machine.engine;
    let id = engine.new_bulk_id(bench.now);
    let target =
        Target { place: 0, run, unit: Some(UnitRef::step(StepIndex(0))), result: TargetResult::Pending };
    engine.put_targets(id, vec![target]).expect("kept");
    let action = BulkAction::Resume { input: None, step_input: None };
    let by = (Actor::User("crew".into()), None);
    let bulk = Bulk::new(id, action, by, "all".into(), Pace::default(), 1, bench.now);
    engine.begin_bulk(bulk.clone()).expect("begins");
    bench.promises.record_bulk(&bulk, &[]);
    bench.step()
}

fn slot_kept() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("limited");
    let mut other = bench.promises.books[&run].run().cloned().expect("there");
    assert!(matches!(other.slot, Slot::Taken(_)), "{:?}", other.slot);
    other.paused = Some(PausedBy::Operator);
    let (store, flows) = bench.machine.engine.reader();
    let flow = flows.get(store, other.flow).expect("there");
    rest::check_slot(&flow, None, &other, false)
}

fn operators_child_goes_on() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let child = bench.started("parent");
    bench.command(child, Command::Pause { by: ada(), reason: None });
    bench.step()?;
    bench.invent(child, Actor::Engine, vec![Fact::Unpaused])
}

fn another_deadline() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("one", None);
    let late = bench.now + Millis::seconds(5);
    bench.change_facts(|fact| {
        if let Fact::Started(started) = fact {
            started.deadline = Some(late);
        }
    })
}

fn dependent_kept() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("chain");
    for _ in 0..2 {
        complete(&mut bench, "1");
        bench.step()?;
    }
    bench.command(run, Command::rerun(Rerun::Steps(vec![StepIndex(0)]), ada()));
    bench.change_facts(|fact| {
        if let Fact::Reran { keep, .. } = fact {
            keep.push(StepIndex(1));
        }
    })
}

fn at_the_back() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Lost(job.attempt));
    bench.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Requeued { place, .. }, .. } = fact {
            place.front = false;
        }
    })
}

fn applied_late() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("resumed");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()?;
    bench.load_policy(10);
    let (unit, after) = (UnitRef::step(StepIndex(0)), Millis(0));
    bench.command(run, Command::ApplyPolicies { unit, only: None, after, by: ada() });
    bench.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Scheduled { due, .. }, .. } = fact {
            *due = *due + Millis(1);
        }
    })
}

fn void_beat_taken() -> Result<(), Broken> {
    let mut bench = Bench::remote();
    let run = bench.started("one");
    let mut attempt = bench.job().attempt;
    attempt.attempt = 7;
    let says = Report::Heartbeat { progress: None };
    let ticket = bench.command_unsent(run, Command::Report { attempt, report: says });
    bench.promises.check_output(&Output::Reply { ticket, result: Ok(Answer::Done) }, bench.now)?;
    bench.step()
}

fn loss_ignored() -> Result<(), Broken> {
    let mut bench = Bench::remote();
    bench.started("one");
    let attempt = bench.job().attempt;
    bench.promises.record_request(&Request::Lost { attempt, with_others: false }, bench.now);
    bench.step()
}

fn lease_moved_by_nobody() -> Result<(), Broken> {
    let mut bench = Bench::remote();
    let run = bench.started("one");
    let attempt = bench.job().attempt;
    bench.command(run, Command::Report { attempt, report: Report::Start });
    bench.step()?;
    bench.now = bench.now + Millis::seconds(20);
    // The watch does not hear of it.
    let command = Command::Report { attempt, report: Report::Heartbeat { progress: None } };
    bench.machine.engine.submit(Request::Command { ticket: 99, run, command });
    bench.step_with(|output| (!matches!(output, Output::Reply { .. })).then_some(output))?;
    assert!(bench.machine.engine.store().next_due().expect("reads").is_some());
    bench.promises.settled(&mut bench.machine.engine, bench.now)
}
