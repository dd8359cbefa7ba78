//! `store check`: a store that Unstuck has written has no findings at any moment, and each damage has its own.

#[path = "check/bulks.rs"]
mod bulks;
#[path = "check/damages.rs"]
mod damages;
#[path = "check/errors.rs"]
mod errors;
#[path = "check/files.rs"]
mod files;
#[path = "check/fixture.rs"]
mod fixture;
#[path = "check/requests.rs"]
mod requests;
#[path = "check/schedules.rs"]
mod schedules;
#[path = "check/sessions.rs"]
mod sessions;
#[path = "check/world.rs"]
mod world;
