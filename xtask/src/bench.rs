//! `cargo xtask bench`: the benchmarks by name, each some binaries of the crate `bench`.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::tools;

struct Bench {
    name: &'static str,
    measures: &'static str,
    /// Binaries of ours that it starts, by package.
    needs: &'static [&'static str],
    /// One after the other.
    binaries: &'static [&'static str],
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "core",
        measures: "decisions and engine transitions a second on the in-memory store, and their allocations",
        needs: &[],
        binaries: &["bench_core", "bench_allocations"],
    },
    Bench {
        name: "engine",
        measures: "durable runs a second on the embedded store, beside what the disk and SQLite could do",
        needs: &[],
        binaries: &["bench_engine"],
    },
    Bench {
        name: "recovery",
        measures: "matching, previewing and resuming errors, with many runs in the store",
        needs: &[],
        binaries: &["bench_recovery"],
    },
    Bench {
        name: "readers",
        measures: "lists of runs by every filter, read beside an engine that works, with many runs in the store",
        needs: &[],
        binaries: &["bench_readers"],
    },
    Bench {
        name: "server",
        measures: "the HTTP API over the loopback, beside the engine of one process and a bare axum handler",
        needs: &["unstuck"],
        binaries: &["bench_server"],
    },
];

/// Runs the benchmark that the first argument names, with the other arguments passed on.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    let Some((name, rest)) = args.split_first() else {
        eprint!("bench: no name given; there is:\n{}", list_benches());
        return ExitCode::from(2);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == *name) else {
        eprint!("bench: no benchmark is named `{name}`; there is:\n{}", list_benches());
        return ExitCode::from(2);
    };
    let all_well = bench.needs.iter().all(|package| build(root, package))
        && bench.binaries.iter().all(|binary| run_binary(root, binary, rest));
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds a package as whoever installs it does.
fn build(root: &Path, package: &str) -> bool {
    let mut command = tools::cargo(root);
    succeeds(command.args(["build", "--release", "--locked", "-p", package]))
}

fn run_binary(root: &Path, binary: &str, args: &[&str]) -> bool {
    let mut command = tools::cargo(root);
    command.args(["run", "--release", "--locked", "-p", "unstuck-bench", "--bin", binary, "--"]);
    succeeds(command.args(args))
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("bench: cargo could not be started ({error}); is Rust installed?");
            false
        }
    }
}

fn list_benches() -> String {
    BENCHES.iter().fold(String::new(), |list, bench| list + "  " + bench.name + ": " + bench.measures + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_bench() {
        let list = list_benches();
        for bench in BENCHES {
            assert!(list.contains(&format!("  {}: {}\n", bench.name, bench.measures)), "{list}");
        }
    }
}
