//! Each promise, broken on purpose: a watch that cannot bark is no watch.
