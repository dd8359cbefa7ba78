//! What a monitoring system reads: counters and gauges by the conventions of Prometheus. Labels are routes, states and flows, never
//! ids.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use unstuck_api::ProblemType;
use unstuck_core::time::Time;

use crate::answer::{Answer, Content};
use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answered, Route};

/// Seconds: from a read in memory to a wait for a run.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabels {
    version: String,
}

/// What is counted as it happens.
pub(crate) struct Metrics {
    requests: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics { requests: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn record(&self, route: &Route, status: StatusCode, took: Duration) {
        let labels = RouteLabels {
            method: route.verb.word().to_owned(),
            route: route.path.to_owned(),
            status: status.as_u16(),
        };
        self.requests.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// Writes all of them.
pub(crate) fn show(call: &Call) -> Answered {
    let mut registry = Registry::with_prefix("unstuck");
    register(&call.app, &mut registry)?;
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|error| {
        Problem::new(ProblemType::Internal, format!("the metrics cannot be written: {error}"))
    })?;
    Ok(Answer::new(StatusCode::OK, Content::Metrics(text)))
}

fn register(app: &App, registry: &mut Registry) -> Result<(), Problem> {
    registry.register_with_unit(
        "http_request_duration",
        "How long requests took to be answered",
        Unit::Seconds,
        app.metrics.requests.clone(),
    );
    let build: Family<VersionLabels, Gauge> = Family::default();
    build.get_or_create(&VersionLabels { version: env!("CARGO_PKG_VERSION").to_owned() }).set(1);
    registry.register("build_info", "The version of this server", build);
    let streams = Gauge::<i64>::default();
    streams.set(i64::try_from(app.streams.load(Ordering::Relaxed)).unwrap_or(i64::MAX));
    registry.register("event_streams", "Event streams that are open", streams);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are exact for 285,000 years")]
    let late = app.handle.lateness().0 as f64 / 1_000.0;
    let lateness = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
    lateness.set(late);
    registry.register_with_unit(
        "timer_lateness",
        "How late the engine is for what is due",
        Unit::Seconds,
        lateness,
    );
    registry.register("runs", "Root runs that are not final, by state", count_open_runs(app)?);
    Ok(())
}

/// Counts open runs by state, from the counters of the store.
fn count_open_runs(app: &App) -> Result<Family<StateLabels, Gauge>, Problem> {
    let runs: Family<StateLabels, Gauge> = Family::default();
    for ((_, state), count) in app.reader().count_runs(Time(i64::MAX))? {
        if !state.is_final() {
            let labels = StateLabels { state: state.word().to_owned() };
            runs.get_or_create(&labels).inc_by(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    Ok(runs)
}
