//! Starts runs, one or many in a request. Nobody's thread waits for the commit.

use axum::http::{HeaderValue, header};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use unstuck_api::ProblemType;
use unstuck_api::http::{StartBody, StartManyBody, StartedManyView};
use unstuck_api::request::{Request, StartRequest};
use unstuck_api::runs::ChangedView;
use unstuck_core::id::RunId;
use unstuck_engine::request::{EngineError, StartRun};
use unstuck_engine::runtime::Reply;
use unstuck_service::ServiceError;
use unstuck_service::service::{name_similar_flow, now};
use unstuck_service::start_run::{
    StartFlows, StartedRun, build_start, build_started_view, build_started_views, read_started,
};

use super::read_view;
use super::runs::document_for;
use crate::answer::Answer;
use crate::app::App;
use crate::call::Call;
use crate::dispatch::{created, run_blocking, take_turn, take_turn_after_change};
use crate::problem::Problem;
use crate::route::{Answered, BoxFuture};
use crate::waiting::{Until, wait_for_run};

/// Starts a run, and waits for it where that is asked.
pub(crate) fn start(call: Call) -> BoxFuture<Answered> {
    Box::pin(async move {
        let app = call.app.clone();
        let asked = call.clone();
        let turn = take_turn(&app, &app.changes).await?;
        if call.idempotency_key()?.is_some() {
            return start_once(call, turn).await;
        }
        let order = run_blocking(turn, move || {
            let body: StartBody = asked.json()?;
            asked.caller.check_flow(&body.flow)?;
            let mut flows = StartFlows::new(asked.app.service.allow_run);
            let (service, reader) = (&asked.app.service, asked.app.reader());
            let start = build_start(service, reader, &mut flows, body, &asked.by(), now());
            Ok(start.map_err(|error| name_similar_flow(reader, error))?)
        })
        .await?;
        let started = read_reply(submit(&app, order).await)?;
        let wait = call.parameters.duration("wait");
        if let Some(patience) = wait {
            // The run is started: that it cannot be waited for is no reason to refuse.
            let _ = wait_for_run(&app, started.run, Until::Rest, patience).await;
        }
        let turn = take_turn_after_change(&app).await?;
        run_blocking(turn, move || answer_start(&call, started, wait.is_some())).await
    })
}

/// Starts a run under an idempotency key, on a thread that may wait for the one who was first.
async fn start_once(call: Call, turn: OwnedSemaphorePermit) -> Answered {
    let (app, wait) = (call.app.clone(), call.parameters.duration("wait"));
    let asked = call.clone();
    let answer = run_blocking(turn, move || {
        let start: StartBody = asked.json()?;
        asked.caller.check_flow(&start.flow)?;
        asked.change_once(&Request::Start(Box::new(StartRequest { by: asked.by(), start })))
    })
    .await?;
    let view: ChangedView = read_view(answer.json_text())?;
    let Ok(run) = view.run.parse::<RunId>() else { return Ok(answer) };
    let answer = answer.with_status(created(!view.already)).with_header(header::LOCATION, location_of(run));
    let Some(patience) = wait else { return Ok(answer) };
    let _ = wait_for_run(&app, run, Until::Rest, patience).await;
    let turn = take_turn_after_change(&app).await?;
    run_blocking(turn, move || answer_start(&call, StartedRun { run, is_new: !view.already }, true)).await
}

/// Hands an order to the engine; the answer comes when the run is durable.
fn submit(app: &App, order: StartRun) -> impl Future<Output = Reply> + use<> {
    let (sender, receiver) = oneshot::channel();
    // Whoever asked may have gone away; the run is started all the same.
    app.handle.start_then(order, move |reply| drop(sender.send(reply)));
    async move { receiver.await.unwrap_or(Err(EngineError::Stopped)) }
}

/// Hands many orders to the engine in one message; the answers come when all are durable.
fn submit_many(
    app: &App,
    orders: Vec<StartRun>,
) -> impl Future<Output = Result<Vec<Reply>, EngineError>> + use<> {
    let (sender, receiver) = oneshot::channel();
    app.handle.start_many(orders, move |replies| drop(sender.send(replies)));
    async move { receiver.await.unwrap_or(Err(EngineError::Stopped)) }
}

fn read_reply(reply: Reply) -> Result<StartedRun, Problem> {
    let answer = reply.map_err(ServiceError::from)?;
    Ok(read_started(&answer)?)
}

/// Answers with the run as it is now, and with its document where somebody has waited for it.
fn answer_start(call: &Call, started: StartedRun, with_document: bool) -> Answered {
    let (app, run) = (&call.app, started.run);
    let service = call.service()?;
    let view = build_started_view(&service, app.reader(), started)?;
    let answer = if with_document {
        let document = RawValue::from_string(document_for(call, run)?).map_err(|error| {
            Problem::new(ProblemType::Internal, format!("the run cannot be written: {error}"))
        })?;
        Answer::view(&ChangedWithDocument { changed: view, document })?
    } else {
        Answer::view(&view)?
    };
    Ok(answer.with_status(created(started.is_new)).with_header(header::LOCATION, location_of(run)))
}

#[derive(serde::Serialize)]
struct ChangedWithDocument {
    #[serde(flatten)]
    changed: ChangedView,
    document: Box<RawValue>,
}

fn location_of(run: RunId) -> HeaderValue {
    HeaderValue::from_str(&format!("/v1/runs/{run}")).unwrap_or(HeaderValue::from_static("/v1/runs"))
}

/// Starts many runs, each decided by itself, in order.
pub(crate) fn start_many(call: Call) -> BoxFuture<Answered> {
    Box::pin(async move {
        let app = call.app.clone();
        let asked = call.clone();
        let turn = take_turn(&app, &app.changes).await?;
        let orders = run_blocking(turn, move || build_orders(&asked)).await?;
        let mut starts = Vec::new();
        // What was refused before the engine saw it keeps its place.
        let refused: Vec<Option<Problem>> =
            orders.into_iter().map(|order| order.map(|order| starts.push(order)).err()).collect();
        let mut replies = submit_many(&app, starts).await.map_err(ServiceError::from)?.into_iter();
        let results = refused.into_iter().map(|refused| match refused {
            Some(problem) => Err(problem),
            None => read_reply(replies.next().unwrap_or(Err(EngineError::Stopped))),
        });
        let results = results.collect();
        let turn = take_turn_after_change(&app).await?;
        run_blocking(turn, move || answer_many(&call, results)).await
    })
}

fn build_orders(call: &Call) -> Result<Vec<Result<StartRun, Problem>>, Problem> {
    let StartManyBody { runs } = call.json()?;
    let most = call.app.settings.limits.items;
    if runs.len() > most {
        let mut problem = unstuck_api::ProblemDocument::new(
            ProblemType::TooLarge,
            format!("`runs` has {} items, and {most} is the maximum; send several requests", runs.len()),
        );
        problem.about.what = Some("runs".to_owned());
        problem.about.max = u64::try_from(most).ok();
        return Err(Problem::from(problem));
    }
    let (mut flows, by, at) = (StartFlows::new(call.app.service.allow_run), call.by(), now());
    let (service, reader) = (&call.app.service, call.app.reader());
    let build = |body: StartBody| {
        call.caller.check_flow(&body.flow)?;
        build_start(service, reader, &mut flows, body, &by, at).map_err(Problem::from)
    };
    Ok(runs.into_iter().map(build).collect())
}

fn answer_many(call: &Call, results: Vec<Result<StartedRun, Problem>>) -> Answered {
    let app = &call.app;
    let started: Vec<StartedRun> = results.iter().flatten().copied().collect();
    let mut views = build_started_views(&*call.service()?, app.reader(), &started)?.into_iter();
    let mut written = Vec::with_capacity(results.len());
    for result in results {
        let viewed = result.and_then(|_| {
            let missing = || Err(ServiceError::internal("a run was not read; please report this"));
            views.next().unwrap_or_else(missing).map_err(Problem::from)
        });
        let json = match viewed {
            Ok(view) => serde_json::value::to_raw_value(&view),
            Err(problem) => serde_json::value::to_raw_value(&problem.into_document(None)),
        };
        written.push(json.map_err(|error| Problem::new(ProblemType::Internal, error.to_string()))?);
    }
    Answer::view(&StartedManyView { results: written })
}
