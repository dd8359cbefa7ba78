//! Aims and by how much they are reached; those of the embedded store.

use std::time::Duration;

use crate::durable::Load;
use crate::line::Line;

const MIB: f64 = 1024.0 * 1024.0;

/// One aim: what was measured, as a part of what was aimed at.
pub struct Aim {
    what: String,
    measured: String,
    /// At least 1 where it is met.
    ratio: f64,
}

impl Aim {
    /// An aim by its name, with what was measured and the part of the aim that this is.
    pub fn new(what: &str, measured: String, ratio: f64) -> Aim {
        Aim { what: what.to_owned(), measured, ratio }
    }

    /// Says whether it is met, and by how much.
    pub fn line(&self) -> String {
        let Aim { what, measured, ratio } = self;
        let verdict = if *ratio >= 1.0 { "met   " } else { "missed" };
        format!("{verdict} {ratio:>6.2} of the aim  {what}: {measured}")
    }
}

/// The aims that these lines tell something about; `most` runs are stored in the larger store.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn aims(lines: &[Line], few: u64, most: u64) -> Vec<Aim> {
    let find = |load: Load, stored: u64, in_flight: u64| {
        let is_it = |line: &&Line| {
            (line.plan.load, line.plan.stored, line.plan.in_flight) == (load, stored, in_flight)
        };
        lines.iter().find(is_it)
    };
    let mut aims = Vec::new();
    let mut aim = |what: &str, measured: String, ratio: f64| {
        aims.push(Aim::new(what, measured, ratio));
    };
    if let Some(line) = find(Load::Bare, few, 4_096) {
        let rate = line.steps_per_second();
        aim("100,000 bare steps a second, 4096 in flight", format!("{rate:.0}"), rate / 100_000.0);
        let part = line.of_rows();
        aim("a quarter of the bare rows", format!("{part:.2}"), part / 0.25);
    }
    if let Some(line) = find(Load::Full, few, 4_096) {
        let rate = line.steps_per_second();
        aim(
            "40,000 steps a second with keys, payloads and expressions",
            format!("{rate:.0}"),
            rate / 40_000.0,
        );
    }
    if let Some(line) = find(Load::Bare, few, 1) {
        let times = 1.0 / line.of_file();
        aim(
            "one run at a time within 3 times the cost of its syncs",
            format!("{times:.2} times"),
            3.0 / times,
        );
    }
    for (name, load) in [("bare", Load::Bare), ("full", Load::Full)] {
        for in_flight in [1, 16, 256, 4_096] {
            let (Some(a), Some(b)) = (find(load, few, in_flight), find(load, most, in_flight)) else {
                continue;
            };
            let part = b.transitions_per_second() / a.transitions_per_second();
            let what = format!(
                "{most} stored runs cost at most a quarter of the speed, {name}, {in_flight} in flight"
            );
            aim(&what, format!("{part:.2} of it"), part / 0.75);
        }
    }
    let large: Vec<&Line> = lines.iter().filter(|line| line.plan.stored == most).collect();
    if let Some(peak) = large.iter().map(|line| line.peak).max() {
        let allowed = 100.0 * MIB + 100.0 * most as f64;
        let measured = format!("{:.0} of {:.0} MiB", peak as f64 / MIB, allowed / MIB);
        aim("100 MiB and 100 bytes for each waiting run", measured, allowed / peak as f64);
    }
    let mut ready: Vec<Duration> = large.iter().map(|line| line.ready).collect();
    ready.sort_unstable();
    if let Some(ready) = ready.get(ready.len() / 2) {
        let seconds = ready.as_secs_f64();
        aim(
            &format!("ready in 3 seconds with {most} waiting runs"),
            format!("{seconds:.2} s"),
            3.0 / seconds,
        );
    }
    aims
}
