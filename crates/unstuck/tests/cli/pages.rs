//! Lists in pages: runs and histories.

use serde_json::Value;

use crate::support::Store;

fn ids(page: &Value) -> Vec<String> {
    let runs = page["runs"].as_array().expect("a list");
    runs.iter().map(|run| run["id"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn runs_come_in_pages_newest_first() {
    let store = Store::new();
    let flow = |name: &str, kind: &str| format!("flow: {name}\nsteps:\n  - {{id: one, {kind}}}\n");
    for (name, kind) in [
        ("a", "set: 1"),
        ("b", "emulate: fail, timeout: 5s"),
        ("a", "set: 1"),
        ("b", "emulate: stall, retryStrategy: hold, timeout: 5s"),
        ("a", "set: 1"),
    ] {
        store.run_flow(&flow(name, kind), &[]);
    }
    let all = ids(&store.unstuck(&["runs", "-o", "json"]).json());
    assert!(all.len() == 5 && all.is_sorted_by(|newer, older| newer > older), "{all:?}");
    for size in 1..=6 {
        let limit = size.to_string();
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut arguments = vec!["runs", "-o", "json", "--limit", &limit];
            arguments.extend(after.as_deref().map(|after| ["--after", after]).into_iter().flatten());
            let page = store.unstuck(&arguments).json();
            let on_page = ids(&page);
            assert!((1..=size).contains(&on_page.len()), "{page}");
            found.extend(on_page);
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, all, "in pages of {size}");
    }
    let cases: [(&[&str], &[usize]); 5] = [
        (&["--flow", "b"], &[1, 3]),
        (&["--state", "held"], &[1]),
        (&["--state", "completed", "--flow", "a"], &[0, 2, 4]),
        (&["--state", "failed"], &[3]),
        (&["--state", "running"], &[]),
    ];
    for (filter, wanted) in cases {
        let found = ids(&store.unstuck(&[&["runs", "-o", "json"], filter].concat()).json());
        let wanted: Vec<String> = wanted.iter().map(|place| all[*place].clone()).collect();
        assert_eq!(found, wanted, "{filter:?}");
    }
    let text = store.unstuck(&["runs", "--limit", "2", "--flow", "a"]).stdout;
    assert!(text.starts_with("RUN  ") && text.ends_with(" --flow a --limit 2\n"), "{text}");
    let next = text.lines().last().and_then(|line| line.strip_prefix("More: unstuck runs --after "));
    let next = next.and_then(|line| line.split_whitespace().next()).expect("it goes on");
    let rest = store.unstuck(&["runs", "--after", next, "--flow", "a", "--limit", "2", "-o", "json"]).json();
    assert_eq!(ids(&rest), all[4..], "as printed");
    assert_eq!(
        store.unstuck(&["runs", "--state", "paused"]).stdout,
        "No runs match. Use --all to include children and exception handlers.\n"
    );
}

#[test]
fn a_history_comes_in_pages() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: {sequence: [stall, stall, pass]}, retryStrategy: retry, maxAttempts: 3, minimumDelay: 1ms, timeout: 5s}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 0);
    let all = store.unstuck(&["history", "@latest", "-o", "json"]).json();
    let events = all["events"].as_array().expect("a list").clone();
    let numbers =
        |events: &[Value]| events.iter().filter_map(|event| event["number"].as_u64()).collect::<Vec<_>>();
    assert!(numbers(&events).into_iter().eq(1..=events.len() as u64) && events.len() > 3, "{all:#}");
    assert_eq!(events[0]["user"], "ada");
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = store
            .unstuck(&["history", "@latest", "--limit", "2", "--after", &after.to_string(), "-o", "json"])
            .json();
        found.extend(page["events"].as_array().expect("a list").clone());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(found, events);
    let text = store.unstuck(&["history", "@latest", "--limit", "2"]).stdout;
    for part in [
        "    1  ",
        "  ada  ",
        "one: attempt 1 started\n",
        &format!("\nMore: unstuck history {} --after 2 --limit 2\n", store.latest()),
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
