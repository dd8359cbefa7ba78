//! The executors, against real processes and real time.

mod emulation;
mod function;
mod left_over;
mod printed;
mod process;
mod process_groups;
mod support;
