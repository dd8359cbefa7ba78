//! The tables, and how a file of an older schema is brought up to date.

use rusqlite::Connection;
use rusqlite::types::FromSql;
use unstuck_store::contract::StoreError;

use crate::error::{broken_store, store_error};

/// Each entry takes the schema from its place to the next; they are never changed, only added to.
const MIGRATIONS: [&str; 14] = [
    FIRST,
    ERRORS,
    BULKS,
    SUMS,
    RESTS,
    LOGS,
    OPEN,
    SNAPSHOTS,
    THINGS,
    READERS,
    LEDGER,
    FILTERS,
    FEWER_INDICES,
    SCHEDULES,
];

const FIRST: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- The truth: one row for each event, in order. `prev` is the row of the run's event before it, or 0.
CREATE TABLE event (
    pos  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    prev INTEGER NOT NULL CHECK (prev >= 0 AND prev < pos),
    body TEXT NOT NULL
);

-- Where a run stands, once it has parked or ended; what is newer is in the log.
CREATE TABLE run (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    state  TEXT NOT NULL,
    parent INTEGER,
    head   INTEGER NOT NULL CHECK (head > 0),
    slot   TEXT,
    local  INTEGER NOT NULL
);
CREATE INDEX run_local ON run (id) WHERE local = 1;
CREATE INDEX run_slot ON run (id) WHERE slot IS NOT NULL;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;

-- What will move a run that has parked. `step` is -1 for the run itself, `item` -1 for a step.
CREATE TABLE wake (
    run     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    item    INTEGER NOT NULL,
    -- Without signs of life it would have been due when `planned` says.
    due     INTEGER,
    planned INTEGER,
    heard   INTEGER,
    ready   TEXT,
    PRIMARY KEY (run, step, item)
) WITHOUT ROWID;

-- Leases that signs of life have moved, which is no event.
CREATE TABLE lease (
    run     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    item    INTEGER NOT NULL,
    due     INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    heard   INTEGER NOT NULL,
    PRIMARY KEY (run, step, item)
) WITHOUT ROWID;

CREATE TABLE run_key (
    flow TEXT NOT NULL,
    key  TEXT NOT NULL,
    run  INTEGER NOT NULL,
    PRIMARY KEY (flow, key)
) WITHOUT ROWID;

CREATE TABLE payload (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE notice (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE flow (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    source    TEXT NOT NULL,
    directory TEXT NOT NULL,
    UNIQUE (name, version)
);
";

/// Policies and errors. What is there of runs is as it was; whether they are in error is looked at when an engine starts,
/// which knows their flows.
const ERRORS: &str = "
CREATE TABLE policy (
    id   TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    age  INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE policy_audit (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE policy_hit (policy TEXT PRIMARY KEY, hits INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;

-- Every error, in order of time. `flow` is the flow of the root run.
CREATE TABLE error (
    id     INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    grp    TEXT NOT NULL,
    flow   TEXT NOT NULL,
    action TEXT NOT NULL,
    body   TEXT NOT NULL
);
CREATE INDEX error_run ON error (run);
CREATE INDEX error_at ON error (at);
CREATE INDEX error_grp ON error (grp);

-- What is counted of a group stays when runs are forgotten.
CREATE TABLE error_group (
    id      TEXT PRIMARY KEY,
    action  TEXT NOT NULL,
    pattern TEXT NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    count   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX error_group_last ON error_group (last);
CREATE TABLE error_group_flow (
    grp   TEXT NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (grp, flow)
) WITHOUT ROWID;

-- The steps that are in error now. `item` is -1 for a step.
CREATE TABLE open_error (
    run          INTEGER NOT NULL,
    step         INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    grp          TEXT NOT NULL,
    flow         TEXT NOT NULL,
    action       TEXT NOT NULL,
    acknowledged INTEGER NOT NULL,
    -- The policy that will resume it: its id, and its name then.
    policy       TEXT,
    policy_name  TEXT,
    body         TEXT NOT NULL,
    PRIMARY KEY (run, step, item)
) WITHOUT ROWID;
-- It has all that is counted.
CREATE INDEX open_error_group ON open_error (grp, run, step, item, acknowledged, policy, policy_name);

-- Runs that may have been in error before this was kept.
CREATE TABLE unexamined (run INTEGER PRIMARY KEY);
INSERT INTO unexamined
    SELECT id FROM run WHERE state NOT IN ('completed', 'failed', 'cancelled', 'superseded')
    UNION
    SELECT run FROM event WHERE pos > coalesce((SELECT value FROM meta WHERE name = 'flushed'), 0);
-- Errors of later events are recorded.
INSERT INTO meta (name, value) SELECT 'errors_from',
    max(coalesce((SELECT max(pos) FROM event), 0), coalesce((SELECT value FROM meta WHERE name = 'flushed'), 0));
";

/// Bulk actions.
const BULKS: &str = "
-- `body` is NULL while its targets are being written: then nobody knows of it yet.
CREATE TABLE bulk (id INTEGER PRIMARY KEY, total INTEGER, open INTEGER NOT NULL, body TEXT);
CREATE INDEX bulk_open ON bulk (id) WHERE open = 1;

-- `step` is -1 where the run itself is the target, `item` -1 for a step. `why` is the cause of a failure, or of a refusal.
CREATE TABLE bulk_target (
    bulk   INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    run    INTEGER NOT NULL,
    step   INTEGER NOT NULL,
    item   INTEGER NOT NULL,
    result TEXT NOT NULL,
    why    TEXT,
    PRIMARY KEY (bulk, place)
) WITHOUT ROWID;
";

/// Checksums (see `sums.rs`), which rows from before have none of; and the ids of a flow's steps in the order in which events,
/// tokens and rows number them.
const SUMS: &str = "
ALTER TABLE event ADD COLUMN sum INTEGER;
ALTER TABLE payload ADD COLUMN sum INTEGER;
ALTER TABLE notice ADD COLUMN sum INTEGER;
ALTER TABLE policy ADD COLUMN sum INTEGER;
ALTER TABLE flow ADD COLUMN steps TEXT;
ALTER TABLE flow ADD COLUMN sum INTEGER;
";

/// Which runs have a step in error (1) or held (2), whatever their state; rows from before do not say. What is open, and what
/// has not completed, is found without reading what has.
const RESTS: &str = "
ALTER TABLE run ADD COLUMN rests INTEGER;
CREATE INDEX run_open ON run (id) WHERE state NOT IN ('completed', 'failed', 'cancelled', 'superseded');
CREATE INDEX run_not_completed ON run (id) WHERE state <> 'completed';
";

/// What attempts printed.
const LOGS: &str = "
-- Numbered within a run from 1 on; the oldest are dropped, so that the first place tells how many were.
CREATE TABLE attempt_log (
    id    INTEGER PRIMARY KEY,
    run   INTEGER NOT NULL,
    place INTEGER NOT NULL,
    size  INTEGER NOT NULL,
    body  TEXT NOT NULL,
    sum   INTEGER
);
CREATE INDEX attempt_log_run ON attempt_log (run, place, size);
";

/// For a list of values SQLite makes a table with every row that it writes, to look whether an index has it. One comparison
/// after the other costs nothing.
const OPEN: &str = "
DROP INDEX run_open;
CREATE INDEX run_open ON run (id)
    WHERE state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded';
";

/// States of runs with long histories.
const SNAPSHOTS: &str = "
-- What replaying the history of a run up to the event at `head` gives: never the truth, and made again where it is missing.
CREATE TABLE run_snapshot (
    run    INTEGER PRIMARY KEY,
    head   INTEGER NOT NULL,
    format INTEGER NOT NULL,
    body   TEXT NOT NULL,
    sum    INTEGER NOT NULL
);
";

/// Bulk actions are things with a version; and how often a notice could not be delivered, and when it is tried next.
const THINGS: &str = "
ALTER TABLE bulk ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);
ALTER TABLE notice ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notice ADD COLUMN due INTEGER NOT NULL DEFAULT 0;
";

/// What readers need: lists by any filter without reading what does not fit, and counts without counting. Rows from before
/// do not say the version of their flow, nor what lists tell of them: these are made from their histories.
const READERS: &str = "
ALTER TABLE run ADD COLUMN version INTEGER;
-- What lists tell of a run and other columns do not say.
ALTER TABLE run ADD COLUMN summary TEXT;
DROP INDEX run_open;
DROP INDEX run_not_completed;
-- What tells this store from others, in cursors of tails.
INSERT INTO meta (name, value) VALUES ('number', abs(random() >> 1));
-- The id is the last column of each.
CREATE INDEX run_state ON run (state, (parent IS NOT NULL));
CREATE INDEX run_version ON run (version, state, (parent IS NOT NULL)) WHERE version IS NOT NULL;
CREATE INDEX run_rests ON run (rests, (parent IS NOT NULL)) WHERE rests > 0;
CREATE INDEX run_version_rests ON run (version, rests, (parent IS NOT NULL)) WHERE rests > 0;
-- Rows from before something was kept.
CREATE INDEX run_unversioned ON run (flow) WHERE version IS NULL;
CREATE INDEX run_rests_unknown ON run (id) WHERE rests IS NULL
    AND state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded';

-- How many rows there are of each kind; `hour` is that of the start, in ids, for runs that are over, and else 0.
CREATE TABLE run_count (
    state TEXT NOT NULL,
    child INTEGER NOT NULL,
    hour  INTEGER NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (state, child, hour, flow)
) WITHOUT ROWID;
INSERT INTO run_count
    SELECT state, parent IS NOT NULL,
        CASE WHEN state IN ('completed', 'failed', 'cancelled', 'superseded') THEN id / (3600000 << 22) ELSE 0 END,
        flow, count(*)
    FROM run GROUP BY 1, 2, 3, 4;

-- Where some events of a run are, so that its history is read from its middle. Runs from before have marks for later ones.
CREATE TABLE event_mark (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

CREATE INDEX wake_due ON wake (due, run) WHERE due IS NOT NULL;
CREATE INDEX error_grp_run ON error (grp, run);
DROP INDEX error_group_last;
CREATE INDEX error_group_order ON error_group (last DESC, id);

-- What is open of each group, counted: steps that nobody has acknowledged, their runs, and those that somebody has.
CREATE TABLE error_open (
    grp          TEXT PRIMARY KEY,
    open         INTEGER NOT NULL,
    runs         INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO error_open
    SELECT grp, sum(NOT acknowledged), count(DISTINCT CASE WHEN acknowledged THEN NULL ELSE run END), sum(acknowledged)
    FROM open_error GROUP BY grp;
-- And how many of the first a policy will resume, by its name.
CREATE TABLE error_open_policy (
    grp    TEXT NOT NULL,
    policy TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (grp, policy)
) WITHOUT ROWID;
INSERT INTO error_open_policy
    SELECT grp, policy_name, count(*) FROM open_error
    WHERE NOT acknowledged AND policy_name IS NOT NULL GROUP BY grp, policy_name;
";

/// What is kept of those who change something: who applied a flow, the keys that requests came under, tokens of the API, and
/// an audit. What is there from before was applied by nobody known.
const LEDGER: &str = "
-- `applied_at` and `who` are NULL for a version that was kept before this was.
CREATE TABLE flow_status (
    flow       INTEGER PRIMARY KEY,
    applied_at INTEGER,
    who        TEXT,
    deleted    INTEGER NOT NULL,
    sum        INTEGER NOT NULL
);

-- Requests that were carried out under a key: removed a day later, when others come.
CREATE TABLE idempotency (
    scope TEXT NOT NULL,
    key   TEXT NOT NULL,
    at    INTEGER NOT NULL,
    body  TEXT NOT NULL,
    sum   INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

-- Tokens of the API: of their secrets, digests only.
CREATE TABLE token (id INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE token_use (token INTEGER PRIMARY KEY, at INTEGER NOT NULL);

-- Who changed what. What a policy was and is, is in `policy_audit`, and what happened to a run in its history.
CREATE TABLE audit (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    who  TEXT NOT NULL,
    what TEXT NOT NULL,
    run  INTEGER,
    body TEXT NOT NULL,
    sum  INTEGER NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_who ON audit (who);
CREATE INDEX audit_what ON audit (what);
CREATE INDEX audit_run ON audit (run) WHERE run IS NOT NULL;
";

/// What more filters of lists need. Summaries of runs that are not final tell more from now on: those from before are made
/// from their histories.
const FILTERS: &str = "
-- Labels that runs were started with; those of flows are not here.
CREATE TABLE run_label (
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    run   INTEGER NOT NULL,
    PRIMARY KEY (name, value, run)
) WITHOUT ROWID;
UPDATE run SET summary = NULL
    WHERE state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded';
";

/// Fewer indices of runs: whoever writes a row writes to each of them. Those by state and by version become one, and of runs
/// with a step in error or held only those are indexed apart that their state does not tell of.
const FEWER_INDICES: &str = "
DROP INDEX run_state;
DROP INDEX run_version;
DROP INDEX run_rests;
DROP INDEX run_version_rests;
-- The id is the last column of both.
CREATE INDEX run_list ON run (state, (parent IS NOT NULL), version);
CREATE INDEX run_rests ON run (rests, (parent IS NOT NULL), version)
    WHERE rests <> (state = 'error') + 2 * (state = 'held');
";

/// Schedules, one for each flow that is started by the clock.
const SCHEDULES: &str = "
CREATE TABLE schedule (
    id      INTEGER PRIMARY KEY,
    flow    TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL
);
";

/// What the file says it is: the letters `Unst`.
const APPLICATION: i32 = 0x556e_7374;

/// Refuses a file that is no store of ours, or of a newer schema, before anything is written to it.
pub(crate) fn check_kind(connection: &Connection) -> Result<(), StoreError> {
    let version = schema_version(connection)?;
    let application: i32 = read_pragma(connection, "application_id")?;
    let is_empty = read_pragma::<i64>(connection, "schema_version")? == 0;
    if application != APPLICATION && !is_empty {
        return Err(broken_store("it is a database but not a store of Unstuck: give another folder"));
    }
    if version > MIGRATIONS.len() {
        return Err(broken_store(format!(
            "it was written by a newer version of Unstuck (schema {version}, this version knows {}): use the newer version",
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

/// The version of the tables that this version of the store makes.
#[expect(clippy::cast_possible_truncation, reason = "there are a handful")]
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Refuses a file of an older schema, where it cannot be brought up to date.
pub(crate) fn check_current(connection: &Connection) -> Result<(), StoreError> {
    let (found, known) = (schema_version(connection)?, MIGRATIONS.len());
    if found == known {
        return Ok(());
    }
    Err(broken_store(format!(
        "it has an older schema ({found}, this version has {known}) and is not writable; copy the folder with all of its \
         files to a writable disk, and give that folder"
    )))
}

/// Brings the schema up to date.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version = schema_version(connection)?;
    for (version, migration) in (1u32..).zip(MIGRATIONS).skip(version) {
        let transaction = connection.transaction().map_err(store_error)?;
        transaction.execute_batch(migration).map_err(store_error)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(store_error)?;
        transaction.pragma_update(None, "user_version", version).map_err(store_error)?;
        transaction.commit().map_err(store_error)?;
    }
    Ok(())
}

/// Whether a file has the tables of this version.
pub(crate) fn is_current(connection: &Connection) -> Result<bool, StoreError> {
    Ok(schema_version(connection)? == MIGRATIONS.len())
}

fn schema_version(connection: &Connection) -> Result<usize, StoreError> {
    read_pragma::<u32>(connection, "user_version").map(|version| version as usize)
}

fn read_pragma<T: FromSql>(connection: &Connection, name: &str) -> Result<T, StoreError> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::run::PUT_RUN;

    /// Every run that ends has its row written: a table that is made for each of them would cost more than the rest.
    #[test]
    fn no_table_is_made_to_write_the_row_of_a_run() {
        let mut connection = Connection::open_in_memory().expect("opens");
        migrate(&mut connection).expect("brought up to date");
        let mut statement = connection.prepare(&format!("EXPLAIN {PUT_RUN}")).expect("right");
        let steps = statement.raw_query().mapped(|row| row.get(1));
        let steps: Vec<String> = steps.collect::<Result<_, _>>().expect("explained");
        assert!(steps.iter().any(|step| step == "IdxInsert"), "{steps:?}");
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{steps:?}");
    }
}
