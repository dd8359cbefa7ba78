//! Ctrl-C and its relatives: the run is cancelled, and nothing that it started is left.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::{Folder, command};

/// Long enough for a slow machine, and never waited for on a healthy one.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_signal_cancels_the_run_and_ends_its_processes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut run = Running::start("", &["-o", "json"]);
        run.send(signal);
        let output = run.child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{signal:?}");
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("the document is there");
        assert_eq!(document["state"], "cancelled", "{signal:?}");
        for process in run.processes {
            assert!(is_gone(process), "{signal:?} leaves {process:?}");
        }
    }
}

#[test]
fn a_second_one_kills_what_does_not_want_to_end() {
    let mut run = Running::start("trap '' TERM INT; ", &[]);
    let stdout = run.child.stdout.take().expect("stdout is a pipe");
    run.send(Signal::INT);
    let told = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("the run is cancelled"));
    assert!(told.is_some_and(|line| line.contains("interrupted with Ctrl-C")));
    run.send(Signal::INT);
    assert_eq!(run.child.wait().expect("it ends").code(), Some(130));
    let until = Instant::now() + PATIENCE;
    for process in run.processes {
        wait_until(until, || is_gone(process));
    }
}

/// A run whose step has started a process of its own, and their process ids.
struct Running {
    child: Child,
    processes: [Pid; 2],
    _folder: Folder,
}

impl Running {
    fn start(prelude: &str, arguments: &[&str]) -> Running {
        let flow = format!(
            "flow: long\nsteps:\n  - id: sleep\n    timeout: 10m\n    run: |\n      \
             {prelude}sleep 600 &\n      echo \"$$ $!\" > started.tmp\n      mv started.tmp started\n      wait\n"
        );
        let (folder, path) = Folder::with("flow.yaml", flow);
        let mut command = command();
        command.args(["run", &path]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the binary starts");
        let started = folder.path("started");
        wait_until(Instant::now() + PATIENCE, || std::fs::exists(&started).is_ok_and(|there| there));
        let ids = std::fs::read_to_string(started).expect("the step has written it");
        let ids: Vec<Pid> =
            ids.split_whitespace().map(|id| pid(id.parse().expect("it is a number"))).collect();
        let processes = ids.try_into().expect("there are two");
        Running { child, processes, _folder: folder }
    }

    fn send(&mut self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("it is a process id");
        kill_process(pid(id), signal).expect("it is there");
    }
}

fn pid(id: i32) -> Pid {
    Pid::from_raw(id).expect("it is a process id")
}

/// Whether a process has ended, be it that nobody has asked for its exit status yet.
fn is_gone(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let is_zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")));
    is_zombie || test_kill_process(process).is_err()
}

fn wait_until(until: Instant, condition: impl Fn() -> bool) {
    while !condition() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
