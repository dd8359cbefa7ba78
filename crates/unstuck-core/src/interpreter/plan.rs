//! A kind of run for tests: each step that is done names the next one, and there is no graph. What the core does for every
//! kind of run, it must do for this one.

#[path = "../../tests/decisions/flows.rs"]
#[expect(dead_code, reason = "the helpers serve other tests too")]
mod flows;
#[path = "../../tests/decisions/support.rs"]
#[expect(dead_code, clippy::wildcard_enum_match_arm, reason = "the helpers serve other tests too")]
mod support;

use crate::begin_attempt::{begin_attempt, resumed_by_rerun};
use crate::command::Rerun;
use crate::decide::Draft;
use crate::event::{Fact, UnitFact};
use crate::interpreter::{Interpreter, Prepared};
use crate::json::{Json, Payload};
use crate::model::error::{Error, RunError};
use crate::model::flow::{Flow, StepIndex};
use crate::model::run::Run;
use crate::model::unit::{QueuePlace, StepRun, Unit, UnitRef, UnitState};
use crate::needs::PayloadNeeds;
use crate::recovery::failing_run;

/// A run begins with the first step of its flow. The output of a step is the id of the next one; one that is no text is
/// the output of the run.
pub(super) struct Plan;

/// The steps that a run has done, and the next one.
struct Path {
    /// The steps that are done, in order.
    done: Vec<StepIndex>,
    next: Next,
}

enum Next {
    Step(StepIndex),
    End(Payload),
    /// The last step has named one that is not there, or has been done.
    Lost(String),
}

impl Path {
    /// Follows the run from its first step: the output of each completed step names the next. Ids are small, so that
    /// these outputs are always inline.
    fn of(run: &Run, flow: &Flow) -> Path {
        let mut path = Path { done: Vec::new(), next: Next::Step(StepIndex(0)) };
        while let Next::Step(step) = path.next
            && run.step(step).unblocks_dependents()
        {
            path.done.push(step);
            let output = run.step(step).output().cloned().unwrap_or(Payload::NULL);
            let value = if let Payload::Inline(json) = &output { json.value() } else { Json::NULL.value() };
            path.next = match value.as_str().map(|id| (id, flow.find_step(id))) {
                None => Next::End(output),
                Some((_, Some(step))) if !path.done.contains(&step) => Next::Step(step),
                Some((id, _)) => Next::Lost(format!("the next step cannot be `{id}`")),
            };
        }
        path
    }

    fn next_step(&self) -> Option<StepIndex> {
        if let Next::Step(step) = self.next { Some(step) } else { None }
    }
}

fn is_pending(run: &Run, step: StepIndex) -> bool {
    matches!(run.step(step), StepRun::Single(Unit { state: UnitState::Pending, .. }))
}

impl Interpreter for Plan {
    fn advance_all(&self, draft: &mut Draft<'_, '_>) {
        while draft.run().can_schedule() {
            match Path::of(draft.run(), draft.flow()).next {
                Next::Step(step) if is_pending(draft.run(), step) => {
                    let by = resumed_by_rerun(draft.run());
                    begin_attempt(draft, UnitRef::step(step), by, QueuePlace::default());
                }
                Next::Step(_) => return,
                Next::End(output) => draft.emit(Fact::Completed { output }),
                Next::Lost(cause) => {
                    failing_run::fail_run(draft, RunError::of_run(Error::new(cause)), StepIndex(0));
                }
            }
        }
    }

    fn advance_after(&self, draft: &mut Draft<'_, '_>, _: StepIndex) {
        self.advance_all(draft);
    }

    /// The input of a step is what the one before it has put out.
    fn prepare(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<Prepared, String> {
        let before = Path::of(draft.run(), draft.flow()).done.last().copied();
        let output = before.and_then(|before| draft.run().step(before).output().cloned());
        if let (Some(input), None) = (output, &draft.unit(unit).input) {
            draft.emit_unit(unit, UnitFact::InputBound { input });
        }
        Ok(Prepared::ForAttempt)
    }

    fn rebind_input(&self, _: &mut Draft<'_, '_>, _: UnitRef) -> Result<(), String> {
        Ok(())
    }

    fn has_runnable_steps(&self, run: &Run, flow: &Flow) -> bool {
        Path::of(run, flow).next_step().is_none_or(|step| is_pending(run, step))
    }

    fn missing_steps(&self, run: &Run, flow: &Flow, step: StepIndex) -> Vec<StepIndex> {
        let next = Path::of(run, flow).next_step();
        next.into_iter().filter(|next| *next != step && is_pending(run, step)).collect()
    }

    fn kept_steps(&self, run: &Run, flow: &Flow, what: &Rerun) -> Vec<StepIndex> {
        let done = Path::of(run, flow).done;
        match what {
            Rerun::All => Vec::new(),
            Rerun::Continue => done,
            Rerun::Steps(again) => done.into_iter().take_while(|step| !again.contains(step)).collect(),
        }
    }

    fn add_needs(&self, _: &mut PayloadNeeds, _: &Run, _: &Flow, _: Vec<StepIndex>) {}
}

mod tests {
    use super::flows::{StepBuilder, child, flow, flow_with, step, step_of};
    use super::support::{World, done, fatal, lacking, local, operator, output, stall};
    use crate::command::{Command, Rerun};
    use crate::event::Choice;
    use crate::evolve::replay;
    use crate::explain::explain;
    use crate::id::RunId;
    use crate::model::flow::{Concurrency, Deadline, Flow, Kind, RunKind, StepIndex, WaitFor};
    use crate::model::recovery::BackOff;
    use crate::model::run::RunState;
    use crate::policy::{Criteria, Policies, Policy};
    use crate::time::Millis;

    fn plan_with(name: &str, steps: Vec<StepBuilder>, change: impl FnOnce(&mut Flow)) -> Flow {
        let steps = steps.into_iter().map(|step| step.needs(&[])).collect();
        flow_with(name, steps, |flow| {
            flow.kind = RunKind::Plan;
            change(flow);
        })
    }

    fn start(steps: Vec<StepBuilder>) -> (World, RunId) {
        let kid = flow("kid", vec![step("k")]);
        let mut world = World::new(vec![plan_with("f", steps, |_| {}), kid]);
        let run = world.start("f");
        (world, run)
    }

    /// Whatever has happened, the history leads to the same state.
    fn is_replayed(world: &World) {
        for (id, run) in &world.runs {
            assert_eq!(replay(&world.history[id]).as_ref(), Some(run));
        }
    }

    fn because(world: &World, run: RunId, step: &str) -> String {
        let state = &world.runs[&run];
        let told = explain(state, &world.flow_of(state), &world.history[&run], world.now, &[]);
        let unit = world.unit_ref(run, step);
        told.because.into_iter().find(|told| told.unit == unit).map(|told| told.why).unwrap_or_default()
    }

    #[test]
    fn each_step_names_the_next() {
        let (mut world, run) = start(vec![step("a"), step("b"), step("c"), step("d")]);
        assert_eq!(world.steps(run, ["a", "b", "c", "d"]), ["ready", "pending", "pending", "pending"]);
        assert_eq!(because(&world, run, "c"), "needs `a`");
        world.attempt(run, "a", output("\"c\""));
        assert_eq!(world.steps(run, ["a", "b", "c", "d"]), ["completed", "pending", "ready", "pending"]);
        assert_eq!(because(&world, run, "b"), "needs `c`");
        assert!(world.wakeup(run, "c").ready.is_some(), "somebody can take it");
        world.attempt(run, "c", output("\"b\""));
        assert_eq!(world.json(world.unit(run, "b").input.as_ref().expect("bound")).text(), "\"b\"");
        world.attempt(run, "b", output("{\"all\":\"done\"}"));
        assert_eq!(
            (world.state(run), world.output(run)),
            (RunState::Completed, "{\"all\":\"done\"}".to_owned())
        );
        assert_eq!(world.step(run, "d"), "pending", "nobody has asked for it");
        is_replayed(&world);
    }

    #[test]
    fn what_needs_no_worker_goes_by_itself() {
        let waits = step_of("w", Kind::Wait(WaitFor::Span(Millis::seconds(5))));
        let steps = vec![step_of("s", Kind::Signal("go".into())), child("c", "kid"), waits];
        let (mut world, run) = start(steps);
        assert_eq!(world.state(run), RunState::Waiting);
        world.signal(run, "go", "\"c\"").expect("taken");
        let kid = world.child(run);
        world.attempt(kid, "k", output("\"w\""));
        assert_eq!(world.steps(run, ["s", "c", "w"]), ["completed", "completed", "waiting"]);
        world.pass(Millis::seconds(5));
        assert_eq!((world.state(run), world.output(run)), (RunState::Completed, "null".to_owned()));
        is_replayed(&world);
    }

    #[test]
    fn every_rung_of_the_ladder_takes_its_errors() {
        let steps = vec![step("a").retry(Some(2), 5), step("b").hold(None), step("c")];
        let (mut world, run) = start(steps);
        world.policies = Policies::new(vec![policy()]).expect("one");
        world.attempt(run, "a", stall("x"));
        assert_eq!(world.step(run, "a"), "waiting", "a retry");
        world.pass(Millis::seconds(5));
        let attempt = world.begin(run, "a");
        world.say(attempt, lacking()).expect("deferred");
        world.pass(Millis::seconds(30));
        let attempt = world.begin(run, "a");
        world.lose(attempt, false);
        world.pass(Millis::seconds(1));
        world.attempt(run, "a", output("\"b\""));
        world.attempt(run, "b", fatal("x"));
        assert_eq!(world.step(run, "b"), "held");
        world.choose(run, "b", Choice::Retry).expect("chosen");
        world.attempt(run, "b", output("\"c\""));
        world.attempt(run, "c", stall("reset"));
        assert_eq!(world.state(run), RunState::Error);
        world.pass(Millis::seconds(60));
        assert_eq!(world.step(run, "c"), "ready", "the policy resumes it");
        world.attempt(run, "c", stall("something else"));
        world.pass(Millis::hours(1));
        assert_eq!(world.step(run, "c"), "error", "it rests");
        world.resume(run, "c").expect("resumed");
        world.attempt(run, "c", done());
        assert_eq!(world.state(run), RunState::Completed);
        is_replayed(&world);
    }

    #[test]
    fn operators_and_limits_act_as_on_any_run() {
        let (mut world, run) = start(vec![step("a"), step("b")]);
        world.pause(run).expect("paused");
        assert_eq!(world.wakeup(run, "a").ready, None);
        world.unpause(run).expect("goes on");
        let attempt = world.begin(run, "a");
        world.pause(run).expect("paused");
        world.say(attempt, output("\"b\"")).expect("heard");
        assert_eq!(world.step(run, "b"), "pending", "nothing begins in a pause");
        assert_eq!(because(&world, run, "b"), "the run is paused");
        world.unpause(run).expect("goes on");
        assert_eq!(world.step(run, "b"), "ready");
        world.cancel(run).expect("cancelled");
        assert_eq!((world.state(run), world.step(run, "b")), (RunState::Cancelled, "cancelled"));
        world.rerun(run, Rerun::Continue).expect("started");
        assert_eq!(world.steps(run, ["a", "b"]), ["completed", "ready"], "what is done is not done again");
        let unit = world.unit_ref(run, "b");
        let skip = Command::Skip { unit, reason: None, by: operator() };
        world.ask(run, skip).expect("skipped");
        assert_eq!(world.state(run), RunState::Completed);
        world.rerun(run, Rerun::Steps(vec![StepIndex(0)])).expect("started");
        assert_eq!(world.steps(run, ["a", "b"]), ["ready", "pending"]);
        is_replayed(&world);
    }

    #[test]
    fn a_run_that_cannot_go_on_fails_and_its_handler_runs() {
        for (named, cause) in
            [("\"x\"", "the next step cannot be `x`"), ("\"a\"", "the next step cannot be `a`")]
        {
            let (mut world, run) = start(vec![step("a").handler("kid")]);
            world.attempt(run, "a", output(named));
            assert_eq!((world.state(run), &*world.error(run).error.cause), (RunState::Running, cause));
            let handler = world.child(run);
            world.attempt(handler, "k", done());
            assert_eq!(world.state(run), RunState::Failed);
            is_replayed(&world);
        }
        let (mut world, run) = start(vec![step("a"), step("b")]);
        world.attempt(run, "a", fatal("broken"));
        assert_eq!((world.state(run), &*world.error(run).error.cause), (RunState::Failed, "broken"));
    }

    #[test]
    fn slots_deadlines_and_hand_overs_know_no_kinds() {
        let flow = plan_with("f", vec![step("a"), step("b")], |flow| {
            flow.concurrency = Some(Concurrency { limit: 1, key: None, strict: false });
            flow.deadline = Some(Deadline::After(Millis::minutes(10)));
        });
        let mut world = World::new(vec![flow]);
        let (first, second) = (world.start("f"), world.start("f"));
        world.admit();
        assert_eq!((world.state(first), world.state(second)), (RunState::Running, RunState::Queued));
        world.attempt(first, "a", stall("x"));
        world.admit();
        assert_eq!((world.state(first), world.state(second)), (RunState::Error, RunState::Running));
        let queues = ["b".into()].into();
        world.offers.put(crate::offer::Offer { worker: local("w"), queues, free: 1, max_load: 1 });
        world.attempt(second, "a", output("\"b\""));
        assert_eq!(world.step(second, "b"), "active", "handed over in the event that made it ready");
        world.pass(Millis::minutes(10));
        assert_eq!((world.state(first), world.state(second)), (RunState::Failed, RunState::Failed));
        is_replayed(&world);
    }

    fn policy() -> Policy {
        Policy {
            id: "id-p".into(),
            name: "p".into(),
            criteria: Criteria { error_substring: Some("reset".into()), ..Criteria::default() },
            max_attempts: 5,
            priority: 50,
            is_priority_set: false,
            back_off: BackOff::fixed(Millis::seconds(60)),
            enabled: true,
            include_fatal: false,
            version: 1,
            age: 0,
        }
    }
}
