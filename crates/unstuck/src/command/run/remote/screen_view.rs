//! The live view of a run on a server, from its document.

use unstuck_api::Run;
use unstuck_core::time::Time;

use super::super::screen::Row;
use super::super::show::View;
use super::super::view;
use crate::view::style::Look;

/// The run as it was when it was last looked at.
#[derive(Default)]
pub(super) struct RunScreen {
    pub(super) run: Option<Run>,
}

impl View for RunScreen {
    fn rows(&self, now: Time, size: (usize, usize), look: Look) -> Vec<Row> {
        self.run.as_ref().map(|run| view::document_rows(run, now, size, look)).unwrap_or_default()
    }
}
