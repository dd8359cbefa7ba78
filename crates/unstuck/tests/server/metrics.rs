//! Metrics: what is counted, and that it is written as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Server, Store};

/// What a page of metrics says: the type of each metric, and its samples by name and labels.
#[derive(Debug, Default)]
struct Page {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Page {
    /// Reads a page, and refuses what a reader of `OpenMetrics` would refuse.
    fn read(text: &str) -> Page {
        let mut page = Page::default();
        let body = text.strip_suffix("# EOF\n").expect("a page has an end");
        for line in body.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                let mut words = about.splitn(3, ' ');
                let (what, name, rest) = (words.next(), words.next().expect("it has a name"), words.next());
                match what {
                    Some("TYPE") => {
                        let before =
                            page.types.insert(name.to_owned(), rest.expect("it has a type").to_owned());
                        assert_eq!(before, None, "{name} is there once");
                    }
                    Some("HELP" | "UNIT") => assert!(rest.is_some_and(|rest| !rest.is_empty()), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("it is a number: {line}"));
            let name = sample.split('{').next().expect("it has a name");
            let metric = name_of_metric(name);
            assert!(page.types.contains_key(metric) || page.types.contains_key(name), "{name} has a type");
            assert_eq!(page.samples.insert(sample.to_owned(), value), None, "{sample} is there once");
        }
        page
    }

    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("there is no {sample} in {:#?}", self.samples))
    }
}

/// Cuts off what a kind of metric adds to its name.
fn name_of_metric(name: &str) -> &str {
    let ends = ["_total", "_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

#[test]
fn what_happens_is_counted() {
    let server = Server::start();
    for flow in ["quick", "quick", "held", "broken"] {
        server.start_run(flow);
    }
    let page = Page::read(&server.get("/metrics").body);
    for (sample, wanted) in [
        ("unstuck_runs{state=\"held\"}", 1.0),
        ("unstuck_runs{state=\"error\"}", 1.0),
        ("unstuck_errors_open{flow=\"broken\"}", 1.0),
        ("unstuck_runs_started_total{flow=\"quick\"}", 2.0),
        ("unstuck_runs_started_total{flow=\"held\"}", 1.0),
        ("unstuck_attempts_total{action=\"@emulate\",outcome=\"stalled\"}", 2.0),
        ("unstuck_ladder_rungs_total{rung=\"hold\"}", 1.0),
        ("unstuck_ladder_rungs_total{rung=\"rest\"}", 1.0),
        ("unstuck_event_streams", 0.0),
        ("unstuck_event_stream_lag_seconds", 0.0),
        (
            "unstuck_http_request_duration_seconds_count{method=\"POST\",route=\"/v1/runs\",status=\"201\"}",
            4.0,
        ),
    ] {
        assert!((page.value(sample) - wanted).abs() < f64::EPSILON, "{sample} is {}", page.value(sample));
    }
    let version = format!("unstuck_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert!(page.value(&version) > 0.0 && page.value("unstuck_store_bytes") > 0.0);
    for metric in ["unstuck_commit_duration_seconds", "unstuck_batch_commands"] {
        assert_eq!(page.types[metric], "histogram");
        let count = page.value(&format!("{metric}_count"));
        assert!(count >= 4.0, "{metric} {count}");
        let last = page.value(&format!("{metric}_bucket{{le=\"+Inf\"}}"));
        assert!((count - last).abs() < f64::EPSILON, "all are in the last range");
    }
    assert!(page.value("unstuck_commit_duration_seconds_sum") > 0.0);
}

#[test]
fn labels_have_a_limit_and_never_ids() {
    let server = Server::start_on(&Store::new(), &["--metrics-labels", "3"]);
    for number in 0..6 {
        server.apply(&format!("flow: f{number}\nsteps:\n  - {{id: only, set: 1}}\n")).with(200);
        server.start_run(&format!("f{number}"));
    }
    let text = server.get("/metrics").body;
    let page = Page::read(&text);
    let flows: BTreeSet<&str> =
        page.samples.keys().filter_map(|sample| sample.strip_prefix("unstuck_runs_started_total")).collect();
    let wanted = ["{flow=\"f0\"}", "{flow=\"f1\"}", "{flow=\"f2\"}", "{flow=\"other\"}"];
    assert_eq!(flows, BTreeSet::from(wanted));
    assert!(!text.contains("run_"), "{text}");
}
