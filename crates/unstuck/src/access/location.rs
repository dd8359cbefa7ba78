//! Where the store is: a server or a folder, from the command line, else the environment, else the user's data folder.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use unstuck_client::{Address, BadAddress, Client};
use unstuck_store::contract::StoreError;

use crate::access::{socket, user_name};
use crate::error::{CommandError, without_os_number};
use crate::view::text;

/// The variable that names the folder of the store.
const VARIABLE: &str = "UNSTUCK_STORE";

/// The variable that has the token for it.
const TOKEN_VARIABLE: &str = "UNSTUCK_TOKEN";
/// The variable that names the file that has it.
const TOKEN_FILE_VARIABLE: &str = "UNSTUCK_TOKEN_FILE";
/// The variable that names the file of authorities that a server's certificate is checked with.
const CA_VARIABLE: &str = "UNSTUCK_CA_FILE";
/// The variable that names a server.
const SERVER_VARIABLE: &str = "UNSTUCK_SERVER";

/// Which store a command is about: in a folder of this machine, or behind a server.
#[derive(clap::Args)]
pub(crate) struct StoreArgument {
    #[command(flatten)]
    local: LocalStoreArgument,

    /// A server to ask instead, such as `http://127.0.0.1:7070`. [default: `$UNSTUCK_SERVER`, if that is set and --store is not given]
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url, conflicts_with = "store")]
    server: Option<String>,

    /// A file with the authorities (PEM) that sign the certificate of a server with `https`, where browsers do not trust it.
    /// [default: `$UNSTUCK_CA_FILE`]
    #[arg(long = "ca", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    ca_file: Option<PathBuf>,
}

/// Which store of this machine a command is about.
#[derive(clap::Args)]
pub(crate) struct LocalStoreArgument {
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
    /// The server that has it, where it is not on this machine.
    pub(crate) server: Option<Client>,
}

impl StoreArgument {
    /// Determines the server, or the folder of the store.
    pub(crate) fn place(&self) -> Result<StoreLocation, CommandError> {
        if self.local.is_given() {
            return self.local.place();
        }
        let of_environment = std::env::var(SERVER_VARIABLE).ok().filter(|url| !url.is_empty());
        match self.server.as_ref().or(of_environment.as_ref()) {
            Some(url) => StoreLocation::of_server(url, self.server.is_some(), self.ca_file.clone()),
            None => self.local.place(),
        }
    }
}

impl LocalStoreArgument {
    /// As if the command line named this folder.
    pub(crate) fn of(store: Option<PathBuf>) -> LocalStoreArgument {
        LocalStoreArgument { store }
    }

    /// Returns whether the command line names a store.
    pub(crate) fn is_given(&self) -> bool {
        self.store.is_some()
    }

    /// Determines the folder of the store, and checks that it belongs to this user.
    pub(crate) fn place(&self) -> Result<StoreLocation, CommandError> {
        if let Some(given) = &self.store {
            let directory = absolute_path(given);
            let option = format!(" --store {}", text::shell_word(&directory.to_string_lossy()));
            return StoreLocation { directory, option, server: None }.check_owner();
        }
        let directory = default_directory(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
            .ok_or_else(|| {
                CommandError::new(format!(
                    "no folder for the store: HOME is not set. Name one with --store PATH or {VARIABLE}"
                ))
            })?;
        StoreLocation { directory: absolute_path(&directory), option: String::new(), server: None }
            .check_owner()
    }
}

impl StoreLocation {
    /// Finds the store behind a server; `is_given` where the command line names it.
    fn of_server(url: &str, is_given: bool, ca_file: Option<PathBuf>) -> Result<StoreLocation, CommandError> {
        let address: Address = url.parse().map_err(|bad: BadAddress| {
            let whence = if is_given { "--server" } else { SERVER_VARIABLE };
            CommandError::new(format!("{whence}: {bad}"))
        })?;
        let option = if is_given { format!(" --server {}", text::shell_word(url)) } else { String::new() };
        let mut option = option;
        if let Some(path) = &ca_file {
            option = format!("{option} --ca {}", text::shell_word(&path.to_string_lossy()));
        }
        let of_environment =
            || std::env::var_os(CA_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let client = Client::new(address, user_name()).with_token(find_token()?);
        let server = Some(client.with_ca_file(ca_file.or_else(of_environment)).with_option(option.clone()));
        Ok(StoreLocation { directory: PathBuf::new(), option, server })
    }

    /// Returns a client of the server that has this store, over the socket in its folder.
    pub(crate) fn client_of(&self, url: &str) -> Result<Client, CommandError> {
        let address: Address =
            url.parse().map_err(|bad: BadAddress| CommandError::internal(bad.to_string()))?;
        let directory = self.directory.clone();
        let client = Client::new(address, user_name()).with_option(self.option.clone());
        // Over the socket of the store no token is needed.
        Ok(client.over_socket(move || socket::connect_http(&directory)))
    }

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
        self.server.is_some() || unstuck_sqlite::has_store(&self.directory)
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

/// Returns the token for a server: of the variable, or of the file that another one names.
fn find_token() -> Result<Option<String>, CommandError> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    if let Some(token) = variable(TOKEN_VARIABLE) {
        return Ok(Some(token.trim().to_owned()));
    }
    let Some(file) = variable(TOKEN_FILE_VARIABLE) else { return Ok(None) };
    let token = std::fs::read_to_string(&file).map_err(|error| {
        CommandError::new(format!("{TOKEN_FILE_VARIABLE}: cannot read {file}: {}", without_os_number(&error)))
    })?;
    Ok(Some(token.trim().to_owned()))
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
