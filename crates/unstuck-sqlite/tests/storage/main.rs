//! The embedded store, tested: its contract, crashes, full disks, failing disks, damaged files.

mod support;

mod contract;
mod crashes;
mod lies;
