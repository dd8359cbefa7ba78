//! Spans of runs and attempts, made from the durable log after the fact: what is recorded costs the engine nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::run::Origin;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_store::contract::{Cursor, StoreError, TailError};

use crate::app::App;
use crate::trace::{AttributeValue, Span, SpanKind, Tracer, digest_span, span_of_run, trace_of_run};

/// Events that are read at once.
const PAGE: usize = 1_000;
/// Nobody waits for spans: what happens meanwhile is read together.
const BETWEEN_READS: Duration = Duration::from_millis(200);
/// Runs that are followed at once; of more than that, attempts that are under way are not recorded.
const MOST_FOLLOWED: usize = 100_000;
/// Runs are nested less deep than this.
const MOST_DEPTH: usize = 64;

/// Records what happens until the server stops, and then what has become durable before.
pub(crate) async fn follow_runs(app: Arc<App>, tracer: Tracer) {
    let (mut commits, mut stopping) = (app.commits.clone(), app.stopping.subscribe());
    let Ok(cursor) = app.reader().cursor() else { return };
    let mut follower = RunFollower { tracer, cursor, followed: HashMap::new() };
    loop {
        let is_stopping = *stopping.borrow();
        commits.borrow_and_update();
        let reader = app.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = follower.read_to_end(&reader);
            (follower, read)
        });
        let Ok((next, read)) = read.await else { return };
        follower = next;
        match read {
            Ok(()) => {}
            // What cannot be read now is read later.
            Err(TailError::Store(error)) => tracing::debug!(%error, "events cannot be read for traces now"),
            Err(TailError::Gone | TailError::NoCursor) => return,
        }
        if is_stopping {
            return;
        }
        tokio::select! {
            changed = async { sleep(BETWEEN_READS).await; commits.changed().await } => {
                if changed.is_err() {
                    return;
                }
            }
            _ = stopping.wait_for(|stops| *stops) => {}
        }
    }
}

/// The runs that are under way, as far as their spans need it.
struct RunFollower {
    tracer: Tracer,
    cursor: Cursor,
    followed: HashMap<RunId, FollowedRun>,
}

struct FollowedRun {
    flow: FlowId,
    /// The run at the top of all that it belongs to.
    root: RunId,
    parent: Option<RunId>,
    /// When its generation began.
    begun: Time,
    /// When the attempts that are under way began.
    attempts: HashMap<UnitRef, Time>,
}

impl RunFollower {
    fn read_to_end(&mut self, app: &App) -> Result<(), TailError> {
        loop {
            let page = app.reader().tail(&self.cursor, PAGE)?;
            for (run, event) in &page.events {
                self.take(app, *run, event).map_err(TailError::Store)?;
            }
            self.cursor = page.next;
            if page.is_end {
                return Ok(());
            }
        }
    }

    fn take(&mut self, app: &App, id: RunId, event: &Event) -> Result<(), StoreError> {
        let at = event.time();
        let mut run = match self.followed.remove(&id) {
            Some(run) => run,
            None => match load(app, &self.followed, id, event)? {
                Some(run) => run,
                // It was forgotten meanwhile.
                None => return Ok(()),
            },
        };
        let mut end = None;
        for fact in &event.facts {
            if let Fact::Unit { unit, fact } = fact {
                self.take_unit(app, id, &mut run, (*unit, fact), event);
            } else if let Fact::Reran { .. } = fact {
                run.begun = at;
            } else if let Fact::Migrated(migrated) = fact {
                run.flow = migrated.flow;
            } else {
                end = end.or(end_state(fact));
            }
        }
        match end {
            Some(state) => self.record_run(app, (id, event), &run, state),
            None if self.followed.len() < MOST_FOLLOWED => drop(self.followed.insert(id, run)),
            None => {}
        }
        Ok(())
    }

    /// Notes when an attempt begins, and records it when it has ended.
    fn take_unit(
        &self,
        app: &App,
        id: RunId,
        run: &mut FollowedRun,
        (unit, fact): (UnitRef, &UnitFact),
        event: &Event,
    ) {
        let is_begin = matches!(
            fact,
            UnitFact::Dequeued { .. } | UnitFact::Started { .. } | UnitFact::ChildStarted { .. }
        );
        if is_begin {
            run.attempts.entry(unit).or_insert(event.time());
        } else if let UnitFact::Ended { attempt, outcome } = fact
            && let Some(begun) = run.attempts.remove(&unit)
        {
            self.record_attempt(app, (id, event), run, (unit, *attempt, begun), outcome);
        }
    }

    fn record_attempt(
        &self,
        app: &App,
        (id, event): (RunId, &Event),
        run: &FollowedRun,
        (unit, attempt, begun): (UnitRef, u32, Time),
        outcome: &Outcome,
    ) {
        let trace = trace_of_run(run.root);
        let Some(flow) =
            app.service.flows.get(app.reader(), run.flow).ok().filter(|_| self.tracer.records(trace))
        else {
            return;
        };
        let step = unit_name(&flow, unit);
        let error = match outcome {
            Outcome::Stalled(error) | Outcome::Failed(error) => Some(error.cause.to_string()),
            Outcome::Stuck(_) => Some("stuck".to_owned()),
            Outcome::Completed(_) | Outcome::Deferred { .. } | Outcome::Cancelled(_) => None,
        };
        let text = AttributeValue::Text;
        self.tracer.sink.record(Span {
            trace,
            id: digest_span(&format!("attempt {id} {} {step} {attempt}", event.generation)),
            parent: Some(span_of_run(id, event.generation)),
            name: format!("{} {step}", flow.name),
            kind: SpanKind::Internal,
            begun: begun.timestamp(),
            ended: event.time().max(begun).timestamp(),
            attributes: vec![
                ("unstuck.run", text(id.to_string())),
                ("unstuck.flow", text(flow.name.to_string())),
                ("unstuck.step", text(step)),
                ("unstuck.action", text(flow.step(unit.step).full_action.to_string())),
                ("unstuck.attempt", AttributeValue::Number(attempt.into())),
                ("unstuck.outcome", text(outcome.word().to_owned())),
            ],
            link: None,
            error,
        });
    }

    /// Records a generation of a run that has ended.
    fn record_run(&self, app: &App, (id, event): (RunId, &Event), run: &FollowedRun, state: &str) {
        let trace = trace_of_run(run.root);
        if !self.tracer.records(trace) {
            return;
        }
        let flow = app.service.flows.get(app.reader(), run.flow);
        let flow = flow.map_or_else(|_| run.flow.to_string(), |flow| flow.name.to_string());
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        self.tracer.sink.record(Span {
            trace,
            id: span_of_run(id, event.generation),
            // A child belongs to its parent as it was first, which most are all their life.
            parent: run.parent.map(|parent| span_of_run(parent, 1)),
            name: format!("run {flow}"),
            kind: SpanKind::Internal,
            begun: run.begun.timestamp(),
            ended: event.time().max(run.begun).timestamp(),
            attributes: vec![
                ("unstuck.run", text(&id.to_string())),
                ("unstuck.flow", text(&flow)),
                ("unstuck.generation", AttributeValue::Number(event.generation.into())),
                ("unstuck.state", text(state)),
            ],
            link: None,
            error: (state == "failed").then(|| "the run failed".to_owned()),
        });
    }
}

/// The state that a run has ended in with a fact, if it has.
fn end_state(fact: &Fact) -> Option<&'static str> {
    if let Fact::Completed { .. } = fact {
        Some("completed")
    } else if let Fact::RunFailed { .. } = fact {
        Some("failed")
    } else if let Fact::RunCancelled { .. } = fact {
        Some("cancelled")
    } else {
        None
    }
}

/// Finds out what there is to know about a run that is not followed yet.
fn load(
    app: &App,
    followed: &HashMap<RunId, FollowedRun>,
    id: RunId,
    event: &Event,
) -> Result<Option<FollowedRun>, StoreError> {
    let started = event.facts.iter().find_map(|fact| {
        let Fact::Started(started) = fact else { return None };
        Some((started.flow, started.origin.clone(), event.time()))
    });
    let found = match started {
        Some(started) => Some(started),
        None => app.reader().run(id)?.map(|run| (run.flow, run.origin.clone(), run.created_at)),
    };
    let Some((flow, origin, begun)) = found else { return Ok(None) };
    let root = find_root(app, followed, id, &origin)?;
    Ok(Some(FollowedRun { flow, root, parent: origin.parent(), begun, attempts: HashMap::new() }))
}

fn find_root(
    app: &App,
    followed: &HashMap<RunId, FollowedRun>,
    id: RunId,
    origin: &Origin,
) -> Result<RunId, StoreError> {
    let (mut root, mut above) = (id, origin.parent());
    for _ in 0..MOST_DEPTH {
        let Some(parent) = above else { break };
        if let Some(parent) = followed.get(&parent) {
            return Ok(parent.root);
        }
        root = parent;
        above = app.reader().run(parent)?.and_then(|run| run.origin.parent());
    }
    Ok(root)
}
