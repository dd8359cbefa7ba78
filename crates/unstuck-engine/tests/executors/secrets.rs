//! Secrets in attempts: whoever carries one out has the value, and whoever records what it says has not.

use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::error::SECRET_ACTION;
use unstuck_core::model::flow::{Kind, ProcessCommand};
use unstuck_engine::executor::function::{Call, FunctionError, FunctionExecutor, InlineExecutor};
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Executor, ExecutorReport};
use unstuck_engine::secrets::Secrets;

use crate::support::{Ear, context, flow_with_secrets, job_of, line, outcome};

const INPUT: &str = r#"{"key": "${secrets.KEY}", "price": "$$5"}"#;

fn secrets() -> Secrets {
    Secrets::of_values([("KEY", "s3cret key"), ("OTHER", "another")])
}

/// What a function does that tells all that it knows.
#[expect(clippy::unnecessary_wraps, reason = "it is what a function returns")]
fn tell(call: Call) -> Result<Json, FunctionError> {
    assert_eq!(call.input.text(), r#"{"key":"s3cret key","price":"$5"}"#);
    call.heartbeat(Some(call.input.clone()));
    Ok(call.input)
}

#[test]
fn functions_get_the_value_and_what_they_return_is_recorded_without_it() {
    let flow = flow_with_secrets(Kind::Action("tell".into()), &["KEY"]);
    let mut pooled = FunctionExecutor::new("pooled", 1).with_secrets(secrets()).on("tell", tell);
    let mut inline = InlineExecutor::new("inline", 1).with_secrets(secrets()).on("tell", tell);
    let told = r#"{"key":"***","price":"$5"}"#;
    for executor in [&mut pooled as &mut dyn Executor, &mut inline] {
        let ear = Ear::new();
        executor.execute(job_of(&flow, 1, INPUT), &ear.answers);
        assert_eq!(ear.progress().as_deref(), Some(told));
        assert_eq!(line(&ear.last()), format!("completed {told}"));
    }
}

#[test]
fn a_missing_secret_is_a_failed_attempt() {
    let flow = flow_with_secrets(Kind::Action("tell".into()), &["KEY"]);
    let word = outcome(&mut FunctionExecutor::new("pooled", 1).on("tell", tell), job_of(&flow, 1, INPUT)).1;
    assert_eq!(line(&word), "failed (data) secret `KEY` is missing: this program gives no such secret");
    let ExecutorReport::Report(_, Report::Fail { error, .. }) = &word else { panic!("{word:?}") };
    assert_eq!(error.found_by.as_deref(), Some(SECRET_ACTION));
}

#[test]
fn a_process_gets_the_value_and_what_it_prints_is_recorded_without_it() {
    let run = |script: &str| {
        let kind = Kind::Process(ProcessCommand::Shell(script.to_owned()));
        let mut executor = ProcessExecutor::new(1).with_secrets(secrets());
        let ear = Ear::new();
        executor.execute(job_of(&flow_with_secrets(kind, &["KEY"]), 1, INPUT), &ear.answers);
        let word = ear.last();
        let logs =
            ear.logs.borrow().iter().map(|log| format!("{}|{}", log.stdout.text, log.stderr.text)).collect();
        (word, logs)
    };
    let (word, logs): (_, Vec<String>) =
        run(r#"test "$INPUT_KEY" = "s3cret key" && printf 's3cr'; sleep 0.2; printf 'et key'"#);
    assert_eq!((line(&word), logs), ("completed \"***\"".to_owned(), vec!["***|".to_owned()]));
    let (word, logs) = run(r#"echo "no $INPUT_KEY $INPUT_PRICE" >&2; exit 1"#);
    assert_eq!((line(&word), logs), ("stalled no *** $5".to_owned(), vec!["|no *** $5".to_owned()]));
    assert_eq!(context(&word), "no *** $5");
    let (word, _) = run(r#"echo '{"output": "\u00733cret key"}' >> "$UNSTUCK_REPORT""#);
    assert_eq!(line(&word), "completed \"***\"");
}

#[test]
fn a_worker_elsewhere_is_given_the_value_by_whoever_makes_its_product() {
    let flow = flow_with_secrets(Kind::Action("tell".into()), &["KEY"]);
    let mut job = job_of(&flow, 1, INPUT);
    let product =
        |job: &unstuck_engine::executor::Job| job.product().expect("it has details").input.to_string();
    assert_eq!(product(&job), INPUT, "without it, a worker gets the reference");
    let secrets = secrets();
    assert!(secrets.redactor().is_empty(), "nothing was handed out");
    job.put_in_secrets(&secrets).expect("it is there");
    assert_eq!(product(&job), r#"{"key":"s3cret key","price":"$5"}"#);
    assert_eq!(secrets.redactor().text("s3cret key, another"), "***, another");
    let mut job = job_of(&flow, 1, r#"{"key": "${secrets.OTHER}"}"#);
    assert!(job.put_in_secrets(&secrets).is_err(), "the flow decides which secrets a step gets");
}
