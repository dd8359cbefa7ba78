//! A small world for tests of the core: flows by hand, runs in a map, notices in a queue, a clock that is owned.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use unstuck_core::bulk::{BulkRef, TargetResult};
use unstuck_core::command::{Command, Notice, NoticeBody, OnDuplicate, Report, Rerun, Start, StartInput};
use unstuck_core::decide::{Answer, Context, Decision, Effect, decide, notice_of_refused_child};
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::ErrorRecord;
use unstuck_core::event::{Actor, Choice, Event, Fact, UnitFact};
use unstuck_core::home::Homes;
use unstuck_core::id::{FlowId, Ids, PayloadId, RunId};
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::{Error, RunError};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Origin, Run, RunState};
use unstuck_core::model::unit::{Unit, UnitRef, UnitState};
use unstuck_core::needs::needs;
use unstuck_core::offer::Offers;
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::refusal::Refusal;
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::thing::ThingRef;
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::{Wakeup, wakeup, wakeups};

/// Where the clock of a world begins.
pub(crate) const BEGIN: Time = Time(1_800_000_000_000);

/// Everything that the engine and a store would keep.
pub(crate) struct World {
    pub(crate) flows: BTreeMap<Arc<str>, Arc<Flow>>,
    /// Other versions of them.
    pub(crate) versions: Vec<Arc<Flow>>,
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) history: BTreeMap<RunId, Vec<Event>>,
    pub(crate) payloads: HashMap<PayloadId, Json>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) effects: Vec<Effect>,
    /// Leases that heartbeats have moved: the last sign of life.
    pub(crate) heard: HashMap<(RunId, UnitRef), Time>,
    pub(crate) now: Time,
    pub(crate) ids: Ids,
    pub(crate) random: Random,
    pub(crate) offers: Offers,
    /// When the engine could not take answers.
    pub(crate) downtimes: Vec<Downtime>,
    /// What the clock was set by.
    pub(crate) clock: i64,
    /// The resume policies in force.
    pub(crate) policies: Policies,
    /// The turns of what has waited while policies were paused.
    pub(crate) turns: ResumePacer,
    /// How deep children may be nested.
    pub(crate) max_nesting: u32,
    /// The homes that are driven.
    pub(crate) homes: Homes,
    /// What was recorded of errors.
    pub(crate) errors: Vec<ErrorRecord>,
    /// What bulk actions were told.
    pub(crate) outcomes: Vec<(BulkRef, TargetResult)>,
}

impl World {
    pub(crate) fn new(flows: Vec<Flow>) -> World {
        World {
            flows: flows.into_iter().map(|flow| (flow.name.clone(), Arc::new(flow))).collect(),
            versions: Vec::new(),
            runs: BTreeMap::new(),
            history: BTreeMap::new(),
            payloads: HashMap::new(),
            notices: VecDeque::new(),
            effects: Vec::new(),
            heard: HashMap::new(),
            now: BEGIN,
            ids: Ids::new(1, 0),
            random: Random::new(1),
            offers: Offers::default(),
            downtimes: Vec::new(),
            clock: 0,
            policies: Policies::default(),
            turns: ResumePacer::default(),
            max_nesting: unstuck_core::model::nesting::MAX_NESTING,
            homes: Homes::default(),
            errors: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Starts a run and delivers all notices.
    pub(crate) fn start(&mut self, flow: &str) -> RunId {
        self.start_with(flow, None, "null").expect("starts")
    }

    pub(crate) fn start_with(
        &mut self,
        flow: &str,
        key: Option<&str>,
        input: &str,
    ) -> Result<RunId, Refusal> {
        self.start_again(flow, key, input, OnDuplicate::Return)
    }

    pub(crate) fn start_again(
        &mut self,
        flow: &str,
        key: Option<&str>,
        input: &str,
        on_duplicate: OnDuplicate,
    ) -> Result<RunId, Refusal> {
        let key: Option<Arc<str>> = key.map(Into::into);
        let answer = self.try_start(flow, |start| {
            start.key = key;
            start.input = StartInput::New(Json::parse(input).expect("valid JSON"));
            start.on_duplicate = on_duplicate;
        })?;
        match answer {
            Answer::Started(run) | Answer::Exists(run) => Ok(run),
            Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled => {
                panic!("a start says which run it is")
            }
        }
    }

    /// Starts a run with anything that a start may say.
    pub(crate) fn try_start(
        &mut self,
        flow: &str,
        change: impl FnOnce(&mut Start),
    ) -> Result<Answer, Refusal> {
        let flow = self.flows[flow].clone();
        let mut start = Start {
            run: RunId(self.ids.next(self.now)),
            key: None,
            input: StartInput::New(Json::NULL),
            labels: None,
            priority: 0,
            deadline: None,
            origin: Origin::Root,
            root_flow: None,
            nesting: None,
            home: None,
            on_duplicate: OnDuplicate::Return,
            by: Actor::User("tester".into()),
        };
        change(&mut start);
        let has_key = |run: &&Run| run.flow == flow.id && run.key.is_some() && run.key == start.key;
        start.run = self.runs.values().find(has_key).map_or(start.run, |run| run.id);
        let answer = self.decide_on(start.run, Command::Start(Box::new(start)), Some(flow))?.answer;
        self.deliver();
        Ok(answer)
    }

    /// Decides one command on a run, keeps what comes of it, and leaves the notices in the queue.
    pub(crate) fn decide_on(
        &mut self,
        id: RunId,
        command: Command,
        flow: Option<Arc<Flow>>,
    ) -> Result<Decision, Refusal> {
        let mut run = self.runs.get(&id).cloned();
        let flow = match (&run, flow) {
            (Some(run), _) => self.flow_of(run),
            (None, Some(flow)) => flow,
            (None, None) => return Err(Refusal::UnknownRun(id)),
        };
        let needed = needs(run.as_ref(), &command, &flow);
        let payloads: HashMap<PayloadId, Json> =
            needed.iter().map(|id| (*id, self.payloads[id].clone())).collect();
        let before = run.clone();
        let next_flow = match &command {
            Command::Migrate { to, .. } => self.version(*to),
            _ => None,
        };
        let mut context = Context {
            now: self.now,
            run: id,
            flow: &flow,
            next_flow: next_flow.as_deref(),
            payloads: &payloads,
            ids: &mut self.ids,
            random: &mut self.random,
            offers: &mut self.offers,
            downtimes: &self.downtimes,
            clock: self.clock,
            policies: &self.policies,
            turns: &mut self.turns,
            max_nesting: self.max_nesting,
            homes: &self.homes,
        };
        let result = decide(&mut run, command, &mut context);
        let mut decision = match result {
            Ok(decision) => decision,
            Err(refusal) => {
                assert_eq!(run, before, "a refused command changes nothing: {refusal}");
                return Err(refusal);
            }
        };
        if decision.event.is_none() {
            assert_eq!(run, before, "what is not recorded has not happened");
        }
        let flow = run.as_ref().map_or(flow, |run| self.flow_of(run));
        touches_what_changed(before.as_ref(), run.as_ref(), &flow, &decision);
        self.keep(id, run, &mut decision);
        Ok(decision)
    }

    fn keep(&mut self, id: RunId, run: Option<Run>, decision: &mut Decision) {
        if let Some(run) = run {
            self.runs.insert(id, run);
        }
        for (payload, json) in decision.payloads.drain(..) {
            assert!(self.payloads.insert(payload, json).is_none(), "a payload is written once");
        }
        if let Some(event) = &decision.event {
            all_was_loaded(event);
            self.history.entry(id).or_default().push(event.clone());
            self.heard.retain(|(run, unit), _| *run != id || !decision.touched.units.contains(unit));
        }
        if let Some(lease) = decision.lease {
            self.heard.insert((id, lease.unit), lease.heard);
        }
        self.errors.append(&mut decision.errors);
        self.notices.extend(decision.notices.drain(..));
        self.effects.append(&mut decision.effects);
    }

    /// Asks something of a run, and delivers what runs tell each other.
    pub(crate) fn ask(&mut self, run: RunId, command: Command) -> Result<Answer, Refusal> {
        let answer = self.decide_on(run, command, None)?.answer;
        self.deliver();
        Ok(answer)
    }

    /// Delivers every notice.
    pub(crate) fn deliver(&mut self) {
        while let Some(notice) = self.notices.pop_front() {
            self.deliver_one(notice);
        }
    }

    pub(crate) fn deliver_one(&mut self, notice: Notice) {
        let Notice { to, body } = notice;
        let to = match (to, &body) {
            (ThingRef::Run(run), _) => run,
            (ThingRef::Bulk(bulk), NoticeBody::TargetEnded { place, result }) => {
                let target = BulkRef { bulk, place: *place };
                return self.outcomes.push((target, result.clone()));
            }
            (ThingRef::Bulk(_) | ThingRef::Schedule(_), _) => {
                panic!("only a bulk action is told, of its targets")
            }
        };
        let child = match &body {
            NoticeBody::StartChild(child) => Some(child.clone()),
            _ => None,
        };
        let flow = child.as_ref().and_then(|child| self.flows.get(&child.flow).cloned());
        if let (Some(child), None) = (&child, &flow) {
            self.notices.extend(notice_of_refused_child(to, child, "there is no such flow"));
            return;
        }
        // A stale notice is refused or ignored; either way it is over. A child that cannot start has failed.
        let result = self.decide_on(to, Command::Notice(Box::new(body)), flow);
        if let (Err(refusal), Some(child)) = (result, child) {
            self.notices.extend(notice_of_refused_child(to, &child, &refusal.to_string()));
        }
    }

    /// Lets time pass, with every timer at its moment.
    pub(crate) fn pass(&mut self, span: Millis) {
        let end = self.now + span;
        while let Some((due, run, unit)) = self.next_due().filter(|(due, _, _)| *due <= end) {
            self.now = self.now.max(due);
            let heard = unit.and_then(|unit| self.heard.get(&(run, unit)).copied());
            let before = (self.next_due(), self.runs[&run].seq);
            self.ask(run, Command::Due { unit, heard }).expect("a timer is never refused");
            assert_ne!(
                before,
                (self.next_due(), self.runs[&run].seq),
                "a timer that comes due again and again"
            );
        }
        self.now = end;
        self.admit();
    }

    /// Somebody sets the clock. Timers that then lie too far ahead are looked for.
    pub(crate) fn set_clock(&mut self, by: i64) {
        self.clock += by;
        self.now = self.now.shifted(by);
        self.heard.values_mut().for_each(|heard| *heard = heard.shifted(by));
        let open = self.runs.values().filter(|run| !run.is_final()).map(|run| run.id);
        for run in open.collect::<Vec<_>>() {
            self.ask(run, Command::Due { unit: None, heard: None }).expect("a timer is never refused");
        }
    }

    /// The next thing that is due.
    pub(crate) fn next_due(&self) -> Option<(Time, RunId, Option<UnitRef>)> {
        let mut all = Vec::new();
        for run in self.runs.values() {
            for (unit, wakeup) in wakeups(run, &self.flow_of(run)) {
                let moved = unit.and_then(|unit| {
                    let heard = self.heard.get(&(run.id, unit))?;
                    let flow = self.flow_of(run);
                    let UnitState::Active(live) = &run.unit(unit)?.state else { return None };
                    unstuck_core::wakeup::first_limit(flow.step(unit.step), live, Some(*heard))
                        .map(|(due, _)| due)
                });
                all.extend(moved.or(wakeup.due).map(|due| (due, run.id, unit)));
            }
        }
        all.into_iter().min()
    }

    /// Gives slots to runs that want one, oldest first.
    pub(crate) fn admit(&mut self) {
        for _ in 0..10_000 {
            let mut taken: HashMap<Arc<str>, u32> = HashMap::new();
            let mut wanting = Vec::new();
            for run in self.runs.values() {
                match slot_claim(run, &self.flow_of(run)) {
                    SlotClaim::None => {}
                    SlotClaim::Has { limit } => *taken.entry(limit.name).or_default() += 1,
                    SlotClaim::Wants { limit, .. } => wanting.push((run.id, limit)),
                }
            }
            let room = |limit: &unstuck_core::model::run::Limit| {
                taken.get(&limit.name).copied().unwrap_or(0) < limit.max
            };
            let Some((run, _)) = wanting.into_iter().find(|(_, limit)| room(limit)) else { return };
            self.ask(run, Command::Admit).expect("admitted");
        }
        panic!("a run takes its slot again and again, and does nothing with it");
    }

    fn version(&self, id: FlowId) -> Option<Arc<Flow>> {
        self.flows.values().chain(&self.versions).find(|flow| flow.id == id).cloned()
    }

    /// The other version of the flow of a run.
    pub(crate) fn other_version(&self, run: &Run) -> FlowId {
        let name = &self.flow_of(run).name;
        let all = self.flows.values().chain(&self.versions);
        all.filter(|flow| flow.name == *name)
            .map(|flow| flow.id)
            .find(|id| *id != run.flow)
            .unwrap_or(run.flow)
    }

    pub(crate) fn flow_of(&self, run: &Run) -> Arc<Flow> {
        self.version(run.flow).expect("the flow exists")
    }

    pub(crate) fn unit_ref(&self, run: RunId, name: &str) -> UnitRef {
        let flow = self.flow_of(&self.runs[&run]);
        match name.split_once('[') {
            None => UnitRef::step(flow.find_step(name).expect("the step exists")),
            Some((step, item)) => {
                let item = item.trim_end_matches(']').parse().expect("a number");
                UnitRef::item(flow.find_step(step).expect("the step exists"), item)
            }
        }
    }

    /// A worker takes the queued attempt of a step and begins.
    pub(crate) fn claim(&mut self, run: RunId, step: &str, worker: &Worker) -> Result<AttemptId, Refusal> {
        let unit = self.unit_ref(run, step);
        self.ask(run, Command::Claim { unit, worker: worker.clone() })?;
        let state = &self.runs[&run];
        let attempt = state.unit(unit).expect("claimed").attempts;
        Ok(AttemptId { run, generation: state.generation, unit, attempt })
    }

    /// A local worker takes the queued attempt of a step.
    pub(crate) fn begin(&mut self, run: RunId, step: &str) -> AttemptId {
        self.claim(run, step, &local("w")).expect("claimed")
    }

    pub(crate) fn say(&mut self, attempt: AttemptId, says: Report) -> Result<Answer, Refusal> {
        self.ask(attempt.run, Command::Report { attempt, report: says })
    }

    /// One attempt of a step: taken, and ended like this.
    pub(crate) fn attempt(&mut self, run: RunId, step: &str, says: Report) -> AttemptId {
        let attempt = self.begin(run, step);
        self.say(attempt, says).expect("heard");
        attempt
    }

    /// An operator chooses for a held step.
    pub(crate) fn choose(&mut self, run: RunId, step: &str, choice: Choice) -> Result<Answer, Refusal> {
        let unit = self.unit_ref(run, step);
        self.ask(run, Command::Choose { unit, choice, by: operator(), bulk: None })
    }

    /// An operator resumes one step in error.
    pub(crate) fn resume(&mut self, run: RunId, step: &str) -> Result<Answer, Refusal> {
        let unit = Some(self.unit_ref(run, step));
        self.ask(run, Command::Resume { unit, by: operator(), reason: None, changes: Box::default() })
    }

    pub(crate) fn pause(&mut self, run: RunId) -> Result<Answer, Refusal> {
        self.ask(run, Command::Pause { by: operator(), reason: None })
    }

    pub(crate) fn unpause(&mut self, run: RunId) -> Result<Answer, Refusal> {
        self.ask(run, Command::Unpause { by: operator() })
    }

    pub(crate) fn cancel(&mut self, run: RunId) -> Result<Answer, Refusal> {
        self.ask(run, Command::Cancel { by: operator(), reason: None })
    }

    pub(crate) fn signal(&mut self, run: RunId, name: &str, payload: &str) -> Result<Answer, Refusal> {
        let payload = Json::parse(payload).expect("valid JSON");
        self.ask(run, Command::Signal { name: name.into(), payload, by: operator() })
    }

    pub(crate) fn rerun(&mut self, run: RunId, what: Rerun) -> Result<Answer, Refusal> {
        self.ask(run, Command::rerun(what, operator()))
    }

    /// The worker of this attempt is gone.
    pub(crate) fn lose(&mut self, attempt: AttemptId, with_others: bool) {
        self.ask(attempt.run, Command::Lost { attempt, with_others }).expect("disposed of");
    }

    pub(crate) fn state(&self, run: RunId) -> RunState {
        self.runs[&run].state()
    }

    /// The word for a step's or item's state.
    pub(crate) fn step(&self, run: RunId, step: &str) -> &'static str {
        let unit = self.unit_ref(run, step);
        self.runs[&run].unit(unit).map_or("none", |unit| unit.state.word())
    }

    /// The words for these steps or items.
    pub(crate) fn steps<const N: usize>(&self, run: RunId, steps: [&str; N]) -> [&'static str; N] {
        steps.map(|step| self.step(run, step))
    }

    pub(crate) fn unit(&self, run: RunId, step: &str) -> &Unit {
        self.runs[&run].unit(self.unit_ref(run, step)).expect("the unit exists")
    }

    /// What will move a step or item next.
    pub(crate) fn wakeup(&self, run: RunId, step: &str) -> Wakeup {
        let state = &self.runs[&run];
        wakeup(state, &self.flow_of(state), Some(self.unit_ref(run, step)))
    }

    /// Why a run has failed, or will.
    pub(crate) fn error(&self, run: RunId) -> RunError {
        use unstuck_core::model::run::{Phase, RunEnd, RunOutcome};
        match &self.runs[&run].phase {
            Phase::Failing(failing) => failing.error.clone(),
            Phase::Ended(RunEnd { how: RunOutcome::Failed { error, .. }, .. }) => (**error).clone(),
            other => panic!("{run} has not failed: {other:?}"),
        }
    }

    /// The attempts that were handed out, in order, with their workers.
    pub(crate) fn dispatched(&self) -> Vec<(AttemptId, Worker)> {
        let dispatches = self.effects.iter().filter_map(|effect| match effect {
            Effect::Dispatch { attempt, worker, .. } => Some((*attempt, worker.clone())),
            Effect::Interrupt { .. } => None,
        });
        dispatches.collect()
    }

    /// The attempts whose workers were told to stop, and why.
    pub(crate) fn interrupted(&self) -> Vec<(AttemptId, String)> {
        let interrupts = self.effects.iter().filter_map(|effect| match effect {
            Effect::Interrupt { attempt, why, .. } => Some((*attempt, why.clone())),
            Effect::Dispatch { .. } => None,
        });
        interrupts.collect()
    }

    /// The run that the only child or handler of this one is.
    pub(crate) fn child(&self, run: RunId) -> RunId {
        self.runs.values().find(|other| other.origin.parent() == Some(run)).expect("it has a child").id
    }

    /// The output of a run that has completed.
    pub(crate) fn output(&self, run: RunId) -> String {
        use unstuck_core::model::run::{Phase, RunEnd, RunOutcome};
        match &self.runs[&run].phase {
            Phase::Ended(RunEnd { how: RunOutcome::Completed { output }, .. }) => {
                self.json(output).text().to_owned()
            }
            other => panic!("{run} has not completed: {other:?}"),
        }
    }

    pub(crate) fn json(&self, payload: &Payload) -> Json {
        match payload {
            Payload::Inline(json) => json.clone(),
            Payload::Stored(id) => self.payloads[id].clone(),
        }
    }
}

/// A decision names every place whose wakeup it has changed, so that a store need not look at the others.
fn touches_what_changed(before: Option<&Run>, after: Option<&Run>, flow: &Flow, decision: &Decision) {
    if decision.touched.all {
        return;
    }
    let all = |run: Option<&Run>| -> BTreeMap<Option<UnitRef>, Wakeup> {
        run.map_or_else(Vec::new, |run| wakeups(run, flow)).into_iter().collect()
    };
    let (before, after) = (all(before), all(after));
    for place in before.keys().chain(after.keys()) {
        let touched = place.is_some_and(|unit| decision.touched.units.contains(&unit));
        assert!(touched || before.get(place) == after.get(place), "{place:?} was not touched: {decision:?}");
    }
}

/// What a decision reads was asked for beforehand, whatever came of it.
fn all_was_loaded(event: &Event) {
    for fact in &event.facts {
        let error = match fact {
            Fact::Unit { fact: UnitFact::Ended { outcome, .. }, .. } => outcome.error(),
            Fact::Failing { error, .. } => Some(&error.error),
            _ => None,
        };
        assert!(error.is_none_or(|error| !error.cause.contains("was not loaded")), "{error:?}");
    }
}

pub(crate) fn local(name: &str) -> Worker {
    Worker { name: name.into(), incarnation: 1, local: true }
}

pub(crate) fn remote(name: &str) -> Worker {
    Worker { name: name.into(), incarnation: 1, local: false }
}

pub(crate) fn done() -> Report {
    output("null")
}

pub(crate) fn output(json: &str) -> Report {
    Report::Complete { output: Json::parse(json).expect("valid JSON") }
}

pub(crate) fn stall(cause: &str) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: false }
}

pub(crate) fn fatal(cause: &str) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: true }
}

pub(crate) fn lacking() -> Report {
    Report::Defer { asked: None, lacking: None }
}

pub(crate) fn operator() -> Actor {
    Actor::User("operator".into())
}
