//! What is refused or warned about, where, and with which sentence.

use crate::{lines, read};

/// The plan, and its problems.
type Case = (&'static str, &'static [&'static str]);

const FILES: &[Case] = &[
    (
        "",
        &[
            "1:1: the file contains no plan (start with `steps:`, for example `steps: {fetch: {sequence: [stall, pass]}}`)",
        ],
    ),
    ("just text\n", &["1:1: a plan is a map, not text (write `plan: ...`)"]),
    ("steps: [", &["1:8: unclosed bracket '['"]),
    (
        "{flow: a, steps: []}",
        &["1:1: this is a flow, not a plan (write `unstuck rehearse FLOW_FILE --plan PLAN_FILE`)"],
    ),
    ("{name: a, errorSubstring: x}", &["1:1: this is a policy, not a plan (pass policies with --policies)"]),
    (
        "{every: 1m}\n---\n{every: 2m}\n",
        &["3:1: a file can contain only one plan; this is the second (move it to its own file)"],
    ),
    ("{stpes: {}}", &["1:2: stpes: a plan has no field `stpes` (did you mean `steps`?)"]),
    (
        "{every: 0s, until: soon}",
        &[
            "1:9: every: must be longer than zero (remove the field to use the default)",
            "1:20: until: `soon` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        ],
    ),
    (
        "{start: tomorrow}",
        &["1:9: start: `tomorrow` is not an instant: write for example `2030-01-31T08:30:00Z`"],
    ),
    ("{start: 1999-01-01T00:00:00Z}", &["1:9: start: the clock must start between 2020 and 2080"]),
];

const NAMES: &[Case] = &[
    ("{steps: {fecth: pass}}", &["1:10: steps.fecth: there is no step `fecth` (did you mean `fetch`?)"]),
    (
        "{steps: {rollout.pusch: pass}}",
        &["1:10: steps.rollout.pusch: there is no step `rollout.pusch` (did you mean `rollout.push`?)"],
    ),
    (
        "{steps: {pause: pass}}",
        &[
            "1:10: steps.pause: step `pause` is done by the engine (`wait`) (a plan controls only steps that a worker or a process executes)",
        ],
    ),
    (
        "{steps: {approved: pass}}",
        &[
            "1:10: steps.approved: step `approved` waits for a signal and is not executed (send it with `signals: [{name: approval, after: 1h}]`)",
        ],
    ),
    (
        "{steps: {deploy: pass}}",
        &[
            "1:10: steps.deploy: step `deploy` is a child flow and is not executed itself (name the steps of the child: `rollout.<step>`)",
        ],
    ),
    (
        "{steps: {title: pass}}",
        &[
            "1:10: steps.title: step `title` is done by the engine (`set`) (a plan controls only steps that a worker or a process executes)",
        ],
    ),
    (
        "{steps: {'fetch[0]': pass}}",
        &["1:10: steps.fetch[0]: step `fetch` has no items (it has no `forEach`: write `fetch`)"],
    ),
    (
        "{steps: {'encode[x]': pass}}",
        &[
            "1:10: steps.encode[x]: `encode[x]` is not an item of a step (items are counted from 0: `encode[0]`)",
        ],
    ),
    (
        "{actions: {fetsh: pass}}",
        &["1:12: actions.fetsh: there is no action `fetsh` (did you mean `fetch`?)"],
    ),
    (
        "{actionTypes: {TRANSFROM: pass}}",
        &["1:16: actionTypes.TRANSFROM: there is no action type `TRANSFROM` (did you mean `TRANSFORM`?)"],
    ),
    (
        "{steps: {'x*': pass}}",
        &["1:10: steps.x*: `x*` matches no step that a worker or a process executes (it has no effect)"],
    ),
    (
        "{outputs: {fecth: 1, title: 2, deploy: 3, pause: 4, 'fetch[0]': 5}}",
        &[
            "1:12: outputs.fecth: there is no step `fecth` (did you mean `fetch`?)",
            "1:22: outputs.title: step `title` is a `set`; its output is computed in a rehearsal too (give examples for the steps that it reads)",
            "1:32: outputs.deploy: step `deploy` is a child flow; its output comes from the child (give examples for the steps of the child: `rollout.<step>`)",
            "1:43: outputs.pause: step `pause` is a `wait`; its output is always null (remove it: a rehearsal waits as the engine does)",
            "1:53: outputs.fetch[0]: step `fetch` has no items (it has no `forEach`: write `fetch`)",
        ],
    ),
    (
        "{outputs: [fetch]}",
        &[
            "1:11: outputs: expected a map of step ids to outputs, such as `{fetch: {rows: [1, 2]}}`, not a list",
        ],
    ),
    ("{steps: [fetch]}", &["1:9: steps: expected a map such as `{fetch: [stall, pass]}`, not a list"]),
];

const RULES: &[Case] = &[
    (
        "{steps: {fetch: passs}}",
        &[
            "1:17: steps.fetch: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `passs` (did you mean `pass`?)",
        ],
    ),
    (
        "{steps: {fetch: 3}}",
        &[
            "1:17: steps.fetch: expected a behaviour such as `pass`, a list of them, or a map such as `{duration: 5m}`, not `3`",
        ],
    ),
    (
        "{steps: {fetch: {}}}",
        &[
            "1:17: steps.fetch: does not say what happens (for example `{sequence: [stall, pass]}`, or `{duration: 5m}`)",
        ],
    ),
    (
        "{steps: {fetch: []}}",
        &["1:17: steps.fetch: the sequence is empty (write at least one entry; the last one repeats)"],
    ),
    ("{steps: {fetch: wait}}", &["1:17: steps.fetch: `wait` needs a duration (write `{wait: 5m}`)"]),
    (
        "{steps: {fetch: [stall, pas]}}",
        &[
            "1:25: steps.fetch[1]: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `pas` (did you mean `pass`?)",
        ],
    ),
    (
        "{steps: {fetch: {sequence: [pass], odds: {pass: 1}}}}",
        &["1:42: steps.fetch.odds: give either `sequence` or `odds`, not both (remove one of the two)"],
    ),
    (
        "{steps: {fetch: {odds: {stal: 1}}}}",
        &[
            "1:25: steps.fetch.odds.stal: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `stal` (did you mean `stall`?)",
        ],
    ),
    (
        "{steps: {fetch: {odds: {stall: 0}}}}",
        &[
            "1:24: steps.fetch.odds: the odds must add up to more than zero (for example `{stall: 1, pass: 9}`)",
        ],
    ),
    (
        "{steps: {fetch: {duration: [5m, 1m]}}}",
        &["1:28: steps.fetch.duration: 5m is longer than 1m (write the shorter one first)"],
    ),
    (
        "{steps: {fetch: {duration: [5m]}}}",
        &["1:28: steps.fetch.duration: a range has two durations (write `[1m, 5m]`)"],
    ),
    (
        "{steps: {fetch: {duration: 5 parsecs}}}",
        &[
            "1:28: steps.fetch.duration: `5 parsecs` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        ],
    ),
    (
        "{steps: {fetch: {reason: bad luck, sequence: [stall]}}}",
        &["1:26: steps.fetch.reason: expected `processing`, `data`, `capacity` or `time`, not `bad luck`"],
    ),
    ("{steps: {fetch: {cause: '', sequence: [stall]}}}", &["1:25: steps.fetch.cause: must not be empty"]),
    (
        "{steps: {fetch: [{stall: x, crash: true}]}}",
        &[
            "1:18: steps.fetch[0]: an attempt can do only one thing (for example `{stall: \"connection refused\", after: 5s}`)",
        ],
    ),
    (
        "{steps: {fetch: [{after: 5s}]}}",
        &[
            "1:18: steps.fetch[0]: does not say what the attempt does (for example `{stall: \"connection refused\", after: 5s}`)",
        ],
    ),
    (
        "{steps: {fetch: [{stall: x, cause: y}]}}",
        &["1:36: steps.fetch[0].cause: the cause is given twice (remove one of the two)"],
    ),
    (
        "{steps: {fetch: [{stick: true, after: 5s}]}}",
        &["1:39: steps.fetch[0].after: `after` does not apply to this `stick` (remove it)"],
    ),
    (
        "{steps: {fetch: [{crash: loudly}]}}",
        &[
            "1:26: steps.fetch[0].crash: `crash` takes no value (write `{crash: , after: 5s}`, or `crash` alone)",
        ],
    ),
    (
        "{steps: {fetch: [{stall: x, time: 5}]}}",
        &["1:29: steps.fetch[0].time: an attempt has no field `time` (did you mean `times`?)"],
    ),
    (
        "{steps: {fetch: [{stall: x, times: 0}]}}",
        &["1:36: steps.fetch[0].times: expected a whole number of at least 1, not `0`"],
    ),
    (
        "{steps: {fetch: [{stall: x, times: 1001}]}}",
        &["1:17: steps.fetch: a sequence can have at most 1000 attempts (the last one repeats)"],
    ),
    (
        "{steps: {fetch: {stall: x, times: 2}}}",
        &[
            "1:17: steps.fetch: `times` works only in a `sequence` (remove it: here it applies to every attempt)",
        ],
    ),
];

const WORLD: &[Case] = &[
    (
        "{outages: [{from: 1h, to: 2h}]}",
        &["1:12: outages[0]: does not say what is down (name `steps`, `actions` or `actionTypes`)"],
    ),
    (
        "{outages: [{steps: fetch}]}",
        &[
            "1:12: outages[0]: the outage has no end (write `to: 05:00` or `for: 3h`; for a step that is always down, use `steps`)",
        ],
    ),
    (
        "{outages: [{steps: fecth, to: 2h}]}",
        &["1:20: outages[0].steps: there is no step `fecth` (did you mean `fetch`?)"],
    ),
    (
        "{outages: [{steps: fetch, from: 3h, to: 2h}]}",
        &["1:41: outages[0].to: the outage ends after 2h, but begins only after 3h"],
    ),
    (
        "{outages: [{steps: fetch, from: 02:00, to: 2h}]}",
        &[
            "1:44: outages[0].to: `from` and `to` must be of the same kind (write both as `02:00`, both as `2h`, or use `for`)",
        ],
    ),
    (
        "{outages: [{steps: fetch, from: 02:00, to: 02:00}]}",
        &["1:44: outages[0].to: the outage ends when it begins (use `for: 24h` for a whole day)"],
    ),
    (
        "{outages: [{steps: fetch, from: 25:00, to: 26:00}]}",
        &[
            "1:33: outages[0].from: is not a time of day: use `00:00` to `23:59`",
            "1:44: outages[0].to: is not a time of day: use `00:00` to `23:59`",
        ],
    ),
    (
        "{outages: [{steps: fetch, to: 2h, for: 2h}]}",
        &["1:40: outages[0].for: give either `to` or `for`, not both (remove one of the two)"],
    ),
    (
        "{outages: [{steps: fetch, to: 2h, does: pass}]}",
        &[
            "1:41: outages[0].does: this is not an outage (use `stall`, `fail`, `stick`, `choke`, `crash` or `drag`)",
        ],
    ),
    (
        "{outages: [{step: fetch, to: 2h}]}",
        &[
            "1:12: outages[0]: does not say what is down (name `steps`, `actions` or `actionTypes`)",
            "1:13: outages[0].step: an outage has no field `step` (did you mean `steps`?)",
        ],
    ),
    ("{workers: 0}", &["1:11: workers: expected a whole number of at least 1, not `0`"]),
    ("{workers: many}", &["1:11: workers: `workers` is a map, not text (write `count: ...`)"]),
    (
        "{workers: {count: 2, deaths: [{at: 1h, worker: 3}]}}",
        &["1:11: workers.deaths[0].worker: there are only 2 workers"],
    ),
    (
        "{workers: {deaths: [{restartAfter: 1m}]}}",
        &["1:21: workers.deaths[0]: does not say when a worker dies (write `at: 02:30` or `every: 6h`)"],
    ),
    (
        "{workers: {deaths: [{at: 1h, every: 2h}]}}",
        &["1:37: workers.deaths[0].every: give either `at` or `every`, not both"],
    ),
    (
        "{workers: {maxload: 0}}",
        &["1:12: workers.maxload: `workers` has no field `maxload` (did you mean `maxLoad`?)"],
    ),
    (
        "{signals: [{name: aproval}]}",
        &["1:19: signals[0].name: no step waits for signal `aproval` (did you mean `approval`?)"],
    ),
    (
        "{signals: [{after: 1h}]}",
        &["1:12: signals[0]: the signal has no name (write `{name: approved, after: 1h}`)"],
    ),
    ("{signals: never}", &["1:11: signals: expected `asAwaited`, not `never`"]),
    (
        "{operator: {after: 1h}}",
        &[
            "1:12: operator: does not say what the operator does (write `choose: retry` for held steps, or `resume: true` for steps in error)",
        ],
    ),
    ("{operator: {choose: resume}}", &["1:21: operator.choose: expected `retry` or `none`, not `resume`"]),
    (
        "{operator: {choose: retry, times: -1}}",
        &["1:35: operator.times: expected a whole number of at least 1, not `-1`"],
    ),
];

#[test]
fn every_problem_has_its_place_and_its_sentence() {
    for (text, wanted) in [FILES, NAMES, RULES, WORLD].into_iter().flatten() {
        let found = match read(text) {
            Ok(loaded) => lines(&loaded.warnings),
            Err(problems) => lines(&problems),
        };
        assert_eq!(found, *wanted, "{text}");
    }
}

#[test]
fn every_problem_is_in_one_answer() {
    let plan = "steps:\n  fecth: passs\n  encode: {duration: x}\noutages: {steps: fetch}\nworkers: 0\n";
    let problems = read(plan).expect_err("it is refused");
    let places: Vec<u32> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(places, [2, 2, 3, 4, 5], "{problems:#?}");
}

#[test]
fn a_pattern_that_matches_nothing_is_no_reason_to_refuse() {
    let loaded = read("{steps: {'x*': pass}}").expect("it is only suspicious");
    assert_eq!(loaded.warnings.len(), 1);
}
