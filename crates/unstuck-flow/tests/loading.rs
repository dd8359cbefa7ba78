//! What a flow file becomes: the model, its defaults, and its canonical source.

use std::fmt::Write as _;

use serde_json::{Value, json};
use unstuck_core::model::emulation::{Behaviour, EmulationPlan, WaitUntil};
use unstuck_core::model::expression::{Scope, Template};
use unstuck_core::model::flow::{Deadline, Flow, ForEach, Kind, ProcessCommand, Step, StepIndex, WaitFor};
use unstuck_core::model::http::HttpOutcome;
use unstuck_core::model::recovery::{BackOff, Defer, Limits, RetryStrategy};
use unstuck_core::time::{Millis, Time};
use unstuck_flow::{check_input, load};

fn flow(text: &str) -> Flow {
    let loaded = load(text, "f", "/flows", &|name| name.starts_with("known"));
    loaded.unwrap_or_else(|problems| panic!("{problems:#?}")).flows.remove(0)
}

/// The only step of a flow, given its fields.
fn step(fields: &str) -> Step {
    flow(&format!("flow: a\nsteps: [{{id: x, {fields}}}]\n")).steps.remove(0)
}

fn ids(flow: &Flow) -> Vec<&str> {
    flow.steps.iter().map(|step| &*step.id).collect()
}

#[test]
fn what_is_left_out_has_its_default() {
    let flow = flow("flow: a\nsteps: [{id: x, action: work}]\n");
    assert_eq!((&*flow.name, &*flow.version, &*flow.directory), ("a", "", "/flows"));
    assert!(flow.description.is_none() && flow.input.is_none() && flow.output.is_none());
    assert!(flow.deadline.is_none() && flow.concurrency.is_none() && flow.labels.is_empty());
    let step = &flow.steps[0];
    assert!(
        step.node.with.is_none()
            && step.node.when.is_none()
            && step.node.for_each.is_none()
            && step.node.needs.is_empty()
    );
    assert_eq!(step.limits, Limits::default());
    assert_eq!(step.defer, Defer::default());
    assert_eq!(step.retry, RetryStrategy::None);
    assert_eq!((step.load, step.priority, step.fail_on_error), (1, 0, true));
    assert!(step.exception_handler.is_none() && step.action_type.is_none());
    assert_eq!((&*step.queue, &*step.full_action), ("work", "a.work"));
}

#[test]
fn the_head_of_a_flow_is_read() {
    let flow = flow(
        "flow: a\nversion: 1.10\ndescription: words\ndeadline: 2030-01-31T08:30:00Z\nlabels: {team: media, tier: 1.0}\n\
         concurrency: {limit: 2, key: input.customer, strict: true}\noutput: ${steps.x.output}\nsteps: [{id: x, set: 1}]\n",
    );
    assert_eq!(&*flow.version, "1.10");
    assert_eq!(flow.description.as_deref(), Some("words"));
    assert_eq!(flow.deadline, Some(Deadline::At(Time(1_896_078_600_000))));
    assert_eq!(flow.labels.get("tier").map(String::as_str), Some("1.0"));
    let concurrency = flow.concurrency.expect("given");
    assert_eq!((concurrency.limit, concurrency.strict), (2, true));
    assert!(concurrency.key.expect("given").reads.input);
    assert!(flow.output.expect("given").reads().expect("computed").steps.contains(&StepIndex(0)));
}

#[test]
fn steps_come_after_what_they_need_and_otherwise_as_written() {
    /// The steps, their order, and what each needs.
    type Case = (&'static str, &'static [&'static str], &'static [&'static [u16]]);
    let cases: [Case; 4] = [
        ("{id: a, set: 1}, {id: b, set: 1}, {id: c, set: 1}", &["a", "b", "c"], &[&[], &[0], &[1]]),
        (
            "{id: a, set: 1, needs: c}, {id: b, set: 1, needs: []}, {id: c, set: 1}",
            &["b", "c", "a"],
            &[&[], &[0], &[1]],
        ),
        (
            "{id: a, set: 1}, {id: b, set: 1, needs: [a]}, {id: c, set: 1, needs: a}, {id: d, set: 1, needs: [b, c]}",
            &["a", "b", "c", "d"],
            &[&[], &[0], &[0], &[1, 2]],
        ),
        ("{id: a, set: 1, needs: []}, {id: b, set: 1, needs: []}", &["a", "b"], &[&[], &[]]),
    ];
    for (steps, order, needs) in cases {
        let flow = flow(&format!("flow: f\nsteps: [{steps}]\n"));
        assert_eq!(ids(&flow), order, "{steps}");
        let found: Vec<Vec<u16>> =
            flow.steps.iter().map(|step| step.node.needs.iter().map(|ix| ix.0).collect()).collect();
        assert_eq!(found, needs, "{steps}");
        for (place, dependents) in flow.dependents.iter().enumerate() {
            for dependent in dependents {
                assert!(
                    flow.step(*dependent).node.needs.iter().any(|ix| usize::from(ix.0) == place),
                    "{steps}"
                );
            }
        }
        let edges: usize = flow.dependents.iter().map(Vec::len).sum();
        assert_eq!(edges, found.iter().map(Vec::len).sum::<usize>(), "{steps}");
    }
}

#[test]
fn every_kind_is_read() {
    /// The fields, whether the kind is right, the queue and the full action.
    type Case = (&'static str, fn(&Kind) -> bool, &'static str, &'static str);
    let cases: [Case; 13] = [
        ("action: work", |kind| matches!(kind, Kind::Action(name) if &**name == "work"), "work", "a.work"),
        ("run: [sleep, 1.50, true]", |kind| *argv(kind) == ["sleep", "1.50", "true"], "@process", "a.x"),
        (
            "run: 'echo ${HOME}'",
            |kind| matches!(kind, Kind::Process(ProcessCommand::Shell(line)) if line == "echo ${HOME}"),
            "@process",
            "a.x",
        ),
        (
            "http: {url: 'https://host/', on: {409: completed}}",
            |kind| matches!(kind, Kind::Http(rules) if rules.given(409) == Some(HttpOutcome::Completed)),
            "@http",
            "a.x",
        ),
        ("flow: known", |kind| matches!(kind, Kind::Child(name) if &**name == "known"), "", "a.x"),
        ("wait: 1h 30m", |kind| matches!(kind, Kind::Wait(WaitFor::Span(Millis(5_400_000)))), "", "a.x"),
        (
            "wait: {until: 02:30, zone: Europe/Berlin, days: [sat, sunday]}",
            |kind| {
                matches!(kind, Kind::Wait(WaitFor::Next(next)) if next.to_string() == "02:30:00 Europe/Berlin"
                    && next.days.len() == 2 && next.next(Time(1_774_699_200_000)) == Some(Time(1_774_746_000_000)))
            },
            "",
            "a.x",
        ),
        ("wait: 2", |kind| matches!(kind, Kind::Wait(WaitFor::Span(Millis(2_000)))), "", "a.x"),
        (
            "wait: 1970-01-01T00:00:01Z",
            |kind| matches!(kind, Kind::Wait(WaitFor::Until(Time(1_000)))),
            "",
            "a.x",
        ),
        (
            "wait: '${input.t}'",
            |kind| matches!(kind, Kind::Wait(WaitFor::Computed(it)) if it.reads.input),
            "",
            "a.x",
        ),
        (
            "signal: order/paid",
            |kind| matches!(kind, Kind::Signal(name) if &**name == "order/paid"),
            "",
            "a.x",
        ),
        (
            "set: {a: [1]}",
            |kind| matches!(kind, Kind::Set(Template::Fixed(it)) if it.text() == r#"{"a":[1]}"#),
            "",
            "a.x",
        ),
        (
            "emulate: stall",
            |kind| plan(kind) == EmulationPlan::Sequence(vec![Behaviour::Stall]),
            "@emulate",
            "a.x",
        ),
    ];
    for (fields, right, queue, full_action) in cases {
        let step = step(fields);
        assert!(right(&step.kind), "{fields}: {:?}", step.kind);
        assert_eq!((&*step.queue, &*step.full_action), (queue, full_action), "{fields}");
    }
}

fn argv(kind: &Kind) -> &[String] {
    match kind {
        Kind::Process(ProcessCommand::Argv(argv)) => argv,
        other => panic!("{other:?}"),
    }
}

fn plan(kind: &Kind) -> EmulationPlan {
    match kind {
        Kind::Emulate(emulation) => emulation.plan.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn emulations_are_read() {
    use Behaviour::{Choke, Crash, Drag, Fail, Pass, Stall, Stick, Wait};
    let wait = Wait { until: WaitUntil::After(Millis::seconds(5)) };
    let until = Wait { until: WaitUntil::At(Time(0)) };
    let odds = |odds: &[(Behaviour, f64)], seed| EmulationPlan::Odds { odds: odds.to_vec(), seed };
    let cases = [
        ("{sequence: [stall, pass]}", EmulationPlan::Sequence(vec![Stall, Pass])),
        (
            "{sequence: [fail, crash, drag, stick, choke]}",
            EmulationPlan::Sequence(vec![Fail, Crash, Drag, Stick, Choke]),
        ),
        (
            "{sequence: [{wait: 5s}, {wait: '1970-01-01T00:00:00Z'}]}",
            EmulationPlan::Sequence(vec![wait, until]),
        ),
        ("{wait: 5s}", EmulationPlan::Sequence(vec![wait])),
        ("{odds: {stall: 0.1, pass: 0.9}, seed: 7}", odds(&[(Pass, 0.9), (Stall, 0.1)], Some(7))),
        ("{odds: {pass: 9, stall: 1}}", odds(&[(Pass, 9.0), (Stall, 1.0)], None)),
    ];
    for (fields, expected) in cases {
        let step = step(&format!("emulate: {fields}, timeout: 1m"));
        assert_eq!(plan(&step.kind), expected, "{fields}");
    }
    let Kind::Emulate(emulation) =
        step("emulate: {sequence: [pass], duration: 2s, drag: 3s, cause: why, output: {a: 1}}").kind
    else {
        panic!("not an emulation");
    };
    assert_eq!((emulation.duration, emulation.drag), (Millis::seconds(2), Millis::seconds(3)));
    assert_eq!(emulation.cause.as_deref(), Some("why"));
    assert_eq!(emulation.output.map(|json| json.value()), Some(json!({"a": 1})));
}

#[test]
fn recovery_is_read() {
    let back_off = BackOff {
        delay: Millis::seconds(1),
        max_delay: Some(Millis::seconds(9)),
        multiplier: Some(2.0),
        random: false,
    };
    let retry = |max_attempts, back_off| RetryStrategy::Retry { max_attempts, back_off };
    let fixed = Some(BackOff::fixed(Millis::seconds(3)));
    let random = BackOff { random: true, multiplier: None, ..back_off };
    let cases = [
        ("retryStrategy: none", RetryStrategy::None),
        ("retryStrategy: retry", retry(Some(2), None)),
        ("retry-strategy: retry, max-attempts: 5, back-off: 3", retry(Some(5), fixed)),
        ("retryStrategy: retry, maxAttempts: -1, backOff: PT3S", retry(None, fixed)),
        (
            "retryStrategy: retry, backOff: {delay: 1s, maxDelay: 9s, multiplier: 2}",
            retry(Some(2), Some(back_off)),
        ),
        (
            "retryStrategy: retry, backOff: {delay: 1s, max-delay: 9s, random: true}",
            retry(Some(2), Some(random)),
        ),
        ("retryStrategy: hold", RetryStrategy::Hold { max_attempts: None }),
        ("retryStrategy: hold, maxAttempts: 3", RetryStrategy::Hold { max_attempts: Some(3) }),
        ("retryStrategy: hold, maxAttempts: -1", RetryStrategy::Hold { max_attempts: None }),
    ];
    for (fields, expected) in cases {
        assert_eq!(step(&format!("action: work, {fields}")).retry, expected, "{fields}");
    }
    let handled = step("action: work, exception-handler-workflow: known, fail-on-error: true");
    assert_eq!(handled.exception_handler.as_deref(), Some("known"));
    assert!(!step("action: work, failOnError: false").fail_on_error);
}

#[test]
fn limits_are_read() {
    let step = step(
        "action: work, timeout: 1m, startTimeout: 2s, heartbeatTimeout: 3s, queueTimeout: 4s, maxStuck: 5, minimumDelay: 0, \
         load: 0, priority: -3, type: TRANSFORM, defer: {delay: 1h, multiplier: 1.5, limit: 2d}",
    );
    let seconds = Millis::seconds;
    let expected = Limits {
        start_timeout: seconds(2),
        heartbeat_timeout: Some(seconds(3)),
        timeout: Some(seconds(60)),
        queue_timeout: Some(seconds(4)),
        max_stuck: 5,
        minimum_delay: Millis::ZERO,
    };
    assert_eq!(step.limits, expected);
    assert_eq!((step.load, step.priority), (0, -3));
    assert_eq!(step.action_type.as_deref(), Some("TRANSFORM"));
    let hour = Millis::hours(1);
    let defer = Defer { delay: hour, multiplier: 1.5, max_delay: hour, limit: Millis::hours(48) };
    assert_eq!(step.defer, defer);
}

#[test]
fn only_executed_steps_have_a_timeout_by_default() {
    for (kind, timeout) in [
        ("action: work", Some(Limits::TIMEOUT)),
        ("run: [ls]", Some(Limits::TIMEOUT)),
        ("emulate: pass", Some(Limits::TIMEOUT)),
        ("flow: known", None),
        ("wait: 1s", None),
        ("signal: go", None),
        ("signal: go, timeout: 5s", Some(Millis::seconds(5))),
    ] {
        assert_eq!(step(kind).limits.timeout, timeout, "{kind}");
    }
}

#[test]
fn defaults_are_taken_over_where_they_mean_something() {
    let flow = flow(
        "flow: a\ndefaults: {timeout: 5s, retry-strategy: retry, maxAttempts: 4, exceptionHandler: known, load: 2, type: T}\n\
         steps: [{id: plain, action: w}, {id: own, action: w, timeout: 1s, retryStrategy: hold, maxAttempts: 9},\n\
                 {id: quiet, action: w, failOnError: false}, {id: pause, wait: 1s}, {id: value, set: 1}]\n",
    );
    let step = |id: &str| flow.step(flow.find_step(id).expect("it is there"));
    assert_eq!(step("plain").limits.timeout, Some(Millis::seconds(5)));
    assert_eq!(step("plain").retry, RetryStrategy::Retry { max_attempts: Some(4), back_off: None });
    assert_eq!((step("plain").load, step("plain").action_type.as_deref()), (2, Some("T")));
    assert_eq!(step("own").limits.timeout, Some(Millis::seconds(1)));
    assert_eq!(step("own").retry, RetryStrategy::Hold { max_attempts: Some(9) });
    assert_eq!(step("own").exception_handler.as_deref(), Some("known"));
    assert!(!step("quiet").fail_on_error && step("quiet").exception_handler.is_none());
    assert_eq!(step("pause").limits.timeout, None);
    assert_eq!((step("value").retry, step("value").load), (RetryStrategy::None, 1));
    assert_eq!(step("value").exception_handler.as_deref(), Some("known"));
}

#[test]
fn for_each_is_a_list_an_expression_or_both_with_limits() {
    for (fields, parallel, max_items, computed) in [
        ("forEach: [1, 2]", ForEach::PARALLEL, ForEach::MAX_ITEMS, false),
        ("foreach: '${input.list}'", ForEach::PARALLEL, ForEach::MAX_ITEMS, true),
        ("for-each: {items: '${input.list}', parallel: 3, max-items: 9}", 3, 9, true),
    ] {
        let for_each = step(&format!("set: '${{item}}', {fields}")).node.for_each.expect("given");
        assert_eq!((for_each.parallel, for_each.max_items), (parallel, max_items), "{fields}");
        assert_eq!(for_each.items.reads().is_some(), computed, "{fields}");
    }
}

#[test]
fn expressions_are_compiled_with_what_they_read() {
    let flow = flow(
        "flow: a\nsteps:\n  - {id: x, set: 1}\n  - id: y\n    if: ${steps.x.output == 1}\n    action: w\n\
         \x20   with: {n: '${steps.x.output + input.n}', text: plain}\n",
    );
    let step = &flow.steps[1];
    let when = step.node.when.as_ref().expect("given");
    assert_eq!(when.reads.steps.iter().copied().collect::<Vec<_>>(), [StepIndex(0)]);
    assert!(!when.reads.input);
    let Some(Template::Computed(with)) = &step.node.with else { panic!("computed") };
    let scope = Scope { input: json!({"n": 2}), steps: vec![("x".into(), json!(1))], ..Scope::default() };
    assert_eq!(with.program.evaluate(&scope), Ok(json!({"n": 3, "text": "plain"})));
    let never = self::step("set: 1, if: false").node.when.expect("given");
    assert_eq!(never.program.evaluate(&Scope::default()), Ok(Value::Bool(false)));
    assert!(self::step("set: 1, if: true").node.when.is_none());
}

#[test]
fn inputs_are_checked_against_the_schema() {
    let flow = flow(
        "flow: a\ninput:\n  type: object\n  required: [name]\n  properties:\n    name: {type: string}\n    \
         parts: {type: array, items: {type: object, properties: {n: {type: integer}}}}\nsteps: [{id: x, set: 1}]\n",
    );
    assert_eq!(check_input(&flow, &json!({"name": "a", "parts": [{"n": 1}]})), Ok(()));
    let problems =
        check_input(&flow, &json!({"name": 3, "parts": [{"n": 1}, {"n": "x"}]})).expect_err("refused");
    assert_eq!(
        problems,
        [r#"input.name: 3 is not of type "string""#, r#"input.parts[1].n: "x" is not of type "integer""#]
    );
    let problems = check_input(&flow, &Value::Null).expect_err("refused");
    assert_eq!(problems, [r#"input: null is not of type "object""#]);
    let problems = check_input(&flow, &json!({"name": vec![7; 1_000]})).expect_err("refused");
    assert!(problems[0].len() < 400, "a long input is not quoted in full");
}

#[test]
fn yaml_json_and_lists_of_flows_are_the_same() {
    let files = [
        "flow: a\nversion: 2\nsteps:\n  - id: x\n    action: w\n    retry-strategy: retry\n---\nflow: b\nsteps: [{id: x, set: 1}]\n",
        "---\n# a comment\nsteps: [{retryStrategy: retry, action: w, id: x}]\nversion: '2'\nflow: a\n---\n---\nflow: b\nsteps: [{id: x, set: 1}]\n",
        r#"[{"flow": "a", "version": 2, "steps": [{"id": "x", "action": "w", "retryStrategy": "retry"}]},
           {"flow": "b", "steps": [{"id": "x", "set": 1}]}]"#,
        "\u{feff}flow: a\r\nversion: 2\r\nsteps:\r\n  - <<: &r {retryStrategy: retry}\r\n    id: x\r\n    action: w\r\n---\r\nflow: b\r\nsteps: [{id: x, set: 1}]\r\n",
    ];
    for file in files {
        let flows =
            load(file, "f", "/flows", &|_| false).unwrap_or_else(|problems| panic!("{problems:#?}")).flows;
        let sources: Vec<&str> = flows.iter().map(|flow| &*flow.source).collect();
        let expected = [
            r#"{"flow":"a","steps":[{"action":"w","id":"x","retryStrategy":"retry"}],"version":"2"}"#,
            r#"{"flow":"b","steps":[{"id":"x","set":1}]}"#,
        ];
        assert_eq!(sources, expected, "{file}");
    }
}

/// A schema with `$defs` in which each level of an input has two alternatives that both look at all levels below.
const RECURSIVE: &str = "flow: a\ninput:\n  $ref: '#/$defs/node'\n  $defs:\n    node:\n      oneOf:\n        \
    - {type: array, items: {$ref: '#/$defs/node'}}\n        - {type: array, maxItems: 5, items: {$ref: '#/$defs/node'}}\n\
    steps: [{id: x, set: 1}]\n";

#[test]
fn a_recursive_one_of_cannot_eat_the_machine() {
    let flow = flow(RECURSIVE);
    // Where the alternatives are few, all that is wrong is told.
    let problems = check_input(&flow, &json!([])).expect_err("both alternatives fit");
    assert!(problems[0].contains("more than one of the schemas"), "{problems:?}");
    // 2 to the power of the depth, if they were tried: 132 bytes took 105 s and 19.6 GiB.
    for depth in [22, 60, 110] {
        let input = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let problems = check_input(&flow, &input).expect_err("does not fit");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("input: does not match the flow's schema. The part"), "{problems:?}");
    }
    // A wide one takes more steps than are allowed, and is not begun with.
    let wide = Value::Array(vec![json!([]); 400_000]);
    let problems = check_input(&flow, &wide).expect_err("too much");
    assert_eq!(
        problems,
        [
            "input: cannot be checked against the flow's schema: the check would take more than 1000000 steps. \
          Send less data, or simplify the schema"
        ]
    );
}

#[test]
fn a_long_chain_of_references_in_a_schema_needs_no_deep_stack() {
    for (length, is_checked) in [(10, true), (900, true), (2_000, false), (9_000, false)] {
        let mut text = String::from("flow: a\ninput:\n  $ref: '#/$defs/n0'\n  $defs:\n");
        for n in 0..length {
            writeln!(text, "    n{n}: {{$ref: '#/$defs/n{}'}}", n + 1).expect("a text");
        }
        write!(text, "    n{length}: {{type: integer}}\nsteps: [{{id: x, set: 1}}]\n").expect("a text");
        let flow = flow(&text);
        let result = check_input(&flow, &json!(1));
        assert_eq!(result.is_ok(), is_checked, "{length}: {result:?}");
    }
}
