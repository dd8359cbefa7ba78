PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('downtimes','[{"from":1794967920546,"to":1794967932124}]');
INSERT INTO meta VALUES('end',12);
INSERT INTO meta VALUES('epoch',1);
INSERT INTO meta VALUES('errors_from',0);
INSERT INTO meta VALUES('flushed',0);
INSERT INTO meta VALUES('incarnation',8);
INSERT INTO meta VALUES('last_error',3);
INSERT INTO meta VALUES('last_id',910713997488029696);
INSERT INTO meta VALUES('last_time',1794967937249);
INSERT INTO meta VALUES('number',738007410226791805);
INSERT INTO meta VALUES('owner','8 22987.0');
INSERT INTO meta VALUES('policy_switch','{"version":0,"state":"on"}');
INSERT INTO meta VALUES('stage',10);
INSERT INTO meta VALUES('token_key',X'b82e396f89890796af983bcaf7044a5bd25ca25185261670633451385cadc1db');
CREATE TABLE event (
    pos  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    prev INTEGER NOT NULL CHECK (prev >= 0 AND prev < pos),
    body TEXT NOT NULL
, sum INTEGER);
INSERT INTO event VALUES(1,910713926532988928,0,'{"e":{"seq":1,"generation":1,"at":1794967920332,"by":{"User":"ada"},"facts":[{"Started":{"run":910713926532988928,"flow":1,"steps":1,"key":"k-errs","input":{"Inline":{}},"input_digest":"44136fa355b3678a","origin":"Root","root_flow":"errs","home":"b9416a8a7a6ba209"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}},{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"emulation","incarnation":1,"local":true}}}}}]},"w":{"a":true,"l":[[0,null,1795011120332,null]]}}',-283399723);
INSERT INTO event VALUES(2,910713926532988928,1,'{"e":{"seq":2,"generation":1,"at":1794967920341,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',-1506327224);
INSERT INTO event VALUES(3,910713926834978816,0,'{"e":{"seq":1,"generation":1,"at":1794967920404,"by":{"User":"ada"},"facts":[{"Started":{"run":910713926834978816,"flow":2,"steps":1,"key":"k-done","input":{"Inline":{}},"input_digest":"44136fa355b3678a","origin":"Root","root_flow":"done","home":"2b0b3fc93db25f53"}},{"Unit":{"unit":{"step":0},"fact":{"Done":{"output":{"Inline":1}}}}},{"Completed":{"output":{"Inline":1}}}]},"w":{"a":true}}',-1040502782);
INSERT INTO event VALUES(4,910713927174717440,0,'{"e":{"seq":1,"generation":1,"at":1794967920485,"by":{"User":"ada"},"facts":[{"Started":{"run":910713927174717440,"flow":3,"steps":1,"key":"k-holds","input":{"Inline":{}},"input_digest":"44136fa355b3678a","origin":"Root","root_flow":"holds","home":"2de3392fd4dacf7b"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}},{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"emulation","incarnation":3,"local":true}}}}}]},"w":{"a":true,"l":[[0,null,1795011120485,null]]}}',-1406072309);
INSERT INTO event VALUES(5,910713927174717440,4,'{"e":{"seq":2,"generation":1,"at":1794967920497,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"disk","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Held"}}]},"w":{"l":[[0,null,null,null]]}}',708578337);
INSERT INTO event VALUES(6,910713927430569984,0,'{"e":{"seq":1,"generation":1,"at":1794967920546,"by":{"User":"ada"},"facts":[{"Started":{"run":910713927430569984,"flow":5,"steps":1,"key":"k-parent","input":{"Inline":{}},"input_digest":"44136fa355b3678a","origin":"Root","root_flow":"parent","home":"37b2980430ea8d8b"}},{"Unit":{"unit":{"step":0},"fact":{"ChildStarted":{"attempt":1,"resumed_by":null,"run":910713927430569985}}}}]}}',1268892272);
INSERT INTO event VALUES(7,910713927430569984,6,'{"e":{"seq":2,"generation":1,"at":1794967920546,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":1}}}}}},{"Completed":{"output":{"Inline":1}}}]},"w":{"a":true}}',1111518);
INSERT INTO event VALUES(8,910713927430569985,0,'{"e":{"seq":1,"generation":1,"at":1794967920546,"by":"Engine","facts":[{"Started":{"run":910713927430569985,"flow":2,"steps":1,"input":{"Inline":{}},"origin":{"Child":{"parent":910713927430569984,"unit":{"step":0},"serves":{"generation":1,"attempt":1},"in_handler":false}},"root_flow":"parent","nesting":{"depth":1,"flows":["parent"]},"home":"37b2980430ea8d8b"}},{"Unit":{"unit":{"step":0},"fact":{"Done":{"output":{"Inline":1}}}}},{"Completed":{"output":{"Inline":1}}}]},"w":{"a":true}}',-1851733282);
INSERT INTO event VALUES(9,910713926532988928,2,'{"e":{"seq":3,"generation":1,"at":1794967932124,"by":{"User":"ada"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Acknowledged":{"reason":"known"}}}}]},"w":{"l":[[0,null,null,null]]}}',344794059);
INSERT INTO event VALUES(10,910713976562647040,0,'{"e":{"seq":1,"generation":1,"at":1794967932260,"by":{"User":"ada"},"facts":[{"Started":{"run":910713976562647040,"flow":1,"steps":1,"key":"k2-errs","input":{"Inline":{}},"input_digest":"44136fa355b3678a","origin":"Root","root_flow":"errs","home":"6c5018a5e8a8c541"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}},{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"emulation","incarnation":7,"local":true}}}}}]},"w":{"a":true,"l":[[0,null,1795011132260,null]]}}',-1064394148);
INSERT INTO event VALUES(11,910713976562647040,10,'{"e":{"seq":2,"generation":1,"at":1794967932272,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":{"Scheduled":{"due":2154967932272,"delay":360000000000,"policy":{"id":"pol_0s8w1h53r0000","name":"resets","version":1},"rounds":1,"max":5}}}}]},"w":{"l":[[0,null,2154967932272,null]]}}',-384374132);
INSERT INTO event VALUES(12,910713997488029696,0,'{"e":{"seq":1,"generation":1,"at":1794967937249,"by":{"User":"ada"},"facts":[{"Started":{"run":910713997488029696,"flow":4,"steps":1,"input":{"Inline":{}},"origin":"Root","root_flow":"waits","home":"0a4092a967b5db4a"}},{"Unit":{"unit":{"step":0},"fact":{"TimerSet":{"due":1803607937249}}}}]},"w":{"a":true,"l":[[0,null,1803607937249,null]]}}',-1585114941);
CREATE TABLE run (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    state  TEXT NOT NULL,
    parent INTEGER,
    head   INTEGER NOT NULL CHECK (head > 0),
    slot   TEXT,
    local  INTEGER NOT NULL
, rests INTEGER, version INTEGER, summary TEXT);
INSERT INTO run VALUES(910713926834978816,'done','completed',NULL,3,NULL,0,0,2,'{"k":"k-done","g":1,"n":1,"o":"2b0b3fc93db25f53","c":1794967920404,"u":1794967920404}');
INSERT INTO run VALUES(910713927430569984,'parent','completed',NULL,7,NULL,0,0,5,'{"k":"k-parent","g":1,"n":2,"o":"37b2980430ea8d8b","c":1794967920546,"u":1794967920546}');
INSERT INTO run VALUES(910713927430569985,'done','completed',910713927430569984,8,NULL,0,0,2,'{"g":1,"n":1,"o":"37b2980430ea8d8b","c":1794967920546,"u":1794967920546}');
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
INSERT INTO run_key VALUES('done','k-done',910713926834978816);
INSERT INTO run_key VALUES('errs','k-errs',910713926532988928);
INSERT INTO run_key VALUES('errs','k2-errs',910713976562647040);
INSERT INTO run_key VALUES('holds','k-holds',910713927174717440);
INSERT INTO run_key VALUES('parent','k-parent',910713927430569984);
CREATE TABLE payload (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER);
CREATE TABLE notice (id INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER, tries INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0);
CREATE TABLE flow (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    source    TEXT NOT NULL,
    directory TEXT NOT NULL, steps TEXT, sum INTEGER,
    UNIQUE (name, version)
);
INSERT INTO flow VALUES(1,'errs','1','{"flow":"errs","labels":{"team":"billing"},"steps":[{"emulate":{"cause":"connection reset","sequence":["stall"]},"id":"one"}]}','/tmp/f10','["one"]',-518704881);
INSERT INTO flow VALUES(2,'done','1','{"flow":"done","steps":[{"id":"one","set":1}]}','/tmp/f10','["one"]',-870890422);
INSERT INTO flow VALUES(3,'holds','1','{"flow":"holds","steps":[{"emulate":{"cause":"disk","sequence":["stall"]},"id":"one","retryStrategy":"hold"}]}','/tmp/f10','["one"]',2051713828);
INSERT INTO flow VALUES(4,'waits','1','{"flow":"waits","steps":[{"id":"one","wait":"100d"}]}','/tmp/f10','["one"]',-1520800537);
INSERT INTO flow VALUES(5,'parent','1','{"flow":"parent","steps":[{"flow":"done","id":"kid"}]}','/tmp/f10','["kid"]',-1166771923);
CREATE TABLE policy (
    id   TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    age  INTEGER NOT NULL,
    body TEXT NOT NULL
, sum INTEGER) WITHOUT ROWID;
INSERT INTO policy VALUES('pol_0s8w1h53r0000','resets',1,'{"id":"pol_0s8w1h53r0000","name":"resets","errorSubstring":"connection reset","maxAttempts":5,"priority":100,"isPrioritySet":false,"backOff":{"delay":360000000000,"maxDelay":null,"multiplier":null,"random":false},"enabled":true,"includeFatal":false,"version":1,"age":1}',612375116);
CREATE TABLE policy_audit (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO policy_audit VALUES(1,'{"at":1794967932190,"by":{"User":"ada"},"policy":"pol_0s8w1h53r0000","name":"resets","what":"added","after":{"id":"pol_0s8w1h53r0000","name":"resets","errorSubstring":"connection reset","maxAttempts":5,"priority":100,"isPrioritySet":false,"backOff":{"delay":360000000000,"maxDelay":null,"multiplier":null,"random":false},"enabled":true,"includeFatal":false,"version":1,"age":1}}');
CREATE TABLE policy_hit (policy TEXT PRIMARY KEY, hits INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO policy_hit VALUES('pol_0s8w1h53r0000',1,1794967932272);
CREATE TABLE error (
    id     INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    grp    TEXT NOT NULL,
    flow   TEXT NOT NULL,
    action TEXT NOT NULL,
    body   TEXT NOT NULL
);
INSERT INTO error VALUES(1,910713926532988928,1794967920341,'err_0960b82105ba','errs','errs.one','{"run":910713926532988928,"generation":1,"unit":{"step":0},"step":"one","attempt":1,"at":1794967920341,"flow":"errs","rootFlow":"errs","action":"errs.one","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_0960b82105ba","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(2,910713927174717440,1794967920497,'err_4e94792568eb','holds','holds.one','{"run":910713927174717440,"generation":1,"unit":{"step":0},"step":"one","attempt":1,"at":1794967920497,"flow":"holds","rootFlow":"holds","action":"holds.one","cause":"disk","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_4e94792568eb","pattern":"disk","fingerprintVersion":2,"ledTo":"hold"}');
INSERT INTO error VALUES(3,910713976562647040,1794967932272,'err_0960b82105ba','errs','errs.one','{"run":910713976562647040,"generation":1,"unit":{"step":0},"step":"one","attempt":1,"at":1794967932272,"flow":"errs","rootFlow":"errs","action":"errs.one","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_0960b82105ba","pattern":"connection reset","fingerprintVersion":2,"ledTo":"policy","policy":{"id":"pol_0s8w1h53r0000","name":"resets","version":1}}');
CREATE TABLE error_group (
    id      TEXT PRIMARY KEY,
    action  TEXT NOT NULL,
    pattern TEXT NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    count   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO error_group VALUES('err_0960b82105ba','errs.one','connection reset',1794967920341,1794967932272,2);
INSERT INTO error_group VALUES('err_4e94792568eb','holds.one','disk',1794967920497,1794967920497,1);
CREATE TABLE error_group_flow (
    grp   TEXT NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (grp, flow)
) WITHOUT ROWID;
INSERT INTO error_group_flow VALUES('err_0960b82105ba','errs',2);
INSERT INTO error_group_flow VALUES('err_4e94792568eb','holds',1);
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
INSERT INTO open_error VALUES(910713926532988928,0,-1,'err_0960b82105ba','errs','errs.one',1,NULL,NULL,'{"record":{"run":910713926532988928,"generation":1,"unit":{"step":0},"step":"one","attempt":1,"at":1794967920341,"flow":"errs","rootFlow":"errs","action":"errs.one","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_0960b82105ba","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"},"acknowledged":true}');
INSERT INTO open_error VALUES(910713976562647040,0,-1,'err_0960b82105ba','errs','errs.one',0,'pol_0s8w1h53r0000','resets','{"record":{"run":910713976562647040,"generation":1,"unit":{"step":0},"step":"one","attempt":1,"at":1794967932272,"flow":"errs","rootFlow":"errs","action":"errs.one","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_0960b82105ba","pattern":"connection reset","fingerprintVersion":2,"ledTo":"policy","policy":{"id":"pol_0s8w1h53r0000","name":"resets","version":1}},"resume":[2154967932272,{"id":"pol_0s8w1h53r0000","name":"resets","version":1}]}');
CREATE TABLE unexamined (run INTEGER PRIMARY KEY);
CREATE TABLE bulk (id INTEGER PRIMARY KEY, total INTEGER, open INTEGER NOT NULL, body TEXT, version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0));
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
CREATE TABLE attempt_log (
    id    INTEGER PRIMARY KEY,
    run   INTEGER NOT NULL,
    place INTEGER NOT NULL,
    size  INTEGER NOT NULL,
    body  TEXT NOT NULL,
    sum   INTEGER
);
CREATE TABLE run_snapshot (
    run    INTEGER PRIMARY KEY,
    head   INTEGER NOT NULL,
    format INTEGER NOT NULL,
    body   TEXT NOT NULL,
    sum    INTEGER NOT NULL
);
CREATE TABLE run_count (
    state TEXT NOT NULL,
    child INTEGER NOT NULL,
    hour  INTEGER NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (state, child, hour, flow)
) WITHOUT ROWID;
INSERT INTO run_count VALUES('completed',0,60314,'done',1);
INSERT INTO run_count VALUES('completed',0,60314,'parent',1);
INSERT INTO run_count VALUES('completed',1,60314,'done',1);
CREATE TABLE event_mark (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE error_open (
    grp          TEXT PRIMARY KEY,
    open         INTEGER NOT NULL,
    runs         INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO error_open VALUES('err_0960b82105ba',1,1,1);
CREATE TABLE error_open_policy (
    grp    TEXT NOT NULL,
    policy TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (grp, policy)
) WITHOUT ROWID;
INSERT INTO error_open_policy VALUES('err_0960b82105ba','resets',1);
CREATE INDEX run_local ON run (id) WHERE local = 1;
CREATE INDEX run_slot ON run (id) WHERE slot IS NOT NULL;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX error_run ON error (run);
CREATE INDEX error_at ON error (at);
CREATE INDEX error_grp ON error (grp);
CREATE INDEX open_error_group ON open_error (grp, run, step, item, acknowledged, policy, policy_name);
CREATE INDEX bulk_open ON bulk (id) WHERE open = 1;
CREATE INDEX attempt_log_run ON attempt_log (run, place, size);
CREATE INDEX run_state ON run (state, (parent IS NOT NULL));
CREATE INDEX run_version ON run (version, state, (parent IS NOT NULL)) WHERE version IS NOT NULL;
CREATE INDEX run_rests ON run (rests, (parent IS NOT NULL)) WHERE rests > 0;
CREATE INDEX run_version_rests ON run (version, rests, (parent IS NOT NULL)) WHERE rests > 0;
CREATE INDEX run_unversioned ON run (flow) WHERE version IS NULL;
CREATE INDEX run_rests_unknown ON run (id) WHERE rests IS NULL
    AND state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded';
CREATE INDEX wake_due ON wake (due, run) WHERE due IS NOT NULL;
CREATE INDEX error_grp_run ON error (grp, run);
CREATE INDEX error_group_order ON error_group (last DESC, id);
COMMIT;
PRAGMA application_id = 1433301876;
PRAGMA user_version = 10;
