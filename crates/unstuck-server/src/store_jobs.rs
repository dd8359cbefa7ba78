//! Checks and copies of the store, one at a time.
//!
//! Each is the command of that name in a process of its own: a check reads the whole store, and its memory is gone with it.
//! The last ones are remembered until the server stops.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use unstuck_api::store::{StoreJobKind, StoreJobState, StoreJobView};
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_store::contract::IdempotencyKey;

use crate::problem::Problem;

/// So many are remembered.
const REMEMBERED: usize = 20;

/// The command that looks after the store, and where its copies go.
#[derive(Clone, Debug)]
pub struct StoreTool {
    /// This program, which has the commands.
    pub program: PathBuf,
    pub store: PathBuf,
    /// The folder that copies are made in; without one there are none.
    pub copies: Option<PathBuf>,
}

impl StoreTool {
    /// Runs `unstuck store ...` and returns the document that it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(&self.program);
        command.arg("store").args(arguments).args(["-o", "json", "--store"]).arg(&self.store);
        command.env_remove("UNSTUCK_SERVER").env_remove("UNSTUCK_LOG").stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        read_document(&output)
    }
}

/// Reads what a command printed. A check that finds something says so by its exit code, too, and is done all the same.
fn read_document(output: &Output) -> Result<Value, String> {
    if let Ok(document @ Value::Object(_)) = serde_json::from_slice(&output.stdout) {
        return Ok(document);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let problem: Option<ProblemDocument> = serde_json::from_str(&said).ok();
    Err(match problem {
        Some(problem) => problem.detail,
        None if said.trim().is_empty() => format!("it ended ({}) and said nothing", output.status),
        None => said.trim().to_owned(),
    })
}

/// All that were begun while the server runs.
#[derive(Default)]
pub(crate) struct StoreJobs(Arc<Mutex<Jobs>>);

#[derive(Default)]
struct Jobs {
    begun: u64,
    /// The newest last.
    known: VecDeque<Job>,
}

struct Job {
    view: StoreJobView,
    key: Option<IdempotencyKey>,
}

/// One that is to begin.
pub(crate) struct NewJob {
    pub(crate) what: StoreJobKind,
    pub(crate) arguments: Vec<String>,
    pub(crate) by: String,
    pub(crate) key: Option<IdempotencyKey>,
}

/// One that has begun, now or under the same key before.
pub(crate) struct BegunJob {
    pub(crate) view: StoreJobView,
    pub(crate) is_replayed: bool,
}

impl StoreJobs {
    /// Begins one, unless another is under way.
    pub(crate) fn begin(&self, tool: &StoreTool, new: NewJob) -> Result<BegunJob, Problem> {
        let mut jobs = lock(&self.0);
        if let Some(view) = jobs.find_repeat(new.key.as_ref())? {
            return Ok(BegunJob { view, is_replayed: true });
        }
        if let Some(other) = jobs.known.iter().find(|job| job.view.state == StoreJobState::Running) {
            let StoreJobView { job, what, .. } = &other.view;
            return Err(Problem::new(
                ProblemType::WrongState,
                format!(
                    "a {} of the store is under way ({job}), and one is done at a time; wait for its end: GET /v1/store/jobs/{job}",
                    what.word()
                ),
            ));
        }
        let started_at = Timestamp::now();
        jobs.begun += 1;
        let view = StoreJobView {
            job: format!("job_{:x}_{}", started_at.as_millisecond(), jobs.begun),
            what: new.what,
            state: StoreJobState::Running,
            by: new.by,
            started_at,
            ended_at: None,
            check: None,
            copy: None,
            error: None,
        };
        self.run_apart(tool.clone(), view.job.clone(), new.arguments)?;
        jobs.known.push_back(Job { view: view.clone(), key: new.key });
        if jobs.known.len() > REMEMBERED {
            jobs.known.pop_front();
        }
        Ok(BegunJob { view, is_replayed: false })
    }

    /// Returns one by its id.
    pub(crate) fn find(&self, id: &str) -> Option<StoreJobView> {
        lock(&self.0).known.iter().find(|job| job.view.job == id).map(|job| job.view.clone())
    }

    /// Carries it out on a thread of its own. It goes on when the server stops: a check changes nothing, and a copy is whole or not there.
    fn run_apart(&self, tool: StoreTool, id: String, arguments: Vec<String>) -> Result<(), Problem> {
        let jobs = self.0.clone();
        let run = move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let came = tool.run(&arguments);
            lock(&jobs).end(&id, came);
        };
        std::thread::Builder::new().name("unstuck-store-job".to_owned()).spawn(run).map(|_| ()).map_err(
            |error| {
                Problem::new(ProblemType::Overloaded, format!("a thread for it cannot be started: {error}"))
            },
        )
    }
}

impl Jobs {
    fn find_repeat(&self, key: Option<&IdempotencyKey>) -> Result<Option<StoreJobView>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let same = |job: &&Job| {
            job.key.as_ref().is_some_and(|known| known.scope == key.scope && known.key == key.key)
        };
        let Some(job) = self.known.iter().find(same) else { return Ok(None) };
        if job.key.as_ref().is_some_and(|known| known.digest != key.digest) {
            return Err(Problem::new(
                ProblemType::IdempotencyKeyReused,
                "this `Idempotency-Key` stands for another request; give each change a key of its own",
            ));
        }
        Ok(Some(job.view.clone()))
    }

    fn end(&mut self, id: &str, came: Result<Value, String>) {
        let Some(job) = self.known.iter_mut().find(|job| job.view.job == id) else { return };
        let view = &mut job.view;
        view.ended_at = Some(Timestamp::now());
        view.state = if came.is_ok() { StoreJobState::Done } else { StoreJobState::Failed };
        match (came, view.what) {
            (Ok(document), StoreJobKind::Check) => view.check = Some(document),
            (Ok(document), StoreJobKind::Copy) => view.copy = Some(document),
            (Err(why), StoreJobKind::Check | StoreJobKind::Copy) => view.error = Some(why),
        }
    }
}

fn lock(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}
