//! How fast errors are matched, previewed and resumed with many runs in the store: `cargo xtask bench recovery`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use unstuck_bench::durable::Load;
use unstuck_bench::items::{Beside, beside};
use unstuck_bench::recovery::{matching, prepare, recover};

/// As in the `unstuck` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "cargo xtask bench recovery [--stored N] [--errors N] [--policies N] [--items N] [--directory PATH]";

fn main() -> ExitCode {
    let (mut stored, mut errors, mut policies, mut items) = (1_000_000, 100_000, 200, 20_000);
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(PathBuf::from));
    let mut directory = beside.unwrap_or_else(std::env::temp_dir);
    let args: Vec<String> = std::env::args().skip(1).collect();
    for pair in args.chunks(2) {
        let [name, value] = pair else { return usage() };
        match (name.as_str(), value.parse::<u64>()) {
            ("--stored", Ok(n)) => stored = n,
            ("--errors", Ok(n)) => errors = n,
            ("--items", Ok(n)) => items = n,
            ("--policies", Ok(n)) => policies = usize::try_from(n).unwrap_or(usize::MAX),
            ("--directory", _) => directory = PathBuf::from(value),
            _ => return usage(),
        }
    }
    let place = directory.join(format!("bench-recovery-{}", std::process::id()));
    measure(&place, stored, errors, policies);
    measure_items(&place, items);
    // What is left behind is in the way of nobody.
    let _ = std::fs::remove_dir_all(&place);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn measure(place: &std::path::Path, stored: u64, errors: u64, policies: usize) {
    println!("matching one error:");
    let one = matching(1);
    for count in [1, policies / 10, policies] {
        let cost = matching(count.max(1));
        let ratio = cost.as_secs_f64() / one.as_secs_f64();
        println!("  {count:>5} policies  {cost:>10.0?}  {ratio:>6.2} times one");
    }
    let mut bench = prepare(place, stored.saturating_sub(errors), errors);
    let engine = bench.drive(Load::Bare, 4_096, 50_000);
    let rate = engine.transitions as f64 / engine.took.as_secs_f64();
    println!("\n{stored} runs in the store, {errors} of them in error, {policies} policies");
    let figures = recover(&mut bench, policies, errors);
    let resumed = figures.transitions as f64 / figures.resume.as_secs_f64();
    println!("  groups listed          {:>10.1?}   (aim 100 ms)", figures.groups);
    println!("  previewed              {:>10.1?}   (aim 2 s)", figures.preview);
    println!("  applied                {:>10.1?}", figures.apply);
    let processor = engine.processor.of_each(engine.transitions);
    println!(
        "  engine                 {rate:>10.0} transitions/s, processor {processor} each (its thread, others)"
    );
    let processor = figures.processor.of_each(figures.transitions);
    println!("  due resumes            {resumed:>10.0} transitions/s, processor {processor} each");
    println!("                         {:>10.2} of the engine's rate (aim 0.70)", resumed / rate);
}

/// What a run with so many open items costs the ordinary ones, in comparison with as many runs that have one attempt each.
fn measure_items(place: &std::path::Path, items: u64) {
    let mut best = [Duration::MAX; 2];
    // In turns, so that whatever else the machine does is shared.
    for turn in 0..3 {
        for (best, which) in best.iter_mut().zip([Beside::Runs, Beside::Items]) {
            let folder = place.join(format!("{which:?}-{turn}"));
            *best = (*best).min(beside(&folder, which, items));
        }
    }
    let [runs, one] = best;
    println!("\n{items} ordinary runs, beside {items} open attempts of which one completes with each run");
    println!("  attempts of as many runs  {runs:>10.1?}");
    println!(
        "  attempts of one run       {one:>10.1?}, {:.2} of the speed (aim 0.90)",
        runs.as_secs_f64() / one.as_secs_f64()
    );
}
