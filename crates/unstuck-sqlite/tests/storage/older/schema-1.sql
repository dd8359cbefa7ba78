-- A store as it was written before errors and policies were kept: two times a run that is done, one that rests in
-- error, one with a branch in error and another that is queued, one that was cancelled in error, and one that is
-- queued. The rows cover the first time only; the second is in the log.
BEGIN TRANSACTION;
CREATE TABLE event (
    pos  INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    prev INTEGER NOT NULL CHECK (prev >= 0 AND prev < pos),
    body TEXT NOT NULL
);
INSERT INTO "event" VALUES(1,512389598412804096,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804096,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804096,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(2,512389598412804096,1,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(3,512389598412804096,2,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(4,512389598412804096,3,'{"e":{"seq":4,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":null}}}}}},{"Unit":{"unit":{"step":1},"fact":{"Queued":{"attempt":1}}}}]},"w":{"l":[[0,null,null,null],[1,null,null,{"run":512389598412804096,"unit":{"step":1},"flow":1,"queue":"r","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(5,512389598412804096,4,'{"e":{"seq":5,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":1},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[1,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(6,512389598412804096,5,'{"e":{"seq":6,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":1},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[1,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(7,512389598412804096,6,'{"e":{"seq":7,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":1},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":null}}}}}},{"Completed":{"output":{"Inline":null}}}]},"w":{"a":true}}');
INSERT INTO "event" VALUES(8,512389598412804097,0,'{"e":{"seq":1,"generation":1,"at":1700000000000,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598412804097,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598412804097,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000000,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(9,512389598412804097,8,'{"e":{"seq":2,"generation":1,"at":1700000000000,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(10,512389598412804097,9,'{"e":{"seq":3,"generation":1,"at":1700000000000,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030000,null]]}}');
INSERT INTO "event" VALUES(11,512389598412804097,10,'{"e":{"seq":4,"generation":1,"at":1700000000010,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection to 10.0.0.7 reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(12,512389598454747136,0,'{"e":{"seq":1,"generation":1,"at":1700000000010,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598454747136,"flow":2,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"both"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}},{"Unit":{"unit":{"step":1},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598454747136,"unit":{"step":0},"flow":2,"queue":"q","priority":0,"front":false,"since":1700000000010,"load":1,"alone":false}],[1,null,null,{"run":512389598454747136,"unit":{"step":1},"flow":2,"queue":"r","priority":0,"front":false,"since":1700000000010,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(13,512389598454747136,12,'{"e":{"seq":2,"generation":1,"at":1700000000010,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030010,null]]}}');
INSERT INTO "event" VALUES(14,512389598454747136,13,'{"e":{"seq":3,"generation":1,"at":1700000000010,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030010,null]]}}');
INSERT INTO "event" VALUES(15,512389598454747136,14,'{"e":{"seq":4,"generation":1,"at":1700000000020,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"no such file /a/1","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(16,512389598496690176,0,'{"e":{"seq":1,"generation":1,"at":1700000000020,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598496690176,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598496690176,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000020,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(17,512389598496690176,16,'{"e":{"seq":2,"generation":1,"at":1700000000020,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030020,null]]}}');
INSERT INTO "event" VALUES(18,512389598496690176,17,'{"e":{"seq":3,"generation":1,"at":1700000000020,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030020,null]]}}');
INSERT INTO "event" VALUES(19,512389598496690176,18,'{"e":{"seq":4,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection to 10.0.0.8 reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(20,512389598496690176,19,'{"e":{"seq":5,"generation":1,"at":1700000000030,"by":{"User":"somebody"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Closed":{"how":"Cancelled"}}}},{"Unit":{"unit":{"step":1},"fact":{"Closed":{"how":"Cancelled"}}}},{"RunCancelled":{"reason":null}}]},"w":{"a":true}}');
INSERT INTO "event" VALUES(21,512389598538633216,0,'{"e":{"seq":1,"generation":1,"at":1700000000030,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598538633216,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598538633216,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000030,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(22,512389598538633217,0,'{"e":{"seq":1,"generation":1,"at":1700000000030,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598538633217,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598538633217,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000030,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(23,512389598538633217,22,'{"e":{"seq":2,"generation":1,"at":1700000000030,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(24,512389598538633217,23,'{"e":{"seq":3,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(25,512389598538633217,24,'{"e":{"seq":4,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":null}}}}}},{"Unit":{"unit":{"step":1},"fact":{"Queued":{"attempt":1}}}}]},"w":{"l":[[0,null,null,null],[1,null,null,{"run":512389598538633217,"unit":{"step":1},"flow":1,"queue":"r","priority":0,"front":false,"since":1700000000030,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(26,512389598538633217,25,'{"e":{"seq":5,"generation":1,"at":1700000000030,"by":"Engine","facts":[{"Unit":{"unit":{"step":1},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[1,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(27,512389598538633217,26,'{"e":{"seq":6,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":1},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[1,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(28,512389598538633217,27,'{"e":{"seq":7,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":1},"fact":{"Ended":{"attempt":1,"outcome":{"Completed":{"Inline":null}}}}}},{"Completed":{"output":{"Inline":null}}}]},"w":{"a":true}}');
INSERT INTO "event" VALUES(29,512389598538633218,0,'{"e":{"seq":1,"generation":1,"at":1700000000030,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598538633218,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598538633218,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000030,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(30,512389598538633218,29,'{"e":{"seq":2,"generation":1,"at":1700000000030,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(31,512389598538633218,30,'{"e":{"seq":3,"generation":1,"at":1700000000030,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030030,null]]}}');
INSERT INTO "event" VALUES(32,512389598538633218,31,'{"e":{"seq":4,"generation":1,"at":1700000000040,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection to 10.0.0.7 reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(33,512389598580576256,0,'{"e":{"seq":1,"generation":1,"at":1700000000040,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598580576256,"flow":2,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"both"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}},{"Unit":{"unit":{"step":1},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598580576256,"unit":{"step":0},"flow":2,"queue":"q","priority":0,"front":false,"since":1700000000040,"load":1,"alone":false}],[1,null,null,{"run":512389598580576256,"unit":{"step":1},"flow":2,"queue":"r","priority":0,"front":false,"since":1700000000040,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(34,512389598580576256,33,'{"e":{"seq":2,"generation":1,"at":1700000000040,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030040,null]]}}');
INSERT INTO "event" VALUES(35,512389598580576256,34,'{"e":{"seq":3,"generation":1,"at":1700000000040,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030040,null]]}}');
INSERT INTO "event" VALUES(36,512389598580576256,35,'{"e":{"seq":4,"generation":1,"at":1700000000050,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"no such file /a/1","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(37,512389598622519296,0,'{"e":{"seq":1,"generation":1,"at":1700000000050,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598622519296,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598622519296,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000050,"load":1,"alone":false}]]}}');
INSERT INTO "event" VALUES(38,512389598622519296,37,'{"e":{"seq":2,"generation":1,"at":1700000000050,"by":"Engine","facts":[{"Unit":{"unit":{"step":0},"fact":{"Dequeued":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030050,null]]}}');
INSERT INTO "event" VALUES(39,512389598622519296,38,'{"e":{"seq":3,"generation":1,"at":1700000000050,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Started":{"worker":{"name":"w","incarnation":1,"local":false}}}}}]},"w":{"l":[[0,null,1700000030050,null]]}}');
INSERT INTO "event" VALUES(40,512389598622519296,39,'{"e":{"seq":4,"generation":1,"at":1700000000060,"by":"Worker","facts":[{"Unit":{"unit":{"step":0},"fact":{"Ended":{"attempt":1,"outcome":{"Stalled":{"cause":"connection to 10.0.0.8 reset","reason":"processing"}}}}}},{"Unit":{"unit":{"step":0},"fact":"Rested"}}]},"w":{"l":[[0,null,null,null]]}}');
INSERT INTO "event" VALUES(41,512389598622519296,40,'{"e":{"seq":5,"generation":1,"at":1700000000060,"by":{"User":"somebody"},"facts":[{"Unit":{"unit":{"step":0},"fact":{"Closed":{"how":"Cancelled"}}}},{"Unit":{"unit":{"step":1},"fact":{"Closed":{"how":"Cancelled"}}}},{"RunCancelled":{"reason":null}}]},"w":{"a":true}}');
INSERT INTO "event" VALUES(42,512389598664462336,0,'{"e":{"seq":1,"generation":1,"at":1700000000060,"by":{"User":"somebody"},"facts":[{"Started":{"run":512389598664462336,"flow":1,"steps":2,"input":{"Inline":null},"origin":"Root","root_flow":"plain"}},{"Unit":{"unit":{"step":0},"fact":{"Queued":{"attempt":1}}}}]},"w":{"a":true,"l":[[0,null,null,{"run":512389598664462336,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000060,"load":1,"alone":false}]]}}');
CREATE TABLE flow (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    source    TEXT NOT NULL,
    directory TEXT NOT NULL,
    UNIQUE (name, version)
);
INSERT INTO "flow" VALUES(1,'plain','1','plain: [Step { id: "q", kind: Action("q"), action_type: None, with: None, needs: [], when: None, for_each: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: Some(Millis(43200000)), queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "q", full_action: "plain.q" }, Step { id: "r", kind: Action("r"), action_type: None, with: None, needs: [StepIx(0)], when: None, for_each: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: Some(Millis(43200000)), queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "r", full_action: "plain.r" }]','/');
INSERT INTO "flow" VALUES(2,'both','1','both: [Step { id: "q", kind: Action("q"), action_type: None, with: None, needs: [], when: None, for_each: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: Some(Millis(43200000)), queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "q", full_action: "both.q" }, Step { id: "r", kind: Action("r"), action_type: None, with: None, needs: [], when: None, for_each: None, limits: Limits { start_timeout: Millis(30000), heartbeat_timeout: None, timeout: Some(Millis(43200000)), queue_timeout: None, max_stuck: 3, minimum_delay: Millis(1000) }, defer: Defer { delay: Millis(30000), multiplier: 2.0, max_delay: Millis(600000), limit: Millis(86400000) }, load: 1, priority: 0, retry: None, fail_on_error: true, exception_handler: None, queue: "r", full_action: "both.r" }]','/');
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
INSERT INTO "meta" VALUES('flushed',28);
INSERT INTO "meta" VALUES('last_id',512389598664462336);
INSERT INTO "meta" VALUES('last_time',1700000000060);
CREATE TABLE notice (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE payload (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE run (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    state  TEXT NOT NULL,
    parent INTEGER,
    head   INTEGER NOT NULL CHECK (head > 0),
    slot   TEXT,
    local  INTEGER NOT NULL
);
INSERT INTO "run" VALUES(512389598412804096,'plain','completed',NULL,7,NULL,0);
INSERT INTO "run" VALUES(512389598412804097,'plain','error',NULL,11,NULL,0);
INSERT INTO "run" VALUES(512389598454747136,'both','running',NULL,15,NULL,0);
INSERT INTO "run" VALUES(512389598496690176,'plain','cancelled',NULL,20,NULL,0);
INSERT INTO "run" VALUES(512389598538633216,'plain','running',NULL,21,NULL,0);
INSERT INTO "run" VALUES(512389598538633217,'plain','completed',NULL,28,NULL,0);
INSERT INTO "run" VALUES(512389598622519296,'plain','cancelled',NULL,41,NULL,0);
CREATE TABLE run_key (
    flow TEXT NOT NULL,
    key  TEXT NOT NULL,
    run  INTEGER NOT NULL,
    PRIMARY KEY (flow, key)
) WITHOUT ROWID;
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
INSERT INTO "wake" VALUES(512389598454747136,1,-1,NULL,NULL,NULL,'{"run":512389598454747136,"unit":{"step":1},"flow":2,"queue":"r","priority":0,"front":false,"since":1700000000010,"load":1,"alone":false}');
INSERT INTO "wake" VALUES(512389598538633216,0,-1,NULL,NULL,NULL,'{"run":512389598538633216,"unit":{"step":0},"flow":1,"queue":"q","priority":0,"front":false,"since":1700000000030,"load":1,"alone":false}');
CREATE INDEX run_local ON run (id) WHERE local = 1;
CREATE INDEX run_slot ON run (id) WHERE slot IS NOT NULL;
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
COMMIT;
PRAGMA application_id = 1433301876;
PRAGMA user_version = 1;
