//! Runs in error, and what policies do about them, on the embedded store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unstuck_core::command::{Command, Report};
use unstuck_core::errors::OpenError;
use unstuck_core::event::{Actor, Fact};
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::policy::{Criteria, DraftBackOff, ErrorToMatch, Policies, PolicyDraft};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{Output, Request};
use unstuck_engine::trials::{StoreErrors, TrialErrors, TrialRequest, try_policies};
use unstuck_store::contract::{GroupFilter, OpenErrorFilter, Store};

use crate::durable::{Bench, now};
use crate::figures::ProcessorTime;
use crate::flows::{flow, offer, start};

/// One step that nothing but a policy resumes.
const FAILING: &str = "flow: failing\nsteps:\n  - {id: a, action: noop, minimumDelay: 0s}\n";
/// So many causes are told apart.
const KINDS: u64 = 200;
/// In line at once.
const IN_LINE: u64 = 4_096;
/// The name of the policy that takes every error.
pub const TAKES_ALL: &str = "takes-all";

/// So many runs are started and put into error, of `KINDS` kinds.
pub fn put_into_error(bench: &mut Bench, runs: u64) {
    let name = bench.engine.put_flow(flow(FAILING)).expect("kept").name.clone();
    bench.engine.register(offer(u32::try_from(IN_LINE).expect("small")), false);
    bench.engine.watch(false);
    let (mut started, mut failed) = (0, 0);
    while failed < runs || bench.engine.backlog() > 0 {
        while started < runs && started - failed < IN_LINE {
            bench.engine.submit(start(started, &name, None, &Json::NULL));
            started += 1;
        }
        for output in bench.next() {
            if let Output::Dispatch { job, .. } = output {
                let error =
                    Box::new(Error::new(format!("HTTP {} of shop {}", 500 + failed % 4, kind(failed))));
                let says = Report::Fail { error, fatal: false };
                bench.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
                failed += 1;
            }
        }
    }
    bench.engine.step(now());
    while !bench.engine.wait().is_empty() {}
    bench.engine.dismiss_executors();
}

/// A word for a kind: digits would be taken out of its pattern.
fn kind(n: u64) -> String {
    let letter = |n: u64| char::from(b'a' + u8::try_from(n % 26).expect("small"));
    [letter(n % KINDS), letter(n % KINDS / 26)].iter().collect()
}

/// Policies that are about something else, and the one that takes every error, at the end.
pub fn drafts(count: usize) -> Vec<PolicyDraft> {
    let other = |n: usize| {
        let criteria = if n.is_multiple_of(2) {
            Criteria { action: Some(format!("other-{n}.a").into()), ..Criteria::default() }
        } else {
            Criteria { flow: Some(format!("other-{n}").into()), ..Criteria::default() }
        };
        draft(&format!("other-{n}"), criteria)
    };
    let all = Criteria { error_substring: Some("HTTP".into()), ..Criteria::default() };
    (1..count).map(other).chain([draft(TAKES_ALL, all)]).collect()
}

fn draft(name: &str, criteria: Criteria) -> PolicyDraft {
    PolicyDraft {
        name: Some(name.into()),
        criteria,
        max_attempts: Some(10),
        back_off: Some(DraftBackOff { delay: Some(0), ..DraftBackOff::default() }),
        ..PolicyDraft::default()
    }
}

/// What it costs to match one error with so many policies.
pub fn matching(count: usize) -> Duration {
    let id = |n: u64| Arc::from(format!("id-{n}"));
    let policies = (0u64..).zip(drafts(count)).map(|(n, draft)| draft.check(&id(n), n).expect("good"));
    let policies = Policies::new(policies.collect()).expect("they do not collide");
    let failure = ErrorToMatch {
        cause: "HTTP 503 of shop ab",
        root_flow: "failing",
        action: "failing.a",
        found_by: None,
        action_type: None,
        fatal: false,
        rounds: 1,
    };
    let times = 1_000_000;
    let begin = Instant::now();
    for _ in 0..times {
        assert!(std::hint::black_box(&policies).find(std::hint::black_box(&failure)).is_some());
    }
    begin.elapsed() / times
}

/// How long things take with so many in error.
pub struct Figures {
    /// Listing the error groups.
    pub groups: Duration,
    /// Previewing a policy that takes every error.
    pub preview: Duration,
    /// Applying it.
    pub apply: Duration,
    /// Resuming all of them, until their runs are completed.
    pub resume: Duration,
    /// The transitions of that, and their processor time.
    pub transitions: u64,
    pub processor: ProcessorTime,
}

/// Loads the policies, and measures what is done about every error.
pub fn recover(bench: &mut Bench, policies: usize, runs: u64) -> Figures {
    let by = || Actor::User("bench".into());
    let groups = timed(|| {
        let found = bench.engine.store().error_groups(&GroupFilter::default(), 100).expect("reads");
        assert!(!found.is_empty());
    });
    let order = PolicyCommand::Load { drafts: drafts(policies), replace: false, by: by() };
    bench.engine.change_policies(order, now()).expect("loaded");
    let preview = timed(|| {
        let reader = bench.engine.store().reader();
        let mut errors = StoreErrors { reader: &*reader, now: now() };
        let tried = TrialRequest::Named(TAKES_ALL.into());
        let tried = try_policies(&mut errors, tried, TrialErrors::Open).expect("tried");
        assert_eq!(tried[0].trial.matched, runs);
    });
    let apply = timed(|| apply(bench, runs));
    bench.engine.register(offer(u32::try_from(IN_LINE).expect("small")), false);
    bench.engine.watch(true);
    let (begin, before, mut ended, mut transitions) = (Instant::now(), ProcessorTime::now(), 0, 0);
    while ended < runs {
        for output in bench.next() {
            match output {
                Output::Dispatch { job, .. } => {
                    let says = Report::Complete { output: Json::NULL };
                    bench.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
                }
                Output::Happened { event, .. } => {
                    transitions += 1;
                    ended += u64::from(event.facts.iter().any(|fact| matches!(fact, Fact::Completed { .. })));
                }
                Output::Reply { .. }
                | Output::Interrupt { .. }
                | Output::Forgotten { .. }
                | Output::CleanUp { .. } => {}
            }
        }
    }
    let (resume, processor) = (begin.elapsed(), ProcessorTime::now().since(before));
    Figures { groups, preview, apply, resume, transitions, processor }
}

/// Matches all that is in error again, a page at a time. They are due once that is done.
fn apply(bench: &mut Bench, runs: u64) {
    let (mut after, mut answered, mut asked) = (None, 0, 0);
    let wait = unstuck_core::time::Millis::minutes(5);
    loop {
        let page: Vec<OpenError> =
            bench.engine.store().open_errors(&OpenErrorFilter::default(), after, 1_000).expect("reads");
        after = page.last().map(|error| (error.record.run, error.record.unit));
        for OpenError { record, .. } in &page {
            let by = Actor::User("bench".into());
            let command = Command::ApplyPolicies { unit: record.unit, only: None, after: wait, by };
            bench.engine.submit(Request::Command { ticket: asked, run: record.run, command });
            asked += 1;
        }
        while answered < asked {
            let replies = bench.next().into_iter().filter(|output| matches!(output, Output::Reply { .. }));
            answered += replies.count() as u64;
        }
        if page.len() < 1_000 {
            assert_eq!(asked, runs);
            bench.skew = unstuck_core::time::Millis::minutes(6);
            return;
        }
    }
}

fn timed(what: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    what();
    begin.elapsed()
}

/// A store with so many runs that wait and so many in error.
pub fn prepare(directory: &Path, waiting: u64, in_error: u64) -> Bench {
    let mut bench = Bench::open(directory);
    bench.fill(waiting);
    put_into_error(&mut bench, in_error);
    bench
}
