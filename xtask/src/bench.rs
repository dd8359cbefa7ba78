//! `cargo xtask bench`: the benchmarks by name, each an example of the crate that it measures.

use std::path::Path;
use std::process::ExitCode;

use crate::tools;

struct Bench {
    name: &'static str,
    measures: &'static str,
    package: &'static str,
    /// One after the other.
    examples: &'static [&'static str],
}

const BENCHES: &[Bench] = &[Bench {
    name: "core",
    measures: "decisions and engine transitions a second on the in-memory store, and their allocations",
    package: "unstuck-engine",
    examples: &["bench_core", "bench_allocations"],
}];

/// Runs the benchmark that the first argument names, with the other arguments passed on.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    let Some((name, rest)) = args.split_first() else {
        eprint!("bench: no name given; there is:\n{}", list());
        return ExitCode::from(2);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == *name) else {
        eprint!("bench: no benchmark is named `{name}`; there is:\n{}", list());
        return ExitCode::from(2);
    };
    let all_well = bench.examples.iter().all(|example| run_example(root, bench.package, example, rest));
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_example(root: &Path, package: &str, example: &str, args: &[&str]) -> bool {
    let mut command = tools::cargo(root);
    command.args(["run", "--release", "--locked", "-p", package, "--example", example, "--"]);
    match command.args(args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("bench: cargo could not be started ({error}); is Rust installed?");
            false
        }
    }
}

fn list() -> String {
    BENCHES.iter().fold(String::new(), |list, bench| list + "  " + bench.name + ": " + bench.measures + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_bench() {
        let list = list();
        for bench in BENCHES {
            assert!(list.contains(&format!("  {}: {}\n", bench.name, bench.measures)), "{list}");
        }
    }
}
