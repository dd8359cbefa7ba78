//! What travels: the run document, the product of an attempt, an explanation.

#[path = "../../unstuck-core/tests/decisions/flows.rs"]
#[expect(dead_code, reason = "the helpers serve other tests too")]
mod flows;
#[path = "../../unstuck-core/tests/decisions/support.rs"]
#[expect(dead_code, reason = "the helpers serve other tests too")]
mod support;

use serde_json::{Value, json};
use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::explain::explain;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::Error;
use unstuck_core::model::expression::{Reads, Template};
use unstuck_core::model::flow::{Deadline, StepIndex};
use unstuck_core::time::Millis;
use unstuck_engine::document::{JobDetails, MAX_HISTORY, explanation, run_document};
use unstuck_engine::executor::Job;
use unstuck_engine::token::Signer;

use flows::{StepBuilder, child, expression, flow, flow_with, step};
use support::{World, done, fatal, local, operator, output, remote, stall};

fn document(world: &World, run: RunId) -> Value {
    let state = &world.runs[&run];
    let flow = world.flow_of(state);
    let document = run_document(state, &flow, &world.history[&run], &mut |payload| world.json(payload));
    serde_json::to_value(document).expect("a document")
}

fn product_of(world: &World, attempt: AttemptId, worker: &str) -> Value {
    let run = &world.runs[&attempt.run];
    let flow = world.flow_of(run);
    let input = world.json(run.unit(attempt.unit).expect("there").input.as_ref().unwrap_or(&run.input));
    let load = &mut |payload: &_| world.json(payload);
    let signer = Signer::new([0; 32], 1);
    let details = JobDetails::gather(run, attempt, &local(worker), &signer, MAX_HISTORY, load);
    let job = Job { attempt, flow, input, deadline: run.deadline, details: Some(Box::new(details)) };
    let mut product = serde_json::to_value(job.product()).expect("a product");
    assert_eq!(product["token"].take(), signer.sign(attempt));
    product["token"] = "TOKEN".into();
    product
}

fn at(seconds: u32) -> String {
    format!("2027-01-15T08:{:02}:{:02}.000Z", seconds / 60, seconds % 60)
}

fn typed(builder: StepBuilder) -> StepBuilder {
    builder.change(|step| step.action_type = Some("TRANSFORM".into()))
}

#[test]
fn the_document_of_a_run_in_error() {
    let steps = vec![typed(step("fetch").retry(Some(2), 5)), step("upload")];
    let mut world = World::new(vec![flow("media", steps)]);
    let run = world.start_with("media", Some("k-1"), r#"{"url": "a"}"#).expect("started");
    let first = world.claim(run, "fetch", &remote("w1")).expect("claimed");
    world.say(first, Report::Heartbeat { progress: Json::parse("{\"done\":1}").ok() }).expect("heard");
    let details = Json::parse("[1]").expect("valid");
    let error = Error { context: Some("a long story".into()), details, ..Error::new("reset") };
    world.say(first, Report::Fail { error: Box::new(error), fatal: false }).expect("heard");
    world.pass(Millis::seconds(5));
    world.attempt(run, "fetch", stall("reset again"));
    let document = document(&world, run);
    let open = json!({"step": "fetch", "action": "media.fetch", "actionType": "TRANSFORM",
        "cause": "reset again", "reason": "processing", "attempts": 2});
    let ladder = "retryStrategy: retry, maxAttempts: 2, backOff: 5s";
    let decisions = json!([
        {"at": at(0), "step": "fetch", "attempt": 1, "rung": "retryStrategy", "rule": ladder,
         "reason": "attempt 1 stalled: reset. Retrying in 5s, at 2027-01-15T08:00:05.000Z: 1 of 2 attempts used in \
                    this round (1 left)"},
        {"at": at(5), "step": "fetch", "attempt": 2, "rung": "rest",
         "rule": format!("{ladder}, failOnError: true, no exceptionHandler"),
         "reason": "attempt 2 stalled: reset again. Needs an operator: 2 of 2 attempts used in this round; no policy \
                    or exception handler applies"},
    ]);
    let steps = json!([
        {"id": "fetch", "action": "media.fetch", "actionType": "TRANSFORM", "state": "error", "output": null, "error": open,
         "nextAutoResume": null, "nextAutoResumeReason": null, "rounds": 1, "attempts": [
            {"attempt": 1, "round": 1, "state": "stalled", "worker": "w1", "queuedAt": at(0), "startedAt": at(0),
             "endedAt": at(0), "progress": {"done": 1}, "error": {"cause": "reset",
             "context": "a long story", "reason": "processing", "details": [1]}},
            {"attempt": 2, "round": 1, "resumedBy": "retry", "state": "stalled", "worker": "w", "queuedAt": at(5), "startedAt": at(5),
             "endedAt": at(5), "progress": null, "error": {"cause": "reset again", "reason": "processing"}},
         ]},
        {"id": "upload", "action": "media.upload", "state": "pending", "output": null, "error": null,
         "nextAutoResume": null, "nextAutoResumeReason": null, "rounds": 0, "attempts": []},
    ]);
    let expected = json!({
        "id": run.to_string(), "generation": 1, "flow": "media", "version": "1", "key": "k-1",
        "priority": 0, "by": "tester", "state": "error", "idle": false, "goOn": null, "input": {"url": "a"}, "output": null,
        "createdAt": at(0), "updatedAt": at(5), "error": open,
        "nextAutoResume": null, "nextAutoResumeReason": null,
        "steps": steps,
        "decisions": decisions,
    });
    assert_eq!(document, expected);
}

#[test]
fn attempts_are_shown_in_every_state() {
    let steps = vec![step("a"), step("b").needs(&[]), step("c").needs(&[]), child("d", "inner").needs(&[])];
    let mut world = World::new(vec![flow("f", steps), flow("inner", vec![step("x")])]);
    let run = world.start("f");
    let c = world.begin(run, "c");
    world.ask(run, Command::Lost { attempt: c, with_others: false }).expect("lost");
    world.pass(Millis::seconds(1));
    world.attempt(run, "c", Report::Defer { asked: None, lacking: Some("no GPU".into()) });
    world.pass(Millis::seconds(30));
    world.attempt(run, "c", Report::Release);
    world.claim(run, "b", &remote("w1")).expect("claimed");
    let document = document(&world, run);
    let attempts = |step: usize| -> Vec<(String, Option<String>)> {
        let all = document["steps"][step]["attempts"].as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        all.map(|one| (text(&one["state"]).expect("a state"), text(&one["error"]["cause"]))).collect()
    };
    let row = |state: &str, cause: Option<&str>| (state.to_owned(), cause.map(str::to_owned));
    assert_eq!(attempts(0), [row("queued", None)]);
    assert_eq!(attempts(1), [row("dequeued", None)]);
    assert_eq!(
        attempts(2),
        [
            row("stuck", Some("stuck: its worker is gone")),
            row("deferred", Some("no GPU")),
            row("cancelled", None),
            row("queued", None)
        ]
    );
    assert_eq!(attempts(3), [row("active", None)]);
    assert_eq!(document["steps"][3]["child"], json!(world.child(run).to_string()));
    assert_eq!(document["steps"][0].get("child"), None);
}

#[test]
fn a_fan_out_is_followed_by_its_items() {
    let mut world = World::new(vec![flow("f", vec![step("a").for_each("[1,2,3]", 2).hold(None)])]);
    let run = world.start("f");
    let states = |world: &World| -> Vec<String> {
        let document = document(world, run);
        let steps = document["steps"].as_array().expect("a list").iter();
        steps.map(|step| format!("{} {}", step["id"], step["state"]).replace('"', "")).collect()
    };
    assert_eq!(states(&world), ["a ready", "a[0] ready", "a[1] ready"]);
    world.attempt(run, "a[0]", output("10"));
    world.attempt(run, "a[1]", stall("odd"));
    world.attempt(run, "a[2]", output("30"));
    assert_eq!(states(&world), ["a held", "a[0] completed", "a[1] held", "a[2] completed"]);
    assert_eq!(document(&world, run)["error"]["step"], json!("a[1]"));
    assert_eq!(document(&world, run)["steps"][0]["error"]["step"], json!("a[1]"));
    let (unit, choice) = (world.unit_ref(run, "a[1]"), unstuck_core::event::Choice::Retry);
    world.ask(run, Command::Choose { unit, choice, by: operator(), bulk: None }).expect("chosen");
    world.attempt(run, "a[1]", output("20"));
    let document = document(&world, run);
    assert_eq!(document["steps"][0]["state"], json!("completed"));
    assert_eq!(
        (&document["steps"][0]["output"], &document["output"]),
        (&json!([10, 20, 30]), &json!([10, 20, 30]))
    );
    assert_eq!(document["error"], Value::Null);
}

#[test]
fn the_error_of_a_run_is_the_first_open_one() {
    // A step that failed and let the flow go on is not open.
    let steps = vec![step("a").goes_on(), step("b").hold(None)];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "a", stall("first"));
    assert_eq!(document(&world, run)["error"], Value::Null);
    assert_eq!(document(&world, run)["steps"][0]["error"]["cause"], json!("first"));
    world.attempt(run, "b", fatal("second"));
    assert_eq!(document(&world, run)["error"]["cause"], json!("second"));
    // What the engine finds has an engine-made name beside the step's own.
    let deadline = Some(Deadline::After(Millis::minutes(1)));
    let mut world = World::new(vec![flow_with("f", vec![step("a")], |flow| flow.deadline = deadline)]);
    let run = world.start("f");
    world.pass(Millis::minutes(1));
    let expected = json!({"step": "a", "action": "f.a", "foundBy": "DeadlineAction", "reason": "time", "attempts": 1,
        "cause": "missed its deadline (2027-01-15T08:01:00.000Z) while `a` was queued (attempt 1)"});
    assert_eq!(document(&world, run)["error"], expected);
    // Whoever cancels a run closes its errors.
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    world.attempt(run, "a", stall("x"));
    world.ask(run, Command::Cancel { by: operator(), reason: None }).expect("cancelled");
    assert_eq!(document(&world, run)["error"], Value::Null);
}

#[test]
fn a_product_tells_what_came_before() {
    let steps = vec![step("a"), step("b").retry(None, 1)];
    let mut world = World::new(vec![flow_with("f", steps, |flow| {
        flow.deadline = Some(Deadline::After(Millis::hours(1)));
    })]);
    let run = world.start_with("f", Some("k"), "7").expect("started");
    world.attempt(run, "a", done());
    let first = world.begin(run, "b");
    let expected = json!({
        "run": run.to_string(), "generation": 1, "key": "k", "flow": "f", "step": "b", "action": "b",
        "attempt": 1, "round": 1, "resumedBy": null, "worker": "w", "incarnation": 1, "token": "TOKEN",
        "input": 7, "deadline": "2027-01-15T09:00:00.000Z", "previous": null,
        "history": [{"generation": 1, "step": "a", "attempt": 1, "state": "completed", "startedAt": at(0), "endedAt": at(0),
                     "worker": "w", "error": null}],
    });
    assert_eq!(product_of(&world, first, "w"), expected);
    world.say(first, Report::Heartbeat { progress: Json::parse("\"half\"").ok() }).expect("heard");
    world.say(first, stall("reset")).expect("heard");
    for _ in 0..24 {
        world.pass(Millis::seconds(1));
        world.attempt(run, "b", stall("reset"));
    }
    world.pass(Millis::seconds(1));
    let last = world.begin(run, "b");
    let product = product_of(&world, last, "w");
    assert_eq!((&product["attempt"], &product["resumedBy"]), (&json!(26), &json!("retry")));
    let error = json!({"cause": "reset", "reason": "processing"});
    assert_eq!(
        product["previous"],
        json!({"generation": 1, "attempt": 25, "state": "stalled", "error": error, "progress": null})
    );
    let told: Vec<&Value> =
        product["history"].as_array().expect("a list").iter().map(|one| &one["attempt"]).collect();
    assert_eq!((told.len(), told[0], told[19]), (20, &json!(6), &json!(25)));
}

/// A fan-out that could not find its list at first has tried that itself: its items are told of it.
#[test]
fn what_a_fan_out_has_tried_before_its_list_was_known_stays_in_the_history_of_products() {
    let was_asked = std::sync::atomic::AtomicBool::new(false);
    let list = expression(Reads::default(), move |_| {
        if was_asked.swap(true, std::sync::atomic::Ordering::Relaxed) {
            Ok(json!([1]))
        } else {
            Err("no list".to_owned())
        }
    });
    let each = step("a").for_each("[]", 2).hold(None);
    let each = each.change(|step| {
        if let Some(each) = &mut step.node.for_each {
            each.items = Template::Computed(list);
        }
    });
    let mut world = World::new(vec![flow("f", vec![each])]);
    let run = world.start("f");
    assert_eq!(world.step(run, "a"), "held");
    let (unit, choice) = (world.unit_ref(run, "a"), unstuck_core::event::Choice::Retry);
    world.pass(Millis::seconds(5));
    world.ask(run, Command::Choose { unit, choice, by: operator(), bulk: None }).expect("chosen");
    let first = world.begin(run, "a[0]");
    let told = |world: &World| {
        let product = product_of(world, first, "w");
        let history = product["history"].as_array().expect("a list").clone();
        history
            .iter()
            .map(|past| (past["step"].clone(), past["state"].clone(), past["endedAt"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&world), [(json!("a"), json!("failed"), json!(at(0)))]);
    // It moves with a clock that is set, as all that is told of attempts.
    world.clock = 60_000;
    world.now = world.now + Millis::minutes(1);
    world.ask(run, Command::Pause { by: operator(), reason: None }).expect("paused");
    assert_eq!(told(&world), [(json!("a"), json!("failed"), json!(at(60)))]);
}

#[test]
fn the_last_attempt_of_a_step_comes_with_its_progress() {
    let mut world = World::new(vec![flow("f", vec![step("a").for_each("[5,6]", 2).retry(Some(2), 1)])]);
    let run = world.start("f");
    let first = world.begin(run, "a[1]");
    world.say(first, Report::Heartbeat { progress: Json::parse("{\"page\":4}").ok() }).expect("heard");
    world.say(first, stall("reset")).expect("heard");
    world.pass(Millis::seconds(1));
    let second = world.begin(run, "a[1]");
    let product = product_of(&world, second, "w");
    assert_eq!((&product["step"], &product["input"]), (&json!("a[1]"), &json!(6)));
    assert_eq!(product["previous"]["progress"], json!({"page": 4}));
    assert_eq!(product["history"][0]["step"], json!("a[1]"));
}

#[test]
fn a_rerun_that_continues_is_told_of_the_generations_before_and_one_that_starts_over_is_not() {
    let jobs = |what: Rerun| {
        let mut world = World::new(vec![flow("f", vec![step("a"), step("b").retry(None, 1)])]);
        let run = world.start("f");
        world.attempt(run, "a", done());
        let first = world.begin(run, "b");
        world.say(first, Report::Heartbeat { progress: Json::parse("{\"page\":4}").ok() }).expect("heard");
        let details = Json::parse("{\"jobId\":17}").expect("valid");
        let error = Box::new(Error { details, ..Error::new("gone") });
        world.say(first, Report::Fail { error, fatal: true }).expect("heard");
        world.rerun(run, what).expect("reran");
        (world, run)
    };
    let (mut world, run) = jobs(Rerun::Continue);
    let again = world.begin(run, "b");
    let product = product_of(&world, again, "w");
    let error = json!({"cause": "gone", "reason": "processing", "details": {"jobId": 17}});
    assert_eq!((&product["generation"], &product["attempt"]), (&json!(2), &json!(1)));
    assert_eq!(
        product["previous"],
        json!({"generation": 1, "attempt": 1, "state": "failed", "error": error, "progress": {"page": 4}})
    );
    let told: Vec<(&Value, &Value)> = product["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["step"], &one["error"]["details"]["jobId"]))
        .collect();
    assert_eq!(told, [(&json!("a"), &Value::Null), (&json!("b"), &json!(17))]);
    // However many there are, no more than 20 are kept.
    world.say(again, stall("x")).expect("heard");
    for _ in 0..24 {
        world.pass(Millis::seconds(1));
        world.attempt(run, "b", stall("x"));
    }
    let unit = world.unit(run, "b");
    assert_eq!((unit.earlier.len(), unit.past.len()), (0, 20));

    for (what, step, known) in [(Rerun::All, "a", 0), (Rerun::Steps(vec![StepIndex(1)]), "b", 1)] {
        let (mut world, run) = jobs(what.clone());
        let again = world.begin(run, step);
        let product = product_of(&world, again, "w");
        let history = product["history"].as_array().map(Vec::len);
        assert_eq!((&product["previous"], history), (&Value::Null, Some(known)), "{what:?}");
    }
}

#[test]
fn an_explanation_travels() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(2), 9)])]);
    let run = world.start("f");
    world.attempt(run, "a", stall("reset"));
    let state = &world.runs[&run];
    let told = explain(state, &world.flow_of(state), &world.history[&run], world.now, &[]);
    let call = |act: &str, body: Value| json!({"method": "POST", "path": format!("/v1/runs/{run}/{act}"), "body": body});
    let expected = json!({
        "run": run.to_string(), "at": at(0), "state": "waiting", "idle": false, "goOn": null,
        "headline": format!("{run} of flow `f` is waiting: `a` is retried in 9s"),
        "happened": [
            {"at": at(0), "what": format!("{run} of flow `f` started")},
            {"at": at(0), "what": "a: attempt 1 stalled: reset"},
            {"at": at(0), "what": "a: retrying in 9s (attempt 2 of 2)"},
        ],
        "earlier": 0,
        "because": [{"step": "a", "state": "waiting",
                     "why": "attempt 1 stalled: reset. Retrying in 9s (retryStrategy)"}],
        "next": [{"at": at(9), "what": "`a` is retried (attempt 2)"}],
        "can": [
            {"command": format!("unstuck resume {run} a"), "call": call("resume", json!({"step": "a"})), "what": "retry now, in a new round with full budgets"},
            {"command": format!("unstuck pause {run}"), "call": call("pause", json!({})),
             "what": "let running attempts finish and start nothing new"},
            {"command": format!("unstuck cancel {run}"), "call": call("cancel", json!({})),
             "what": "cancel the run: running attempts are stopped, children are cancelled"},
        ],
    });
    assert_eq!(serde_json::to_value(explanation(&told)).expect("a document"), expected);
}
