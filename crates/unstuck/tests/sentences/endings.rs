//! Why attempts are not handed over and how they end, what is wrong with policies, and what keeps a store from being opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use unstuck_api::bulk::ResultKind;
use unstuck_core::eligible::NotEligible;
use unstuck_core::model::attempt::{Cancelled, StuckLimit};
use unstuck_core::policy::{Criteria, DraftBackOff, NotSuggested, Policies, PolicyDraft, PolicyProblem};
use unstuck_core::time::Millis;
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::StoreError;

use crate::scenes::policy;
use crate::{Line, in_order};

/// The file of a store.
const DATABASE: &str = "unstuck.db";

labels!(LIMITS, of_limit(StuckLimit), {
    StuckLimit::Start(_) => "stuck Start",
    StuckLimit::Heartbeat(_) => "stuck Heartbeat",
    StuckLimit::Total(_) => "stuck Total",
    StuckLimit::Gone => "stuck Gone",
});

labels!(CANCELLED, of_cancelled(Cancelled), {
    Cancelled::RunCancelled => "cancelled RunCancelled",
    Cancelled::Deadline => "cancelled Deadline",
    Cancelled::RunFailing => "cancelled RunFailing",
    Cancelled::Released => "cancelled Released",
    Cancelled::Operator => "cancelled Operator",
});

labels!(NOT_SUGGESTED, of_not_suggested(NotSuggested), {
    NotSuggested::Fatal => "not suggested Fatal",
    NotSuggested::Data => "not suggested Data",
    NotSuggested::Mistake(_) => "not suggested Mistake",
});

labels!(NOT_ELIGIBLE, of_not_eligible(NotEligible), {
    NotEligible::OtherQueue => "not eligible OtherQueue",
    NotEligible::NoRoom { .. } => "not eligible NoRoom",
    NotEligible::NotIdle => "not eligible NotIdle",
    NotEligible::Outranked { .. } => "not eligible Outranked",
});

/// Why a worker is not handed an attempt.
pub(crate) fn of_hand_overs() -> Vec<Line> {
    let all = [
        NotEligible::OtherQueue,
        NotEligible::NoRoom { load: 2, free: 1 },
        NotEligible::NoRoom { load: 2, free: 0 },
        NotEligible::NotIdle,
        NotEligible::Outranked { waiting: 5 },
    ];
    in_order(NOT_ELIGIBLE, all.iter().map(|why| (of_not_eligible(why), why.to_string())).collect())
}

/// How attempts end, and the results of bulk actions.
pub(crate) fn of_attempts() -> Vec<Line> {
    let span = Millis::seconds(30);
    let limits =
        [StuckLimit::Start(span), StuckLimit::Heartbeat(span), StuckLimit::Total(span), StuckLimit::Gone];
    let cancelled = [
        Cancelled::RunCancelled,
        Cancelled::Deadline,
        Cancelled::RunFailing,
        Cancelled::Released,
        Cancelled::Operator,
    ];
    let mut lines =
        in_order(LIMITS, limits.iter().map(|limit| (of_limit(limit), limit.to_string())).collect());
    lines.extend(in_order(
        CANCELLED,
        cancelled.iter().map(|why| (of_cancelled(why), why.text().to_owned())).collect(),
    ));
    lines.extend(ResultKind::ALL.map(|kind| (format!("bulk {kind:?}"), kind.word().to_owned())));
    lines
}

/// What is wrong with policies, and why none is suggested.
pub(crate) fn of_policies() -> Vec<Line> {
    let back_off =
        DraftBackOff { delay: Some(60_000), max_delay: Some(1_000), multiplier: Some(0.5), random: false };
    let random = DraftBackOff { delay: Some(-1), random: true, ..DraftBackOff::default() };
    let action = Criteria { action: Some("fetch".into()), ..Criteria::default() };
    let drafts = [
        PolicyDraft::default(),
        PolicyDraft { max_attempts: Some(1), back_off: Some(back_off), ..PolicyDraft::default() },
        PolicyDraft { criteria: action, back_off: Some(random), ..PolicyDraft::default() },
        PolicyDraft { back_off: Some(DraftBackOff::default()), ..PolicyDraft::default() },
    ];
    let mut lines: Vec<Line> = Vec::new();
    let problems = drafts.iter().flat_map(|draft| draft.check(&"id".into(), 0).expect_err("wrong"));
    let both = vec![policy("resets", "reset"), policy("resets", "reset"), policy("others", "reset")];
    let both = Policies::new(both).expect_err("they conflict").into_iter().map(|(_, problem)| problem);
    for PolicyProblem { field, message, hint } in problems.chain(both) {
        let line = (field.to_owned(), format!("{message}; {hint}"));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let reasons = [NotSuggested::Fatal, NotSuggested::Data, NotSuggested::Mistake("TypeError")];
    let reasons = reasons.iter().map(|why| (of_not_suggested(why), why.to_string())).collect();
    lines.extend(in_order(NOT_SUGGESTED, reasons));
    lines
}

/// What keeps a store from being opened, copied or checked.
pub(crate) fn of_folders() -> Vec<Line> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut lines = Vec::new();
    let mut add = |label: &str, error: StoreError| {
        let text = error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
        lines.push((label.to_owned(), text));
    };
    let store = path("store");
    let opened = SqliteStore::open(&store).expect("opens");
    add("open twice", refused(&store));
    add("copy to a folder in use", unstuck_sqlite::copy(&store, &store).expect_err("in use"));
    drop(opened);
    add("check of nothing", check(&path("nothing")));
    for (label, at, bytes) in [("newer schema", 60, 999_u32), ("another database", 68, 7)] {
        let other = path(label);
        unstuck_sqlite::copy(&store, &other).expect("copied");
        let mut content = fs::read(other.join(DATABASE)).expect("read");
        content[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
        fs::write(other.join(DATABASE), content).expect("written");
        add(label, refused(&other));
    }
    let damaged = path("damaged");
    unstuck_sqlite::copy(&store, &damaged).expect("copied");
    fs::write(damaged.join(DATABASE), "this is no database".repeat(1_000)).expect("written");
    add("no database", refused(&damaged));
    symlink(&store, path("link")).expect("linked");
    add("symbolic link", refused(&path("link")));
    fs::write(path("file"), "").expect("written");
    add("a file in place of the folder", refused(&path("file")));
    lines
}

fn refused(folder: &Path) -> StoreError {
    SqliteStore::open(folder).expect_err("it is refused")
}

fn check(folder: &Path) -> StoreError {
    let compile = &mut |_: &_| Err("no flow is known".to_owned());
    unstuck_sqlite::verify::check(folder, compile, &mut |_| {}).expect_err("it is refused")
}
