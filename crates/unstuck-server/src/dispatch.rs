//! From a request to its answer: who calls, may they, what they say, whose turn it is, and the headers of every answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_core::api_token::ApiToken;
use unstuck_service::service::now;

use crate::access::{Access, Caller, Peer};
use crate::answer::{Answer, Content};
use crate::app::App;
use crate::body::BodyKind;
use crate::call::{Call, EVENTS_HEADER};
use crate::content_coding::ContentCoding;
use crate::event_cursor::EventCursor;
use crate::parameter::Parameters;
use crate::pressure;
use crate::problem::{Problem, with_jitter};
use crate::reason;
use crate::receive::{ReceivedBody, receive_body};
use crate::route::{Answered, Handler, Route, Verb};
use crate::routes::ROUTES;
use crate::trace::TraceParent;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const VERSION_HEADER: HeaderName = HeaderName::from_static("unstuck-version");
const VERSION: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
/// Characters of a request's own id, at most.
const LONGEST_ID: usize = 128;

/// Longer answers are compressed on a thread of their own.
const COMPRESSED_AT_ONCE: usize = 32 << 10;

/// Makes the router of all routes.
pub(crate) fn build_router(app: Arc<App>) -> Router {
    let mut paths: Vec<&'static str> = Vec::new();
    for route in ROUTES {
        if !paths.contains(&route.path) {
            paths.push(route.path);
        }
    }
    let mut router = Router::new();
    for path in paths {
        let of_path = ROUTES.iter().filter(|route| route.path == path);
        let methods = of_path.fold(MethodRouter::new(), |methods, route| {
            let answer =
                move |State(app): State<Arc<App>>,
                      Extension(peer): Extension<Peer>,
                      path: Result<RawPathParams, RawPathParamsRejection>,
                      request: Request| { answer_route(app, route, peer, path, request) };
            methods.merge(on(filter(route.verb), answer))
        });
        router = router.route(
            path,
            methods.fallback(move |State(app): State<Arc<App>>, request: Request| {
                std::future::ready(refuse(&app, &request, wrong_method(path)))
            }),
        );
    }
    router
        .fallback(|State(app): State<Arc<App>>, request: Request| {
            let problem = no_such_route(request.uri().path());
            std::future::ready(refuse(&app, &request, problem))
        })
        .with_state(app)
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
    }
}

fn refuse(app: &App, request: &Request, problem: Problem) -> Response {
    let id = request_id(app, request.headers());
    finish(problem.into_answer(&id), &id)
}

fn wrong_method(path: &str) -> Problem {
    let allowed: Vec<String> =
        ROUTES.iter().filter(|route| route.path == path).map(|route| route.verb.word().to_owned()).collect();
    let mut problem = ProblemDocument::new(
        ProblemType::MethodNotAllowed,
        format!("this path answers to {} only", allowed.join(", ")),
    );
    problem.about.allowed = allowed;
    Problem::from(problem)
}

fn no_such_route(path: &str) -> Problem {
    let path: String = path.chars().take(200).collect();
    let mut problem = ProblemDocument::new(
        ProblemType::NotFound,
        format!("there is no `{path}` here; `/docs` lists every call"),
    );
    problem.about.what = Some("route".to_owned());
    problem.about.name = Some(path);
    Problem::from(problem)
}

/// Answers a request that has found its route.
async fn answer_route(
    app: Arc<App>,
    route: &'static Route,
    peer: Peer,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (id, begun) = (request_id(&app, request.headers()), Instant::now());
    let coding = ContentCoding::of_answer(request.headers());
    let trace = app.tracer.as_ref().and_then(|tracer| tracer.begin_request(request.headers()));
    let mut caller = None;
    let read = match path {
        Ok(path) => read_call(&app, route, peer, id.clone(), &path, request).await,
        Err(_) => Err(Problem::new(ProblemType::BadRequest, "the path is not UTF-8; send it as UTF-8")),
    };
    let answered = match read {
        Ok(call) => {
            caller = Some(call.caller.name.clone());
            handle_call(route, call).await
        }
        Err(problem) => Err(problem),
    };
    let answer = answered.unwrap_or_else(|problem| problem.into_answer(&id));
    app.metrics.record(route, answer.status(), begun.elapsed());
    log_request(route, &answer, begun.elapsed(), &id, caller.as_deref());
    if let (Some(tracer), Some(trace)) = (&app.tracer, trace) {
        tracer.end_request(&trace, route, &answer, &id, begun.elapsed());
    }
    finish(compress(answer, coding).await, &id)
}

/// Compresses an answer for whoever takes that: a long one on a thread that may block, so that others are not kept waiting.
async fn compress(answer: Answer, coding: Option<ContentCoding>) -> Answer {
    let (Some(coding), Some(bytes)) = (coding, answer.compressible_bytes()) else { return answer };
    if bytes <= COMPRESSED_AT_ONCE {
        return answer.compress(coding);
    }
    let compressed = tokio::task::spawn_blocking(move || answer.compress(coding)).await;
    compressed.unwrap_or_else(|_| {
        Answer::new(StatusCode::INTERNAL_SERVER_ERROR, Content::Text("the answer is lost".to_owned()))
    })
}

/// Logs a request by its route: a path has ids and names, and a query may have anything.
fn log_request(route: &Route, answer: &Answer, took: Duration, id: &str, caller: Option<&str>) {
    tracing::debug!(
        method = route.verb.word(),
        route = route.path,
        status = answer.status().as_u16(),
        ms = took.as_secs_f64() * 1_000.0,
        request = id,
        token = caller.unwrap_or("none"),
        "request"
    );
}

/// Takes over the id of a request, or that of its caller's span, or gives it one.
fn request_id(app: &App, headers: &HeaderMap) -> String {
    let is_safe = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_safe);
    match given {
        Some(given) => given.to_owned(),
        None => TraceParent::read(headers).map_or_else(|| app.next_request_id(), |caller| caller.to_string()),
    }
}

fn finish(answer: Answer, id: &str) -> Response {
    answer.with_header(VERSION_HEADER, VERSION).with_text_header(REQUEST_ID, id).into_response()
}

/// Finds out who calls and whether they may, and reads what they say.
async fn read_call(
    app: &Arc<App>,
    route: &Route,
    peer: Peer,
    id: String,
    path: &RawPathParams,
    request: Request,
) -> Result<Call, Problem> {
    let (head, body) = request.into_parts();
    let caller = match route.access {
        Access::Public => Caller::stranger(peer),
        Access::Roles(_) => {
            let caller = Caller::identify(&*app.tokens()?, &head.headers, peer, now())?;
            if let Some(token) = &caller.token {
                app.token_uses.record(&app.handle, token.id, now());
                check_rate(app, token)?;
            }
            caller
        }
    };
    route.access.check(&caller)?;
    pressure::check(app, route.load())?;
    let parameters = Parameters::read(head.uri.query(), route.parameters)?;
    let body = match route.body {
        BodyKind::Nothing => ReceivedBody::default(),
        BodyKind::Json | BodyKind::OptionalJson | BodyKind::File => {
            let coding = ContentCoding::of_request(&head.headers)?;
            receive_body(app, body, coding).await?
        }
    };
    route.body.check_type(&head.headers, body.is_empty())?;
    if app.settings.requires_reason {
        reason::check(route, &parameters, &body.bytes)?;
    }
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let target = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    Ok(Call {
        app: app.clone(),
        caller,
        verb: route.verb,
        target,
        id,
        path,
        parameters,
        headers: head.headers,
        body,
    })
}

/// Refuses a token that asks more often than it may.
fn check_rate(app: &App, token: &ApiToken) -> Result<(), Problem> {
    let Err(wait) = app.rates.take(token.id, Instant::now()) else { return Ok(()) };
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut problem = ProblemDocument::new(
        ProblemType::TooMany,
        format!(
            "the token `{}` makes more than {} requests a second; repeat this one in a moment",
            token.name, app.settings.rates.requests
        ),
    );
    problem.about.retry_after_ms = Some(with_jitter(millis));
    Err(Problem::from(problem))
}

/// Calls the handler, when it is its turn.
async fn handle_call(route: &'static Route, call: Call) -> Answered {
    let app = call.app.clone();
    let shows_state = route.verb.is_read() && route.path.starts_with("/v1/");
    match route.handler {
        Handler::Direct(handle) => handle(&call),
        Handler::Async(handle) => handle(call).await,
        Handler::Query(handle) => {
            let turn = take_turn(&app, &app.queries).await?;
            let cursor = if shows_state { EventCursor::end(app.reader()).ok() } else { None };
            let answer = run_blocking(turn, move || handle(&call)).await?;
            Ok(match cursor {
                Some(cursor) => answer.with_text_header(EVENTS_HEADER, &cursor.to_string()),
                None => answer,
            })
        }
        Handler::Change(handle) => {
            let turn = take_turn(&app, &app.changes).await?;
            run_blocking(turn, move || handle(&call)).await
        }
    }
}

/// Waits for a turn, but not for ever.
pub(crate) async fn take_turn(app: &App, turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    if app.is_stopping() {
        return Err(Problem::new(
            ProblemType::Stopping,
            "the server is stopping; repeat the request in a moment",
        ));
    }
    match timeout(app.settings.limits.turn_time, turns.clone().acquire_owned()).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => Err(Problem::new(
            ProblemType::Overloaded,
            "too many requests are waiting; repeat this one in a moment",
        )),
    }
}

/// Waits for a turn to read what has become of a change. It is not refused, however long the line is and though the server stops:
/// the change is durable, and whoever asked for it would believe that it was not made.
pub(crate) async fn take_turn_after_change(app: &App) -> Result<OwnedSemaphorePermit, Problem> {
    let turn = app.queries.clone().acquire_owned().await;
    turn.map_err(|_| Problem::new(ProblemType::Stopping, "the server has stopped; look what became of it"))
}

/// Runs something that blocks on a thread of its own. The turn is over when it ends, even if nobody waits for the answer any
/// more.
pub(crate) async fn run_blocking<T: Send + 'static>(
    turn: OwnedSemaphorePermit,
    run: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let ran = tokio::task::spawn_blocking(move || {
        let result = run();
        drop(turn);
        result
    });
    ran.await.unwrap_or_else(|_| {
        Err(Problem::new(
            ProblemType::Internal,
            "the request failed because of a bug in Unstuck; please report it",
        ))
    })
}

/// The status of something that was made, or was there already.
pub(crate) fn created(is_new: bool) -> StatusCode {
    if is_new { StatusCode::CREATED } else { StatusCode::OK }
}
