//! A small world in which runs are decided about, without an engine and without a store: what is said follows from it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use unstuck_core::command::{Command, Notice, NoticeBody, OnDuplicate, Report, Start, StartInput};
use unstuck_core::decide::{Context, decide, notice_of_refused_child};
use unstuck_core::downtime::Downtime;
use unstuck_core::event::{Actor, Choice, Event};
use unstuck_core::home::Homes;
use unstuck_core::id::{FlowId, Ids, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::nesting::MAX_NESTING;
use unstuck_core::model::run::{Origin, Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::needs::needs;
use unstuck_core::offer::Offers;
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::refusal::Refusal;
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::wakeups;

/// Where the clock begins.
const BEGIN: Time = Time(1_800_000_000_000);

/// Everything that an engine and a store would keep.
pub(crate) struct World {
    pub(crate) flows: Vec<Arc<Flow>>,
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) history: BTreeMap<RunId, Vec<Event>>,
    pub(crate) now: Time,
    pub(crate) policies: Policies,
    pub(crate) max_nesting: u32,
    payloads: HashMap<PayloadId, Json>,
    notices: VecDeque<Notice>,
    ids: Ids,
    random: Random,
    offers: Offers,
    downtimes: Vec<Downtime>,
    clock: i64,
    turns: ResumePacer,
}

impl World {
    /// A world with the flows of this file.
    pub(crate) fn new(file: &str) -> World {
        let loaded = unstuck_flow::load(file, "flows.yaml", "", &|_| false);
        let flows = loaded.unwrap_or_else(|problems| panic!("{problems:?}")).flows.into_iter();
        World {
            flows: flows.zip(1..).map(|(flow, id)| Arc::new(Flow { id: FlowId(id), ..flow })).collect(),
            runs: BTreeMap::new(),
            history: BTreeMap::new(),
            now: BEGIN,
            policies: Policies::default(),
            max_nesting: MAX_NESTING,
            payloads: HashMap::new(),
            notices: VecDeque::new(),
            ids: Ids::new(1, 0),
            random: Random::new(1),
            offers: Offers::default(),
            downtimes: Vec::new(),
            clock: 0,
            turns: ResumePacer::default(),
        }
    }

    /// Starts the first flow of the file.
    pub(crate) fn start(&mut self) -> RunId {
        self.try_start(|_| {}).expect("it starts")
    }

    pub(crate) fn try_start(&mut self, change: impl FnOnce(&mut Start)) -> Result<RunId, Refusal> {
        let flow = self.flows[0].clone();
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
            by: ada(),
        };
        change(&mut start);
        let has_key = |run: &&Run| run.key.is_some() && run.key == start.key;
        start.run = self.runs.values().find(has_key).map_or(start.run, |run| run.id);
        let run = start.run;
        self.decide_on(run, Command::Start(Box::new(start)), Some(flow))?;
        self.deliver();
        Ok(run)
    }

    fn decide_on(&mut self, id: RunId, command: Command, flow: Option<Arc<Flow>>) -> Result<(), Refusal> {
        let mut run = self.runs.get(&id).cloned();
        let known = run.as_ref().map(|run| self.flow_of(run));
        let flow = known.or(flow).ok_or(Refusal::UnknownRun(id))?;
        let needed = needs(run.as_ref(), &command, &flow);
        let payloads = needed.iter().map(|id| (*id, self.payloads[id].clone())).collect();
        let next_flow = match &command {
            Command::Migrate { to, .. } => self.flows.iter().find(|flow| flow.id == *to).cloned(),
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
            homes: &Homes::default(),
        };
        let decision = decide(&mut run, command, &mut context)?;
        self.runs.extend(run.map(|run| (id, run)));
        self.payloads.extend(decision.payloads);
        self.history.entry(id).or_default().extend(decision.event);
        self.notices.extend(decision.notices);
        Ok(())
    }

    /// Asks something of a run, and delivers what runs tell each other.
    pub(crate) fn ask(&mut self, run: RunId, command: Command) -> Result<(), Refusal> {
        self.decide_on(run, command, None)?;
        self.deliver();
        Ok(())
    }

    /// Asks something that is not refused.
    pub(crate) fn does(&mut self, run: RunId, command: Command) {
        self.ask(run, command).unwrap_or_else(|refusal| panic!("{refusal}"));
    }

    fn deliver(&mut self) {
        while let Some(Notice { to, body }) = self.notices.pop_front() {
            let Some(to) = to.run() else { continue };
            let child = if let NoticeBody::StartChild(child) = &body { Some(child.clone()) } else { None };
            let find = |name: &str| self.flows.iter().find(|flow| *flow.name == *name).cloned();
            let flow = child.as_ref().and_then(|child| find(&child.flow));
            // A notice that comes too late is refused or ignored. A child that cannot start has failed.
            let result = self.decide_on(to, Command::Notice(Box::new(body)), flow);
            if let (Err(refusal), Some(child)) = (result, child) {
                self.notices.extend(notice_of_refused_child(to, &child, &refusal.to_string()));
            }
        }
    }

    /// Lets time pass, with every timer at its moment.
    pub(crate) fn pass(&mut self, span: Millis) {
        let end = self.now + span;
        while let Some((due, run, unit)) = self.next_due().filter(|(due, _, _)| *due <= end) {
            self.now = self.now.max(due);
            let seq = self.runs[&run].seq;
            self.does(run, Command::Due { unit, heard: None });
            assert_ne!(
                (self.next_due(), self.runs[&run].seq),
                (Some((due, run, unit)), seq),
                "it comes due again"
            );
        }
        self.now = end;
    }

    fn next_due(&self) -> Option<(Time, RunId, Option<UnitRef>)> {
        let of_run = |run: &Run| -> Vec<(Time, RunId, Option<UnitRef>)> {
            let all = wakeups(run, &self.flow_of(run)).into_iter();
            all.filter_map(|(unit, wakeup)| Some((wakeup.due?, run.id, unit))).collect()
        };
        self.runs.values().flat_map(of_run).min()
    }

    /// The engine was down for this long, and its timers come due only now.
    pub(crate) fn is_down(&mut self, span: Millis) {
        let from = self.now;
        self.now = self.now + span;
        self.downtimes.push(Downtime { from, to: self.now });
        self.pass(Millis::ZERO);
    }

    /// The clock is set.
    pub(crate) fn set_clock(&mut self, by: i64) {
        self.clock += by;
        self.now = self.now.shifted(by);
        for run in self.runs.keys().copied().collect::<Vec<_>>() {
            self.does(run, Command::Due { unit: None, heard: None });
        }
    }

    /// Gives a slot to every run that wants one.
    pub(crate) fn admit(&mut self) {
        let wants = |run: &&Run| matches!(slot_claim(run, &self.flow_of(run)), SlotClaim::Wants { .. });
        for run in self.runs.values().filter(wants).map(|run| run.id).collect::<Vec<_>>() {
            self.does(run, Command::Admit);
        }
    }

    pub(crate) fn flow_of(&self, run: &Run) -> Arc<Flow> {
        self.flows.iter().find(|flow| flow.id == run.flow).expect("a known flow").clone()
    }

    /// A step as `fetch`, or an item as `fetch[2]`.
    pub(crate) fn unit(&self, run: RunId, name: &str) -> UnitRef {
        let (step, item) = name.split_once('[').map_or((name, None), |(step, item)| (step, Some(item)));
        let step = self.flow_of(&self.runs[&run]).find_step(step).expect("a known step");
        match item {
            None => UnitRef::step(step),
            Some(item) => UnitRef::item(step, item.trim_end_matches(']').parse().expect("a number")),
        }
    }

    /// A worker takes the queued attempt of a step.
    pub(crate) fn claim(&mut self, run: RunId, step: &str, worker: Worker) -> AttemptId {
        let unit = self.unit(run, step);
        self.does(run, Command::Claim { unit, worker });
        let state = &self.runs[&run];
        let attempt = state.unit(unit).expect("claimed").attempts;
        AttemptId { run, generation: state.generation, unit, attempt }
    }

    pub(crate) fn say(&mut self, attempt: AttemptId, report: Report) {
        self.does(attempt.run, Command::Report { attempt, report });
    }

    /// One attempt of a step by a worker of this process, which ends like this.
    pub(crate) fn attempt(&mut self, run: RunId, step: &str, report: Report) -> AttemptId {
        let attempt = self.claim(run, step, local());
        self.say(attempt, report);
        attempt
    }

    pub(crate) fn choose(&mut self, run: RunId, step: &str, choice: Choice) {
        let unit = self.unit(run, step);
        self.does(run, Command::Choose { unit, choice, by: ada(), bulk: None });
    }

    pub(crate) fn resume(&mut self, run: RunId, step: &str, reason: Option<&str>) {
        let unit = Some(self.unit(run, step));
        let reason = reason.map(Into::into);
        self.does(run, Command::Resume { unit, by: ada(), reason, changes: Box::default() });
    }

    /// The child or handler of a run.
    pub(crate) fn child(&self, run: RunId) -> RunId {
        self.runs.values().find(|other| other.origin.parent() == Some(run)).expect("it has a child").id
    }

    /// What the children of a run are doing.
    pub(crate) fn children(&self, run: RunId) -> Vec<(RunId, RunState)> {
        let children = self.runs.values().filter(|other| other.origin.parent() == Some(run));
        children.map(|child| (child.id, child.state())).collect()
    }

    /// A text with the ids of the runs as numbers, so that they do not depend on how ids are made.
    pub(crate) fn named(&self, text: &str) -> String {
        let numbered = self.runs.keys().zip(1..);
        numbered.fold(text.to_owned(), |text, (run, n)| text.replace(&run.to_string(), &format!("run_{n}")))
    }
}

pub(crate) fn ada() -> Actor {
    Actor::User("ada".into())
}

pub(crate) fn local() -> Worker {
    Worker { name: "here".into(), incarnation: 1, local: true }
}

pub(crate) fn remote() -> Worker {
    Worker { name: "w1".into(), incarnation: 1, local: false }
}

pub(crate) fn done() -> Report {
    Report::Complete { output: Json::NULL }
}

pub(crate) fn stall(cause: &str) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: false }
}

pub(crate) fn fatal(cause: &str) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: true }
}

pub(crate) fn lacking(what: Option<&str>) -> Report {
    Report::Defer { asked: None, lacking: what.map(Into::into) }
}
