//! The tools that the checks need: how to call cargo, and what to install where one is missing.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// A tool that may be missing on a fresh machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Rustfmt,
    Clippy,
    CCompiler,
    CppCompiler,
}

impl Tool {
    /// The one line that says what to install, where the tool is missing.
    pub(crate) fn missing(self, root: &Path) -> Option<String> {
        let found = match self {
            Tool::Rustfmt => answers(cargo(root).args(["fmt", "--version"])),
            Tool::Clippy => answers(cargo(root).args(["clippy", "--version"])),
            Tool::CCompiler => c_compilers(env::var("CC").ok().as_deref())
                .iter()
                .any(|name| answers(Command::new(name).arg("--version"))),
            Tool::CppCompiler => {
                let program = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
                answers(Command::new(program).arg("--version"))
            }
        };
        (!found).then(|| self.advice().to_owned())
    }

    fn advice(self) -> &'static str {
        match self {
            Tool::Rustfmt => "rustfmt is missing; install it with `rustup component add rustfmt`",
            Tool::Clippy => "clippy is missing; install it with `rustup component add clippy`",
            Tool::CCompiler => {
                "no C compiler found; install gcc or clang (`apt install build-essential`, \
                 `xcode-select --install`), or name one in $CC"
            }
            Tool::CppCompiler => {
                "no C++ compiler found; install g++ or clang (`apt install g++`, `xcode-select --install`), or name one \
                 in $CXX"
            }
        }
    }
}

/// The cargo that started us, in the repository: the checks then use the same toolchain.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// What `$CC` names stands alone: it is what the build would use.
fn c_compilers(cc: Option<&str>) -> Vec<String> {
    match cc.and_then(|cc| cc.split_whitespace().next()) {
        Some(program) => vec![program.to_owned()],
        None => ["cc", "gcc", "clang"].map(str::to_owned).to_vec(),
    }
}

fn answers(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_c_compilers_are_tried() {
        let cases: [(Option<&str>, &[&str]); 4] = [
            (None, &["cc", "gcc", "clang"]),
            (Some(""), &["cc", "gcc", "clang"]),
            (Some("clang-19"), &["clang-19"]),
            (Some("gcc -m64"), &["gcc"]),
        ];
        for (cc, expected) in cases {
            assert_eq!(c_compilers(cc), expected, "$CC = {cc:?}");
        }
    }

    #[test]
    fn every_missing_tool_is_one_line_that_says_what_to_install() {
        for tool in [Tool::Rustfmt, Tool::Clippy, Tool::CCompiler, Tool::CppCompiler] {
            let advice = tool.advice();
            assert!(advice.contains("install") && !advice.contains('\n'), "{tool:?}: {advice}");
        }
    }
}
