//! The files of the repository, read once, so that every rule is a pure function over them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::TokenStream;

/// Every text file of the repository, sorted by path.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One text file.
pub(crate) struct File {
    /// Relative to the root, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The tokens of a `.rs` file; an empty stream for others, the reason where it cannot be read as Rust.
    pub(crate) tokens: Result<TokenStream, String>,
}

impl Tree {
    /// Reads what git tracks or would track; without git, every file that is no build output.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let mut paths = git_files(root).map_or_else(|| list_files(root), Ok)?;
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            // Skips deleted files that are still tracked, and files that are no text.
            if let Ok(text) = fs::read_to_string(root.join(&path)) {
                files.push(File::new(path, text));
            }
        }
        Ok(Tree { files })
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Iterates over the Rust files whose path begins like this.
    pub(crate) fn rust_files(&self, prefix: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.is_rust() && file.path.starts_with(prefix))
    }
}

impl File {
    pub(crate) fn new(path: String, text: String) -> File {
        let tokens =
            if is_rust(&path) { text.parse().map_err(describe_lex_error) } else { Ok(TokenStream::new()) };
        File { path, text, tokens }
    }

    pub(crate) fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }

    /// Returns the tokens; none if the file cannot be lexed, which is reported once.
    pub(crate) fn tokens(&self) -> TokenStream {
        self.tokens.clone().unwrap_or_default()
    }
}

/// The root of the repository: the parent of this crate's folder.
pub(crate) fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn describe_lex_error(error: proc_macro2::LexError) -> String {
    let start = error.span().start();
    format!("{error} (near line {}, column {})", start.line, start.column + 1)
}

/// Lists files with git. Untracked ones count too, so that a rule applies before the commit.
fn git_files(root: &Path) -> Option<Vec<String>> {
    // Allows a checkout of another user, as in a container.
    let output = Command::new("git")
        .current_dir(root)
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

/// Lists files by walking the folders, without build output.
fn list_files(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| format!("{}: cannot be listed: {error}", root.join(&folder).display());
        for entry in fs::read_dir(root.join(&folder)).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                folders.push(path);
            } else if kind.is_file() {
                paths.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
impl Tree {
    /// A tree in memory, for the rules' examples.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File::new((*path).to_owned(), (*text).to_owned());
        Tree { files: files.iter().map(file).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_the_walk_agree_on_this_file() {
        let root = root();
        let own = "xtask/src/repo.rs".to_owned();
        assert!(list_files(&root).expect("the repository can be listed").contains(&own));
        assert!(Tree::read(&root).expect("the repository can be read").text(&own).is_some());
    }

    #[test]
    fn what_is_no_rust_is_reported_with_its_place() {
        let file = File::new("a.rs".to_owned(), "fn a() {\n  \"open\n}".to_owned());
        let error = file.tokens.expect_err("an open string");
        assert!(error.contains("line 2"), "{error}");
        assert!(File::new("a.md".to_owned(), "it's text".to_owned()).tokens.is_ok());
    }
}
