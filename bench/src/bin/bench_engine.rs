//! How fast durable runs are on the embedded store, beside what the disk and SQLite could do: `cargo xtask bench engine`.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use unstuck_bench::aims::aims;
use unstuck_bench::durable::{Bench, Load};
use unstuck_bench::figures::{memory, peak_memory};
use unstuck_bench::line::{HEADING, Line, Plan, measure};

/// As in the `unstuck` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
cargo xtask bench engine [--runs N] [--stored N] [--rounds N] [--in-flight N] [--load bare|full] [--directory PATH]

  --runs N          runs in a line with 4096 in flight (200000); lines with fewer have less
  --stored N        waiting runs in the larger store (1000000); the smaller has 10000
  --rounds N        so often is each line measured (2), and the fastest shown: others may use the machine
  --in-flight N     only lines with so many in flight
  --load NAME       only lines of this load
  --directory PATH  where the stores are made, and removed: on a real disk (beside the binary)
";

/// The smaller number of stored runs.
const FEW: u64 = 10_000;

struct Options {
    runs: u64,
    stored: u64,
    rounds: u64,
    in_flight: Option<u64>,
    load: Option<String>,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["fill", directory, runs] => fill(Path::new(directory), runs),
        ["measure", directory, scratch, plan] => one_line(Path::new(directory), Path::new(scratch), plan),
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
    let parent = beside.ok_or("where the binary is cannot be found; name a folder with --directory")?;
    let mut options = Options {
        runs: 200_000,
        stored: 1_000_000,
        rounds: 2,
        in_flight: None,
        load: None,
        directory: parent,
    };
    let number =
        |text: &str| text.replace(['_', ','], "").parse().map_err(|_| format!("`{text}` is no number"));
    let mut rest = args;
    while let [name, more @ ..] = rest {
        let [value, more @ ..] = more else { return Err(format!("`{name}` is unknown, or lacks its value")) };
        match *name {
            "--runs" => options.runs = number(value)?,
            "--stored" => options.stored = number(value)?,
            "--rounds" => options.rounds = number(value)?.max(1),
            "--in-flight" => options.in_flight = Some(number(value)?),
            "--load" => options.load = Some((*value).to_owned()),
            "--directory" => options.directory = PathBuf::from(value),
            _ => return Err(format!("`{name}` is unknown")),
        }
        rest = more;
    }
    options.directory.push(format!("bench-engine-{}", std::process::id()));
    Ok(options)
}

/// Every line in a process of its own, so that its memory is its own too.
fn all(options: &Options) -> Result<(), Box<dyn Error>> {
    let directory = Folder(options.directory.clone());
    let few = FEW.min(options.stored);
    let mut sizes = vec![few, options.stored];
    sizes.dedup();
    let mut notes = String::new();
    for stored in &sizes {
        let store = directory.store(*stored);
        notes += &child(["fill".as_ref(), store.as_os_str(), stored.to_string().as_ref()])?;
    }
    println!("{HEADING}");
    let mut lines = Vec::new();
    for plan in plans(options) {
        let mut fastest: Vec<Option<Line>> = vec![None; sizes.len()];
        for _ in 0..options.rounds {
            for (stored, fastest) in sizes.iter().zip(&mut fastest) {
                let line = measured(&directory, Plan { stored: *stored, ..plan })?;
                *fastest = Some(line.or_faster(fastest.take()));
            }
        }
        for line in fastest.into_iter().flatten() {
            println!("{}", line.row());
            lines.push(line);
        }
    }
    println!("\n{LEGEND}\n\n{notes}");
    for aim in aims(&lines, few, options.stored) {
        println!("{}", aim.line());
    }
    Ok(())
}

const LEGEND: &str = "\
A run is in flight until its end is durable. Bytes: what went to write calls (wchar). Peak: VmHWM, opening included.
Of the file: the same bytes appended and synced in the same batches. Of bare rows: a loop that writes the same rows to
SQLite in the same transactions. 1 would be as fast.";

fn measured(directory: &Folder, plan: Plan) -> Result<Line, Box<dyn Error>> {
    let (store, scratch) = (directory.store(plan.stored), directory.0.join("scratch"));
    let text = serde_json::to_string(&plan)?;
    let line = child(["measure".as_ref(), store.as_os_str(), scratch.as_os_str(), text.as_ref()])?;
    fs::remove_dir_all(scratch)?;
    Ok(serde_json::from_str(&line)?)
}

/// The lines, for any number of stored runs.
fn plans(options: &Options) -> impl Iterator<Item = Plan> {
    let runs = options.runs;
    let sizes = [(1, 40), (16, 5), (256, 1), (4_096, 1)];
    let loads = [(Load::Bare, 1), (Load::Full, 2)];
    let plans = loads.into_iter().flat_map(move |(load, fewer)| {
        sizes.map(|(in_flight, part)| {
            let runs = (runs / part / fewer).max(in_flight);
            Plan { load, stored: 0, in_flight, runs }
        })
    });
    plans.filter(|plan| {
        options.in_flight.is_none_or(|only| only == plan.in_flight)
            && options.load.as_ref().is_none_or(|only| only == plan.load.name())
    })
}

fn child<const N: usize>(args: [&OsStr; N]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args(args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", args[0].display(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn fill(directory: &Path, runs: &str) -> Result<(), Box<dyn Error>> {
    let runs: u64 = runs.parse()?;
    let begin = Instant::now();
    let mut bench = Bench::open(directory);
    bench.fill(runs);
    let seconds = begin.elapsed().as_secs_f64();
    let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
    println!(
        "{runs} waiting runs were started in {seconds:.1} s ({:.0}/s); memory then {:.0} MiB, {:.0} MiB at most",
        runs as f64 / seconds,
        mib(memory()),
        mib(peak_memory()),
    );
    Ok(())
}

fn one_line(directory: &Path, scratch: &Path, plan: &str) -> Result<(), Box<dyn Error>> {
    let line = measure(serde_json::from_str(plan)?, directory, scratch);
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

/// A folder that is removed at the end, whatever the end is.
struct Folder(PathBuf);

impl Folder {
    fn store(&self, stored: u64) -> PathBuf {
        self.0.join(format!("stored-{stored}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} cannot be removed: {error}", self.0.display());
        }
    }
}
