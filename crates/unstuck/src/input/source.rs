//! Reading files: flow files and inputs, with a good sentence for whatever is in the way.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use unstuck_flow::{Loaded, Problem};

use crate::error::{CommandError, plain};

/// The name that stands for stdin.
pub(crate) const STDIN: &str = "-";

/// The largest file that is read at all; what a flow file or an input may have is checked later, and is less.
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

    /// Every flow in the file, or every problem of it. `known` tells of flows that are elsewhere.
    pub(crate) fn load(&self, known: &dyn Fn(&str) -> bool) -> Result<Loaded, Vec<Problem>> {
        unstuck_flow::load(&self.text, &self.file, &self.directory(), known)
    }

    /// Where local processes start: the folder of the file.
    fn directory(&self) -> String {
        let folder = if self.file == STDIN { None } else { Path::new(&self.file).parent() };
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        folder.to_string_lossy().into_owned()
    }
}

/// The text of a file, or of stdin.
pub(crate) fn read(file: &str) -> Result<String, CommandError> {
    let bytes = if file == STDIN { read_all(io::stdin()) } else { fs::File::open(file).and_then(read_all) };
    let bytes = bytes.map_err(|error| CommandError::new(unreadable(file, &error)))?;
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

fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(file: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("there is no file {file}; check the path"),
        ErrorKind::IsADirectory => format!("{file} is a directory; name a file in it"),
        ErrorKind::PermissionDenied => format!("no permission to read {file}; check its permissions"),
        _ => format!("{file} cannot be read: {}", plain(error)),
    }
}
