//! What a disk is told to do wrong: crash at a moment, fail some calls, have no room, lie about syncs.

use std::collections::BTreeMap;

use rusqlite::ffi;

use super::disk::{Failed, Phase};

/// A call that changes or reads the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    Make,
    Remove,
    Read,
    Write,
    Cut,
    Sync,
    Map,
}

/// Which file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Which {
    Database,
    Wal,
    Journal,
}

/// These calls fail, so many times after some that do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) op: Op,
    /// `None`: of any file.
    pub(crate) which: Option<Which>,
    /// So many calls succeed first.
    pub(crate) after: usize,
    pub(crate) times: usize,
    pub(crate) code: i32,
}

/// Which syncs do nothing and say that they have done it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lies {
    #[default]
    None,
    Of(Which),
    All,
}

/// Everything that is to go wrong.
#[derive(Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    room: Option<usize>,
    lies: Lies,
    crash: Option<(u64, Phase)>,
    /// Or at the next call of this sort.
    crash_at: Option<(Op, Phase)>,
    /// So many moments there were.
    pub(crate) moments: u64,
    /// So much was read.
    pub(crate) reads: usize,
    /// So many syncs were asked for.
    pub(crate) syncs: usize,
    /// Where it crashed.
    pub(crate) crashed: Option<(Op, Which, Phase)>,
    /// How often each call was made to fail, since somebody looked.
    pub(crate) failed: BTreeMap<(Op, Which), usize>,
}

impl Which {
    pub(crate) fn of(name: &str) -> Which {
        if name.ends_with("-wal") {
            Which::Wal
        } else if name.ends_with("-journal") {
            Which::Journal
        } else {
            Which::Database
        }
    }
}

impl Faults {
    /// The power goes at the `n`th moment from now.
    pub(crate) fn crash_in(&mut self, n: u64, phase: Phase) {
        self.crash = Some((self.moments + n, phase));
    }

    /// The power goes at the next call of this sort, if not before.
    pub(crate) fn crash_at_next(&mut self, op: Op, phase: Phase) {
        self.crash_at = Some((op, phase));
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.list.push(fault);
    }

    /// Nothing goes wrong any more.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.room = None;
        self.lies = Lies::None;
        (self.crash, self.crash_at) = (None, None);
    }

    /// Calls succeed again.
    pub(crate) fn clear_list(&mut self) {
        self.list.clear();
    }

    /// These calls succeed again.
    pub(crate) fn remove(&mut self, op: Op) {
        self.list.retain(|fault| fault.op != op);
    }

    pub(crate) fn set_room(&mut self, room: Option<usize>) {
        self.room = room;
    }

    pub(crate) fn set_lies(&mut self, lies: Lies) {
        self.lies = lies;
    }

    pub(crate) fn lies(&self, name: &str) -> bool {
        match self.lies {
            Lies::None => false,
            Lies::Of(which) => which == Which::of(name),
            Lies::All => true,
        }
    }

    pub(crate) fn check(&mut self, op: Op, name: &str) -> Result<(), Failed> {
        let which = Which::of(name);
        for fault in &mut self.list {
            if fault.op != op || fault.which.is_some_and(|wanted| wanted != which) || fault.times == 0 {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            fault.times -= 1;
            *self.failed.entry((op, which)).or_default() += 1;
            return Err(Failed(fault.code));
        }
        Ok(())
    }

    /// Whether a file may grow by so much.
    pub(crate) fn check_room(&self, used: usize, grows: usize) -> Result<(), Failed> {
        match self.room {
            Some(room) if grows > 0 && used + grows > room => Err(Failed(ffi::SQLITE_FULL)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the power goes at this moment, and when exactly.
    pub(crate) fn crash_now(&mut self, op: Op, name: &str) -> Option<Phase> {
        self.moments += 1;
        let by_number = self.crash.filter(|(at, _)| self.moments >= *at).map(|(_, phase)| phase);
        let by_sort = self.crash_at.filter(|(at, _)| *at == op).map(|(_, phase)| phase);
        let phase = by_number.or(by_sort)?;
        self.crashed = Some((op, Which::of(name), phase));
        Some(phase)
    }
}
