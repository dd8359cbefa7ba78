//! Simulates many seeds, or shows one: what is behind `cargo xtask simulate`.

use std::process::ExitCode;
use std::time::Instant;

use unstuck_sim::simulate::sweep::{self, SweepResult};
use unstuck_sim::simulate::tally::Tally;
use unstuck_sim::simulate::{Plan, run_plan_in_memory};

const USAGE: &str = "Usage: simulate [--seeds N] [--from S] | --seed N";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args) {
        Ok(SimulateArgs::Sweep { seeds, from }) => sweep(seeds, from),
        Ok(SimulateArgs::Show(seed)) => show(seed),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// What is wanted.
enum SimulateArgs {
    Sweep { seeds: u64, from: u64 },
    Show(u64),
}

fn parse(args: &[String]) -> Result<SimulateArgs, String> {
    let (mut seeds, mut from, mut seed) = (1_000, 0, None);
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("`{name}` needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("`{name}` needs a number, not `{value}`"))?;
        match name.as_str() {
            "--seeds" => seeds = number,
            "--from" => from = number,
            "--seed" => seed = Some(number),
            other => return Err(format!("`{other}` is not known here")),
        }
    }
    Ok(seed.map_or(SimulateArgs::Sweep { seeds, from }, SimulateArgs::Show))
}

fn sweep(seeds: u64, from: u64) -> ExitCode {
    let begun = Instant::now();
    let sum = sweep::sweep(from..from.saturating_add(seeds));
    let took = begun.elapsed().as_secs_f64();
    print(&sum);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let rate = sum.seeds as f64 / took.max(0.001);
    println!("{} seeds from {from} in {took:.1} s: {rate:.0} seeds/s", sum.seeds);
    for (seed, failure) in &sum.failures {
        println!("seed {seed}: {failure}");
    }
    if let Some(seed) = sum.failures.keys().next() {
        println!("\n{}", sweep::explain(*seed).unwrap_or_default());
        return ExitCode::FAILURE;
    }
    println!("every promise was kept");
    ExitCode::SUCCESS
}

fn print(sum: &SweepResult) {
    let table = |title: &str, tally: &Tally| {
        println!("{title}");
        for (what, count) in tally.iter() {
            println!("{count:>12}  {what}");
        }
    };
    table("faults fired", &sum.faults);
    table("acts done", &sum.acts);
    println!("promises checked");
    for (promise, count) in &sum.checked {
        println!("{count:>12}  {}: {promise}", promise.word());
    }
}

fn show(seed: u64) -> ExitCode {
    if let Some(text) = sweep::explain(seed) {
        println!("{text}");
        return ExitCode::FAILURE;
    }
    let plan = Plan::of(seed);
    let report = run_plan_in_memory(&plan, true);
    println!("{plan}");
    for line in &report.trace {
        println!("{line}");
    }
    println!("seed {seed}: every promise was kept; digest {:016x}", report.digest);
    ExitCode::SUCCESS
}
