//! What a monitoring system reads: counters and gauges by the conventions of Prometheus. Labels are routes, states, flows, actions
//! and policies, never ids; past a limit their values are counted as `other`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use unstuck_api::ProblemType;
use unstuck_core::model::run::RunState;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::metrics::{Distribution, EngineCounts};
use unstuck_service::service::now;

use crate::answer::{Answer, Content};
use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answered, Route};

/// Seconds: from a read in memory to a wait for a run.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0, 60.0];
/// What values past the limit are counted as.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
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
        let labels = RouteLabels { method: route.verb.word(), route: route.path, status: status.as_u16() };
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
    let streams = Gauge::<i64>::default();
    streams.set(i64::try_from(app.streams.count()).unwrap_or(i64::MAX));
    registry.register("event_streams", "Event streams that are open", streams);
    register_seconds(
        registry,
        ("event_stream_lag", "Age of the oldest event that an open event stream has not been given yet"),
        app.streams.lag(now()),
    );
    register_seconds(
        registry,
        ("timer_lateness", "How late the engine is for what is due"),
        app.handle.lateness(),
    );
    registry.register_collector(Box::new(Snapshot::take(app)?));
    Ok(())
}

/// Registers a length of time as it is now.
#[expect(clippy::cast_precision_loss, reason = "milliseconds are exact for 285,000 years")]
fn register_seconds(registry: &mut Registry, (name, help): (&str, &str), time: Millis) {
    let gauge = Gauge::<f64, AtomicU64>::default();
    gauge.set(time.0 as f64 / 1_000.0);
    registry.register_with_unit(name, help, Unit::Seconds, gauge);
}

/// What is counted elsewhere, as it is when it is asked for.
#[derive(Debug)]
struct Snapshot {
    engine: EngineCounts,
    runs: BTreeMap<String, u64>,
    in_error: BTreeMap<String, u64>,
    policy_hits: BTreeMap<String, u64>,
    store_bytes: u64,
    free_bytes: Option<u64>,
    waiting: u64,
}

impl Snapshot {
    fn take(app: &App) -> Result<Snapshot, Problem> {
        let most = app.settings.metric_labels;
        let (mut runs, mut in_error) = (BTreeMap::new(), BTreeMap::new());
        for ((flow, state), count) in app.reader().count_runs(Time(i64::MAX))? {
            if !state.is_final() {
                *runs.entry(state.word().to_owned()).or_default() += count;
            }
            if state == RunState::Error {
                *in_error.entry(flow.to_string()).or_default() += count;
            }
        }
        let hits = app.reader().policy_hits()?;
        let (names, _) = app.reader().policies()?;
        let name_of = |id: &str| {
            let known = names.iter().find(|policy| *policy.id == *id);
            known.map_or_else(|| id.to_owned(), |policy| policy.name.to_string())
        };
        let policy_hits = hits.iter().map(|hits| (name_of(&hits.policy), hits.hits)).collect();
        let (waiting, _) = app.handle.waiting();
        Ok(Snapshot {
            engine: app.handle.metrics().counts(),
            runs,
            in_error: cap(in_error, most),
            policy_hits: cap(policy_hits, most),
            store_bytes: folder_bytes(app),
            free_bytes: crate::health::free_room(&app.settings.store),
            waiting: u64::try_from(waiting).unwrap_or(u64::MAX),
        })
    }

    fn encode_engine(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let EngineCounts { commit_seconds, batch_commands, started, attempts, rungs, .. } = &self.engine;
        let unit = Some(&Unit::Seconds);
        write_one(
            encoder,
            ("commit_duration", "From the decision of a batch until it is durable", unit),
            &Ranges(commit_seconds),
        )?;
        write_one(
            encoder,
            ("batch_commands", "What is decided in one batch", None),
            &Ranges(batch_commands),
        )?;
        let started =
            started.iter().map(|(flow, count)| ([("flow", flow.to_string())], ConstCounter::new(*count)));
        write(encoder, ("runs_started", "Runs that were started since the server was", None), started)?;
        let attempts = attempts.iter().map(|((action, outcome), count)| {
            ([("action", action.to_string()), ("outcome", (*outcome).to_owned())], ConstCounter::new(*count))
        });
        write(
            encoder,
            ("attempts", "Attempts that have ended since the server was started", None),
            attempts,
        )?;
        let rungs =
            rungs.iter().map(|(rung, count)| ([("rung", (*rung).to_owned())], ConstCounter::new(*count)));
        write(encoder, ("ladder_rungs", "What was decided about what went wrong", None), rungs)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let encoder = &mut encoder;
        let version = [([("version", env!("CARGO_PKG_VERSION").to_owned())], ConstGauge::new(1_u64))];
        write(encoder, ("build_info", "The version of this server", None), version)?;
        let gauges = |label: &'static str, values: &BTreeMap<String, u64>| {
            values
                .iter()
                .map(|(value, count)| ([(label, value.clone())], ConstGauge::new(*count)))
                .collect::<Vec<_>>()
        };
        write(
            encoder,
            ("runs", "Root runs that are not final, by state", None),
            gauges("state", &self.runs),
        )?;
        write(
            encoder,
            ("errors_open", "Root runs that are in error, by flow", None),
            gauges("flow", &self.in_error),
        )?;
        let hits = self
            .policy_hits
            .iter()
            .map(|(policy, count)| ([("policy", policy.clone())], ConstCounter::new(*count)));
        write(encoder, ("policy_hits", "Errors that a policy has taken", None), hits)?;
        let unit = Some(&Unit::Bytes);
        write_one(
            encoder,
            ("store", "The size of the store's files", unit),
            &ConstGauge::new(self.store_bytes),
        )?;
        if let Some(free) = self.free_bytes {
            write_one(
                encoder,
                ("disk_free", "The room on the disk of the store", unit),
                &ConstGauge::new(free),
            )?;
        }
        write_one(
            encoder,
            ("requests_waiting", "Requests that wait to be decided", None),
            &ConstGauge::new(self.waiting),
        )?;
        self.encode_engine(encoder)
    }
}

/// A distribution as it is written.
struct Ranges<'a>(&'a Distribution);

impl EncodeMetric for Ranges<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Ranges(Distribution { ends, counts, sum }) = self;
        let ends = ends.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = ends.zip(counts.iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(*sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// What a metric is called, what it is, and its unit.
type Description<'a> = (&'a str, &'a str, Option<&'a Unit>);

/// Writes a metric without labels.
fn write_one(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Description<'_>,
    value: &impl EncodeMetric,
) -> Result<(), std::fmt::Error> {
    value.encode(encoder.encode_descriptor(name, help, unit, value.metric_type())?)
}

/// Writes a metric with all of its values. One without any is left out.
fn write<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Description<'_>,
    values: impl IntoIterator<Item = (L, M)>,
) -> Result<(), std::fmt::Error> {
    let mut values = values.into_iter().peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let mut metric = encoder.encode_descriptor(name, help, unit, first.metric_type())?;
    for (labels, value) in values {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Counts what comes after the largest so many values as `other`.
fn cap(counts: BTreeMap<String, u64>, most: usize) -> BTreeMap<String, u64> {
    if counts.len() <= most {
        return counts;
    }
    let mut sorted: Vec<(String, u64)> = counts.into_iter().collect();
    sorted.sort_by(|(_, a), (_, b)| b.cmp(a));
    let rest = sorted.split_off(most).into_iter().map(|(_, count)| count).sum();
    sorted.push((OTHER.to_owned(), rest));
    sorted.into_iter().collect()
}

/// Returns how large the files in the folder of the store are.
fn folder_bytes(app: &App) -> u64 {
    let files = std::fs::read_dir(&app.settings.store).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|about| about.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_past_the_limit_are_counted_together() {
        let counts = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let all = counts(&[("a", 1), ("b", 5), ("c", 3), ("d", 2)]);
        assert_eq!(cap(all.clone(), 4), all);
        assert_eq!(cap(all, 2), counts(&[("b", 5), ("c", 3), ("other", 3)]));
    }
}
