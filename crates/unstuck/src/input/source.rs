//! Reads files: flow files and inputs, with a clear sentence for every error.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use unstuck_flow::{Loaded, Problem};

use crate::error::{CommandError, without_os_number};

/// The name that stands for stdin.
pub(crate) const STDIN: &str = "-";

/// The largest file that is read at all; the limits of flow files and inputs are lower.
const LARGEST: u64 = 64 << 20;

/// A flow file that could be read.
pub(crate) struct Source {
    /// As it was given on the command line.
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn read(file: &str) -> Result<Source, CommandError> {
        Ok(Source { file: file.to_owned(), text: read(file)? })
    }

    /// Loads every flow of the file, or returns every problem. `known` says which flows exist elsewhere.
    pub(crate) fn load(&self, known: &dyn Fn(&str) -> bool) -> Result<Loaded, Vec<Problem>> {
        unstuck_flow::load(&self.text, &self.file, &self.directory(), known)
    }

    /// Returns the folder of the file, where local processes start.
    pub(crate) fn directory(&self) -> String {
        let folder = if self.file == STDIN { None } else { Path::new(&self.file).parent() };
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        folder.to_string_lossy().into_owned()
    }
}

/// Reads the text of a file, or of stdin.
pub(crate) fn read(file: &str) -> Result<String, CommandError> {
    let bytes = if file == STDIN { read_all(io::stdin()) } else { fs::File::open(file).and_then(read_all) };
    let bytes = bytes.map_err(|error| CommandError::new(describe_unreadable(file, &error)))?;
    if bytes.len() as u64 > LARGEST {
        return Err(CommandError::new(format!(
            "{file} is larger than {} MiB; is it the right file?",
            LARGEST >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = start.split(|byte| *byte == b'\n').count();
        CommandError::new(format!("{file} is not text: line {line} is not UTF-8; save it as UTF-8"))
    })
}

/// Reads at most one byte more than [`LARGEST`], so that a larger input is noticed but not read.
fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Describes why a file cannot be read, and what to do.
fn describe_unreadable(file: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("there is no file {file}; check the path"),
        ErrorKind::IsADirectory => format!("{file} is a directory; name a file in it"),
        ErrorKind::PermissionDenied => format!("no permission to read {file}; check its permissions"),
        _ => format!("{file} cannot be read: {}", without_os_number(error)),
    }
}
