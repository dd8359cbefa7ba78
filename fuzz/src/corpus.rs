//! The corpus: files that are worth trying, and small random changes of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use unstuck_core::random::Random;

/// What means something to one reader or another.
const SALT: [&str; 53] = [
    "\n  - ",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "\"",
    "'",
    "&a ",
    "*a",
    "#",
    "!",
    "${",
    "$${",
    "\\",
    "\\u",
    "\\ud800",
    ",",
    "\n",
    "\r",
    "\t",
    "---\n",
    "<<: ",
    "~",
    "null",
    "true",
    "-1",
    "-",
    ".",
    ".inf",
    "1e999",
    "1E-7",
    "0x",
    "0",
    "9999999999999999999",
    "18446744073709551615",
    "é",
    "\0",
    "\u{feff}",
    "\u{2028}",
    "?",
    "(",
    ")",
    "%",
    "&&",
    "||",
    "|",
    "> ",
    "ms",
    "PT",
    "Z",
    "+02:00",
];

/// The folders of the corpus by name: one for each target.
pub fn folders() -> io::Result<Vec<String>> {
    let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(entries("")?.into_iter().filter_map(name).collect())
}

/// The files of a target, sorted by name.
pub fn files(target: &str) -> io::Result<Vec<PathBuf>> {
    entries(target)
}

fn entries(folder: &str) -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

/// A few changes at random places: bytes removed, repeated, moved, changed, and things added that mean something.
pub fn change(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.between(1, 6) {
        let start = upto(random, bytes.len());
        let end = upto(random, (bytes.len() - start).min(12)) + start;
        match random.between(0, 5) {
            0 => drop(bytes.drain(start..end)),
            1 => {
                let taken: Vec<u8> = bytes[start..end].to_vec();
                let place = upto(random, bytes.len());
                bytes.splice(place..place, taken);
            }
            2 => bytes.truncate(start),
            3 if start < bytes.len() => bytes[start] = (random.between(0, 255) & 0xff) as u8,
            _ => {
                let word = SALT[upto(random, SALT.len() - 1)];
                bytes.splice(start..end, word.bytes());
            }
        }
    }
    bytes
}

fn upto(random: &mut Random, most: usize) -> usize {
    usize::try_from(random.between(0, most as u64)).unwrap_or(0)
}
