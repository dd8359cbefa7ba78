//! Each promise, broken on purpose: a watch that cannot bark is no watch.

mod bench;
mod two_servers;
mod watched;

use std::collections::BTreeSet;

use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::run::{Origin, PausedBy, Phase};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{EngineError, Output, Request};
use unstuck_store::contract::Store as _;

use super::{Broken, Promise, store_view};
use bench::{Bench, ada};

/// What is done so that a promise looks broken.
type Doctored = fn() -> Result<(), Broken>;

#[test]
fn every_promise_is_found_broken_when_it_is() {
    let mut cases: Vec<(&str, Promise, Doctored)> = vec![
        ("a pause is acknowledged, and has not happened", Promise::Kept, acknowledged_and_not_done),
        ("after a crash everything is gone", Promise::Kept, everything_is_gone),
        ("an event is other than it was", Promise::Kept, another_event),
        ("an output is other than it was given", Promise::Kept, another_output),
        ("an attempt is handed out twice", Promise::Once, dispatched_twice),
        ("an attempt is handed out before that is durable", Promise::Once, dispatched_too_soon),
        ("an attempt ends twice", Promise::Once, ended_twice),
        ("a worker is believed that has said nothing", Promise::Fenced, nobody_said_so),
        ("what was never done is said to be done already", Promise::Fenced, never_done),
        ("a completed run is paused", Promise::Final, paused_after_the_end),
        ("an attempt is recorded as handed out, and is not", Promise::Moved, never_dispatched),
        ("all is settled, and a run is running", Promise::Moved, running_at_the_end),
        ("nothing is told of what happened", Promise::Explained, nothing_told),
        ("a state is not what its history gives", Promise::Replayed, another_state),
        ("a retry counts an error twice", Promise::Budgets, counted_twice),
        ("a step is retried where its strategy holds it", Promise::Budgets, another_rung),
        ("a policy acts that is not there", Promise::Policies, unknown_policy),
        ("a policy acts later than it says", Promise::Policies, late_policy),
        ("time goes back", Promise::Time, time_goes_back),
        ("a heartbeat is forgotten", Promise::Leases, heartbeat_forgotten),
        ("downtime counts", Promise::Leases, downtime_counts),
        ("what was refused is done", Promise::Refused, refused_and_done),
        ("a worker gets more than it can take", Promise::Limits, too_much),
        ("a key has two runs", Promise::Keys, two_runs_of_a_key),
        ("who loses an attempt is not told", Promise::Stopped, not_told),
        ("a child works for an attempt that has begun none", Promise::Children, unknown_child),
        ("open errors are forgotten", Promise::Errors, errors_forgotten),
    ];
    cases.extend(watched::CASES);
    cases.extend(two_servers::CASES);
    let mut broken = BTreeSet::new();
    for (what, promise, doctored) in cases {
        let found = doctored().expect_err(what);
        assert_eq!(found.promise, promise, "{what}: {found}");
        broken.insert(promise);
    }
    assert_eq!(broken, Promise::ALL.into_iter().collect());
}

#[test]
fn an_honest_engine_keeps_every_promise() {
    let mut bench = Bench::new();
    bench.load_policy(10);
    for flow in ["one", "retry", "hold", "parent", "resumed"] {
        bench.start(flow, None);
    }
    bench.step().expect("keeps its promises");
    while let Some(job) = bench.jobs.pop() {
        bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
        bench.step().expect("keeps its promises");
    }
    bench.now = bench.now + Millis::seconds(40);
    bench.step().expect("keeps its promises");
    while let Some(job) = bench.jobs.pop() {
        bench.ask_word(ExecutorReport::Report(job.attempt, Report::Complete { output: Json::NULL }));
        bench.step().expect("keeps its promises");
    }
    bench.crash();
    bench.step().expect("keeps its promises");
    let checked = bench.promises.checked();
    for promise in [Promise::Kept, Promise::Once, Promise::Budgets, Promise::Explained, Promise::Errors] {
        assert!(checked.get(&promise).is_some_and(|times| *times > 0), "{promise:?} of {checked:?}");
    }
}

fn fail(cause: &str, fatal: bool) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal }
}

fn is_event(output: &Output) -> bool {
    matches!(output, Output::Happened { .. })
}

fn acknowledged_and_not_done() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    bench.command(run, Command::Pause { by: ada(), reason: None });
    bench.step_with(|output| (!is_event(&output)).then_some(output))
}

fn everything_is_gone() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    let mut other = Bench::new();
    bench.promises.after_crash(&mut other.machine.engine, bench.now)
}

fn another_event() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    bench.command(run, Command::Pause { by: ada(), reason: Some("lunch".into()) });
    bench.change_facts(|fact| {
        if let Fact::Paused { reason, .. } = fact {
            *reason = None;
        }
    })
}

fn another_output() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    let job = bench.job();
    let said = ExecutorReport::Report(job.attempt, Report::Complete { output: big("one") });
    bench.promises.record_request(&Request::Executor(said), bench.now);
    let done = ExecutorReport::Report(job.attempt, Report::Complete { output: big("two") });
    bench.machine.engine.submit(Request::Executor(done));
    bench.step()
}

/// Too large to be kept with its event.
fn big(word: &str) -> Json {
    Json::of(&serde_json::Value::String(word.repeat(100)))
}

fn dispatched_twice() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("one", None);
    bench.step()?;
    let job = bench.job();
    let again = Output::Dispatch { worker: bench.worker.clone(), job };
    bench.promises.check_output(&again, bench.now)?;
    bench.step()
}

fn dispatched_too_soon() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("one", None);
    bench
        .step_with(|output| (!is_event(&output) && !matches!(output, Output::Reply { .. })).then_some(output))
}

fn ended_twice() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("retry");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()?;
    let facts = vec![
        Fact::unit(
            job.attempt.unit,
            UnitFact::Ended {
                attempt: job.attempt.attempt,
                outcome: unstuck_core::model::attempt::Outcome::Deferred { asked: None, lacking: None },
            },
        ),
        Fact::unit(
            job.attempt.unit,
            UnitFact::Deferred { due: bench.now + Millis::seconds(30), delay: Millis::seconds(30) },
        ),
    ];
    bench.invent(run, Actor::Engine, facts)
}

fn nobody_said_so() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    let job = bench.job();
    let word = ExecutorReport::Report(job.attempt, Report::Complete { output: Json::NULL });
    bench.machine.engine.submit(Request::Executor(word));
    bench.step()
}

fn never_done() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let job = bench.job();
    let says = Report::Complete { output: Json::NULL };
    let ticket = bench.command_unsent(run, Command::Report { attempt: job.attempt, report: says });
    bench.promises.check_output(&Output::Reply { ticket, result: Ok(Answer::Already) }, bench.now)?;
    bench.step()
}

fn paused_after_the_end() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, Report::Complete { output: Json::NULL }));
    bench.step()?;
    bench.invent(run, Actor::Engine, vec![Fact::Paused { by: PausedBy::Operator, reason: None }])
}

fn never_dispatched() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("one", None);
    bench.step_with(|output| (!matches!(output, Output::Dispatch { .. })).then_some(output))
}

fn running_at_the_end() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("one");
    bench.promises.settled(&mut bench.machine.engine, bench.now)
}

fn nothing_told() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let (store, flows) = bench.machine.engine.reader();
    let run = store.run(run).expect("reads").expect("there");
    let flow = flows.get(store, run.flow).expect("there");
    store_view::check_explained(&run, &flow, &[], bench.now)
}

fn another_state() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let book = &bench.promises.books[&run];
    let mut other = book.run().cloned().expect("there");
    other.phase = Phase::Going;
    other.paused = Some(PausedBy::Parent);
    store_view::compare(book, other, Vec::new(), book.events.last()).map(drop)
}

fn counted_twice() -> Result<(), Broken> {
    failed_with("retry", |fact| {
        if let Fact::Unit { fact: UnitFact::Retry { stalled, .. }, .. } = fact {
            *stalled += 1;
        }
    })
}

fn another_rung() -> Result<(), Broken> {
    failed_with("hold", |fact| {
        if let Fact::Unit { fact, .. } = fact
            && *fact == UnitFact::Held
        {
            *fact = UnitFact::LeftInError;
        }
    })
}

/// A run of this flow has an error, and what is told of it is changed.
fn failed_with(flow: &str, change: impl Fn(&mut Fact)) -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started(flow);
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.change_facts(change)
}

fn unknown_policy() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.load_policy_untold(10);
    bench.started("resumed");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()
}

fn late_policy() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.load_policy(10);
    bench.started("resumed");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.change_facts(|fact| {
        if let Fact::Unit { fact: UnitFact::Scheduled { due, .. }, .. } = fact {
            *due = *due + Millis(1);
        }
    })
}

fn time_goes_back() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    let event = Event {
        seq: 2,
        generation: 1,
        at: Time(bench.now.0 - 1),
        clock: None,
        by: Actor::Engine,
        facts: vec![Fact::Admitted],
    };
    bench.promises.check_output(&Output::Happened { run, event }, bench.now)?;
    bench.step()
}

fn heartbeat_forgotten() -> Result<(), Broken> {
    let mut bench = Bench::remote();
    let run = bench.started("one");
    let job = bench.job();
    bench.command(run, Command::Report { attempt: job.attempt, report: Report::Start });
    bench.step()?;
    bench.now = bench.now + Millis::seconds(20);
    let says = Report::Heartbeat { progress: None };
    let ticket = bench.command_unsent(run, Command::Report { attempt: job.attempt, report: says });
    bench.promises.check_output(&Output::Reply { ticket, result: Ok(Answer::Done) }, bench.now)?;
    bench.step()?;
    bench.now = bench.now + Millis::seconds(11);
    bench.step()
}

fn downtime_counts() -> Result<(), Broken> {
    let mut bench = Bench::remote();
    let run = bench.started("one");
    let job = bench.job();
    bench.command(run, Command::Report { attempt: job.attempt, report: Report::Start });
    bench.step()?;
    // There was an engine all the time, but nobody was told.
    bench.now = bench.now + Millis::seconds(20);
    bench.promises.after_crash(&mut bench.machine.engine, bench.now)?;
    bench.now = bench.now + Millis::seconds(11);
    bench.step()
}

fn refused_and_done() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    bench.command(run, Command::Pause { by: ada(), reason: None });
    bench.step_with(|output| match output {
        Output::Reply { ticket, .. } => Some(Output::Reply { ticket, result: Err(EngineError::Busy) }),
        other => Some(other),
    })
}

fn too_much() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.promises.add_worker(&bench.worker.clone(), 1);
    bench.start("one", None);
    bench.start("one", None);
    bench.step()
}

fn two_runs_of_a_key() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("one", Some("k"));
    bench.step()?;
    // The engine hears of another key than the watch.
    let Request::Start { ticket, mut start } = bench.start_unsent("one", Some("k")) else { return Ok(()) };
    start.key = Some("other".into());
    bench.machine.engine.submit(Request::Start { ticket, start });
    bench.change_facts(|fact| {
        if let Fact::Started(started) = fact {
            started.key = Some("k".into());
        }
    })
}

fn not_told() -> Result<(), Broken> {
    let mut bench = Bench::new();
    let run = bench.started("one");
    bench.command(run, Command::Cancel { by: ada(), reason: None });
    bench.step_with(|output| (!matches!(output, Output::Interrupt { .. })).then_some(output))
}

fn unknown_child() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.start("parent", None);
    bench.change_facts(|fact| {
        if let Fact::Started(started) = fact
            && let Origin::Child { unit, .. } = &mut started.origin
        {
            *unit = UnitRef::item(unit.step, 7);
        }
    })
}

fn errors_forgotten() -> Result<(), Broken> {
    let mut bench = Bench::new();
    bench.started("resumed");
    let job = bench.job();
    bench.ask_word(ExecutorReport::Report(job.attempt, fail("boom", false)));
    bench.step()?;
    bench.machine.engine.store().lose_open_errors();
    bench.promises.settled(&mut bench.machine.engine, bench.now)
}
