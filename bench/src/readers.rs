//! Lists of runs by every filter, read beside an engine that works, with many runs in the store.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use unstuck_core::command::Command;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::RunState;
use unstuck_core::time::Time;
use unstuck_engine::request::Request;
use unstuck_store::contract::{GroupFilter, LabelFilter, Reader, RunFilter, RunSort, StepMark, Store};

use crate::durable::{Bench, Driven, Load};
use crate::figures::percentile;
use crate::recovery::put_into_error;

/// So many runs a page.
const PAGE: usize = 50;
/// So many runs are in flight while lists are read.
const IN_FLIGHT: u64 = 256;
/// So many runs are in error, and so many were cancelled.
const FEW: u64 = 1_000;

/// What readers ask, with its name.
type Question = (&'static str, Box<dyn Fn(&dyn Reader) + Send + Sync>);

/// How long one question took.
pub struct Answered {
    pub what: &'static str,
    pub count: usize,
    pub median: Duration,
    pub p99: Duration,
}

/// What came of reading while the engine worked.
pub struct Figures {
    /// The engine with nobody reading, and with readers.
    pub alone: Driven,
    pub beside: Driven,
    pub answers: Vec<Answered>,
}

/// A store with so many runs that are over and so many that wait, the older half of the first before the others.
pub fn prepare(place: &Path, finished: u64, open: u64) -> Bench {
    let mut bench = Bench::open(place);
    bench.drive(Load::Bare, 4_096, finished / 2);
    put_into_error(&mut bench, FEW);
    bench.fill(open);
    let cancel = |run: RunId| {
        let command = Command::Cancel { by: Actor::User("bench".into()), reason: None };
        Request::Command { ticket: run.0, run, command }
    };
    let filter = RunFilter { flow: Some("later".into()), ..RunFilter::default() };
    let some = bench.store().list(&filter, None, usize::try_from(FEW).unwrap_or(0)).expect("lists");
    for run in some {
        bench.engine.submit(cancel(run.id));
    }
    bench.drive(Load::Bare, 4_096, finished - finished / 2);
    bench
}

/// Reads with so many threads while so many runs are driven.
pub fn measure(bench: &mut Bench, threads: usize, runs: u64) -> Figures {
    let alone = bench.drive(Load::Bare, IN_FLIGHT, runs);
    let reader = bench.store().reader();
    let questions = questions(&*reader);
    let is_over = AtomicBool::new(false);
    let (mut beside, mut took) = (Driven::default(), vec![Vec::new(); questions.len()]);
    thread::scope(|scope| {
        let ask = |first: usize| ask_all(&*reader, &questions, first, &is_over);
        let readers: Vec<_> = (0..threads).map(|place| scope.spawn(move || ask(place))).collect();
        beside = bench.drive(Load::Bare, IN_FLIGHT, runs);
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            let answers = reader.join().expect("readers read");
            took.iter_mut().zip(answers).for_each(|(all, more)| all.extend(more));
        }
    });
    let answered = |((what, _), mut took): (&Question, Vec<Duration>)| Answered {
        what,
        count: took.len(),
        median: percentile(&mut took, 50),
        p99: percentile(&mut took, 99),
    };
    Figures { alone, beside, answers: questions.iter().zip(took).map(answered).collect() }
}

/// Asks one question after the other until it is over, each at least once.
fn ask_all(
    reader: &dyn Reader,
    questions: &[Question],
    first: usize,
    is_over: &AtomicBool,
) -> Vec<Vec<Duration>> {
    let mut took = vec![Vec::new(); questions.len()];
    let mut place = first;
    while !is_over.load(Ordering::Relaxed) || place < first + questions.len() {
        let (_, ask) = &questions[place % questions.len()];
        let begin = Instant::now();
        ask(reader);
        took[place % questions.len()].push(begin.elapsed());
        place += 1;
    }
    took
}

/// Asks for one page of a list.
fn list(what: &'static str, filter: RunFilter, sort: RunSort) -> Question {
    (what, Box::new(move |reader| drop(reader.page(&filter, sort, None, PAGE).expect("lists"))))
}

/// Filters by labels, keys, open attempts, marks of steps, and time; several of them find nothing in as many runs as a page
/// may look at.
fn filters_by_work(reader: &dyn Reader, some: RunId, time: Time) -> Vec<(&'static str, RunFilter)> {
    let all = || RunFilter { roots_only: true, ..RunFilter::default() };
    let failing = RunFilter { flow: Some("failing".into()), ..all() };
    let version = reader.list(&failing, None, 1).expect("lists").first().map(|run| run.flow);
    let steps = version.map(|version| vec![(version, StepIndex(0))]);
    let label = LabelFilter { name: "team".into(), values: vec!["nobody".into()], versions: Vec::new() };
    vec![
        ("label, none", RunFilter { labels: vec![label], ..all() }),
        ("beginning of a key, none", RunFilter { key_prefixes: vec!["nobody".into()], ..all() }),
        ("has error (few)", RunFilter { has: vec![StepMark::Error], ..all() }),
        ("has acknowledged, none", RunFilter { has: vec![StepMark::Acknowledged], ..all() }),
        ("has scheduled", RunFilter { has: vec![StepMark::Scheduled], ..all() }),
        ("policy, none", RunFilter { policies: vec!["nobody".into()], ..all() }),
        ("action (few)", RunFilter { steps, ..all() }),
        ("worker, none", RunFilter { workers: vec!["nobody".into()], ..all() }),
        ("root, none", RunFilter { root: Some(some), ..RunFilter::default() }),
        ("updated since", RunFilter { updated_since: Some(time), ..all() }),
        ("updated since, none", RunFilter { updated_since: Some(Time(i64::MAX)), ..all() }),
        ("part of a cause, none", RunFilter { cause: Some("nobody".into()), ..all() }),
    ]
}

fn questions(reader: &dyn Reader) -> Vec<Question> {
    let all = || RunFilter { roots_only: true, ..RunFilter::default() };
    let of = |state| RunFilter { states: vec![state], ..all() };
    let in_flow = |flow: &str| RunFilter { flow: Some(flow.into()), ..all() };
    let listed = reader.list(&in_flow("nobody"), None, 1).expect("lists");
    let (some, version) = listed.first().map(|run| (run.id, run.flow)).expect("some wait");
    let time = reader.run(some).expect("reads").expect("is there").created_at;
    let group = reader.error_groups(&GroupFilter::default(), None, 1).expect("reads").remove(0).group;
    let open = RunState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let filters = vec![
        ("all", all()),
        ("all, before one in the middle", RunFilter { until: Some(time), ..all() }),
        ("children too", RunFilter::default()),
        ("state completed", of(RunState::Completed)),
        ("state cancelled (few)", of(RunState::Cancelled)),
        ("state waiting", of(RunState::Waiting)),
        ("state queued or running", RunFilter { states: vec![RunState::Queued, RunState::Running], ..all() }),
        ("state error (few)", of(RunState::Error)),
        ("state held (none)", of(RunState::Held)),
        ("open", RunFilter { states: open, ..all() }),
        ("flow, nearly all", in_flow("bare")),
        ("flow, few", in_flow("failing")),
        ("flow and state", RunFilter { states: vec![RunState::Cancelled], ..in_flow("later") }),
        ("flow and state, none", RunFilter { states: vec![RunState::Failed], ..in_flow("bare") }),
        ("version", RunFilter { versions: Some(vec![version]), ..all() }),
        ("key, none", RunFilter { key: Some("nobody's".into()), ..all() }),
        ("parent, none", RunFilter { parent: Some(some), ..RunFilter::default() }),
        ("since", RunFilter { since: Some(time), ..all() }),
        ("group of errors", RunFilter { group: Some(group), ..all() }),
    ];
    let mut questions: Vec<Question> = Vec::new();
    for (what, filter) in filters.into_iter().chain(filters_by_work(reader, some, time)) {
        questions.push(list(what, filter, RunSort::Created));
    }
    questions.push(list("changed last first", all(), RunSort::Updated));
    questions.push(list(
        "changed last first, state cancelled (few)",
        of(RunState::Cancelled),
        RunSort::Updated,
    ));
    questions.push(list("resumed first first", all(), RunSort::NextResume));
    questions.push(("one run", Box::new(move |reader| drop(reader.run(some).expect("reads")))));
    let day = Time(time.0 - 24 * 60 * 60 * 1_000);
    questions.push(("counts", Box::new(move |reader| drop(reader.count_runs(day).expect("counts")))));
    let groups = GroupFilter::default();
    questions.push((
        "groups of errors",
        Box::new(move |reader| drop(reader.error_groups(&groups, None, PAGE).expect("reads"))),
    ));
    questions
}
