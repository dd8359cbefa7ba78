//! What the processes of an engine that died left running: found by the token in their environment, and ended.

use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::executor::LeftOver;

/// So long they have between `SIGTERM` and `SIGKILL`, as any attempt that is ended has.
const GRACE: Duration = Duration::from_secs(2);
/// So long they are waited for after that. It takes no time, unless the kernel is busy for one of them.
const REST: Duration = Duration::from_secs(10);
/// How often they are looked at meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends every process that has the token of one of these attempts, and its group. A descendant that has left its group
/// has the token all the same. Returns when none of them lives.
pub(super) fn end(left: &[LeftOver]) {
    if left.is_empty() {
        return;
    }
    let tokens: Vec<String> = left.iter().map(|left| format!("UNSTUCK_TOKEN={}", left.token)).collect();
    let begun = Instant::now();
    let mut asked = false;
    loop {
        let found = having(&tokens);
        if found.is_empty() || begun.elapsed() > GRACE + REST {
            return;
        }
        if begun.elapsed() > GRACE {
            signal(&found, Signal::KILL);
        } else if !asked {
            asked = true;
            signal(&found, Signal::TERM);
            // What was stopped goes on, so that it hears of it.
            signal(&found, Signal::CONT);
        }
        thread::sleep(PAUSE);
    }
}

/// A process, and the group that it is in.
#[derive(Clone, Copy)]
struct Found {
    process: Pid,
    group: Pid,
}

fn signal(found: &[Found], signal: Signal) {
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
fn leads(found: &[Found], group: Pid) -> bool {
    let is_found = found.iter().any(|found| found.process == group);
    is_found || !fs::exists(format!("/proc/{}", group.as_raw_nonzero())).unwrap_or(true)
}

/// The living processes that have one of these variables. Only Linux tells; elsewhere there are none.
fn having(variables: &[String]) -> Vec<Found> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    let mut found = Vec::new();
    for entry in processes.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(process) = pid.filter(|pid| *pid != own) else { continue };
        // Those of others cannot be read, and are not ours.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let has = |variable: &&[u8]| variables.iter().any(|wanted| wanted.as_bytes() == *variable);
        if environment.split(|byte| *byte == 0).any(|variable| has(&variable))
            && let Some(group) = fs::read(entry.path().join("stat")).ok().and_then(|stat| living_group(&stat))
        {
            found.push(Found { process, group });
        }
    }
    found
}

/// The group that a process is in, unless it is dead.
fn living_group(stat: &[u8]) -> Option<Pid> {
    let stat = String::from_utf8_lossy(stat);
    // `pid (name) state parent group ...`, and a name may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok().and_then(Pid::from_raw)?;
    (!matches!(state, "Z" | "X")).then_some(group)
}
