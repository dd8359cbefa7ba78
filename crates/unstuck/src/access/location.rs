//! Where the store is: from the command line, else the environment, else the user's data folder.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use unstuck_store::contract::StoreError;

use crate::error::{CommandError, without_os_number};
use crate::view::text;

/// The variable that names the folder of the store.
const VARIABLE: &str = "UNSTUCK_STORE";

/// Which store a command is about.
#[derive(clap::Args)]
pub(crate) struct StoreArgument {
    /// The folder of the store. [default: `$UNSTUCK_STORE`, else `unstuck` in the folder for user data]
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::DirPath)]
    store: Option<PathBuf>,
}

/// The folder of a store, whether there is one or not.
#[derive(Clone, Debug)]
pub(crate) struct StoreLocation {
    pub(crate) directory: PathBuf,
    /// What a command that is to be typed needs to find the same store: ` --store PATH`, or nothing.
    pub(crate) option: String,
}

impl StoreArgument {
    /// Returns whether the command line names a store.
    pub(crate) fn is_given(&self) -> bool {
        self.store.is_some()
    }

    /// Determines the folder of the store, and checks that it belongs to this user.
    pub(crate) fn place(&self) -> Result<StoreLocation, CommandError> {
        if let Some(given) = &self.store {
            let directory = absolute_path(given);
            let option = format!(" --store {}", text::shell_word(&directory.to_string_lossy()));
            return StoreLocation { directory, option }.check_owner();
        }
        let directory = default_directory(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
            .ok_or_else(|| {
                CommandError::new(format!(
                    "no folder for the store: HOME is not set. Name one with --store PATH or {VARIABLE}"
                ))
            })?;
        StoreLocation { directory: absolute_path(&directory), option: String::new() }.check_owner()
    }
}

impl StoreLocation {
    /// Refuses a store of another user, who could make this one execute commands.
    fn check_owner(self) -> Result<StoreLocation, CommandError> {
        match unstuck_sqlite::check_access(&self.directory) {
            Ok(()) => Ok(self),
            // The usual sentence says that the engine stopped, but here none was started.
            Err(StoreError::Broken(what)) => Err(CommandError::new(what)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether there is a store.
    pub(crate) fn has_store(&self) -> bool {
        unstuck_sqlite::has_store(&self.directory)
    }

    /// Builds the error that there is no store, with what creates one.
    pub(crate) fn no_store(&self) -> CommandError {
        CommandError::not_found(format!(
            "there is no store at {}. `unstuck run FILE` creates it; --store PATH or {VARIABLE} names another",
            self.directory.display()
        ))
    }

    /// Creates the folder with access for its owner only: it holds the inputs and outputs of runs.
    pub(crate) fn create_folder(&self) -> Result<(), CommandError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| {
            CommandError::new(format!(
                "cannot create the folder {} for the store: {}. Name another with --store PATH",
                self.directory.display(),
                without_os_number(&error)
            ))
        })
    }
}

/// Returns the folder from the environment, else the platform's folder for user data.
fn default_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(given) = variable(VARIABLE) {
        return Some(given.into());
    }
    let home = |below: &str| variable("HOME").map(|home| Path::new(&home).join(below));
    let data = if cfg!(target_os = "macos") {
        home("Library/Application Support")
    } else {
        // A relative path is invalid in this variable and must be ignored.
        let named = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| home(".local/share"))
    };
    data.map(|data| data.join("unstuck"))
}

fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_environment_says_where_the_store_is() {
        let cases = [
            ("UNSTUCK_STORE=here XDG_DATA_HOME=/data HOME=/me", Some("here")),
            ("XDG_DATA_HOME=/data HOME=/me", Some("/data/unstuck")),
            ("XDG_DATA_HOME=data HOME=/me", Some("/me/.local/share/unstuck")),
            ("HOME=/me", Some("/me/.local/share/unstuck")),
            ("", None),
        ];
        for (environment, wanted) in cases {
            let variable = |name: &str| {
                let mut set = environment.split(' ').filter_map(|set| set.split_once('='));
                set.find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(default_directory(variable).as_deref(), wanted.map(Path::new), "{environment:?}");
        }
    }
}
