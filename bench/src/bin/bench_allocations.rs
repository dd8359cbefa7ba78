//! How often a transition allocates: `cargo xtask bench core` prints this too.

use unstuck_bench::in_memory;

/// `bench_allocations [RUNS] [ONLY]`: how many runs, and which lines.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn main() {
    in_memory::each(&|name, work| {
        let mut count = 0;
        let info = allocation_counter::measure(|| count = work());
        println!("{name:<44} {:>5.1} allocations each", info.count_total as f64 / count as f64);
    });
}
