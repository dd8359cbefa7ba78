//! A run in progress in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Ran, Store};

/// Long enough for a slow machine, and never waited for on a healthy one.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// `unstuck run`, while it runs.
pub(crate) struct UnderWay {
    child: Guarded,
    folder: String,
    stdout: Reader,
    stderr: Reader,
}

/// A process that does not outlive a test that fails.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a stream has brought, line by line.
struct Reader {
    lines: Receiver<String>,
    all: JoinHandle<String>,
}

impl UnderWay {
    /// Runs a flow that is given as text.
    pub(crate) fn start(store: &Store, flow: &str, arguments: &[&str]) -> UnderWay {
        let path = store.write("flow.yaml", flow);
        UnderWay::command(store, &[&["run", &path], arguments].concat())
    }

    /// Any command that takes its time.
    pub(crate) fn command(store: &Store, arguments: &[&str]) -> UnderWay {
        let mut command = store.command();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let folder = store.folder();
        UnderWay {
            child: Guarded(child),
            folder,
            stdout: Reader::new::<ChildStdout>(stdout),
            stderr: Reader::new::<ChildStderr>(stderr),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.0.id()).expect("it is a process id");
        kill_process(pid(id), signal).expect("it is there");
    }

    /// Waits for a line on stdout that contains this.
    pub(crate) fn until(&self, part: &str) {
        self.stdout.until(part);
    }

    /// Waits for a line on stderr that contains this.
    pub(crate) fn until_stderr(&self, part: &str) {
        self.stderr.until(part);
    }

    /// Waits for a file that a step writes beside the flow, and gives what is in it.
    pub(crate) fn file(&self, name: &str) -> String {
        let path = format!("{}/{name}", self.folder);
        wait_until(|| std::fs::exists(&path).is_ok_and(|there| there));
        std::fs::read_to_string(path).expect("the step has written it")
    }

    /// The process ids that a step has written to a file.
    pub(crate) fn processes(&self, name: &str) -> Vec<Pid> {
        self.file(name).split_whitespace().map(|id| pid(id.parse().expect("it is a number"))).collect()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(mut self) -> Ran {
        let status = self.child.0.wait().expect("it ends");
        let text = |reader: Reader| reader.all.join().expect("the stream was read");
        // What was killed has no code.
        let code = status.code().unwrap_or(-1);
        Ran { code, stdout: text(self.stdout), stderr: text(self.stderr) }
    }
}

impl Reader {
    fn new<R: Read + Send + 'static>(stream: R) -> Reader {
        let (sender, lines) = channel();
        let all = std::thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(stream).lines() {
                let line = line.expect("what is written is UTF-8");
                all += &line;
                all.push('\n');
                let _ = sender.send(line);
            }
            all
        });
        Reader { lines, all }
    }

    fn until(&self, part: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let patience = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(patience).unwrap_or_else(|_| panic!("it never says {part}"));
            if line.contains(part) {
                return;
            }
        }
    }
}

fn pid(id: i32) -> Pid {
    Pid::from_raw(id).expect("it is a process id")
}

/// Waits until these processes have ended, be it that nobody has asked for their exit status yet.
pub(crate) fn wait_until_gone(processes: &[Pid]) {
    assert!(!processes.is_empty());
    for process in processes {
        wait_until(|| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
            let is_zombie =
                stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")));
            is_zombie || test_kill_process(*process).is_err()
        });
    }
}

pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
