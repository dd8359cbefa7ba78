//! The embedded store, tested: its contract, crashes, full disks, failing disks, damaged files.

mod support;

mod claims;
mod contract;
mod crashes;
mod damage;
mod failing;
mod full;
mod full_for_real;
mod lies;
mod memory;
mod older;
mod opening;
mod permissions;
mod read_only;
mod rot;
mod simulated;
mod snapshots;
mod users;
