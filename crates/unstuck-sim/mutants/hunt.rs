//! Simulates seeds until one of them shows that a promise is broken, and says which.

use std::process::ExitCode;

use unstuck_sim::simulate::{Failure, run_in_memory};

fn main() -> ExitCode {
    let seeds: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000);
    std::panic::set_hook(Box::new(|_| {}));
    for seed in 0..seeds {
        let promise = match run_in_memory(seed).broken {
            None => continue,
            Some(Failure::Broken(broken)) => format!("{}\t{broken}", broken.promise.word()),
            Some(Failure::Panicked(words)) => format!("panic\t{words}"),
        };
        println!("{}\t{promise}", seed + 1);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
