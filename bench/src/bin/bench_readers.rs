//! How fast lists are read beside an engine that works: `cargo xtask bench readers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use unstuck_bench::durable::Driven;
use unstuck_bench::readers::{measure, prepare};

/// As in the `unstuck` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "cargo xtask bench readers [--finished N] [--open N] [--runs N] [--threads N] [--directory PATH]";
/// A page of any list.
const AIM: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let (mut finished, mut open, mut runs, mut threads) = (900_000, 100_000, 100_000, 2);
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(PathBuf::from));
    let mut directory = beside.unwrap_or_else(std::env::temp_dir);
    let args: Vec<String> = std::env::args().skip(1).collect();
    for pair in args.chunks(2) {
        let [name, value] = pair else { return usage() };
        match (name.as_str(), value.parse::<u64>()) {
            ("--finished", Ok(n)) => finished = n,
            ("--open", Ok(n)) => open = n,
            ("--runs", Ok(n)) => runs = n,
            ("--threads", Ok(n)) => threads = n,
            ("--directory", _) => directory = PathBuf::from(value),
            _ => return usage(),
        }
    }
    let place = directory.join(format!("bench-readers-{}", std::process::id()));
    let mut bench = prepare(&place, finished, open);
    println!("{finished} runs that are over, {open} that wait, {threads} threads that read, pages of 50");
    let figures = measure(&mut bench, usize::try_from(threads).unwrap_or(1), runs);
    for answer in &figures.answers {
        let verdict = if answer.p99 <= AIM { "met   " } else { "missed" };
        println!(
            "{verdict} {:<32} {:>7} times, median {:>9.2?}, p99 {:>9.2?}   (aim {AIM:?})",
            answer.what, answer.count, answer.median, answer.p99
        );
    }
    let (alone, read) = (rate(&figures.alone), rate(&figures.beside));
    println!("the engine alone {alone:.0} transitions/s, with readers {read:.0}: {:.2}", read / alone);
    drop(bench);
    // What is left behind is in the way of nobody.
    let _ = std::fs::remove_dir_all(&place);
    ExitCode::SUCCESS
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate(driven: &Driven) -> f64 {
    driven.transitions as f64 / driven.took.as_secs_f64()
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
