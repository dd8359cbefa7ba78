//! The executors, against real processes and real time.

mod emulation;
mod function;
mod left_over;
mod process;
mod process_groups;
mod support;
