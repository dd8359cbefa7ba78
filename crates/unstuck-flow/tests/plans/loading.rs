//! What plans become: which rule a step goes by, and what its attempts do.

use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt};
use unstuck_core::model::error::Reason;
use unstuck_core::random::Random;
use unstuck_core::time::Millis;
use unstuck_flow::plan::{Plan, PlannedTime, START, SignalPlan, Times, schema};

use crate::{flows, lines, read};

fn plan(text: &str) -> Plan {
    read(text).unwrap_or_else(|problems| panic!("{text}: {:#?}", lines(&problems))).plan
}

/// What the attempts of a step do, the first ones of them.
fn turns(plan: &Plan, flow: &str, step: &str, item: Option<u32>, count: u32) -> Vec<EmulatedAttempt> {
    let flows = flows();
    let flow = flows.iter().find(|known| &*known.name == flow).expect("there is such a flow");
    let step = flow.step(flow.find_step(step).expect("there is such a step"));
    let rule = plan.rule(&flow.name, step, item);
    let turn = |attempt| {
        rule.map_or(EmulatedAttempt::of(Behaviour::Pass), |rule| {
            rule.to_attempt(attempt, &mut Random::new(7))
        })
    };
    (1..=count).map(turn).collect()
}

fn words(turns: &[EmulatedAttempt]) -> String {
    turns.iter().map(|turn| turn.behaviour.word()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_more_exact_rule_is_asked_first_whatever_the_order() {
    let plan = plan(
        "actionTypes: {INGRESS: choke, '*': crash}
actions: {'*': drag, push: stick}
steps: {'*': fail, fetch: stall, 'rollout.fetch': pass, 'encode[1]': choke, 'publish.no*': stick}
",
    );
    let cases = [
        ("publish", "fetch", None, "stall"),
        ("rollout", "fetch", None, "pass"),
        ("publish", "encode", Some(0), "fail"),
        ("publish", "encode", Some(1), "choke"),
        ("publish", "notify", None, "fail"),
        ("rollout", "push", None, "fail"),
    ];
    for (flow, step, item, wanted) in cases {
        assert_eq!(words(&turns(&plan, flow, step, item, 1)), wanted, "{flow}.{step} {item:?}");
    }
}

#[test]
fn examples_of_outputs_are_matched_like_rules_and_a_signal_has_one_too() {
    let plan = plan(
        "outputs: {'*': 1, fetch: {rows: []}, 'rollout.fetch': 3, 'encode[1]': 4, approved: {by: ada}}\n",
    );
    let cases = [
        ("publish", "fetch", None, r#"{"rows":[]}"#),
        ("rollout", "fetch", None, "3"),
        ("publish", "encode", Some(0), "1"),
        ("publish", "encode", Some(1), "4"),
        ("publish", "approved", None, r#"{"by":"ada"}"#),
    ];
    let flows = flows();
    for (flow, step, item, wanted) in cases {
        let flow = flows.iter().find(|known| &*known.name == flow).expect("there is such a flow");
        let step = flow.step(flow.find_step(step).expect("there is such a step"));
        let example = plan.example(&flow.name, step, item).expect("there is an example");
        assert_eq!((example.output.text(), &*example.from), (wanted, "f"), "{} {item:?}", step.id);
    }
}

#[test]
fn actions_and_labels_are_matched_by_name_and_pattern() {
    let cases = [
        ("actions: {fetch: stall}", "fetch", "stall"),
        ("actions: {publish.fetch: stall}", "fetch", "stall"),
        ("actions: {rollout.fetch: stall}", "fetch", "pass"),
        ("actions: {'media/*': stall}", "encode", "stall"),
        ("actionTypes: {'TRANS*': stall}", "encode", "stall"),
        ("actionTypes: {INGRESS: stall}", "encode", "pass"),
        ("steps: {'?etch': stall}", "fetch", "stall"),
    ];
    for (text, step, wanted) in cases {
        assert_eq!(words(&turns(&plan(text), "publish", step, None, 1)), wanted, "{text}");
    }
}

#[test]
fn a_sequence_goes_on_with_its_last_entry() {
    let cases = [
        ("stall", "stall stall stall stall"),
        ("[stall, pass]", "stall pass pass pass"),
        ("{sequence: [{stall: x, times: 2}, crash, pass]}", "stall stall crash pass"),
        ("{duration: 5m}", "pass pass pass pass"),
        ("[{wait: 5m}, choke]", "wait choke choke choke"),
    ];
    for (rule, wanted) in cases {
        let plan = plan(&format!("steps: {{fetch: {rule}}}"));
        assert_eq!(words(&turns(&plan, "publish", "fetch", None, 4)), wanted, "{rule}");
    }
}

#[test]
fn an_attempt_says_what_its_entry_says_else_what_its_step_says() {
    let plan = plan(
        "steps:
  fetch:
    sequence: [{stall: refused, after: 5s, reason: data}, fail, {drag: 2h}, drag, {choke: memory}, {pass: , output: {n: 1}}]
    duration: 1m
    drag: 3h
    cause: broken
    context: a long story
",
    );
    let turns = turns(&plan, "publish", "fetch", None, 6);
    let told: Vec<(u64, Option<&str>, Reason)> =
        turns.iter().map(|turn| (turn.after.0 / 1_000, turn.cause.as_deref(), turn.reason)).collect();
    let wanted = [
        (5, Some("refused"), Reason::Data),
        (60, Some("broken"), Reason::Processing),
        (7_200, Some("broken"), Reason::Processing),
        (10_800, Some("broken"), Reason::Processing),
        (60, Some("memory"), Reason::Processing),
        (60, Some("broken"), Reason::Processing),
    ];
    assert_eq!(told, wanted);
    assert!(turns.iter().all(|turn| turn.context.as_deref() == Some("a long story")));
    assert_eq!(turns[5].output.as_ref().map(unstuck_core::json::Json::text), Some(r#"{"n":1}"#));
}

#[test]
fn odds_and_ranges_are_drawn_and_the_same_chance_draws_the_same() {
    let plan = plan("steps: {fetch: {odds: {stall: 1, pass: 3}, duration: [1s, 10s]}}");
    let flows = flows();
    let rule = plan
        .rule("publish", flows[0].step(flows[0].find_step("fetch").expect("a step")), None)
        .expect("a rule");
    let mut random = Random::new(1);
    let drawn: Vec<EmulatedAttempt> =
        (1..=4_000).map(|attempt| rule.to_attempt(attempt, &mut random)).collect();
    let stalled = drawn.iter().filter(|turn| turn.behaviour == Behaviour::Stall).count();
    assert!((850..1_150).contains(&stalled), "{stalled} of 4000");
    assert!(drawn.iter().all(|turn| (1_000..=10_000).contains(&turn.after.0)));
    let again: Vec<EmulatedAttempt> = {
        let mut random = Random::new(1);
        (1..=4_000).map(|attempt| rule.to_attempt(attempt, &mut random)).collect()
    };
    assert_eq!(drawn, again);
}

#[test]
fn what_a_plan_does_not_say_is_as_usual() {
    let empty = plan("{}");
    assert_eq!(empty, Plan::default());
    assert_eq!(empty.start, START);
    assert_eq!(START.to_string(), "2026-01-01T00:00:00.000Z");
}

#[test]
fn what_is_beside_steps() {
    let plan = plan(
        "start: 2026-03-02T01:50:00Z
every: 10m
until: 7d
input: {title: x}
workers: {count: 3, maxLoad: 2, restartAfter: 1m, deaths: [{every: 6h}, {at: 02:30, worker: 3, restartAfter: 0s}]}
signals: {name: approval, after: 2h, payload: yes}
operator: {after: 30m, choose: none, resume: true, times: 2}
",
    );
    assert_eq!((plan.every, plan.until), (Millis::minutes(10), Some(Millis::hours(7 * 24))));
    assert_eq!((plan.workers.count, plan.workers.max_load), (Some(3), 2));
    let deaths: Vec<Times> = plan.workers.deaths.iter().map(|death| death.when).collect();
    let half_past_two = PlannedTime::Daily(Millis::minutes(150));
    assert_eq!(deaths, [Times::Every(Millis::hours(6)), Times::At(half_past_two)]);
    assert!(matches!(&plan.signals, SignalPlan::Sent(signals) if signals.len() == 1));
    assert!(plan.operator.is_some_and(|operator| operator.resume && operator.times == Some(2)));
    assert_eq!(crate::read("{signals: asAwaited}").expect("right").plan.signals, SignalPlan::AsAwaited);
}

#[test]
fn what_loads_is_valid_by_the_published_schema() {
    let validator = jsonschema::draft202012::options().offline().build(&schema()).expect("a schema");
    let plans = [
        "{}",
        "{steps: {fetch: [stall, {fail: x, after: 5s}, pass]}}",
        "{steps: {'*': {odds: {pass: 1}, duration: [1s, 2s], cause: x, reason: data, output: [1]}}}",
        "{actions: {fetch: {stall: x}}, actionTypes: {INGRESS: stick}}",
        "{outages: [{steps: [fetch, 'enc*'], from: 02:00, for: 3h, does: {choke: memory}}], workers: 4}",
        "{signals: asAwaited, operator: {resume: true}}",
        "{workers: {deaths: {every: 1h}}, signals: [{name: approval, after: 5}]}",
    ];
    for text in plans {
        plan(text);
        let value: serde_json::Value = serde_saphyr::from_str(text).expect("it is YAML");
        let problems: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{text}: {problems:?}");
    }
}
