//! Runs: lists, one run, its history, its explanation, its payloads and what it printed.

use axum::http::{StatusCode, header};
use jiff::Timestamp;
use unstuck_api::ProblemType;
use unstuck_api::request::{
    CountBy, CountsQuery, DocumentOptions, ItemsQuery, Query, RunSort, RunsQuery, StepMark,
};
use unstuck_api::runs::RunState;
use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_service::explain::load_run_with_history;
use unstuck_service::run_name::find_run;
use unstuck_service::show::build_document_of_loaded;
use unstuck_service::signals::list_signals;

use crate::answer::{Answer, Content};
use crate::call::{Call, EVENTS_HEADER};
use crate::dispatch::{run_blocking, take_turn};
use crate::event_cursor::EventCursor;
use crate::problem::Problem;
use crate::route::{Answered, BoxFuture};
use crate::waiting::{Until, wait_for_run};

/// Runs on a page, where nobody says otherwise.
pub(crate) const PAGE: usize = 20;
const EVENTS_PAGE: usize = 100;

pub(crate) fn list(call: &Call) -> Answered {
    if call.caller.is_limited() {
        let flow = call.parameters.text("flow").ok_or_else(|| {
            Problem::new(ProblemType::Forbidden, "the token is for some flows only; name one with `flow`")
        })?;
        call.caller.check_flow(flow)?;
    }
    let sort = call.parameters.text("sort").unwrap_or_default();
    let sort = RunSort::ALL.into_iter().find(|known| known.word() == sort).unwrap_or_default();
    let (limit, after) = (call.limit(PAGE), call.parameters.owned("after"));
    call.query(&Query::Runs(Box::new(RunsQuery { sort, limit, after, ..read_filters(call)? })))
}

/// Counts runs by what is asked for.
pub(crate) fn count(call: &Call) -> Answered {
    let by = call.parameters.text("by").unwrap_or_default();
    let by = CountBy::ALL.into_iter().find(|known| known.word() == by).unwrap_or(CountBy::State);
    call.query(&Query::Counts(Box::new(CountsQuery { filter: read_filters(call)?, by })))
}

/// Reads the filters that lists and counts have.
fn read_filters(call: &Call) -> Result<RunsQuery, Problem> {
    let (given, now) = (&call.parameters, Timestamp::now());
    let texts = |name: &str| given.all(name).map(str::to_owned).collect();
    let marks = StepMark::ALL.into_iter();
    Ok(RunsQuery {
        states: given.all("state").map(read_state).collect::<Result<_, _>>()?,
        flow: given.owned("flow"),
        versions: texts("version"),
        key: given.owned("key"),
        key_prefixes: texts("keyPrefix"),
        labels: given.all("label").map(read_label).collect::<Result<_, _>>()?,
        has: marks.filter(|mark| given.all("has").any(|word| word == mark.word())).collect(),
        policies: texts("policy"),
        actions: texts("action"),
        workers: texts("worker"),
        parent: given.owned("parent"),
        root: given.owned("root"),
        since: given.time("since", now),
        until: given.time("until", now),
        updated_since: given.time("updatedSince", now),
        group: given.owned("group"),
        cause: given.owned("cause"),
        all: given.flag("all").unwrap_or(false),
        ..RunsQuery::default()
    })
}

pub(crate) fn read_state(word: &str) -> Result<RunState, Problem> {
    RunState::ALL.into_iter().find(|state| state.word() == word).ok_or_else(|| {
        let words: Vec<&str> = RunState::ALL.into_iter().map(RunState::word).collect();
        Problem::bad_field(
            "state",
            format!("`{word}` is not a state of a run; there are {}", words.join(", ")),
        )
    })
}

pub(crate) fn read_label(label: &str) -> Result<(String, String), Problem> {
    let (name, value) = label.split_once(':').ok_or_else(|| {
        Problem::bad_field("label", format!("`{label}` has no value; write it as `label=team:billing`"))
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Shows a run, after waiting for it where that is asked.
pub(crate) fn show(call: Call) -> BoxFuture<Answered> {
    Box::pin(async move {
        let app = call.app.clone();
        if let Some(patience) = call.parameters.duration("wait") {
            let turn = take_turn(&app, &app.queries).await?;
            let asked = call.clone();
            let run = run_blocking(turn, move || {
                find_run(asked.app.reader(), &asked.app.service.flows, asked.part("run"))
                    .map_err(Problem::from)
            })
            .await?;
            let until = match call.parameters.text("until") {
                Some("final") => Until::Final,
                Some(_) | None => Until::Rest,
            };
            wait_for_run(&app, run, until, patience).await?;
        }
        let turn = take_turn(&app, &app.queries).await?;
        run_blocking(turn, move || show_now(&call)).await
    })
}

fn show_now(call: &Call) -> Answered {
    let cursor = EventCursor::end(call.app.reader()).ok();
    let id = find_run(call.app.reader(), &call.app.service.flows, call.part("run"))?;
    if call.caller.is_limited() {
        call.check_flow_of(&id.to_string())?;
    }
    let answer = answer_document(call, id)?;
    Ok(match cursor {
        Some(cursor) => answer.with_text_header(EVENTS_HEADER, &cursor.to_string()),
        None => answer,
    })
}

/// Answers with the document of a run, unless the caller has it already.
fn answer_document(call: &Call, id: RunId) -> Answered {
    if call.header(&header::IF_NONE_MATCH)?.is_some() {
        // A tag needs no history. It is taken before the document: a change in between makes it too old, which only refuses a
        // change that was not seen.
        let etag = run_etag(call, id)?;
        return call.answer_if_changed(&etag, || document_for(call, id).map(Answer::json));
    }
    let loaded = load_run_with_history(call.app.reader(), id)?;
    let etag = etag_of(&loaded.0);
    Ok(Answer::json(document_of(call, loaded)?).with_text_header(header::ETAG, &etag))
}

/// Returns the document of a run, without payloads for whoever may not read them, or does not want them.
pub(crate) fn document_for(call: &Call, id: RunId) -> Result<String, Problem> {
    document_of(call, load_run_with_history(call.app.reader(), id)?)
}

/// The same of a run that is loaded already.
fn document_of(call: &Call, loaded: (Run, Vec<Event>)) -> Result<String, Problem> {
    let number = |name: &str| call.parameters.number(name).and_then(|number| u32::try_from(number).ok());
    let wants_payloads = call.parameters.flag("payloads").unwrap_or(true);
    let options = DocumentOptions {
        generation: number("generation"),
        items: number("items"),
        leaves_out_payloads: !(wants_payloads && call.caller.reads_payloads()),
    };
    let service = call.service()?;
    let document = build_document_of_loaded(&service, call.app.reader(), loaded, options)?;
    Ok(document.get().to_owned())
}

/// Lists items of `forEach` steps.
pub(crate) fn items(call: &Call) -> Answered {
    call.query(&Query::Items(ItemsQuery {
        run: call.part("run").to_owned(),
        step: call.parameters.owned("step"),
        states: call.parameters.all("state").map(str::to_owned).collect(),
        limit: call.limit(PAGE),
        after: call.parameters.owned("after"),
        leaves_out_payloads: !call.caller.reads_payloads(),
    }))
}

/// Lists the signals that wait.
pub(crate) fn signals(call: &Call) -> Answered {
    Answer::view(&list_signals(call.app.reader(), &call.app.service.flows, call.part("run"))?)
}

/// Answers with an input or output, as it is.
pub(crate) fn payload(call: &Call) -> Answered {
    if !call.caller.reads_payloads() {
        return Err(Problem::new(
            ProblemType::Forbidden,
            "the token may not read payloads; an admin can make one that may",
        ));
    }
    let of = call.parameters.text("of").ok_or_else(|| {
        Problem::bad_field(
            "of",
            "say which: `input`, `output`, `STEP.input`, `STEP.output` or `STEP[3].output`",
        )
    })?;
    if call.caller.is_limited() {
        call.check_flow_of(call.part("run"))?;
    }
    call.query(&Query::Payload { run: call.part("run").to_owned(), of: of.to_owned() })
}

/// Names a run as it is: its generation and its last event.
pub(crate) fn run_etag(call: &Call, id: RunId) -> Result<String, Problem> {
    Ok(call.app.reader().run(id)?.as_ref().map_or_else(String::new, etag_of))
}

fn etag_of(run: &Run) -> String {
    format!("\"{}.{}\"", run.generation, run.seq)
}

/// Shows the run that has a key.
pub(crate) fn show_by_key(call: &Call) -> Answered {
    let (flow, key) = (call.part("flow"), call.part("key"));
    call.caller.check_flow(flow)?;
    let reader = call.app.reader();
    let found = reader.run_of_key(flow, key)?;
    let Some(id) = found else {
        let mut problem = unstuck_api::ProblemDocument::new(
            ProblemType::NotFound,
            format!("flow `{flow}` has no run with the key `{key}`"),
        );
        problem.about.what = Some("run".to_owned());
        problem.about.name = Some(key.to_owned());
        problem.about.state = Some("unknown".to_owned());
        return Err(Problem::from(problem));
    };
    answer_document(call, id)
}

pub(crate) fn history(call: &Call) -> Answered {
    let after = call.parameters.number("after").unwrap_or(0);
    call.query(&Query::History { run: call.part("run").to_owned(), after, limit: call.limit(EVENTS_PAGE) })
}

/// Explains a run: for programs, or as a page for people.
pub(crate) fn explain(call: &Call) -> Answered {
    let run = call.part("run").to_owned();
    if !call.accepts("text/plain") {
        return call.query(&Query::Explain { run });
    }
    let columns = call.parameters.number("columns").and_then(|columns| usize::try_from(columns).ok());
    let without_happened = call.parameters.flag("happened") == Some(false);
    let json = call.query_json(&Query::ExplainPage { run, columns, without_happened })?;
    let page: String = serde_json::from_str(&json).map_err(|error| {
        Problem::new(ProblemType::Internal, format!("the explanation cannot be read: {error}"))
    })?;
    Ok(Answer::new(StatusCode::OK, Content::Text(page)))
}

pub(crate) fn logs(call: &Call) -> Answered {
    call.query(&Query::Logs { run: call.part("run").to_owned(), step: call.parameters.owned("step") })
}

pub(crate) fn status(call: &Call) -> Answered {
    call.query(&Query::Status)
}
