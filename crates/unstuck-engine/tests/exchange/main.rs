//! Calls of workers: reports and room in one call, an answer to each report and the attempts of the same commit in one reply.

mod runtime;
mod support;
mod workload;

use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::StoreError;
use unstuck_store::memory::MemoryStore;

use support::{Bench, call, done, steps};

#[test]
fn a_report_and_what_follows_from_it_come_in_one_answer() {
    let mut bench = Bench::new(MemoryStore::new());
    let run = bench.start("chain", 0);
    let first = bench.call(call("w", 1));
    let a = first.jobs[0].attempt;
    assert_eq!((first.answers.len(), steps(&first)), (0, vec!["a"]));
    // One batch: the answer and the next attempt are durable together.
    let second = bench.call(call("w", 1).report(a, done()));
    assert_eq!((second.answers, steps_of(&second.jobs)), (vec![Ok(Answer::Done)], vec!["b"]));
    let b = second.jobs[0].attempt;
    let last = bench.call(call("w", 1).report(b, done()));
    assert_eq!((last.answers, last.jobs.len()), (vec![Ok(Answer::Done)], 0));
    assert_eq!(bench.state(run), RunState::Completed);
    assert_eq!(bench.events(run), 4, "started with a handed out, then one event for each report");
}

fn steps_of(jobs: &[unstuck_engine::executor::Job]) -> Vec<&str> {
    jobs.iter().map(|job| &*job.step().id).collect()
}

#[test]
fn each_report_is_answered_by_itself() {
    let mut bench = Bench::new(MemoryStore::new());
    bench.start("chain", 0);
    bench.start("chain", 0);
    let given = bench.call(call("w", 2));
    let (one, two) = (given.jobs[0].attempt, given.jobs[1].attempt);
    let mut nowhere = two;
    nowhere.run = RunId(7);
    let mut never = two;
    never.attempt = 9;
    let reports = call("w", 0)
        .report(nowhere, done())
        .report(one, Report::Heartbeat { progress: None })
        .report(never, done())
        .report(two, done());
    let answers = bench.call(reports).answers;
    assert_eq!(answers[0], Err(EngineError::Refused(Refusal::UnknownRun(RunId(7)))));
    assert!(matches!(&answers[2], Err(EngineError::Refused(Refusal::Void(_)))), "{answers:?}");
    assert_eq!((&answers[1], &answers[3]), (&Ok(Answer::Done), &Ok(Answer::Done)));
    let again = bench.call(call("w", 0).report(two, done()));
    assert_eq!(again.answers, [Ok(Answer::Already)], "a repeat is recognised");
}

#[test]
fn a_call_without_reports_waits_for_work_or_until_its_time_is_up() {
    let mut bench = Bench::new(MemoryStore::new());
    let ticket = bench.begin(call("w", 1).wait(Millis::seconds(20)));
    bench.go();
    bench.pass(Millis(19_999));
    assert!(bench.answered.is_empty(), "it waits");
    assert_eq!(bench.calls.next_due(), Some(bench.uptime.plus(Millis(1))));
    bench.pass(Millis(1));
    assert_eq!(bench.take_answer(ticket).jobs.len(), 0);
    assert_eq!(bench.calls.len(), 0);

    let ticket = bench.begin(call("w", 1).wait(Millis::seconds(20)));
    bench.pass(Millis::seconds(10));
    bench.start("chain", 0);
    assert_eq!(steps(&bench.take_answer(ticket)), ["a"]);
    bench.start("chain", 0);
    let next = bench.call(call("w", 0).wait(Millis(0)));
    assert_eq!(next.jobs.len(), 0, "nothing was handed out after the call was answered");
}

#[test]
fn an_attempt_wakes_one_call_and_several_are_dealt_around() {
    let mut bench = Bench::new(MemoryStore::new());
    let tickets: Vec<_> = (0..3).map(|n| bench.begin(call(&format!("w{n}"), 4))).collect();
    bench.go();
    bench.start("chain", 0);
    assert_eq!(bench.answered.len(), 1, "one attempt, one call");
    bench.take_answer(tickets[0]);
    for _ in 0..2 {
        bench.submit_start("chain", 0);
    }
    bench.go();
    let got: Vec<usize> = tickets[1..].iter().map(|ticket| bench.take_answer(*ticket).jobs.len()).collect();
    assert_eq!(got, [1, 1]);
}

#[test]
fn a_call_brings_no_more_than_its_room() {
    let mut bench = Bench::new(MemoryStore::new());
    for _ in 0..5 {
        bench.start("chain", 0);
    }
    let first = bench.call(call("w", 2));
    assert_eq!(first.jobs.len(), 2);
    let held: Vec<_> = first.jobs.iter().map(|job| job.attempt).collect();
    // Two calls at once, each with room of its own.
    let (one, two) = (bench.begin(call("w", 1)), bench.begin(call("w", 1)));
    bench.go();
    let got = (bench.take_answer(one).jobs.len(), bench.take_answer(two).jobs.len());
    assert_eq!(got, (1, 1));
    // No room for more than is reported as ended.
    let after = bench.call(call("w", 1).report(held[0], done()).report(held[1], done()));
    assert_eq!(after.jobs.len(), 1);
    let none = bench.call(call("w", 0).report(after.jobs[0].attempt, done()));
    assert_eq!((none.answers, none.jobs.len()), (vec![Ok(Answer::Done)], 0));
}

#[test]
fn what_follows_from_a_report_comes_first_unless_something_more_urgent_waits() {
    let mut bench = Bench::new(MemoryStore::new());
    let mine = bench.start("chain", 0);
    let a = bench.call(call("w", 1)).jobs[0].attempt;
    bench.start("chain", 0);
    let next = bench.call(call("w", 1).report(a, done()));
    assert_eq!((steps(&next), next.jobs[0].attempt.run), (vec!["b"], mine), "others of its priority wait");

    let b = next.jobs[0].attempt;
    bench.call(call("w", 0).report(b, done()));
    let again = bench.call(call("w", 1)).jobs[0].attempt;
    let urgent = bench.start("chain", 5);
    let next = bench.call(call("w", 1).report(again, done()));
    assert_eq!(next.jobs.len(), 0, "nothing less urgent is handed over");
    assert_eq!(bench.call(call("w", 1)).jobs[0].attempt.run, urgent);
}

#[test]
fn what_is_taken_away_is_told_to_a_waiting_call_at_once() {
    let mut bench = Bench::new(MemoryStore::new());
    let run = bench.start("chain", 0);
    let attempt = bench.call(call("w", 1)).jobs[0].attempt;
    let waiting = bench.begin(call("w", 0));
    bench.go();
    bench.cancel(run);
    let told = bench.take_answer(waiting);
    assert_eq!(told.lost.iter().map(|lost| lost.attempt).collect::<Vec<_>>(), [attempt]);
    assert_eq!(bench.call(call("w", 0).wait(Millis(0))).lost, [], "once");
    let late = bench.call(call("w", 1).report(attempt, done()));
    assert!(matches!(&late.answers[0], Err(EngineError::Refused(Refusal::Void(_)))));
}

#[test]
fn what_was_not_delivered_comes_with_the_next_call_or_is_released() {
    let mut bench = Bench::new(MemoryStore::new());
    let gone = bench.begin(call("w", 2));
    bench.go();
    bench.submit_start("chain", 0);
    let mut outputs = bench.engine.step(bench.now);
    // The connection breaks in the moment in which the attempt is handed out.
    bench.calls.withdraw(&mut bench.engine, gone, bench.uptime);
    bench.take(&mut outputs);
    assert_eq!(bench.take_answer(gone).jobs.len(), 0);
    let next = bench.call(call("w", 2));
    assert_eq!(steps(&next), ["a"]);
    let kept = next.jobs[0].attempt;
    bench.start("chain", 0);
    bench.start("chain", 0);
    assert_eq!(bench.call(call("w", 1)).jobs.len(), 1, "its room was counted once");

    bench.call(call("w", 0).report(kept, Report::Release));
    let gone = bench.begin(call("v", 1));
    let mut outputs = bench.engine.step(bench.now);
    bench.calls.withdraw(&mut bench.engine, gone, bench.uptime);
    bench.take(&mut outputs);
    bench.take_answer(gone);
    bench.pass(Millis(4_999));
    assert_eq!(bench.call(call("x", 9).wait(Millis(0))).jobs.len(), 1, "one of two waits for its worker");
    bench.pass(Millis(1));
    let released = bench.call(call("x", 9).wait(Millis(0)));
    assert_eq!(released.jobs.len(), 1, "released to the front of its queue");
}

#[test]
fn an_attempt_that_ends_before_it_is_delivered_is_never_heard_of() {
    let mut bench = Bench::new(MemoryStore::new());
    let gone = bench.begin(call("w", 1));
    bench.go();
    let ticket = bench.submit_start("chain", 0);
    let mut outputs = bench.engine.step(bench.now);
    bench.calls.withdraw(&mut bench.engine, gone, bench.uptime);
    bench.take(&mut outputs);
    bench.take_answer(gone);
    let run = bench.started(ticket);
    bench.cancel(run);
    let next = bench.call(call("w", 1).wait(Millis(0)));
    assert_eq!((next.jobs.len(), next.lost), (0, vec![]));
    bench.start("chain", 0);
    assert_eq!(bench.call(call("w", 1)).jobs.len(), 1, "its room is there again");
}

#[test]
fn a_store_that_cannot_take_reports_says_so_and_they_can_be_repeated() {
    let mut bench = Bench::new(MemoryStore::deferred());
    bench.start("chain", 0);
    let a = bench.call(call("w", 1)).jobs[0].attempt;
    let ticket = bench.begin(call("w", 1).report(a, done()));
    bench.step();
    assert!(bench.answered.is_empty(), "it is not durable yet");
    assert_eq!(bench.engine.store().fail_next(&StoreError::Away("the network".into())), 1);
    bench.step();
    let refused = bench.take_answer(ticket);
    assert!(matches!(&refused.answers[0], Err(EngineError::Store(StoreError::Away(_)))));
    assert_eq!(refused.jobs.len(), 0, "the hand-over was taken back");
    bench.pass(Millis::seconds(1));
    let again = bench.call(call("w", 1).report(a, done()));
    assert_eq!((again.answers, steps_of(&again.jobs)), (vec![Ok(Answer::Done)], vec!["b"]));
}

#[test]
fn a_worker_that_is_silent_for_a_minute_is_forgotten_until_it_calls_again() {
    let mut bench = Bench::new(MemoryStore::new());
    bench.start("chain", 0);
    let attempt = bench.call(call("w", 1)).jobs[0].attempt;
    bench.call(call("w", 0).report(attempt, Report::Start));
    assert!(bench.engine.has_live_workers());
    bench.pass(Millis(59_999));
    assert!(bench.engine.has_live_workers());
    bench.pass(Millis(1));
    assert_eq!((bench.engine.has_live_workers(), bench.calls.next_due()), (false, None));
    // Its lease is another matter, and has not lapsed: the step has a long one.
    let back = bench.call(call("w", 1).report(attempt, done()));
    assert_eq!((back.answers, steps_of(&back.jobs)), (vec![Ok(Answer::Done)], vec!["b"]));
}

#[test]
fn jobs_come_with_as_much_history_as_the_worker_asks_for() {
    let mut bench = Bench::new(MemoryStore::new());
    bench.start("chain", 0);
    let a = bench.call(call("w", 1)).jobs[0].attempt;
    let b = bench.call(call("w", 1).report(a, done()).history(0));
    let product = b.jobs[0].product().expect("a product");
    assert_eq!((product.step.as_str(), product.history.len(), product.previous.is_none()), ("b", 0, true));
    bench.call(call("w", 0).report(b.jobs[0].attempt, Report::Release));
    let b = bench.call(call("w", 1).history(20));
    let product = b.jobs[0].product().expect("a product");
    assert_eq!((product.attempt, product.history.len()), (2, 2));
    assert_eq!(product.previous.map(|previous| previous.attempt), Some(1));
    assert_eq!(product.resumed_by.as_deref(), Some("release"));
}

#[test]
fn when_the_engine_stops_every_waiting_call_is_answered() {
    let mut bench = Bench::new(MemoryStore::new());
    let tickets: Vec<_> = (0..3).map(|n| bench.begin(call(&format!("w{n}"), 1))).collect();
    bench.go();
    bench.calls.end_waits(bench.uptime);
    bench.step();
    for ticket in tickets {
        bench.take_answer(ticket);
    }
    assert_eq!(bench.calls.len(), 0);
}

impl Bench {
    fn cancel(&mut self, run: RunId) {
        let command = Command::Cancel { by: Actor::User("ada".into()), reason: None };
        self.command(run, command);
        self.go();
    }
}

#[test]
fn an_attempt_that_must_run_alone_is_given_to_a_worker_that_offers_all_of_its_load() {
    let mut bench = Bench::new(MemoryStore::new());
    bench.start("heavy", 0);
    let part = bench.call(call("w", 2).max_load(4).wait(Millis(0)));
    assert_eq!(part.jobs.len(), 0, "its load is 4");
    let all = bench.call(call("w", 4).max_load(4));
    assert_eq!(steps(&all), ["h"]);
    let output = Json::parse("1").expect("JSON");
    let report = Report::Complete { output };
    let next = bench.call(call("w", 4).max_load(4).report(all.jobs[0].attempt, report));
    assert_eq!((next.answers, next.jobs.len()), (vec![Ok(Answer::Done)], 0));
}
