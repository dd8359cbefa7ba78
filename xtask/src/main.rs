//! The chores of the project: `cargo xtask test|tidy|bench|simulate|fuzz|mutants|schemathesis|torture`.

mod bench;
mod fuzz;
mod mutants;
mod repo;
mod rust;
mod schemathesis;
mod simulate;
mod test;
mod tidy;
mod tools;
mod torture;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <chore>

  test                 format, tidy, clippy, docs and every test; ends with `N passed, N failed`
  tidy                 the project's own rules, without a build
  bench <name> [args]  a benchmark, in release mode; without a name: which there are
  simulate [args]      the engine under faults, many seeds (--seeds N --from S) or one (--seed N)
  fuzz [target ...]    looks for bytes that break a promise, with libFuzzer: `--minutes N`, `--keep`
  schemathesis         requests by the thousand against a server, made from its description
  mutants [name ...]   mistakes made on purpose, in a copy of the tree: the simulator must catch each
  torture [args]       the real server under load, killed 1,000 times (--kills N --seed N)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = repo::root();
    match args.as_slice() {
        ["test"] => test::run(&root),
        ["tidy"] => tidy::run(&root),
        ["bench", rest @ ..] => bench::run(&root, rest),
        ["simulate", rest @ ..] => simulate::run(&root, rest),
        ["schemathesis"] => schemathesis::run(&root),
        ["fuzz", rest @ ..] => fuzz::run(&root, rest),
        ["torture", rest @ ..] => torture::run(&root, rest),
        ["mutants", rest @ ..] => mutants::run(&root, rest),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        [] => wrong_usage("no chore given"),
        ["test" | "tidy" | "schemathesis", extra, ..] => {
            wrong_usage(&format!("unexpected argument `{extra}`"))
        }
        [other, ..] => wrong_usage(&format!("unknown chore `{other}`")),
    }
}

fn wrong_usage(problem: &str) -> ExitCode {
    eprint!("{problem}\n\n{USAGE}");
    ExitCode::from(2)
}
