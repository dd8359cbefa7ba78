//! `cargo xtask torture`: the real server under load, killed a thousand times. The test command does the same with thirty kills.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::tools;

const TEST: &str = "kills::nothing_acknowledged_is_lost_and_no_event_is_missed_or_repeated_over_many_kills";
const KILLS: u64 = 1_000;

/// How often the server is killed, and what its moments are drawn from.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    kills: u64,
    seed: Option<u64>,
}

/// Kills a server `--kills N` times, at moments that `--seed N` draws; without a seed, at new ones each time.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    let Options { kills, seed } = match read_options(args) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("torture: {problem}\nUsage: cargo xtask torture [--kills N] [--seed N]");
            return ExitCode::from(2);
        }
    };
    let seed = seed.unwrap_or_else(draw_seed);
    println!(
        "torture: {kills} kills with seed {seed}; the same again: cargo xtask torture --kills {kills} --seed {seed}"
    );
    let mut command = tools::cargo(root);
    command.args([
        "test",
        "--workspace",
        "--locked",
        "--test",
        "server",
        "--",
        "--exact",
        "--nocapture",
        TEST,
    ]);
    command.env("UNSTUCK_KILLS", kills.to_string()).env("UNSTUCK_SEED", seed.to_string());
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => {
            eprintln!("torture: a promise was broken with seed {seed}; see above");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("torture: cargo could not be started ({error}); is Rust installed?");
            ExitCode::FAILURE
        }
    }
}

fn read_options(args: &[&str]) -> Result<Options, String> {
    let mut options = Options { kills: KILLS, seed: None };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().and_then(|value| value.parse::<u64>().ok());
        match (*name, value) {
            ("--kills", Some(kills @ 1..)) => options.kills = kills,
            ("--seed", Some(seed)) => options.seed = Some(seed),
            ("--kills" | "--seed", _) => return Err(format!("`{name}` takes a number")),
            (other, _) => return Err(format!("unexpected argument `{other}`")),
        }
    }
    Ok(options)
}

/// Another one at each time, short enough to be typed.
fn draw_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_read_and_what_is_not_understood_is_refused() {
        let options = |kills, seed| Ok(Options { kills, seed });
        for (args, wanted) in [
            (&[][..], options(1_000, None)),
            (&["--kills", "100"], options(100, None)),
            (&["--seed", "7", "--kills", "1"], options(1, Some(7))),
            (&["--kills", "0"], Err("`--kills` takes a number".to_owned())),
            (&["--seed"], Err("`--seed` takes a number".to_owned())),
            (&["--kill", "3"], Err("unexpected argument `--kill`".to_owned())),
        ] {
            assert_eq!(read_options(args), wanted, "{args:?}");
        }
    }
}
