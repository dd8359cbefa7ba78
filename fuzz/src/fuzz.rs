//! libFuzzer's program: one target, named by `UNSTUCK_FUZZ`.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use unstuck_fuzz::{TARGETS, Target, target};

fuzz_target!(|bytes: &[u8]| (chosen().check)(bytes));

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("UNSTUCK_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            panic!("UNSTUCK_FUZZ is `{name}`; it names one of: {}", names.join(", "))
        })
    })
}
