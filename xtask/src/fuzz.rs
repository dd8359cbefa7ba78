//! `cargo xtask fuzz`: libFuzzer on the targets of the crate `fuzz`, with the time shared among them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Mutex;
use std::{env, thread};

use serde_json::Value;

use crate::tools::{self, Tool};

/// What makes the compiler count which code is reached; it needs no nightly compiler as long as no sanitizer is wanted.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Of one try: longer or larger is a finding.
const LIMITS: [&str; 3] = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"];

/// So many files are added to the corpus of a target at once.
const MOST_KEPT: usize = 20;

const USAGE: &str = "\
Usage: cargo xtask fuzz [target ...] [--minutes N] [--keep]

  --minutes N  for all of them together (2)
  --keep       add to fuzz/corpus what reaches most of what it does not, a few files each
";

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Arguments {
    targets: Vec<String>,
    seconds: u64,
    keep: bool,
}

/// Where everything is.
struct Places {
    program: PathBuf,
    corpus: PathBuf,
    crashes: PathBuf,
    /// What was found on the way, and what libFuzzer says.
    scratch: PathBuf,
}

/// How it went with one target.
enum Outcome {
    Nothing { tries: u64, covered: u64 },
    Crash { file: Option<PathBuf>, log: PathBuf, why: String },
}

/// Builds the targets and fuzzes them; exits with 1 if something was found.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    let known = match file_names(&root.join("fuzz/corpus")) {
        Ok(known) => known,
        Err(error) => return report_failure(&format!("fuzz/corpus cannot be listed: {error}")),
    };
    let arguments = match parse_arguments(args, &known) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprint!("fuzz: {problem}\n\n{USAGE}\nTargets: {}\n", known.join(", "));
            return ExitCode::from(2);
        }
    };
    if let Some(missing) = [Tool::CCompiler, Tool::CppCompiler].iter().find_map(|tool| tool.missing(root)) {
        return report_failure(&missing);
    }
    match build_targets(root).and_then(|places| fuzz_all(&places, &arguments)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => report_failure(&problem),
    }
}

fn report_failure(problem: &str) -> ExitCode {
    eprintln!("fuzz: {problem}");
    ExitCode::FAILURE
}

/// Parses the targets and options.
fn parse_arguments(args: &[&str], known: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments { targets: Vec::new(), seconds: 120, keep: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--keep" => arguments.keep = true,
            "--minutes" => {
                let minutes = args.next().and_then(|minutes| minutes.parse::<u64>().ok()).filter(|n| *n > 0);
                arguments.seconds = 60 * minutes.ok_or("`--minutes` needs a number of minutes, such as 5")?;
            }
            name if known.iter().any(|known| known == name) => arguments.targets.push(name.to_owned()),
            other => return Err(format!("`{other}` is no target and no option")),
        }
    }
    if arguments.targets.is_empty() {
        arguments.targets = known.to_vec();
    }
    Ok(arguments)
}

/// Builds the fuzz program into a folder of its own, because instrumented code is of no use to other builds.
fn build_targets(root: &Path) -> Result<Places, String> {
    let scratch = target_directory(root)?.join("fuzz");
    let host = host_triple()?;
    let mut command = tools::cargo(root);
    command.args(["build", "--release", "--locked", "-p", "unstuck-fuzz", "--bin", "fuzz"]);
    // With an explicit target, build scripts and macros are not instrumented.
    command.args(["--features", "libfuzzer", "--target", &host]);
    command.env("CARGO_TARGET_DIR", &scratch).env("RUSTFLAGS", INSTRUMENTED);
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    command.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    match command.status() {
        Ok(status) if status.success() => Ok(Places {
            program: scratch.join(&host).join("release/fuzz"),
            corpus: root.join("fuzz/corpus"),
            crashes: root.join("fuzz/crashes"),
            scratch,
        }),
        Ok(_) => Err("the targets do not build (see above)".to_owned()),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

/// Asks cargo for the target directory.
fn target_directory(root: &Path) -> Result<PathBuf, String> {
    let output = tools::cargo(root).args(["metadata", "--no-deps", "--format-version", "1"]).output();
    let output = output.map_err(|error| format!("`cargo metadata` could not be started: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`cargo metadata` gave what is no JSON: {error}"))?;
    metadata["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| "`cargo metadata` names no target directory".to_owned())
}

/// Returns the compiler's name for this machine.
fn host_triple() -> Result<String, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output();
    let output = output.map_err(|error| format!("rustc could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

/// Fuzzes as many targets at once as there are cores, and returns how many broke a promise.
fn fuzz_all(places: &Places, arguments: &Arguments) -> Result<usize, String> {
    let at_once = thread::available_parallelism().map_or(1, usize::from).min(arguments.targets.len());
    let seconds = (arguments.seconds * at_once as u64 / arguments.targets.len() as u64).max(1);
    println!("{} targets, {at_once} at a time, {seconds} s each", arguments.targets.len());
    let left: Mutex<VecDeque<&String>> = Mutex::new(arguments.targets.iter().collect());
    let next = || left.lock().ok().and_then(|mut left| left.pop_front());
    let take_turns = || {
        let mut crashes = 0;
        while let Some(target) = next() {
            let outcome = places.fuzz_target(target, seconds)?;
            println!("{}", places.summary(target, &outcome));
            crashes += usize::from(matches!(outcome, Outcome::Crash { .. }));
            if arguments.keep {
                places.keep(target)?;
            }
        }
        Ok(crashes)
    };
    let counts: io::Result<Vec<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(take_turns)).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of this program panicked")))
        });
        ended.collect()
    });
    counts.map(|counts| counts.iter().sum()).map_err(|error| format!("it stopped: {error}"))
}

impl Places {
    /// Fuzzes one target for this many seconds, and returns what its log says.
    fn fuzz_target(&self, target: &str, seconds: u64) -> io::Result<Outcome> {
        fs::create_dir_all(&self.crashes)?;
        let log = self.scratch.join(format!("{target}.log"));
        let mut command = self.command(target)?;
        command.args(LIMITS).args(["-print_final_stats=1", &format!("-max_total_time={seconds}")]);
        command.arg(format!("-artifact_prefix={}/{target}-", self.crashes.display()));
        command.arg(self.found(target)).arg(self.corpus.join(target));
        let status = run_to_log(&mut command, &log)?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok(parse_log(&said, status.success(), log))
    }

    /// Adds inputs that reach new code to the corpus; libFuzzer writes the most useful first.
    fn keep(&self, target: &str) -> io::Result<()> {
        let (corpus, merged) = (self.corpus.join(target), self.scratch.join("merged").join(target));
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        for name in file_names(&corpus)? {
            fs::copy(corpus.join(&name), merged.join(&name))?;
        }
        let mut command = self.command(target)?;
        command.args(["-set_cover_merge=1", "-max_len=300"]).arg(&merged).arg(self.found(target));
        run_to_log(&mut command, &self.scratch.join(format!("{target}.keep.log")))?;
        let mut added = Vec::new();
        for name in file_names(&merged)? {
            if !corpus.join(&name).exists() {
                added.push((fs::metadata(merged.join(&name))?.modified()?, name));
            }
        }
        added.sort();
        for (_, name) in added.into_iter().take(MOST_KEPT) {
            fs::copy(merged.join(&name), corpus.join(&name))?;
        }
        Ok(())
    }

    fn command(&self, target: &str) -> io::Result<Command> {
        fs::create_dir_all(self.found(target))?;
        let mut command = Command::new(&self.program);
        command.env("UNSTUCK_FUZZ", target).current_dir(&self.scratch);
        Ok(command)
    }

    /// Returns the folder of inputs that this machine found earlier, which the next run starts from.
    fn found(&self, target: &str) -> PathBuf {
        self.scratch.join("corpus").join(target)
    }

    /// Describes the result of a target, with the command that replays a crash.
    fn summary(&self, target: &str, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Nothing { tries, covered } => {
                format!("{target}: {tries} tries, {covered} places reached, nothing found")
            }
            Outcome::Crash { file: Some(file), why, .. } => {
                let root = self.corpus.parent().and_then(Path::parent).unwrap_or(Path::new(""));
                let file = file.strip_prefix(root).unwrap_or(file).display();
                format!(
                    "{target}: {why}\n  try it again:  cargo run -p unstuck-fuzz -- {target} {file}\n  \
                     once mended, it belongs into fuzz/corpus/{target}, where the tests try it every time"
                )
            }
            Outcome::Crash { file: None, log, why } => format!("{target}: {why}; see {}", log.display()),
        }
    }
}

fn run_to_log(command: &mut Command, log: &Path) -> io::Result<ExitStatus> {
    let file = File::create(log)?;
    command.stdout(file.try_clone()?).stderr(file).status()
}

/// Parses what libFuzzer prints at its end.
fn parse_log(said: &str, is_well: bool, log: PathBuf) -> Outcome {
    let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
    let after = |name: &str| said.rfind(name).and_then(|at| number(&said[at + name.len()..])).unwrap_or(0);
    if is_well {
        return Outcome::Nothing {
            tries: after("stat::number_of_executed_units:"),
            covered: after(" cov: "),
        };
    }
    let file = said.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file);
    let line_with = |word: &str| said.lines().position(|line| line.contains(word));
    // The message of a panic is on the line below its location.
    let why = line_with("panicked at").map(|at| said.lines().skip(at).take(3).collect::<Vec<_>>().join(" "));
    let why = why.or_else(|| line_with("ERROR: ").and_then(|at| said.lines().nth(at).map(str::to_owned)));
    Outcome::Crash { file: file.map(PathBuf::from), log, why: why.unwrap_or_else(|| "it stopped".to_owned()) }
}

fn file_names(path: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = fs::read_dir(path)?.map(name).collect::<io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        let known = ["flow".to_owned(), "json".to_owned()];
        let arguments = |targets: &[&str], seconds, keep| {
            Ok(Arguments { targets: targets.iter().map(|name| (*name).to_owned()).collect(), seconds, keep })
        };
        let cases: [(&[&str], Result<Arguments, String>); 7] = [
            (&[], arguments(&["flow", "json"], 120, false)),
            (&["--minutes", "5"], arguments(&["flow", "json"], 300, false)),
            (&["json", "--minutes", "1", "--keep"], arguments(&["json"], 60, true)),
            (&["--minutes"], Err("`--minutes` needs a number of minutes, such as 5".to_owned())),
            (&["--minutes", "0"], Err("`--minutes` needs a number of minutes, such as 5".to_owned())),
            (&["yaml"], Err("`yaml` is no target and no option".to_owned())),
            (&["--fast"], Err("`--fast` is no target and no option".to_owned())),
        ];
        for (args, expected) in cases {
            assert_eq!(parse_arguments(args, &known), expected, "{args:?}");
        }
    }

    #[test]
    fn a_crash_is_told_with_the_command_that_tries_it_again() {
        let said = "#3 NEW cov: 7\nthread '<unnamed>' panicked at fuzz/src/payloads.rs:9:5:\na value is refused\nnote: more\n\
            artifact_prefix='x'; Test unit written to /r/fuzz/crashes/json-crash-1\n";
        let places = Places {
            program: PathBuf::new(),
            corpus: "/r/fuzz/corpus".into(),
            crashes: "/r/fuzz/crashes".into(),
            scratch: "/r/target/fuzz".into(),
        };
        let summary = places.summary("json", &parse_log(said, false, PathBuf::new()));
        assert!(summary.contains("payloads.rs:9:5: a value is refused"), "{summary}");
        assert!(
            summary.contains("cargo run -p unstuck-fuzz -- json fuzz/crashes/json-crash-1\n"),
            "{summary}"
        );
    }

    #[test]
    fn a_good_end_is_told_in_figures() {
        let said = "#2 INITED cov: 5 ft: 6\n#9 DONE   cov: 70 ft: 80\nstat::number_of_executed_units: 1234\n";
        let outcome = parse_log(said, true, PathBuf::new());
        assert!(matches!(outcome, Outcome::Nothing { tries: 1234, covered: 70 }));
    }
}
