//! `cargo run -p unstuck-fuzz -- TARGET FILE...`: puts files through a target, as a crash did.

use std::process::ExitCode;

use unstuck_fuzz::{TARGETS, target};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, files)) = args.split_first().filter(|(_, files)| !files.is_empty()) else {
        return wrong_usage("give a target and at least one file");
    };
    let Some(target) = target(name) else { return wrong_usage(&format!("no target is named `{name}`")) };
    for file in files {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) => return wrong_usage(&format!("{file} cannot be read: {error}")),
        };
        println!("{}: {file}, {} bytes", target.name, bytes.len());
        (target.check)(&bytes);
    }
    println!("nothing found");
    ExitCode::SUCCESS
}

fn wrong_usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\n\nUsage: cargo run -p unstuck-fuzz -- TARGET FILE...\n");
    for target in TARGETS {
        eprintln!("  {:<12} {}", target.name, target.about);
    }
    ExitCode::from(2)
}
