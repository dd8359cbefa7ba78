//! What is read back from a store.

use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::replay::replay_event;
use unstuck_core::snapshot::{read_snapshot, write_snapshot};
use unstuck_sqlite::StoredKind;
use unstuck_store::verify::history::HistoryCheck;

/// A line with the kind of a row, and its text.
pub(crate) fn row(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((kind, text)) = text.split_once('\n') else { return };
    let Some(kind) = StoredKind::ALL.into_iter().find(|known| known.what() == kind) else { return };
    match kind.read_and_write(text) {
        Ok(once) => {
            let twice = kind.read_and_write(&once).unwrap_or_else(|error| panic!("{error}: {once}"));
            assert_eq!(twice, once, "what is written is read as the same");
        }
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
    }
}

/// A line with the state of a run, then events, one to a line.
pub(crate) fn snapshot(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.lines();
    let Some(Ok(run)) = lines.next().map(read_snapshot) else { return };
    let mut run = Some(run);
    for line in lines {
        let Ok(event) = serde_json::from_str::<Event>(line) else { return };
        if replay_event(&mut run, &event).is_err() {
            return;
        }
    }
    let Some(run) = run else { return };
    assert!(!run.state().word().is_empty());
    let kept = write_snapshot(&run).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read_snapshot(&kept), Ok(run), "what is kept is read as the same");
}

/// Events, one to a line.
pub(crate) fn history(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut history = HistoryCheck::new(RunId(1));
    let mut findings = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<Event>(line) {
            Ok(event) => history.check_event(&event, &mut findings),
            Err(_) => history.mark_unreadable(),
        }
    }
    for finding in findings {
        assert!(!finding.place.is_empty() && !finding.what.is_empty(), "{finding:?}");
    }
    if let Some(run) = history.run() {
        assert_eq!(run.seq, history.seq());
        assert!(!run.state().word().is_empty());
    }
}
