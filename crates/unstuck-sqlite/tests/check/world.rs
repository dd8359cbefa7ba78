//! A small store in which there is one of everything, for somebody to damage.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::{Command, Report, StartInput};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::{Flow, Kind, WaitFor};
use unstuck_core::time::Millis;
use unstuck_sqlite::verify::CheckReport;
use unstuck_store::conformance::driver::{Driver, large, user};
use unstuck_store::conformance::flows::{action, limited, sequence, step};
use unstuck_store::contract::{RunFilter, Store as _};

use crate::fixture::{Closed, Temporary};

/// A store that nobody has open, and who is who in it.
pub(crate) struct World {
    pub(crate) closed: Closed,
    pub(crate) flows: BTreeMap<FlowId, Arc<Flow>>,
    names: BTreeMap<&'static str, RunId>,
}

impl World {
    /// One of everything. With `parks`, every run has a row; otherwise only those that have ended do.
    pub(crate) fn new(parks: bool) -> World {
        let mut driver = Driver::new(if parks { Temporary::parking() } else { Temporary::new() });
        let plain = driver.keep(sequence("plain", vec![action("q"), action("r")]));
        let nap = driver.keep(sequence("nap", vec![step("nap", Kind::Wait(WaitFor::Span(Millis(700))))]));
        let family = driver.keep(sequence("family", vec![step("child", Kind::Child("nap".into()))]));
        let scarce = driver.keep(limited(sequence("scarce", vec![action("q")]), 1));
        let mut names = BTreeMap::new();
        let mut call = |name: &'static str, run: RunId| names.insert(name, run);

        let done = driver.start_with(&plain, |start| {
            (start.key, start.input) = (Some("first".into()), StartInput::New(large("input")));
            start.labels = Some(Arc::new([("team".to_owned(), "media".to_owned())].into()));
        });
        for step in 0..2 {
            driver.pass(Millis(5));
            driver.work(done, step);
            driver.say(done, step, Report::Complete { output: large("output") });
        }
        call("done", done);
        call("queued", driver.start_with(&plain, |start| start.key = Some("second".into())));
        call("napping", driver.start(&nap));
        call("parent", driver.start(&family));
        driver.deliver_all(9);
        call("child", newest(&mut driver));
        // Its child has a notice that tells it to end.
        let gone = driver.start(&family);
        driver.deliver_all(9);
        call("left", newest(&mut driver));
        driver.act(gone, Command::Cancel { by: user(), reason: None });
        call("gone", gone);
        // Its child is yet to be started.
        call("expecting", driver.start(&family));
        for name in ["has", "wants"] {
            call(name, driver.start(&scarce));
        }
        let long = driver.start(&plain);
        for _ in 0..20 {
            driver.act(long, Command::Pause { by: user(), reason: None });
            driver.act(long, Command::Unpause { by: user() });
        }
        call("long", long);
        let first = driver.store.admissible_runs(9).expect("reads");
        driver.act(first[0], Command::Admit);
        let Driver { store, flows, .. } = driver;
        World { closed: store.close(), flows, names }
    }

    /// Runs SQL in which `{name}` stands for the id of a run, and leaves no checksums that would tell: what is found then is
    /// found by what rows say.
    pub(crate) fn damage(&self, sql: &str) {
        self.rot(sql);
        self.rot(
            &["event", "payload", "notice", "policy", "flow"]
                .map(|table| format!("UPDATE {table} SET sum = NULL;"))
                .join(""),
        );
    }

    /// Runs SQL in which `{name}` stands for the id of a run.
    pub(crate) fn rot(&self, sql: &str) {
        let sql = self
            .names
            .iter()
            .fold(sql.to_owned(), |sql, (name, run)| sql.replace(&format!("{{{name}}}"), &run.0.to_string()));
        let connection = rusqlite::Connection::open(self.closed.file()).expect("opens");
        connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        connection.close().expect("closes");
    }

    pub(crate) fn check(&self) -> CheckReport {
        self.closed.check(&self.flows)
    }

    /// How a run is shown.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.names[name].to_string()
    }
}

/// The run that was made last.
fn newest(driver: &mut Driver<Temporary>) -> RunId {
    driver.store.list(&RunFilter::default(), None, 1).expect("lists")[0].id
}
