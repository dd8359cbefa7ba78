//! An engine that is suspended for a while, as by Ctrl-Z or a laptop's lid: work that has ended meanwhile has ended, and
//! nobody is called stuck for a time in which nobody listened.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_mins(2);

struct House {
    folder: tempfile::TempDir,
}

impl House {
    fn new(limits: &str, script: &str) -> House {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let flow = format!("flow: work\nsteps:\n  - {{id: a, run: [sh, step.sh], {limits}}}\n");
        fs::write(folder.path().join("flow.yaml"), flow).expect("a file");
        fs::write(folder.path().join("step.sh"), script).expect("a file");
        House { folder }
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

    fn start(&self) -> Child {
        let mut command = self.unstuck(&["run", "flow.yaml"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    }

    fn await_file(&self, name: &str) {
        let until = Instant::now() + LONG;
        while !self.path(name).exists() {
            assert!(Instant::now() < until, "{name} never comes");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Suspends the engine for so long. `meanwhile` is done at once.
    fn suspend(engine: &Child, span: Duration, meanwhile: impl FnOnce()) {
        let engine = Pid::from_child(engine);
        kill_process(engine, Signal::STOP).expect("stopped");
        meanwhile();
        thread::sleep(span);
        kill_process(engine, Signal::CONT).expect("goes on");
    }

    /// The run has completed, and its work was done once.
    fn completes(&self, engine: Child) {
        let output = engine.wait_with_output().expect("it ends");
        let history = self.unstuck(&["runs"]).output().expect("it runs");
        let text = format!(
            "{}{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&history.stdout)
        );
        assert!(output.status.success(), "{text}");
        assert_eq!(fs::read_to_string(self.path("begun")).expect("written"), "begun\n", "{text}");
    }
}

#[test]
fn work_that_has_ended_while_the_engine_was_suspended_is_not_done_twice() {
    for limits in ["heartbeatTimeout: 2s", "timeout: 3s"] {
        let script =
            "echo begun >> begun\nwhile [ ! -e go ]; do sleep 0.02; done\necho done > done\nexit 0\n";
        let house = House::new(limits, script);
        let engine = house.start();
        house.await_file("begun");
        House::suspend(&engine, Duration::from_secs(5), || {
            fs::write(house.path("go"), "").expect("a file");
            house.await_file("done");
        });
        house.completes(engine);
    }
}

#[test]
fn a_process_that_reports_survives_a_suspension_of_the_engine() {
    let script = "echo begun >> begun\n\
        while [ ! -e go ]; do echo '{\"progress\": 1}' >> \"$UNSTUCK_REPORT\"; sleep 0.3; done\n";
    let spans = [4_000, 5_500, 7_000].map(Duration::from_millis);
    thread::scope(|scope| {
        for span in spans {
            scope.spawn(move || {
                let house = House::new("heartbeatTimeout: 2s", script);
                let engine = house.start();
                house.await_file("begun");
                House::suspend(&engine, span, || {});
                // As long as its lease, and a little longer.
                thread::sleep(Duration::from_millis(2_500));
                fs::write(house.path("go"), "").expect("a file");
                house.completes(engine);
            });
        }
    });
}

#[test]
fn a_process_that_is_silent_loses_its_lease_after_a_suspension_as_before_it() {
    let script = "echo begun >> begun\nwhile [ ! -e go ]; do sleep 0.02; done\n";
    let house = House::new("heartbeatTimeout: 2s, maxStuck: 1, retryStrategy: none", script);
    let engine = house.start();
    house.await_file("begun");
    House::suspend(&engine, Duration::from_secs(4), || {});
    let output = engine.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
