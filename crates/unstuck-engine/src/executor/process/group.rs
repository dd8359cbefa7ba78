//! A process and its group: told to end, ended, reaped.

#[cfg(target_os = "linux")]
use std::fs;
use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group, waitid,
    waitpgid,
};

/// How long the rest of a killed group is waited for. It takes no time, unless the kernel is busy for one of them.
const REST: Duration = Duration::from_secs(10);

/// A process that leads its group. Until it is reaped nobody else can have its id, so only until then is the group
/// signalled. Dropped early, it is ended.
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    reaped: bool,
}

impl ProcessGroup {
    /// Of a process that was started as the leader of a group.
    pub(super) fn of(child: Child) -> ProcessGroup {
        let leader = Pid::from_child(&child);
        ProcessGroup { child, leader, reaped: false }
    }

    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    /// Asks all of the group to end. What was stopped goes on, so that it hears of it.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Ends all of the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Ends what is left, reaps the leader, and returns when the group is no more.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        self.reap()
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.reaped = true;
        let status = self.child.wait();
        self.await_rest();
        status
    }

    fn signal(&self, signal: Signal) {
        if !self.reaped {
            // It fails only where nobody is left to hear it.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    fn await_rest(&self) {
        let until = Instant::now() + REST;
        let mut pause = Duration::from_micros(200);
        while !has_ended(self.leader) && Instant::now() < until {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.reap();
        }
    }
}

/// Whether nobody lives in a group whose leader has been reaped, and nobody in it is ours to reap.
fn has_ended(group: Pid) -> bool {
    let is_gone = || test_kill_process_group(group).is_err();
    if is_gone() {
        return true;
    }
    // Orphans come to the engine where it is the first process, as in a container.
    while let Ok(adopted) = waitpgid(group, WaitOptions::NOHANG) {
        if adopted.is_none() {
            return false;
        }
    }
    // On Linux a group counts its dead until they are reaped, and whoever else adopts orphans may take its time.
    is_gone() || has_living_member(group) == Some(false)
}

/// `None` where the system does not tell.
#[cfg(target_os = "linux")]
fn has_living_member(group: Pid) -> Option<bool> {
    let group = group.as_raw_nonzero().to_string();
    let lives = |stat: Vec<u8>| {
        let stat = String::from_utf8_lossy(&stat);
        // `pid (name) state parent group ...`, and a name may contain anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        (fields.nth(1)? == group && !matches!(state, "Z" | "X")).then_some(())
    };
    let processes = fs::read_dir("/proc").ok()?;
    let mut stats = processes.flatten().filter_map(|process| fs::read(process.path().join("stat")).ok());
    Some(stats.find_map(lives).is_some())
}

/// `None` where the system does not tell.
#[cfg(not(target_os = "linux"))]
fn has_living_member(_group: Pid) -> Option<bool> {
    None
}

/// Returns when the process has exited, and leaves it unreaped: its id stays its own.
pub(super) fn await_exit(leader: Pid) {
    while waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .is_err_and(|e| e == Errno::INTR)
    {}
}

/// Whether the process has exited; it is left unreaped.
pub(super) fn has_exited(leader: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(leader), options), Ok(Some(_)))
}
