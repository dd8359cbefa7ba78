//! Kill -9 at any moment, and again and again: what was acknowledged is there, and the runs go on from where they were.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use unstuck_core::random::Random;

const BATCHES: u64 = 12;
const PIECES: u64 = 25;
const KILLS_PER_BATCH: u64 = 5;
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_mins(2);

/// A batch is as many child runs as there are pieces, a signal from outside, and a last step.
const FLOWS: &str = "\
flow: batch
defaults: {minimumDelay: 10ms, maxStuck: 1000000}
steps:
  - id: each
    flow: piece
    forEach: {items: '${input.pieces}', parallel: 8}
  - {id: go, signal: go}
  - {id: last, run: [sh, step.sh]}
---
flow: piece
defaults: {minimumDelay: 10ms, maxStuck: 1000000}
steps:
  - {id: a, run: [sh, step.sh]}
  - {id: b, run: [sh, step.sh]}
  - {id: c, run: [sh, step.sh]}
";

/// Each step writes down when it begins and ends. It knows the process that was at it before, by its number and the
/// time of its start, and tells if that is still alive; the dead that nobody has reaped are dead.
const STEP: &str = r#"
name="$UNSTUCK_RUN.$UNSTUCK_STEP"
started() { read -r line < "/proc/$1/stat" && set -- $line && [ "$3" != Z ] && echo "${22}"; }
if read -r pid start < "at/$name" 2>/dev/null; then
    if [ "$(started "$pid" 2>/dev/null)" = "$start" ]; then echo "overlap $name" >> ledger; fi
fi
echo "$$ $(started $$)" > "at/$name"
echo "begin $UNSTUCK_RUN $UNSTUCK_STEP $UNSTUCK_ATTEMPT" >> ledger
sleep 0.0$(($$ % 4))
echo "end $UNSTUCK_RUN $UNSTUCK_STEP $UNSTUCK_ATTEMPT" >> ledger
echo "\"$UNSTUCK_STEP\""
"#;

/// A store, the flows, and the ledger that the steps write.
struct World {
    folder: tempfile::TempDir,
    random: Random,
    kills: u64,
    runs: Vec<String>,
    acknowledged_signals: u64,
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_recorded_is_done_again() {
    let seed = std::env::var("UNSTUCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut world = World::new(seed);
    for batch in 0..BATCHES {
        world.work_through(batch);
    }
    assert!(world.kills >= 50, "{} kills", world.kills);
    world.check_runs();
    world.check_ledger();
    let checked = world.unstuck(&["store", "check"]).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

impl World {
    fn new(seed: u64) -> World {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        fs::create_dir(folder.path().join("at")).expect("a folder");
        fs::write(folder.path().join("flows.yaml"), FLOWS).expect("a file");
        fs::write(folder.path().join("step.sh"), STEP).expect("a file");
        fs::write(folder.path().join("ledger"), "").expect("a file");
        World { folder, random: Random::new(seed), kills: 0, runs: Vec::new(), acknowledged_signals: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn unstuck(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
        command.args(arguments).current_dir(self.folder.path()).env("UNSTUCK_STORE", self.path("store"));
        command.stdin(Stdio::null());
        command
    }

    /// What a command says, as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.unstuck(arguments).args(["-o", "json"]).output().expect("it runs");
        let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stderr}"))
    }

    fn ledger(&self) -> String {
        fs::read_to_string(self.path("ledger")).expect("the ledger can be read")
    }

    /// One batch, from its first start to its end, with kills in between.
    fn work_through(&mut self, batch: u64) {
        let pieces: Vec<u64> = (0..PIECES).collect();
        let input = format!("{{\"pieces\": {pieces:?}}}");
        let key = format!("batch-{batch}");
        let start = ["run", "flows.yaml", "--input", &input, "--key", &key];
        let mut run: Option<String> = None;
        for _ in 0..KILLS_PER_BATCH {
            let go_on = match &run {
                Some(run) if self.random.between(0, 1) == 0 => self.unstuck(&["run", "--continue", run]),
                // The key has the run already: it goes on with that.
                Some(_) | None => self.unstuck(&start),
            };
            self.run_for_a_while_and_kill(go_on);
            run = self.run_of(&key);
        }
        let last = match &run {
            Some(run) => self.unstuck(&["run", "--continue", run]),
            None => self.unstuck(&start),
        };
        self.run_to_the_end(last, &key);
    }

    /// Lets it run until the ledger has grown by some lines, or for a moment, and kills it.
    fn run_for_a_while_and_kill(&mut self, mut command: Command) {
        let wanted = self.ledger().lines().count() as u64 + self.random.between(0, 30);
        let moment = Duration::from_millis(self.random.between(0, 150));
        let (begun, by_time) = (Instant::now(), self.random.between(0, 2) == 0);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        loop {
            let is_time = begun.elapsed() > moment;
            let has_grown = self.ledger().lines().count() as u64 >= wanted;
            let is_over = child.try_wait().expect("it can be asked").is_some();
            if is_over || if by_time { is_time } else { has_grown || begun.elapsed() > moment * 20 } {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
        self.kills += 1;
    }

    /// Lets it run to its end, for which it needs a signal from outside.
    fn run_to_the_end(&mut self, mut command: Command, key: &str) {
        let mut child: Child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let patience = Instant::now() + LONG;
        let mut is_told = false;
        loop {
            if let Some(status) = child.try_wait().expect("it can be asked") {
                assert!(status.success(), "{key}: {status}: {}", self.explanation(key));
                break;
            }
            assert!(Instant::now() < patience, "{key} does not end: {}", self.explanation(key));
            if !is_told && let Some(run) = self.run_of(key) {
                let told = self.unstuck(&["signal", &run, "go", "1"]).output().expect("it runs");
                is_told = told.status.success();
                self.acknowledged_signals += u64::from(is_told);
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.runs.push(self.run_of(key).expect("a run that has ended is there"));
    }

    fn explanation(&self, key: &str) -> String {
        let run = self.run_of(key).unwrap_or_default();
        let told = self.unstuck(&["explain", &run]).output().expect("it runs");
        String::from_utf8_lossy(&told.stdout).into_owned()
    }

    /// The run of a batch, if its start was acknowledged.
    fn run_of(&self, key: &str) -> Option<String> {
        if !self.path("store/unstuck.db").exists() {
            return None;
        }
        let listed = self.json(&["runs", "--flow", "batch", "--limit", "100"]);
        let runs = listed["runs"].as_array().expect("a list");
        let found = runs.iter().find(|run| run["key"] == key)?;
        found["id"].as_str().map(str::to_owned)
    }

    /// Every run is there and completed, with its signal.
    fn check_runs(&self) {
        assert_eq!(self.runs.len() as u64, BATCHES);
        assert_eq!(self.acknowledged_signals, BATCHES);
        for run in &self.runs {
            let document = self.json(&["show", run]);
            assert_eq!(document["state"], "completed", "{run}");
            let steps = document["steps"].as_array().expect("steps");
            assert_eq!(steps.iter().filter(|step| step["child"].is_string()).count() as u64, PIECES);
            assert!(steps.iter().all(|step| step["state"] == "completed"), "{document}");
        }
    }

    /// What the steps have written down is what the runs say: each is completed by the last attempt that was begun, and
    /// nobody was at a step while somebody else was.
    fn check_ledger(&self) {
        let ledger = self.ledger();
        let overlaps: Vec<&str> = ledger.lines().filter(|line| line.starts_with("overlap")).collect();
        assert!(overlaps.is_empty(), "two at once: {overlaps:?}");
        // The attempts that began and ended, by run and step.
        let mut begun: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
        let mut ended: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
        for line in ledger.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, run, step, attempt] = words.as_slice() else { panic!("what is `{line}`?") };
            let list = if *what == "begin" { &mut begun } else { &mut ended };
            list.entry((run, step)).or_default().push(attempt.parse().expect("a number"));
        }
        assert_eq!(begun.len() as u64, BATCHES * (3 * PIECES + 1), "every step of every run has begun");
        let mut runs: Vec<&str> = begun.keys().map(|(run, _)| *run).collect();
        runs.dedup();
        for run in runs {
            let document = self.json(&["show", run]);
            for step in document["steps"].as_array().expect("steps") {
                let name = step["id"].as_str().expect("a name");
                let Some(begun) = begun.get(&(run, name)) else { continue };
                let attempts = step["attempts"].as_array().expect("attempts");
                let completed: Vec<u64> = attempts
                    .iter()
                    .filter(|attempt| attempt["state"] == "completed")
                    .map(|attempt| attempt["attempt"].as_u64().expect("a number"))
                    .collect();
                let [completed] = completed.as_slice() else { panic!("{run} {name}: {completed:?}") };
                assert_eq!(begun.iter().max(), Some(completed), "{run} {name} was done again: {begun:?}");
                assert!(ended[&(run, name)].contains(completed), "{run} {name} was never done");
                let once: std::collections::BTreeSet<&u64> = begun.iter().collect();
                assert_eq!(once.len(), begun.len(), "{run} {name}: an attempt was executed twice: {begun:?}");
            }
        }
    }
}
