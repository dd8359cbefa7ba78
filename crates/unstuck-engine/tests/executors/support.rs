//! What the tests of executors share: jobs to execute, and an ear for the words that come back.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use unstuck_core::command::Report;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::emulation::{Behaviour, Emulation, EmulationPlan};
use unstuck_core::model::expression::{Evaluate, Expression, Reads, Scope, Template};
use unstuck_core::model::flow::{Flow, GraphNode, Kind, ProcessCommand, RunKind, Step, StepIndex};
use unstuck_core::model::log::AttemptLog;
use unstuck_core::model::recovery::{Defer, Limits, RetryStrategy};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Millis;
use unstuck_engine::document::JobDetails;
use unstuck_engine::executor::{Executor, ExecutorReport, Job, ReportSink};
use unstuck_engine::token::Signer;

/// Far longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A flow of one step, `work`, in a folder.
pub(crate) fn flow(kind: Kind, limits: Limits, directory: &Path) -> Arc<Flow> {
    let step = Step {
        id: "work".into(),
        queue: kind.queue(),
        full_action: "test.work".into(),
        kind,
        action_type: None,
        node: GraphNode::default(),
        limits,
        defer: Defer::default(),
        load: 1,
        priority: 0,
        retry: RetryStrategy::None,
        fail_on_error: true,
        exception_handler: None,
    };
    Arc::new(Flow {
        id: FlowId(1),
        name: "test".into(),
        version: "1".into(),
        description: None,
        input: None,
        output: None,
        deadline: None,
        concurrency: None,
        schedule: None,
        labels: std::collections::BTreeMap::new(),
        steps: vec![step],
        dependents: vec![Vec::new()],
        kind: RunKind::Graph,
        source: "{}".into(),
        directory: directory.to_string_lossy().into(),
    })
}

/// The same, of a step whose input refers to these secrets.
pub(crate) fn flow_with_secrets(kind: Kind, secrets: &[&str]) -> Arc<Flow> {
    struct Never;
    impl Evaluate for Never {
        fn evaluate(&self, _: &Scope) -> Result<serde_json::Value, String> {
            unreachable!("the input is bound")
        }
    }
    let mut flow = (*flow(kind, Limits::default(), Path::new(""))).clone();
    let reads = Reads { secrets: secrets.iter().map(|name| Arc::from(*name)).collect(), ..Reads::default() };
    let with = Template::Computed(Expression { source: "".into(), reads, program: Arc::new(Never) });
    flow.steps[0].node = GraphNode { with: Some(with), ..GraphNode::default() };
    Arc::new(flow)
}

/// The first attempt of this run at the flow's only step.
pub(crate) fn job_of(flow: &Arc<Flow>, run: u64, input: &str) -> Job {
    let attempt = AttemptId { run: RunId(run), generation: 1, unit: UnitRef::step(StepIndex(0)), attempt: 1 };
    let input = Json::parse(input).expect("valid JSON");
    let details = Some(Box::new(details()));
    Job { attempt, flow: Arc::clone(flow), input, deadline: None, details }
}

/// A job of a kind that needs nothing else.
pub(crate) fn job(kind: Kind, input: &str) -> Job {
    job_of(&flow(kind, Limits::default(), Path::new("")), 1, input)
}

/// A job that runs a line of shell.
pub(crate) fn shell(line: &str) -> Job {
    job(Kind::Process(ProcessCommand::Shell(line.to_owned())), "null")
}

/// An emulation that takes no time.
pub(crate) fn emulation(sequence: &[Behaviour]) -> Emulation {
    Emulation {
        plan: EmulationPlan::Sequence(sequence.to_vec()),
        duration: Millis::ZERO,
        drag: Millis(100),
        cause: None,
        output: None,
    }
}

/// What is ended is found by its token, whoever has started it: no two jobs have the same.
fn details() -> JobDetails {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut key = [0; 32];
    key[..4].copy_from_slice(&std::process::id().to_be_bytes());
    key[4..8].copy_from_slice(&NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    JobDetails {
        key: None,
        round: 1,
        resumed_by: None,
        worker: Worker { name: "process".into(), incarnation: 1, local: true },
        signer: Signer::new(key, 1),
        history: Vec::new(),
        previous: None,
    }
}

/// Hears what an executor says.
pub(crate) struct Ear {
    pub(crate) answers: ReportSink,
    words: Receiver<ExecutorReport>,
    /// What attempts have printed, among the words so far.
    pub(crate) logs: RefCell<Vec<AttemptLog>>,
}

impl Ear {
    pub(crate) fn new() -> Ear {
        let (sender, words) = mpsc::channel();
        let answers = ReportSink::new(move |word| {
            // A test that has seen enough hears no more.
            let _ = sender.send(word);
        });
        Ear { answers, words, logs: RefCell::default() }
    }

    /// The next word about how it goes.
    pub(crate) fn word(&self) -> ExecutorReport {
        loop {
            match self.words.recv_timeout(LONG).expect("a word in time") {
                ExecutorReport::Report(_, Report::Log(log)) => self.logs.borrow_mut().push(*log),
                word => return word,
            }
        }
    }

    /// The next last word, of whichever attempt.
    pub(crate) fn last(&self) -> ExecutorReport {
        std::iter::repeat_with(|| self.word())
            .find(|word| word.ended_attempt().is_some())
            .expect("a last word")
    }

    /// The progress of the next heartbeat.
    pub(crate) fn progress(&self) -> Option<String> {
        match self.word() {
            ExecutorReport::Report(_, Report::Heartbeat { progress }) => {
                progress.map(|progress| progress.to_string())
            }
            word => panic!("{word:?} instead of a heartbeat"),
        }
    }

    /// Whether nothing was said that has not been heard.
    pub(crate) fn is_silent(&self) -> bool {
        self.words.try_recv().is_err()
    }
}

/// Executes one job, and returns the heartbeats' progress and the last word.
pub(crate) fn outcome(executor: &mut impl Executor, job: Job) -> (Vec<Option<String>>, ExecutorReport) {
    let ear = Ear::new();
    executor.execute(job, &ear.answers);
    let mut heartbeats = Vec::new();
    loop {
        match ear.word() {
            ExecutorReport::Report(_, Report::Heartbeat { progress }) => {
                heartbeats.push(progress.map(|progress| progress.to_string()));
            }
            last => return (heartbeats, last),
        }
    }
}

/// The last word as one line, for tables: `completed 1`, `stalled boom`, `failed (data) boom`, `deferred 30s why`.
pub(crate) fn line(word: &ExecutorReport) -> String {
    match word {
        ExecutorReport::Report(_, Report::Complete { output }) => format!("completed {output}"),
        ExecutorReport::Report(_, Report::Fail { error, fatal }) => {
            let outcome = if *fatal { "failed" } else { "stalled" };
            match error.reason.word() {
                "processing" => format!("{outcome} {}", error.cause),
                reason => format!("{outcome} ({reason}) {}", error.cause),
            }
        }
        ExecutorReport::Report(_, Report::Defer { asked, lacking }) => {
            let asked = asked.map_or_else(|| "-".to_owned(), |asked| asked.to_string());
            format!("deferred {asked} {}", lacking.as_deref().unwrap_or("-"))
        }
        ExecutorReport::Report(_, Report::Release) => "released".to_owned(),
        ExecutorReport::Report(_, Report::Log(_)) => "log".to_owned(),
        ExecutorReport::Report(_, Report::Start) => "started".to_owned(),
        ExecutorReport::Report(_, Report::Heartbeat { .. }) => "heartbeat".to_owned(),
        ExecutorReport::Lost(_) => "lost".to_owned(),
        ExecutorReport::Freed(_) => "freed".to_owned(),
    }
}

/// The context of an error.
pub(crate) fn context(word: &ExecutorReport) -> String {
    match word {
        ExecutorReport::Report(_, Report::Fail { error, .. }) => {
            error.context.as_deref().unwrap_or_default().to_owned()
        }
        word => panic!("{word:?} instead of an error"),
    }
}
