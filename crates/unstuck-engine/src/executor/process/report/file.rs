//! The file of a report, in a folder of its own, followed while the process runs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

use super::line::{Findings, Heard};
use crate::secrets::Redactor;

/// A line that is longer means nothing.
const MAX_LINE: usize = 1024 * 1024;
/// So much of what was read last is compared, to see whether the file was only added to.
const MARK: usize = 64;

/// A report that is being written. It is removed when dropped.
///
/// Lines are meant to be added, but a shell's `>` in place of `>>` is an easy mistake: a file that was rewritten is
/// read from its beginning.
pub(in crate::executor::process) struct ReportFile {
    folder: PathBuf,
    path: PathBuf,
    /// When it was last looked at: its length and time of change.
    seen: (u64, Option<SystemTime>),
    read: u64,
    /// The last bytes before `read`.
    mark: Vec<u8>,
    /// A line that has not ended.
    rest: Vec<u8>,
    /// Whether that line is too long to be kept.
    too_long: bool,
    /// How many lines have ended.
    lines: u64,
    findings: Findings,
    redactor: Redactor,
}

impl ReportFile {
    /// An empty one that nobody else can open, for the attempt with this token.
    pub(in crate::executor::process) fn new(token: &str, redactor: Redactor) -> io::Result<ReportFile> {
        let folder = private_folder(token)?;
        let path = folder.join("report");
        let report = ReportFile {
            folder,
            path,
            seen: (0, None),
            read: 0,
            mark: Vec::new(),
            rest: Vec::new(),
            too_long: false,
            lines: 0,
            findings: Findings::default(),
            redactor,
        };
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&report.path)?;
        Ok(report)
    }

    pub(in crate::executor::process) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what is new.
    pub(in crate::executor::process) fn follow(&mut self) -> Heard {
        let mut heard = Heard::default();
        // A report that cannot be read, because the process removed it, says nothing.
        let _ = self.catch_up(&mut heard);
        heard
    }

    /// Reads what is left, and tells what all of it came to.
    pub(in crate::executor::process) fn finish(mut self) -> (Heard, Findings) {
        let mut heard = self.follow();
        self.end_line(&mut heard);
        (heard, std::mem::take(&mut self.findings))
    }

    fn catch_up(&mut self, heard: &mut Heard) -> io::Result<()> {
        let about = fs::symlink_metadata(&self.path)?;
        let seen = (about.len(), about.modified().ok());
        if seen == self.seen || !about.is_file() {
            return Ok(());
        }
        self.seen = seen;
        let mut file = File::open(&self.path)?;
        if !self.was_added_to(&mut file, about.len())? {
            self.read = 0;
            self.mark.clear();
            self.rest.clear();
            self.too_long = false;
            self.lines = 0;
        }
        file.seek(SeekFrom::Start(self.read))?;
        // Up to the length that was seen: a process that never stops writing must not keep its watcher here.
        let mut file = file.take(about.len().saturating_sub(self.read));
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                count => self.take_in(&buffer[..count], heard),
            }
        }
    }

    fn was_added_to(&self, file: &mut File, length: u64) -> io::Result<bool> {
        if self.read == 0 {
            return Ok(true);
        }
        if length <= self.read {
            return Ok(false);
        }
        let mut mark = vec![0; self.mark.len()];
        file.seek(SeekFrom::Start(self.read - self.mark.len() as u64))?;
        file.read_exact(&mut mark)?;
        Ok(mark == self.mark)
    }

    fn take_in(&mut self, bytes: &[u8], heard: &mut Heard) {
        self.read += bytes.len() as u64;
        self.mark.extend_from_slice(&bytes[bytes.len().saturating_sub(MARK)..]);
        self.mark.drain(..self.mark.len().saturating_sub(MARK));
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() > MAX_LINE {
                self.too_long = true;
            } else if !self.too_long {
                self.rest.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.end_line(heard);
            }
        }
    }

    fn end_line(&mut self, heard: &mut Heard) {
        let line = std::mem::take(&mut self.rest);
        let line = self.redactor.bytes(&line);
        self.lines += 1;
        if std::mem::take(&mut self.too_long) {
            let begin = String::from_utf8_lossy(&line[..line.len().min(1_000)]);
            self.findings.note(self.lines, &begin, "the line is longer than 1 MiB");
        } else {
            self.findings.read(self.lines, &line, heard);
        }
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the folder of temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How the folder of an attempt is named: whoever has the token finds it, and nobody else can tell it beforehand.
fn folder_name(token: &str) -> String {
    let digest = Sha256::digest(token.as_bytes());
    let number = digest.iter().take(12).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("unstuck-report-{number:024x}")
}

/// A new folder that only this user can look into.
fn private_folder(token: &str) -> io::Result<PathBuf> {
    // The process has another working directory.
    let parent = std::path::absolute(std::env::temp_dir())?;
    let name = folder_name(token);
    let mut number = 0_u32;
    loop {
        let folder = parent.join(if number == 0 { name.clone() } else { format!("{name}-{number}") });
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Removes what an engine that died has left of the report of an attempt.
pub(in crate::executor::process) fn remove_left(token: &str) {
    let name = folder_name(token);
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_its = entry.file_name().to_str().is_some_and(|found| found.starts_with(&name));
        let is_ours = |about: fs::Metadata| about.is_dir() && about.uid() == geteuid().as_raw();
        if is_its && fs::symlink_metadata(entry.path()).is_ok_and(is_ours) {
            // What cannot be removed is left to whoever cleans the folder of temporary files.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use unstuck_core::json::Json;

    use super::*;

    fn append(report: &ReportFile, text: &str) {
        let mut file = OpenOptions::new().append(true).open(report.path()).expect("opens");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn progress(heard: &Heard) -> Option<String> {
        heard.progress.as_ref().map(|progress: &Json| progress.text().to_owned())
    }

    #[test]
    fn it_is_private_and_gone_afterwards() {
        let report =
            ReportFile::new(&format!("{}-1", std::process::id()), Redactor::default()).expect("made");
        let (folder, path) = (report.folder.clone(), report.path().to_owned());
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        drop(report);
        assert!(!folder.exists());
    }

    #[test]
    fn what_a_dead_engine_has_left_of_a_report_is_found_by_the_token_and_removed() {
        let token = format!("{}-left", std::process::id());
        let left = [&token, &token, &format!("{token}-of-another")]
            .map(|token| ReportFile::new(token, Redactor::default()).expect("made"));
        let folders = left.each_ref().map(|report| report.folder.clone());
        assert_ne!(folders[0], folders[1], "the second one finds the name taken");
        remove_left(&token);
        assert_eq!(folders.map(|folder| folder.exists()), [false, false, true]);
    }

    #[test]
    fn lines_are_read_as_they_are_completed_and_the_last_one_at_the_end() {
        let mut report =
            ReportFile::new(&format!("{}-2", std::process::id()), Redactor::default()).expect("made");
        assert_eq!(report.follow(), Heard::default());
        append(&report, "{\"progress\": 1}\n{\"prog");
        assert_eq!(progress(&report.follow()).as_deref(), Some("1"));
        assert_eq!(report.follow(), Heard::default());
        append(&report, "ress\": 2}\nnonsense\n{\"heartbeat\": true}\n{\"progress\": 3}");
        assert_eq!(progress(&report.follow()).as_deref(), Some("2"));
        let (heard, findings) = report.finish();
        assert_eq!(progress(&heard).as_deref(), Some("3"));
        let ignored: Vec<(u64, &str)> =
            findings.ignored.iter().map(|line| (line.line, &*line.text)).collect();
        assert_eq!(ignored, [(3, "nonsense")]);
    }

    #[test]
    fn a_report_that_is_written_anew_is_read_anew() {
        let mut report =
            ReportFile::new(&format!("{}-3", std::process::id()), Redactor::default()).expect("made");
        for text in ["{\"progress\": 10}\n", "{\"progress\": 2}\n", "{\"progress\": [\"longer\"]}\n"] {
            fs::write(report.path(), text).expect("written");
            let wanted = text.trim().trim_start_matches("{\"progress\": ").trim_end_matches('}');
            assert_eq!(progress(&report.follow()).as_deref(), Some(wanted));
        }
        fs::remove_file(report.path()).expect("removed");
        assert_eq!(report.follow(), Heard::default());
        assert!(report.finish().1.ignored.is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_noted_and_not_kept() {
        let mut report =
            ReportFile::new(&format!("{}-4", std::process::id()), Redactor::default()).expect("made");
        append(&report, &format!("{{\"progress\": \"{}\"}}\n{{\"progress\": 4}}\n", "x".repeat(MAX_LINE)));
        assert_eq!(progress(&report.follow()).as_deref(), Some("4"));
        let (_, findings) = report.finish();
        let ignored = &findings.ignored;
        assert!(ignored.len() == 1 && ignored[0].why.contains("1 MiB"), "{ignored:?}");
    }
}
