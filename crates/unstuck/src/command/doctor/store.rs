//! What can be wrong with a store on this machine.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use unstuck_api::request::{Query, Request};
use unstuck_api::status::StatusView;
use unstuck_service::clock::Clock;

use super::{Check, Status};
use crate::access::location::StoreLocation;
use crate::access::socket::{self, SocketError};
use crate::view::text::shell_word;

/// With less room than this, somebody should look.
const LITTLE_ROOM: u64 = 1 << 30;
/// With less than this, the store is about to stop.
const NO_ROOM: u64 = 64 << 20;
/// How often it is tried how long the disk takes.
const SYNCS: usize = 5;
/// A disk that takes longer slows everything.
const SLOW_SYNC: Duration = Duration::from_millis(20);
/// A write-ahead log that has grown over this is not written back.
const LARGE_WAL: u64 = 256 << 20;
/// What a file system in memory says that it is.
const TMPFS: u64 = 0x0102_1994;

/// Looks at everything.
pub(super) fn examine(place: &StoreLocation) -> Vec<Check> {
    let directory = &place.directory;
    if !place.has_store() {
        let detail = format!("there is no store at {} yet", directory.display());
        return vec![Check::warning("store", detail).with_command("unstuck serve")];
    }
    let mut checks = vec![check_permissions(directory), check_owner(place)];
    checks.extend(check_room(directory));
    checks.push(check_sync(directory));
    match unstuck_sqlite::info(directory) {
        Ok(info) => {
            // Whoever reads runs of older tables brings them up to date, and the doctor changes nothing.
            let is_current = info.schema == unstuck_sqlite::SCHEMA_VERSION;
            checks.push(check_schema(info.schema, &place.option));
            checks.push(check_wal(&info.files));
            let now = unstuck_service::service::now();
            checks.push(check_clock(&Clock { record: &info.clock, last: info.last_time, now }));
            checks.extend(is_current.then(|| check_work(place)).into_iter().flatten());
        }
        Err(error) => checks.push(
            Check::problem("store", format!("the store cannot be read: {error}"))
                .with_command(format!("unstuck store check{}", place.option)),
        ),
    }
    checks
}

/// Looks who may read and write the files.
fn check_permissions(directory: &Path) -> Check {
    let open = |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.mode() & 0o077 != 0);
    let files = directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_open = open(directory) || files.filter(|path| path.is_file()).any(|path| open(&path));
    if is_open {
        let folder = shell_word(&directory.to_string_lossy());
        return Check::warning(
            "permissions",
            "other users may read the store, with its inputs, outputs and tokens",
        )
        .with_command(format!("chmod -R go-rwx {folder}"));
    }
    Check::ok("permissions", "only its owner may read and write the store")
}

/// Looks who has the store open, and whether they answer.
fn check_owner(place: &StoreLocation) -> Check {
    match socket::send_request(&place.directory, "", &Request::Query(Query::Owner)) {
        Ok(process) => Check::ok("owner", format!("process {process} has the store open and answers")),
        Err(SocketError::Nobody | SocketError::HungUp) => Check::ok("owner", "no process has the store open"),
        Err(SocketError::Stopped(sentence, process) | SocketError::Silent(sentence, process)) => {
            let check = Check::problem("owner", sentence);
            match process {
                Some(process) => check.with_command(format!("ps -o pid,stat,etime,args -p {process}")),
                None => check,
            }
        }
        Err(SocketError::Busy) => Check::warning("owner", "too many commands ask the owner at once"),
        Err(SocketError::Refused(problem) | SocketError::Unavailable(problem)) => {
            Check::problem("owner", problem.detail)
        }
    }
}

/// Looks at the disk: what kind it is, and how much room there is.
fn check_room(directory: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Ok(about) = rustix::fs::statvfs(directory) {
        checks.push(check_free(about.f_bavail.saturating_mul(about.f_frsize)));
    }
    let kind = rustix::fs::statfs(directory).map(|about| u64::try_from(about.f_type).unwrap_or_default());
    if kind == Ok(TMPFS) {
        checks.push(Check::warning(
            "disk kind",
            "the store is on a file system in memory (tmpfs): it is lost when the machine stops. Use --store with a folder on a disk",
        ));
    }
    checks
}

fn check_free(free: u64) -> Check {
    let detail = format!("{} MiB are free on the disk of the store", free >> 20);
    match free {
        0..NO_ROOM => Check::problem(
            "disk",
            format!("only {detail}. Free some, or forget runs that are no longer needed"),
        )
        .with_command("unstuck forget --help"),
        NO_ROOM..LITTLE_ROOM => Check::warning("disk", format!("only {detail}")),
        _ => Check::ok("disk", detail),
    }
}

/// Tries how long the disk takes until something is on it for good.
fn check_sync(directory: &Path) -> Check {
    match measure_syncs(directory) {
        Ok(took) if took > SLOW_SYNC => Check::warning(
            "sync",
            format!("the disk takes {} to make a write durable, and every change waits for it", show(took)),
        ),
        Ok(took) => Check::ok("sync", format!("the disk makes a write durable in {}", show(took))),
        Err(error) => {
            Check::problem("sync", format!("nothing can be written to the folder of the store: {error}"))
        }
    }
}

fn show(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1_000.0)
}

/// Returns the median of some tries, in a file of its own that nobody sees.
fn measure_syncs(directory: &Path) -> std::io::Result<Duration> {
    let path = directory.join(format!(".doctor-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    // It is gone when it is closed, whatever happens to this process.
    std::fs::remove_file(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        took.push(begun.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}

fn check_schema(schema: u32, option: &str) -> Check {
    let own = unstuck_sqlite::SCHEMA_VERSION;
    match schema.cmp(&own) {
        std::cmp::Ordering::Equal => Check::ok("schema", format!("the store has the tables of this version ({schema})")),
        std::cmp::Ordering::Less => Check::warning(
            "schema",
            format!("the store has older tables ({schema}; this version has {own}). They are brought up to date when it is opened next; copy it first"),
        )
        .with_command(format!("unstuck store copy FOLDER{option}")),
        std::cmp::Ordering::Greater => Check::problem(
            "schema",
            format!("the store was written by a newer version of unstuck (tables {schema}; this version knows {own}). Install that version"),
        ),
    }
}

fn check_wal(files: &[(String, u64)]) -> Check {
    let wal = files.iter().find(|(name, _)| name.ends_with("-wal")).map_or(0, |(_, bytes)| *bytes);
    if wal > LARGE_WAL {
        return Check::warning(
            "log",
            format!(
                "the write-ahead log has {} MiB: a long read keeps it from being written back",
                wal >> 20
            ),
        );
    }
    Check::ok("log", format!("the write-ahead log has {} KiB", wal >> 10))
}

fn check_clock(clock: &Clock<'_>) -> Check {
    let document = clock.document();
    let status = if document.ahead_by.is_some() { Status::Warning } else { Status::Ok };
    match clock.local_sentences().last() {
        Some(sentence) => Check::new("clock", status, sentence.clone()),
        None => Check::new("clock", status, "no recorded time lies ahead of the clock"),
    }
}

/// Looks at what waits: runs that nobody executes, and those that need a person.
fn check_work(place: &StoreLocation) -> Vec<Check> {
    let status: StatusView = match place.read(Query::Status).and_then(|answer| answer.read()) {
        Ok(status) => status,
        Err(error) => return vec![Check::problem("runs", error.sentence())],
    };
    let option = &place.option;
    let mut checks = Vec::new();
    if status.idle_count > 0 {
        let detail = format!("{} runs have something to do, and no process executes them", status.idle_count);
        checks.push(Check::warning("idle", detail).with_command(format!("unstuck serve{option}")));
    }
    if status.policies_paused.is_some() {
        let detail = "automatic resumes are paused for the whole store";
        checks
            .push(Check::warning("policies", detail).with_command(format!("unstuck policy unpause{option}")));
    }
    if status.needs_person_count > 0 {
        let detail = format!("{} runs need a person", status.needs_person_count);
        checks.push(Check::warning("runs", detail).with_command(format!("unstuck status{option}")));
    }
    if checks.is_empty() {
        checks.push(Check::ok("runs", "no run waits for a person or a process"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_told_apart() {
        for (check, wanted) in [
            (check_free(LITTLE_ROOM), Status::Ok),
            (check_free(LITTLE_ROOM - 1), Status::Warning),
            (check_free(NO_ROOM - 1), Status::Problem),
            (check_wal(&[("store.db-wal".to_owned(), LARGE_WAL)]), Status::Ok),
            (check_wal(&[("store.db-wal".to_owned(), LARGE_WAL + 1)]), Status::Warning),
            (check_schema(unstuck_sqlite::SCHEMA_VERSION, ""), Status::Ok),
            (check_schema(unstuck_sqlite::SCHEMA_VERSION - 1, ""), Status::Warning),
            (check_schema(unstuck_sqlite::SCHEMA_VERSION + 1, ""), Status::Problem),
        ] {
            assert_eq!(check.status, wanted, "{check:?}");
        }
    }
}
