//! How fast the core decides and the engine turns over, on the store in memory: `cargo xtask bench core`.

use std::time::Instant;

use unstuck_bench::in_memory;

/// As in the `unstuck` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Transitions per second, so that the core is never what bounds us.
const AIM: f64 = 400_000.0;

/// `bench_core [RUNS] [ONLY]`: how many runs, and which lines.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn main() {
    in_memory::each(&|name, work| {
        let begin = Instant::now();
        let count = work();
        let seconds = begin.elapsed().as_secs_f64();
        let rate = count as f64 / seconds;
        println!("{name:<44} {rate:>9.0}/s  {:>5.2} of the aim  ({count} in {seconds:.2} s)", rate / AIM);
    });
}
