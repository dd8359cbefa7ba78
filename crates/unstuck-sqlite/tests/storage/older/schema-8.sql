PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('errors_from',0);
INSERT INTO meta VALUES('flushed',12);
INSERT INTO meta VALUES('last_error',7);
INSERT INTO meta VALUES('last_id',512389598412804109);
INSERT INTO meta VALUES('last_time',1700000000000);
INSERT INTO meta VALUES('owner','1 29666.0');
CREATE TABLE event (
    pos  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    prev INTEGER NOT NULL CHECK (prev >= 0 AND prev < pos),
    body TEXT NOT NULL
, sum INTEGER);
INSERT INTO event VALUES(1,512389598412804096,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804096,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804096,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',-1359247926);
INSERT INTO event VALUES(2,512389598412804096,1,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-818459756);
INSERT INTO event VALUES(3,512389598412804096,2,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',277204038);
INSERT INTO event VALUES(4,512389598412804096,3,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',-1374328333);
INSERT INTO event VALUES(5,512389598412804096,4,'{"e":{"seq":5,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Resumed":{"by":"operator","reason":null,"bulk":{"bulk":512389598412804097,"place":0}}}}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":2,"resumed_by":"operator"}}}}]},"w":{"l":[[0,null,null,{"run":512389598412804096,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',1232571513);
INSERT INTO event VALUES(6,512389598412804096,5,'{"e":{"seq":6,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',856791287);
INSERT INTO event VALUES(7,512389598412804096,6,'{"e":{"seq":7,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-1881222371);
INSERT INTO event VALUES(8,512389598412804096,7,'{"e":{"seq":8,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":2,"outcome":{"Completed":{"Inline":null}}}}}},{"Completed":{"output":{"Inline":null}}}]},"w":{"a":true}}',1962162260);
INSERT INTO event VALUES(9,512389598412804098,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804098,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804098,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',-833412259);
INSERT INTO event VALUES(10,512389598412804098,9,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',278743018);
INSERT INTO event VALUES(11,512389598412804098,10,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-630820374);
INSERT INTO event VALUES(12,512389598412804098,11,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',120519712);
INSERT INTO event VALUES(13,512389598412804099,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804099,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804099,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',419615021);
INSERT INTO event VALUES(14,512389598412804099,13,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',2135441877);
INSERT INTO event VALUES(15,512389598412804099,14,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-1088966852);
INSERT INTO event VALUES(16,512389598412804099,15,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',1781506205);
INSERT INTO event VALUES(17,512389598412804100,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804100,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804100,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',-1147388683);
INSERT INTO event VALUES(18,512389598412804100,17,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-1424861911);
INSERT INTO event VALUES(19,512389598412804100,18,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',1580446047);
INSERT INTO event VALUES(20,512389598412804100,19,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',655574036);
INSERT INTO event VALUES(21,512389598412804101,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804101,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804101,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',1825427077);
INSERT INTO event VALUES(22,512389598412804101,21,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-993570026);
INSERT INTO event VALUES(23,512389598412804101,22,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',994209673);
INSERT INTO event VALUES(24,512389598412804101,23,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',1694170318);
INSERT INTO event VALUES(25,512389598412804098,12,'{"e":{"seq":5,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Resumed":{"by":"operator","reason":null,"bulk":{"bulk":512389598412804102,"place":0}}}}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":2,"resumed_by":"operator"}}}}]},"w":{"l":[[0,null,null,{"run":512389598412804098,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',90912678);
INSERT INTO event VALUES(26,512389598412804099,16,'{"e":{"seq":5,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Resumed":{"by":"operator","reason":null,"bulk":{"bulk":512389598412804102,"place":1}}}}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":2,"resumed_by":"operator"}}}}]},"w":{"l":[[0,null,null,{"run":512389598412804099,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',-758907192);
INSERT INTO event VALUES(27,512389598412804098,25,'{"e":{"seq":6,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',264220227);
INSERT INTO event VALUES(28,512389598412804098,27,'{"e":{"seq":7,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',1964023294);
INSERT INTO event VALUES(29,512389598412804098,28,'{"e":{"seq":8,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":2,"outcome":{"Completed":{"Inline":null}}}}}},{"Completed":{"output":{"Inline":null}}}]},"w":{"a":true}}',-560905410);
INSERT INTO event VALUES(30,512389598412804099,26,'{"e":{"seq":6,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-736986082);
INSERT INTO event VALUES(31,512389598412804099,30,'{"e":{"seq":7,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',2026515689);
INSERT INTO event VALUES(32,512389598412804103,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804103,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804103,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',560949507);
INSERT INTO event VALUES(33,512389598412804103,32,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-98813270);
INSERT INTO event VALUES(34,512389598412804103,33,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-2028150395);
INSERT INTO event VALUES(35,512389598412804103,34,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',388361171);
INSERT INTO event VALUES(36,512389598412804104,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804104,"flow":1,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804104,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',54683580);
INSERT INTO event VALUES(37,512389598412804104,36,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-1756980013);
INSERT INTO event VALUES(38,512389598412804104,37,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',6189968);
INSERT INTO event VALUES(39,512389598412804104,38,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}',1364040609);
INSERT INTO event VALUES(40,512389598412804106,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804106,"flow":2,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"parent"}},{"Unit":{"unit":{"step":0},"fact":{"ChildStarted":{"attempt":1,"resumed_by":null,"run":512389598412804107}}}}]},"w":{"a":true}}',-354097904);
INSERT INTO event VALUES(41,512389598412804107,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Started":{"run":512389598412804107,"flow":1,"steps":1,"input":{"Inline":null},"origin":{"Child":{"parent":512389598412804106,"unit":{"step":0},"serves":{"generation":1,"attempt":1},"in_handler":false}},"root_flow":"parent","nesting":{"depth":1,"flows":["parent"]}}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804107,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}',1830453556);
INSERT INTO event VALUES(42,512389598412804107,41,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',-660567395);
INSERT INTO event VALUES(43,512389598412804107,42,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}',821724888);
INSERT INTO event VALUES(44,512389598412804107,43,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":null}}}}}},{"Completed":{"output":{"Inline":null}}}]},"w":{"a":true}}',1719564219);
INSERT INTO event VALUES(45,512389598412804108,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804108,"flow":2,"steps":1,"input":{"Inline":null},"origin":"Root","root_flow":"parent"}},{"Unit":{"unit":{"step":0},"fact":{"ChildStarted":{"attempt":1,"resumed_by":null,"run":512389598412804109}}}}]},"w":{"a":true}}',996306043);
CREATE TABLE run (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    state  TEXT NOT NULL,
    parent INTEGER,
    head   INTEGER NOT NULL CHECK (head > 0),
    slot   TEXT,
    local  INTEGER NOT NULL
, rests INTEGER);
INSERT INTO run VALUES(512389598412804096,'plain','completed',NULL,8,NULL,0,0);
INSERT INTO run VALUES(512389598412804098,'plain','completed',NULL,29,NULL,0,0);
INSERT INTO run VALUES(512389598412804107,'plain','completed',512389598412804106,44,NULL,0,0);
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
CREATE TABLE payload (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER);
CREATE TABLE notice (id INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER);
INSERT INTO notice VALUES(2,'{"to":512389598412804106,"body":{"ChildEnded":{"child":{"run":512389598412804107,"origin":{"Child":{"parent":512389598412804106,"unit":{"step":0},"serves":{"generation":1,"attempt":1},"in_handler":false}}},"how":{"Completed":{"Inline":null}}}}}',597654293);
INSERT INTO notice VALUES(3,'{"to":512389598412804109,"body":{"StartChild":{"flow":"plain","input":{"Inline":null},"origin":{"Child":{"parent":512389598412804108,"unit":{"step":0},"serves":{"generation":1,"attempt":1},"in_handler":false}},"root_flow":"parent","nesting":{"depth":1,"flows":["parent"]},"priority":0}}}',501189293);
CREATE TABLE flow (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    source    TEXT NOT NULL,
    directory TEXT NOT NULL, steps TEXT, sum INTEGER,
    UNIQUE (name, version)
);
INSERT INTO flow VALUES(1,'plain','1','plain: [Step { id: "q", kind: Action("q"), action_type: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: Some(Millis(43200000)), queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "q", full_action: "plain.q", node: GraphNode { with: None, needs: [], when: None, for_each: None } }]','/','["q"]',1627648959);
INSERT INTO flow VALUES(2,'parent','1','parent: [Step { id: "c", kind: Child("plain"), action_type: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: None, queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "", full_action: "parent.c", node: GraphNode { with: None, needs: [], when: None, for_each: None } }]','/','["c"]',-836451297);
CREATE TABLE policy (
    id   TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    age  INTEGER NOT NULL,
    body TEXT NOT NULL
, sum INTEGER) WITHOUT ROWID;
CREATE TABLE policy_audit (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE policy_hit (policy TEXT PRIMARY KEY, hits INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE error (
    id     INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    grp    TEXT NOT NULL,
    flow   TEXT NOT NULL,
    action TEXT NOT NULL,
    body   TEXT NOT NULL
);
INSERT INTO error VALUES(1,512389598412804096,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804096,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(2,512389598412804098,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804098,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(3,512389598412804099,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804099,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(4,512389598412804100,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804100,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(5,512389598412804101,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804101,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(6,512389598412804103,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804103,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
INSERT INTO error VALUES(7,512389598412804104,1700000000000,'err_d7f04243008b','plain','plain.q','{"run":512389598412804104,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}');
CREATE TABLE error_group (
    id      TEXT PRIMARY KEY,
    action  TEXT NOT NULL,
    pattern TEXT NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    count   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO error_group VALUES('err_d7f04243008b','plain.q','connection reset',1700000000000,1700000000000,7);
CREATE TABLE error_group_flow (
    grp   TEXT NOT NULL,
    flow  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (grp, flow)
) WITHOUT ROWID;
INSERT INTO error_group_flow VALUES('err_d7f04243008b','plain',7);
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
INSERT INTO open_error VALUES(512389598412804100,0,-1,'err_d7f04243008b','plain','plain.q',0,NULL,NULL,'{"record":{"run":512389598412804100,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}}');
INSERT INTO open_error VALUES(512389598412804101,0,-1,'err_d7f04243008b','plain','plain.q',0,NULL,NULL,'{"record":{"run":512389598412804101,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}}');
INSERT INTO open_error VALUES(512389598412804103,0,-1,'err_d7f04243008b','plain','plain.q',0,NULL,NULL,'{"record":{"run":512389598412804103,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}}');
INSERT INTO open_error VALUES(512389598412804104,0,-1,'err_d7f04243008b','plain','plain.q',0,NULL,NULL,'{"record":{"run":512389598412804104,"generation":1,"unit":{"step":0},"step":"q","attempt":1,"at":1700000000000,"flow":"plain","rootFlow":"plain","action":"plain.q","cause":"connection reset","fatal":false,"rounds":1,"minimumDelay":1000,"group":"err_d7f04243008b","pattern":"connection reset","fingerprintVersion":2,"ledTo":"rest"}}');
CREATE TABLE unexamined (run INTEGER PRIMARY KEY);
CREATE TABLE bulk (id INTEGER PRIMARY KEY, total INTEGER, open INTEGER NOT NULL, body TEXT);
INSERT INTO bulk VALUES(512389598412804097,1,0,'{"id":512389598412804097,"action":{"resume":{}},"by":{"User":"somebody"},"selection":"all of them","pace":{"rate":50},"createdAt":1700000000000,"state":"done","total":1,"next":1,"counts":{"underWay":0,"passed":1,"failed":0,"refused":0},"wave":{"number":1,"end":1,"failed":0},"credit":0,"creditedAt":1700000000000}');
INSERT INTO bulk VALUES(512389598412804102,4,1,'{"id":512389598412804102,"action":{"resume":{}},"by":{"User":"somebody"},"selection":"all of them","pace":{"rate":50},"createdAt":1700000000000,"state":"running","total":4,"next":2,"counts":{"underWay":1,"passed":1,"failed":0,"refused":0},"wave":{"number":1,"end":4,"failed":0},"credit":0,"creditedAt":1700000000000}');
INSERT INTO bulk VALUES(512389598412804105,2,1,'{"id":512389598412804105,"action":{"resume":{}},"by":{"User":"somebody"},"selection":"all of them","pace":{"rate":50},"createdAt":1700000000000,"state":"paused","total":2,"next":0,"counts":{"underWay":0,"passed":0,"failed":0,"refused":0},"wave":{"number":1,"end":2,"failed":0},"credit":1000,"creditedAt":1700000000000}');
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
INSERT INTO bulk_target VALUES(512389598412804097,0,512389598412804096,0,-1,'passed',NULL);
INSERT INTO bulk_target VALUES(512389598412804102,0,512389598412804098,0,-1,'passed',NULL);
INSERT INTO bulk_target VALUES(512389598412804102,1,512389598412804099,0,-1,'resumed',NULL);
INSERT INTO bulk_target VALUES(512389598412804102,2,512389598412804100,0,-1,'pending',NULL);
INSERT INTO bulk_target VALUES(512389598412804102,3,512389598412804101,0,-1,'pending',NULL);
INSERT INTO bulk_target VALUES(512389598412804105,0,512389598412804103,0,-1,'pending',NULL);
INSERT INTO bulk_target VALUES(512389598412804105,1,512389598412804104,0,-1,'pending',NULL);
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
CREATE INDEX run_local ON run (id) WHERE local = 1;
CREATE INDEX run_slot ON run (id) WHERE slot IS NOT NULL;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX error_run ON error (run);
CREATE INDEX error_at ON error (at);
CREATE INDEX error_grp ON error (grp);
CREATE INDEX error_group_last ON error_group (last);
CREATE INDEX open_error_group ON open_error (grp, run, step, item, acknowledged, policy, policy_name);
CREATE INDEX bulk_open ON bulk (id) WHERE open = 1;
CREATE INDEX run_not_completed ON run (id) WHERE state <> 'completed';
CREATE INDEX attempt_log_run ON attempt_log (run, place, size);
CREATE INDEX run_open ON run (id)
    WHERE state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded';
COMMIT;
PRAGMA application_id = 1433301876;
PRAGMA user_version = 8;
