//! Processes that have got away: from an engine that died, or from the group of an attempt that is ended. They are found
//! by the token in their environment or by who started them, and ended.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// So long they have between `SIGTERM` and `SIGKILL`, as any attempt that is ended has.
const GRACE: Duration = Duration::from_secs(2);
/// So long they are waited for after that. It takes no time, unless the kernel is busy for one of them.
const REST: Duration = Duration::from_secs(10);
/// How often they are looked at meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// The processes of some attempts, wherever they are.
#[derive(Default)]
pub(super) struct EscapedProcesses {
    /// The variables that their environments have.
    variables: Vec<String>,
    /// Those that were found by who started them, which may have another environment.
    known: Vec<ProcessInfo>,
    is_terminated: bool,
}

impl EscapedProcesses {
    /// Of the attempts with these tokens.
    pub(super) fn of<'a>(tokens: impl IntoIterator<Item = &'a str>) -> EscapedProcesses {
        let variables = tokens.into_iter().map(|token| format!("UNSTUCK_TOKEN={token}")).collect();
        EscapedProcesses { variables, known: Vec::new(), is_terminated: false }
    }

    /// Looks who descends from this process, while that can be told: whoever loses its parent is anybody's child.
    pub(super) fn remember_descendants(&mut self, of: Pid) {
        self.known.extend(descendants(&all(), &[of]));
    }

    /// Asks them to end. What was stopped goes on, so that it hears of it.
    pub(super) fn terminate(&mut self) {
        self.is_terminated = true;
        let found = self.find();
        signal(&found, Signal::TERM);
        signal(&found, Signal::CONT);
    }

    /// Kills them, as often as there are any, for a while.
    pub(super) fn kill(&mut self) {
        self.end_by(Instant::now());
    }

    /// Asks them to end, unless that was done, and kills those that are left at this time. Returns when none lives, or
    /// when it has waited long enough.
    pub(super) fn end_by(&mut self, kill_at: Instant) {
        loop {
            let found = self.find();
            let now = Instant::now();
            if found.is_empty() || now > kill_at + REST {
                return;
            }
            if now >= kill_at {
                signal(&found, Signal::KILL);
            } else if !self.is_terminated {
                self.terminate();
            }
            thread::sleep(PAUSE);
        }
    }

    /// Those that live now.
    fn find(&mut self) -> Vec<ProcessInfo> {
        if self.variables.is_empty() {
            return Vec::new();
        }
        let all = all();
        // Another process may have got the number of one that is gone.
        self.known.retain(|known| all.get(&known.process).is_some_and(|now| now.began == known.began));
        let mut found: Vec<ProcessInfo> =
            self.known.iter().filter_map(|known| all.get(&known.process)).copied().collect();
        for process in all.values().filter(|process| has_one_of(process.process, &self.variables)) {
            if !found.contains(process) {
                found.push(*process);
            }
        }
        let roots: Vec<Pid> = found.iter().map(|found| found.process).collect();
        for process in descendants(&all, &roots) {
            if !found.contains(&process) {
                found.push(process);
            }
        }
        self.known.clone_from(&found);
        found
    }
}

/// Ends every process that has one of these tokens, and its group. A descendant that has left its group has the token all
/// the same. Returns when none of them lives.
pub(super) fn end<'a>(tokens: impl IntoIterator<Item = &'a str>) {
    EscapedProcesses::of(tokens).end_by(Instant::now() + GRACE);
}

/// A living process, and the group that it is in.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ProcessInfo {
    process: Pid,
    parent: i32,
    group: Pid,
    /// When it began, in ticks since the start of the system: with it a number is used once.
    began: u64,
}

fn signal(found: &[ProcessInfo], signal: Signal) {
    // Each group once; it fails only where nobody is left to hear it. A process that has joined a group of others, which
    // no token tells of, is signalled alone.
    let mut led: Vec<Pid> = Vec::new();
    for group in found.iter().map(|found| found.group) {
        if !led.contains(&group) && leads(found, group) {
            led.push(group);
        }
    }
    for group in &led {
        let _ = kill_process_group(*group, signal);
    }
    for found in found.iter().filter(|found| !led.contains(&found.group)) {
        let _ = kill_process(found.process, signal);
    }
}

/// Whether the leader of this group is one of them, or gone: then all of the group is theirs.
fn leads(found: &[ProcessInfo], group: Pid) -> bool {
    let is_found = found.iter().any(|found| found.process == group);
    is_found || !fs::exists(format!("/proc/{}", group.as_raw_nonzero())).unwrap_or(true)
}

/// The living processes, but this one. Only Linux tells; elsewhere there are none.
fn all() -> HashMap<Pid, ProcessInfo> {
    let Ok(processes) = fs::read_dir("/proc") else { return HashMap::new() };
    let own = rustix::process::getpid();
    let mut all = HashMap::new();
    for entry in processes.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(process) = pid.filter(|pid| *pid != own) else { continue };
        let stat = fs::read(entry.path().join("stat")).ok();
        all.extend(stat.and_then(|stat| living(process, &stat)).map(|found| (process, found)));
    }
    all
}

/// What the system tells of a process, unless it is dead.
fn living(process: Pid, stat: &[u8]) -> Option<ProcessInfo> {
    let stat = String::from_utf8_lossy(stat);
    // `pid (name) state parent group ...`, and a name may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let parent = fields.get(1)?.parse().ok()?;
    let group = fields.get(2)?.parse().ok().and_then(Pid::from_raw)?;
    let began = fields.get(19)?.parse().ok()?;
    (!matches!(*fields.first()?, "Z" | "X")).then_some(ProcessInfo { process, parent, group, began })
}

/// Whether the environment that a process was started with has one of these.
fn has_one_of(process: Pid, variables: &[String]) -> bool {
    // Those of others cannot be read, and are not ours.
    let Ok(environment) = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())) else {
        return false;
    };
    let has = |variable: &[u8]| variables.iter().any(|wanted| wanted.as_bytes() == variable);
    environment.split(|byte| *byte == 0).any(has)
}

/// Those that were started by one of these, directly or not.
fn descendants(all: &HashMap<Pid, ProcessInfo>, of: &[Pid]) -> Vec<ProcessInfo> {
    let mut children: HashMap<i32, Vec<ProcessInfo>> = HashMap::new();
    for process in all.values() {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut parents: Vec<i32> = of.iter().map(|parent| parent.as_raw_nonzero().get()).collect();
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.process.as_raw_nonzero().get());
            found.push(child);
        }
    }
    found
}
