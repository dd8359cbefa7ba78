//! How fast the server is, beside the engine of one process and a bare axum handler: `cargo xtask bench server`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use unstuck_bench::readers::prepare;
use unstuck_bench::server::lists::measure_lists;
use unstuck_bench::server::process::{Failure, run_part};
use unstuck_bench::server::speed::{
    Patience, measure_memory, measure_reads, measure_starts, measure_streams,
};
use unstuck_bench::server::{bare, client, in_process, streams};

/// As in the `unstuck` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
cargo xtask bench server [--full] [--finished N] [--open N] [--events N] [--seconds N] [--rounds N] [--only PART] [--directory PATH]

  --finished N      runs that are over in the store in which lists are read (100000)
  --open N          runs that wait there (10000)
  --full            a million and 100000 of them
  --events N        events that each of 100 readers is sent (10000)
  --seconds N       so long is each thing measured (3), lists three times as long
  --rounds N        so often is each measured (2), and the fastest shown: others may use the machine
  --only PART       memory, starts, reads, streams or lists
  --directory PATH  where the stores are made, and removed: on a real disk (beside the binary)
";

struct Options {
    finished: u64,
    open: u64,
    events: u64,
    patience: Patience,
    only: Option<String>,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["fill", directory, finished, open] => fill(Path::new(directory), finished, open),
        ["in-process", directory, batch, at_once, seconds] => {
            start_in_process(Path::new(directory), (batch, at_once), seconds)
        }
        ["bare", document, event] => serve_bare(document, event),
        ["client"] => carry_out(|plan| client::ask(&plan)),
        ["streams"] => carry_out(|plan| streams::follow(&plan)),
        _ => match options(&args) {
            Ok(options) => all(&options),
            Err(problem) => {
                eprint!("{problem}\n\n{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &[&str]) -> Result<Options, String> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let mut options = Options {
        finished: 100_000,
        open: 10_000,
        events: 10_000,
        patience: Patience { time: Duration::from_secs(3), rounds: 2 },
        only: None,
        directory: beside.ok_or("where the binary is cannot be found; name a folder with --directory")?,
    };
    let number =
        |text: &str| text.replace(['_', ','], "").parse().map_err(|_| format!("`{text}` is no number"));
    let mut rest = args;
    while let [name, more @ ..] = rest {
        if *name == "--full" {
            (options.finished, options.open, rest) = (1_000_000, 100_000, more);
            continue;
        }
        let [value, more @ ..] = more else { return Err(format!("`{name}` is unknown, or lacks its value")) };
        match *name {
            "--finished" => options.finished = number(value)?,
            "--open" => options.open = number(value)?,
            "--events" => options.events = number(value)?.max(1),
            "--seconds" => options.patience.time = Duration::from_secs(number(value)?.max(1)),
            "--rounds" => options.patience.rounds = u32::try_from(number(value)?.max(1)).unwrap_or(u32::MAX),
            "--only" => options.only = Some((*value).to_owned()),
            "--directory" => options.directory = PathBuf::from(value),
            _ => return Err(format!("`{name}` is unknown")),
        }
        rest = more;
    }
    options.directory.push(format!("bench-server-{}", std::process::id()));
    Ok(options)
}

/// All parts, or the one that is asked for.
fn all(options: &Options) -> Result<(), Failure> {
    let folder = Folder(options.directory.clone());
    fs::create_dir_all(&folder.0)?;
    let (place, patience, mut aims) = (folder.0.as_path(), options.patience, Vec::new());
    let wants = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    if wants("memory") {
        measure_memory(place, &mut aims)?;
    }
    if wants("starts") {
        measure_starts(place, patience, &mut aims)?;
    }
    if wants("reads") {
        measure_reads(place, patience, &mut aims)?;
    }
    if wants("streams") {
        measure_streams(place, options.events, patience)?;
    }
    if wants("lists") {
        let store = place.join("lists");
        let (finished, open) = (options.finished.to_string(), options.open.to_string());
        print!("\n{}", run_part("fill", &[store.as_os_str(), finished.as_ref(), open.as_ref()])?);
        measure_lists(&store, patience, &mut aims)?;
    }
    println!();
    for aim in &aims {
        println!("{}", aim.line());
    }
    Ok(())
}

fn fill(directory: &Path, finished: &str, open: &str) -> Result<(), Failure> {
    let begin = Instant::now();
    drop(prepare(directory, finished.parse()?, open.parse()?));
    let took = begin.elapsed();
    println!("{finished} runs that are over and {open} that wait, made in {took:.1?}");
    Ok(())
}

fn start_in_process(directory: &Path, (batch, at_once): (&str, &str), seconds: &str) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(seconds.parse()?);
    println!("{}", in_process::start_runs(directory, batch.parse()?, at_once.parse()?, time));
    Ok(())
}

fn serve_bare(document: &str, event: &str) -> Result<(), Failure> {
    Ok(bare::serve(document.parse()?, event.parse()?)?)
}

/// Reads a plan, and writes what came of it.
fn carry_out<P: DeserializeOwned, T: serde::Serialize>(
    how: impl FnOnce(P) -> std::io::Result<T>,
) -> Result<(), Failure> {
    let mut plan = String::new();
    std::io::stdin().read_to_string(&mut plan)?;
    println!("{}", serde_json::to_string(&how(serde_json::from_str(&plan)?)?)?);
    Ok(())
}

/// A folder that is removed at the end, whatever the end is.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} cannot be removed: {error}", self.0.display());
        }
    }
}
