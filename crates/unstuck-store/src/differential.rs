//! The same random session for two stores: they must agree about everything, all the time.
//!
//! Runs are decided by the core: started, claimed, completed, failed, deferred, paused, cancelled, rerun, with children
//! and items, keys and slots; errors are resumed by policies that come and go, acknowledged and worked around; batches are
//! abandoned, rolled back and tampered with; stages become durable late, fail, or are lost with the process.

mod errors;
mod session;
pub mod twin;

use unstuck_core::random::Random;

use crate::conformance::TestStore;
use crate::conformance::driver::Driver;
use crate::differential::session::RandomSession;
use crate::differential::twin::Twin;

/// Leads two stores through the same `steps` steps of a session that `seed` decides. The first, the oracle, is made again
/// from what is durable when the other one loses something. Both must number flows alike.
pub fn check_stores_agree<A: TestStore, B: TestStore>(
    mut make_oracle: impl FnMut() -> A,
    mut make: impl FnMut() -> B,
    seed: u64,
    steps: usize,
) {
    let on_panic = SeedOnPanic { seed, steps };
    let twin = Twin::new(&mut make_oracle, make());
    let mut session = RandomSession::new(Driver::new(twin), Random::new(seed));
    for step in 0..steps {
        session = session.step(step);
    }
    session.end();
    drop(on_panic);
}

/// Tells which session it was, when it ends badly.
struct SeedOnPanic {
    seed: u64,
    steps: usize,
}

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the stores disagree in the session of seed {}, of {} steps", self.seed, self.steps);
        }
    }
}
