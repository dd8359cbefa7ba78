//! Random flows, policies, workers and operators under faults, from a seed; and every promise watched.

pub mod promises;
