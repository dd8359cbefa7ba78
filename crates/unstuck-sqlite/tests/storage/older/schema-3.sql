-- A store as it was written before there were checksums and the order of steps was kept: a run of a flow whose file
-- does not name its steps in the order in which they run, with payloads, and one that waits for a signal.
BEGIN TRANSACTION;
CREATE TABLE bulk (id INTEGER PRIMARY KEY, total INTEGER, open INTEGER NOT NULL, body TEXT);
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
CREATE TABLE error (
    id     INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    grp    TEXT NOT NULL,
    flow   TEXT NOT NULL,
    action TEXT NOT NULL,
    body   TEXT NOT NULL
);
CREATE TABLE error_group (
    id      TEXT PRIMARY KEY,
    action  TEXT NOT NULL,
    pattern TEXT NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    count   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE error_group_flow (
    grp   TEXT NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (grp, flow)
) WITHOUT ROWID;
CREATE TABLE event (
    pos  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    prev INTEGER NOT NULL CHECK (prev >= 0 AND prev < pos),
    body TEXT NOT NULL
);
INSERT INTO "event" VALUES(1,910282332596862976,0,'{"e":{"seq":1,"generation":1,"at":1794865020319,"by":{"User":"somebody"},"facts":[{"Started":{"run":910282332596862976,"flow":1,"steps":2,"key":"one","input":{"Stored":910282332596862977},"input_digest":"e252b0075af25ddd","origin":"Root","root_flow":"older","home":"0087148cf5c0f06a"}},{"Unit":{"unit":{"step":0},"fact":{"Done":{"output":{"Stored":910282332596862978}}}}},{"Unit":{"unit":{"step":1},"fact":{"Done":{"output":{"Inline":{"length":360}}}}}},{"Completed":{"output":{"Inline":{"length":360}}}}]},"w":{"a":true}}');
INSERT INTO "event" VALUES(2,910282332949184512,0,'{"e":{"seq":1,"generation":1,"at":1794865020403,"by":{"User":"somebody"},"facts":[{"Started":{"run":910282332949184512,"flow":2,"steps":1,"input":{"Inline":{}},"origin":"Root","root_flow":"stops","home":"66a1fceb7e164715"}},{"Unit":{"unit":{"step":0},"fact":{"SignalAwaited":{"name":"go","until":null}}}}]},"w":{"a":true}}');
CREATE TABLE flow (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    source    TEXT NOT NULL,
    directory TEXT NOT NULL,
    UNIQUE (name, version)
);
INSERT INTO "flow" VALUES(1,'older','1','{"flow":"older","steps":[{"id":"report","needs":["fetch"],"set":{"length":"${ size(steps.fetch.output) }"}},{"id":"fetch","needs":[],"set":"${ input.text }"}]}','/flows');
INSERT INTO "flow" VALUES(2,'stops','1','{"flow":"stops","steps":[{"id":"ask","signal":"go"}]}','/flows');
CREATE TABLE lease (
    run     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    item    INTEGER NOT NULL,
    due     INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    heard   INTEGER NOT NULL,
    PRIMARY KEY (run, step, item)
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('epoch',1);
INSERT INTO "meta" VALUES('errors_from',0);
INSERT INTO "meta" VALUES('flushed',1);
INSERT INTO "meta" VALUES('incarnation',2);
INSERT INTO "meta" VALUES('last_id',910282332949184512);
INSERT INTO "meta" VALUES('last_time',1794865020403);
INSERT INTO "meta" VALUES('token_key',X'1D4694B484141D5F8A8C1F46384D09B21868AC23663779F9185D8918FAD18CF8');
CREATE TABLE notice (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
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
CREATE TABLE payload (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, body TEXT NOT NULL);
INSERT INTO "payload" VALUES(910282332596862977,910282332596862976,'{"text":"lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum "}');
INSERT INTO "payload" VALUES(910282332596862978,910282332596862976,'"lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum "');
CREATE TABLE policy (
    id   TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    age  INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE policy_audit (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE policy_hit (policy TEXT PRIMARY KEY, hits INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE run (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    state  TEXT NOT NULL,
    parent INTEGER,
    head   INTEGER NOT NULL CHECK (head > 0),
    slot   TEXT,
    local  INTEGER NOT NULL
);
INSERT INTO "run" VALUES(910282332596862976,'older','completed',NULL,1,NULL,0);
CREATE TABLE run_key (
    flow TEXT NOT NULL,
    key  TEXT NOT NULL,
    run  INTEGER NOT NULL,
    PRIMARY KEY (flow, key)
) WITHOUT ROWID;
INSERT INTO "run_key" VALUES('older','one',910282332596862976);
CREATE TABLE unexamined (run INTEGER PRIMARY KEY);
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
CREATE INDEX run_local ON run (id) WHERE local = 1;
CREATE INDEX run_slot ON run (id) WHERE slot IS NOT NULL;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX error_run ON error (run);
CREATE INDEX error_at ON error (at);
CREATE INDEX error_grp ON error (grp);
CREATE INDEX error_group_last ON error_group (last);
CREATE INDEX open_error_group ON open_error (grp, run, step, item, acknowledged, policy, policy_name);
CREATE INDEX bulk_open ON bulk (id) WHERE open = 1;
COMMIT;
PRAGMA application_id = 1433301876;
PRAGMA user_version = 3;
