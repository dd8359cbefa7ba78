//! What is wrong or suspicious in a file: flows, expressions, policies, plans and example outputs.

use serde_json::json;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_flow::{Problem, check_input, plan, policies};

/// Where a sentence comes from, and the sentence.
type Line = (String, String);

/// A file that is wrong in one way, and what it is an example of.
type Case = (&'static str, &'static str);

/// What is refused in a flow file, and what is warned about.
pub(crate) fn of_flows() -> Vec<Line> {
    let mut lines: Vec<Line> = FLOWS.iter().flat_map(|(label, text)| of_flow(label, text)).collect();
    lines.extend(STEPS.iter().flat_map(|(label, step)| {
        of_flow(
            label,
            &format!(
                "flow: f\nsteps:\n  - {{id: a, set: 1}}\n  - {{id: s, {step}}}\n  - {{id: z, set: 2}}\n"
            ),
        )
    }));
    let large = "x".repeat(1 << 20);
    let many = (0..1_001).map(|n| format!("  - {{id: s{n}, set: 1}}\n")).collect::<Vec<_>>().concat();
    let labels = (0..65).map(|n| format!("l{n}: x, ")).collect::<Vec<_>>().concat();
    for (label, text) in [
        ("too large", format!("flow: f\nsteps: [{{id: a, set: {large}}}]\n")),
        ("too many steps", format!("flow: f\nsteps:\n{many}")),
        ("too deep", format!("flow: f\nsteps: {}{}\n", "[".repeat(80), "]".repeat(80))),
        ("too many labels", format!("flow: f\nlabels: {{{labels}}}\nsteps: [{{id: a, set: 1}}]\n")),
        ("long key", format!("flow: f\n{}: 1\nsteps: [{{id: a, set: 1}}]\n", "k".repeat(1_001))),
        ("long name", format!("flow: {}\nsteps: [{{id: a, set: 1}}]\n", "f".repeat(201))),
    ] {
        lines.extend(of_flow(label, &text).into_iter().map(|(label, said)| (label, shortened(&said))));
    }
    lines.extend(of_input());
    once(lines)
}

/// What is wrong with an expression, when it is loaded or when it is evaluated.
pub(crate) fn of_expressions() -> Vec<Line> {
    let sources = EXPRESSIONS.iter().map(|source| {
        let flow = format!(
            "flow: f\nsteps:\n  - {{id: fetch, set: {{path: /tmp/x, rows: [1, 2]}}}}\n  - id: s\n    forEach: [1]\n    with: {{x: {}}}\n    action: a\n",
            json!(format!("${{{source}}}"))
        );
        (*source, flow)
    });
    let loaded = sources.flat_map(|(source, flow)| of_flow(source, &flow));
    once(loaded.collect())
}

/// What is refused in a policy file, and what is warned about.
pub(crate) fn of_policies() -> Vec<Line> {
    let said = |(label, text): &Case| match policies::load(text, "policy.yaml") {
        Ok(loaded) => told(label, &loaded.warnings),
        Err(problems) => told(label, &problems),
    };
    once(POLICIES.iter().flat_map(said).collect())
}

/// What is refused in a plan or in example outputs, and what is warned about.
pub(crate) fn of_plans() -> Vec<Line> {
    let flows = flows();
    let plan = |(label, text): &Case| match plan::load(text, "plan.yaml", &flows) {
        Ok(loaded) => told(label, &loaded.warnings),
        Err(problems) => told(label, &problems),
    };
    let outputs = |(label, text): &Case| match plan::outputs::load(text, "outputs.yaml", &flows) {
        Ok((_, warnings)) => told(label, &warnings),
        Err(problems) => told(label, &problems),
    };
    once(PLANS.iter().flat_map(plan).chain(OUTPUTS.iter().flat_map(outputs)).collect())
}

fn of_flow(label: &str, text: &str) -> Vec<Line> {
    match unstuck_flow::load(text, "flow.yaml", ".", &|_| false) {
        Ok(loaded) => told(label, &loaded.warnings_at(Time(2_000_000_000_000))),
        Err(problems) => told(label, &problems),
    }
}

fn told(label: &str, problems: &[Problem]) -> Vec<Line> {
    assert!(!problems.is_empty(), "`{label}` is right");
    let said = |problem: &Problem| {
        let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
        let hint = problem.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
        (label.to_owned(), format!("{field}{}{hint}", problem.message))
    };
    problems.iter().map(said).collect()
}

/// Each line once.
fn once(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        if !kept.contains(&line) {
            kept.push(line);
        }
    }
    kept
}

fn shortened(said: &str) -> String {
    if said.chars().count() < 400 {
        said.to_owned()
    } else {
        said.chars().take(60).chain("...".chars()).collect()
    }
}

/// What is said of an input that the schema of its flow does not take.
fn of_input() -> Vec<Line> {
    let text = "flow: f\ninput: {type: object, required: [n], properties: {n: {type: integer}, m: {items: {allOf: [{minimum: 0}]}}}}\nsteps: [{id: a, set: 1}]\n";
    let flow = &unstuck_flow::load(text, "flow.yaml", ".", &|_| false).expect("it is right").flows[0];
    let wide = json!({"n": 1, "m": vec![1; 600_000]});
    let cases = [("missing", json!({})), ("wrong type", json!({"n": "x"})), ("too large", wide)];
    let said = cases.iter().flat_map(|(label, input)| {
        let problems = check_input(flow, input).expect_err("it does not fit");
        problems.into_iter().map(|said| (format!("input: {label}"), said)).collect::<Vec<Line>>()
    });
    said.collect()
}

/// The flows that plans are about.
fn flows() -> Vec<Flow> {
    let text = "
flow: f
steps:
  - {id: fetch, action: fetch}
  - {id: each, action: ship, type: SHIP, forEach: [1, 2]}
  - {id: sub, flow: child}
  - {id: ok, signal: approval}
  - {id: nap, wait: 1m}
  - {id: made, set: 1}
---
flow: child
steps: [{id: inner, action: b}]
";
    unstuck_flow::load(text, "flow.yaml", ".", &|_| false).expect("they are right").flows
}

const FLOWS: &[Case] = &[
    ("empty", ""),
    ("not a map", "just words"),
    ("not YAML", "flow: [\n"),
    ("tab", "flow: f\nsteps:\n\t- {id: a, set: 1}\n"),
    ("unquoted expression", "flow: f\nsteps: [{id: a, set: ${input.a: 1}}]\n"),
    ("a policy", "name: p\nmaxAttempts: 3\n"),
    ("no name", "steps: [{id: a, set: 1}]\n"),
    ("no steps", "flow: f\n"),
    ("empty steps", "flow: f\nsteps: []\n"),
    ("steps of the wrong kind", "flow: f\nsteps: {a: 1}\n"),
    ("bad name", "flow: my flow\nsteps: [{id: a, set: 1}]\n"),
    ("empty name", "flow: ''\nsteps: [{id: a, set: 1}]\n"),
    ("name is a list", "flow: [f]\nsteps: [{id: a, set: 1}]\n"),
    ("unknown field", "flow: f\nstep: []\nsteps: [{id: a, set: 1}]\n"),
    ("key given twice", "flow: f\nflow: g\nsteps: [{id: a, set: 1}]\n"),
    ("number key given twice", "flow: f\nsteps: [{id: a, set: {1: x, 1: y}}]\n"),
    (
        "field under two names",
        "flow: f\nsteps: [{id: a, action: x, retryStrategy: retry, maxAttempts: 3, max-attempts: 4}]\n",
    ),
    ("same flow twice", "flow: f\nsteps: [{id: a, set: 1}]\n---\nflow: f\nsteps: [{id: a, set: 1}]\n"),
    ("unknown alias", "flow: f\nsteps: [{id: a, set: *x}]\n"),
    ("alias of itself", "flow: f\nsteps: [{id: a, set: &x [*x]}]\n"),
    ("list as key", "flow: f\nsteps: [{id: a, set: {[1]: 2}}]\n"),
    ("not a number", "flow: f\nsteps: [{id: a, set: .inf}]\n"),
    ("version", "flow: f\nversion: ''\nsteps: [{id: a, set: 1}]\n"),
    ("version is a map", "flow: f\nversion: {}\nsteps: [{id: a, set: 1}]\n"),
    ("deadline", "flow: f\ndeadline: 0\nsteps: [{id: a, set: 1}]\n"),
    ("deadline in words", "flow: f\ndeadline: soon\nsteps: [{id: a, set: 1}]\n"),
    ("concurrency", "flow: f\nconcurrency: {key: x}\nsteps: [{id: a, set: 1}]\n"),
    ("concurrency of zero", "flow: f\nconcurrency: 0\nsteps: [{id: a, set: 1}]\n"),
    ("labels", "flow: f\nlabels: [x]\nsteps: [{id: a, set: 1}]\n"),
    ("label without a name", "flow: f\nlabels: {'': x}\nsteps: [{id: a, set: 1}]\n"),
    ("label of the wrong kind", "flow: f\nlabels: {team: [x]}\nsteps: [{id: a, set: 1}]\n"),
    ("no effect", "flow: f\ndefaults: {backOff: 1m}\nsteps: [{id: a, action: x}]\n"),
    ("schema is no map", "flow: f\ninput: 3\nsteps: [{id: a, set: 1}]\n"),
    ("schema", "flow: f\ninput: {type: strng}\nsteps: [{id: a, set: 1}]\n"),
    ("schema elsewhere", "flow: f\ninput: {$ref: 'https://example.com/s'}\nsteps: [{id: a, set: 1}]\n"),
    ("pattern of a schema", "flow: f\ninput: {pattern: '(?=x)'}\nsteps: [{id: a, set: 1}]\n"),
    ("step without an id", "flow: f\nsteps: [{set: 1}]\n"),
    ("step that is text", "flow: f\nsteps: [fetch]\n"),
    ("bad id", "flow: f\nsteps: [{id: 9a, set: 1}]\n"),
    ("same id twice", "flow: f\nsteps: [{id: a, set: 1}, {id: a, set: 2}]\n"),
    ("cycle", "flow: f\nsteps: [{id: a, needs: b, set: 1}, {id: b, needs: a, set: 2}]\n"),
    ("needs itself", "flow: f\nsteps: [{id: a, needs: a, set: 1}]\n"),
    ("needs twice", "flow: f\nsteps: [{id: a, set: 1}, {id: b, needs: [a, a], set: 1}]\n"),
    ("needs nothing", "flow: f\nsteps: [{id: a, needs: nope, set: 1}]\n"),
    ("needs of the wrong kind", "flow: f\nsteps: [{id: a, needs: {}, set: 1}]\n"),
    ("handlers in a cycle", "flow: f\nsteps: [{id: a, action: x, exceptionHandler: f}]\n"),
    ("starts itself", "flow: f\nsteps: [{id: a, flow: f}]\n"),
    (
        "reads too early",
        "flow: f\nconcurrency: {limit: 1, key: '${steps.a.output}'}\nsteps: [{id: a, set: 1}]\n",
    ),
];

/// Steps, without their id.
const STEPS: &[Case] = &[
    ("http without url", "http: {method: GET}"),
    ("http is text", "http: https://host/"),
    ("http without scheme", "http: {url: host/path}"),
    ("http with another scheme", "http: {url: 'ftp://host/'}"),
    ("http without host", "http: {url: 'https:///x'}"),
    ("http with a space", "http: {url: 'https://host/a b'}"),
    ("http with a password", "http: {url: 'https://me:pass@host/'}"),
    ("http method", "http: {url: 'https://host/', method: GTE}"),
    ("http fields", "http: {uri: 'https://host/', url: 'https://host/'}"),
    ("http headers computed", "http: {url: 'https://host/', headers: '${input.headers}'}"),
    ("http headers", "http: {url: 'https://host/', headers: [a]}"),
    ("http header names", "http: {url: 'https://host/', headers: {a b: c, Host: d, X-A: 1, x-a: 2}}"),
    (
        "http body length",
        "http: {url: 'https://host/', headers: {Content-Length: 3, Connection: close, TE: x}}",
    ),
    ("http header value", "http: {url: 'https://host/', headers: {a: \"b\\nc\"}}"),
    ("http on", "http: {url: 'https://host/', on: ok}"),
    ("http statuses", "http: {url: 'https://host/', on: {teapot: failed, 409: done}}"),
    ("http with input", "http: {url: 'https://host/'}, with: {a: 1}"),
    ("http with heartbeats", "http: {url: 'https://host/'}, heartbeatTimeout: 1m"),
    ("secret in a value", "set: '${secrets.A}'"),
    ("secret in a condition", "set: 1, if: \"${secrets.A == 'x'}\""),
    ("secret in an expression", "action: a, with: \"${'Bearer ' + secrets.A}\""),
    ("secret with a bad name", "action: a, with: \"${secrets['a-b']}\""),
    ("secret in a command", "run: 'curl -u ${secrets.A}'"),
    ("no kind", "timeout: 1m"),
    ("two kinds", "action: x, set: 1"),
    ("bad action", "action: do it"),
    ("unknown flow", "flow: other"),
    ("unknown handler", "action: x, exceptionHandler: fs"),
    ("empty command", "run: []"),
    ("command without a program", "run: ['', x]"),
    ("command of the wrong kind", "run: 3"),
    ("NUL in a command", r#"run: ["a\0b"]"#),
    ("expression in a command", "run: 'echo ${input.a}', timeout: 1m"),
    ("long silence", "run: make"),
    ("timeout", "action: x, timeout: 0"),
    ("timeout in words", "action: x, timeout: soon"),
    ("expression in a duration", "action: x, timeout: '${input.t}'"),
    ("quoted number", "action: x, maxStuck: '3'"),
    ("yes", "action: x, failOnError: yes"),
    ("strategy", "action: x, retryStrategy: retyr"),
    ("strategy is a map", "action: x, retryStrategy: {}"),
    ("attempts without a strategy", "action: x, maxAttempts: 3"),
    ("one attempt", "action: x, retryStrategy: retry, maxAttempts: 1"),
    ("attempts", "action: x, retryStrategy: retry, maxAttempts: 0"),
    ("unlimited attempts", "action: x, retryStrategy: retry, maxAttempts: -1"),
    ("back-off of a held step", "action: x, retryStrategy: hold, backOff: 1m"),
    ("back-off without a delay", "action: x, retryStrategy: retry, backOff: {multiplier: 2}"),
    ("maxDelay", "action: x, retryStrategy: retry, backOff: {delay: 1h, maxDelay: 1m}"),
    ("random", "action: x, retryStrategy: retry, backOff: {delay: 1m, random: true}"),
    (
        "random and multiplier",
        "action: x, retryStrategy: retry, backOff: {delay: 1m, maxDelay: 2m, multiplier: 2, random: true}",
    ),
    ("multiplier", "action: x, retryStrategy: retry, backOff: {delay: 1m, multiplier: 0}"),
    ("deferral", "action: x, defer: {delay: 1h, maxDelay: 1m}"),
    ("handler that never runs", "action: x, failOnError: false, exceptionHandler: f"),
    ("does not apply", "set: 1, timeout: 1m"),
    ("forEach with signal", "signal: go, forEach: [1]"),
    ("forEach without items", "action: x, forEach: {maxItems: 3}"),
    ("empty forEach", "action: x, forEach: []"),
    ("too many items", "action: x, forEach: {items: [1, 2, 3], maxItems: 2}"),
    ("forEach of the wrong kind", "action: x, forEach: 3"),
    ("if is false", "action: x, if: false"),
    ("if is text", "action: x, if: maybe"),
    ("text around an expression", "action: x, if: '${input.a} b'"),
    ("text before an expression", "action: x, if: 'b ${input.a}'"),
    ("reads a later step", "set: '${steps.z.output}'"),
    ("reads itself", "set: '${steps.s.output}'"),
    ("wait", "wait: soon"),
    ("time of day", "wait: '02:00'"),
    ("wait without a zone", "wait: {until: '02:00'}"),
    ("no time of day", "wait: {until: '25:00', zone: UTC}"),
    ("instant", "wait: {until: '2030-01-31T08:30:00Z', zone: UTC}"),
    ("computed time of day", "wait: {until: '${input.t}', zone: UTC}"),
    ("number as time of day", "wait: {until: 2, zone: UTC}"),
    ("computed zone", "wait: {until: '02:00', zone: '${input.z}'}"),
    ("abbreviated zone", "wait: {until: '02:00', zone: PST}"),
    ("misspelt zone", "wait: {until: '02:00', zone: Europe/Berln}"),
    ("offset", "wait: {until: '02:00', zone: '+2'}"),
    ("no days", "wait: {until: '02:00', zone: UTC, days: []}"),
    ("past", "wait: 2020-01-01T00:00:00Z"),
    ("emulation", "emulate: {}"),
    ("emulation with two", "emulate: {sequence: [pass], wait: 5s}"),
    ("seed without odds", "emulate: {sequence: [pass], seed: 1}"),
    ("empty sequence", "emulate: {sequence: []}"),
    ("sequence of the wrong kind", "emulate: {sequence: pass}"),
    ("odds of nothing", "emulate: {odds: {pass: 0}}"),
    ("odds of the wrong kind", "emulate: {odds: pass}"),
    ("unknown odds", "emulate: {odds: {pas: 1}}"),
    ("behaviour", "emulate: {sequence: [pas]}"),
    ("wait without a time", "emulate: {sequence: [wait]}"),
    ("expression in an emulation", "emulate: {sequence: [stall], cause: '${input.a}'}"),
    ("load", "action: x, load: -1"),
    ("priority", "action: x, priority: high"),
];

const EXPRESSIONS: &[&str] = &[
    "",
    "1 +",
    "(1",
    "1)",
    "input.a b",
    "input.a and input.b",
    "not input.a",
    "input.a = 1",
    "input.a & 1",
    "input.a | 1",
    "if",
    "for",
    "'a",
    "'\\q'",
    "'\\u12'",
    "b'x'",
    "`a",
    "``",
    "1x",
    "5m",
    "2u",
    "99999999999999999999",
    "1e999",
    "// x",
    "\u{201c}a\u{201d}",
    "\u{e9}",
    "$input.a",
    "input.list.0",
    "inptu.a",
    "item2",
    "steps",
    "steps.fetch",
    "steps.ftech.output",
    "steps.fetch.result",
    "steps[input.a].output",
    "run.idd",
    "nope(1)",
    "len(input.a)",
    "size()",
    "size(1, 2)",
    "now()",
    "uuid()",
    "map(1)",
    "input.a.size(1)",
    "has(1)",
    "has()",
    "has(steps.fetch.output)",
    "[1].map(1, 2)",
    "[1].map(x)",
    "'a'.matches(input.p)",
    "'a'.matches('(')",
    "'a'.matches('(a{1000}){1000}')",
];

const POLICIES: &[Case] = &[
    ("empty", ""),
    ("a flow", "flow: f\nsteps: []\n"),
    ("a word around the list", "policies: [{name: p}]\n"),
    ("not a map", "words"),
    ("nothing but a name", "name: p\n"),
    ("unknown field", "{name: p, flow: f, maxAttempts: 3, backOff: 1m, actoin: x}"),
    ("attempts", "{name: p, flow: f, maxAttempts: 1.5, backOff: 1m}"),
    ("priority", "{name: p, flow: f, maxAttempts: 3, backOff: 1m, priority: high}"),
    ("name with a line break", "{name: \"a\\nb\", flow: f, maxAttempts: 3, backOff: 1m}"),
    ("empty criterion", "{name: p, flow: '', errorSubstring: x, maxAttempts: 3, backOff: 1m}"),
    ("criterion of the wrong kind", "{name: p, flow: [x], maxAttempts: 3, backOff: 1m}"),
    ("multiplier", "{name: p, flow: f, maxAttempts: 3, backOff: {delay: 1m, multiplier: x}}"),
    (
        "random and multiplier",
        "{name: p, flow: f, maxAttempts: 3, backOff: {delay: 1m, maxDelay: 2m, multiplier: 2, random: true}}",
    ),
    ("maxDelay alone", "{name: p, flow: f, maxAttempts: 3, backOff: {delay: 1m, maxDelay: 2m}}"),
    (
        "same name",
        "- {name: p, flow: f, maxAttempts: 3, backOff: 1m}\n- {name: p, flow: g, maxAttempts: 3, backOff: 1m}\n",
    ),
    (
        "same id",
        "- {id: i, name: p, flow: f, maxAttempts: 3, backOff: 1m}\n- {id: i, name: q, flow: g, maxAttempts: 3, backOff: 1m}\n",
    ),
    (
        "same criteria",
        "- {name: p, flow: f, maxAttempts: 3, backOff: 1m}\n- {name: q, flow: f, maxAttempts: 3, backOff: 2m}\n",
    ),
];

const PLANS: &[Case] = &[
    ("empty", ""),
    ("two plans", "steps: {}\n---\nsteps: {}\n"),
    ("a flow", "flow: f\nsteps: [{id: a, set: 1}]\n"),
    ("a policy", "{name: p, maxAttempts: 3, backOff: 1m}"),
    ("steps of the wrong kind", "steps: [fetch]"),
    ("unknown step", "steps: {ftech: pass}"),
    ("unknown action", "actions: {nope: pass}"),
    ("unknown type", "actionTypes: {NOPE: pass}"),
    ("pattern without a match", "steps: {'x*': pass}"),
    ("no item", "steps: {'fetch[0]': pass}"),
    ("not an item", "steps: {'each[x]': pass}"),
    ("child flow", "steps: {sub: pass}"),
    ("signal", "steps: {ok: pass}"),
    ("wait", "steps: {nap: pass}"),
    ("behaviour", "steps: {fetch: pas}"),
    ("nothing", "steps: {fetch: {}}"),
    ("of the wrong kind", "steps: {fetch: 3}"),
    ("empty sequence", "steps: {fetch: []}"),
    ("sequence and odds", "steps: {fetch: {sequence: [pass], odds: {pass: 1}}}"),
    ("long sequence", "steps: {fetch: [{stall: x, times: 100000000}]}"),
    ("times", "steps: {fetch: {stall: x, times: 2}}"),
    ("wait without a time", "steps: {fetch: [wait]}"),
    ("two at once", "steps: {fetch: [{stall: x, fail: y}]}"),
    ("attempt without a behaviour", "steps: {fetch: [{after: 5s}]}"),
    ("after", "steps: {fetch: [{stick: , after: 5s}]}"),
    ("value of a behaviour", "steps: {fetch: [{pass: 3}]}"),
    ("two causes", "steps: {fetch: [{stall: x, cause: y}]}"),
    ("range", "steps: {fetch: {duration: [1m]}}"),
    ("range backwards", "steps: {fetch: {duration: [2m, 1m]}}"),
    ("outage of nothing", "outages: [{for: 1h}]"),
    ("outage with two ends", "outages: [{steps: fetch, to: 2h, for: 1h}]"),
    ("outage without an end", "outages: [{steps: fetch}]"),
    ("no outage", "outages: [{steps: fetch, for: 1h, does: pass}]"),
    ("outage of no time", "outages: [{steps: fetch, from: '02:00', to: '02:00'}]"),
    ("outage with two clocks", "outages: [{steps: fetch, from: '02:00', to: 2h}]"),
    ("outage backwards", "outages: [{steps: fetch, from: 2h, to: 1h}]"),
    (
        "outage before its start",
        "outages: [{steps: fetch, from: 2030-01-02T00:00:00Z, to: 2030-01-01T00:00:00Z}]",
    ),
    ("workers", "workers: {count: 2, deaths: [{at: 1h, worker: 3}]}"),
    ("too many workers", "workers: {count: 100000000}"),
    ("death without a time", "workers: {deaths: [{worker: 1}]}"),
    ("death with two times", "workers: {deaths: [{at: 1h, every: 1h}]}"),
    ("signal without a name", "signals: [{after: 1h}]"),
    ("unknown signal", "signals: [{name: aproval}]"),
    ("operator", "operator: {after: 1h}"),
    ("start", "start: 1990-01-01T00:00:00Z"),
];

const OUTPUTS: &[Case] = &[
    ("outputs: empty", ""),
    ("outputs: of the wrong kind", "[1]"),
    ("outputs: two maps", "fetch: 1\n---\nfetch: 2\n"),
    ("outputs: no item", "'fetch[0]': 1"),
    ("outputs: child flow", "sub: 1"),
    ("outputs: wait", "nap: 1"),
    ("outputs: set", "made: 1"),
];
