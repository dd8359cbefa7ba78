//! What is wrong with an `http` step, and where secrets cannot stand.

use super::{lines, read};

/// The problems of a file, each without its place.
fn problems(file: &str) -> Vec<String> {
    match read(file) {
        Ok(loaded) => lines(&loaded.warnings),
        Err(problems) => lines(&problems),
    }
}

/// An `http`, and what is wrong with it.
const REQUESTS: &[(&str, &[&str])] = &[
    ("{url: https://example.com/orders}", &[]),
    ("{url: 'https://${input.host}/x', method: '${input.method}', body: {a: '${input.a}'}}", &[]),
    ("{url: '${input.url}'}", &[]),
    ("{url: 'http${input.s}://host/'}", &[]),
    ("{url: 'HTTPS://u@host/', method: patch, headers: {X-A: 1, x-b: true, x-c: '${input.c}'}}", &[]),
    ("{url: 'https://host/', on: {409: completed, 5xx: failed, '404': stalled, 503: deferred}}", &[]),
    (
        "{method: GET}",
        &["4:11: steps.x.http: `http` has no `url` (for example `url: https://example.com/orders`)"],
    ),
    ("https://host/", &["4:11: steps.x.http: `http` is a map, not text (write `url: ...`)"]),
    ("{url: 7}", &["4:17: steps.x.http.url: expected text, not `7`"]),
    ("{url: host/path}", &["4:17: steps.x.http.url: the url has no scheme (write `https://host/path`)"]),
    (
        "{url: 'host/${input.a}'}",
        &["4:17: steps.x.http.url: the url has no scheme (write `https://host/${input.a}`)"],
    ),
    (
        "{url: 'ftp://host/'}",
        &[
            "4:17: steps.x.http.url: `ftp` is not a scheme for requests (a url starts with `https://` or `http://`)",
        ],
    ),
    (
        "{url: 'https:///x'}",
        &["4:17: steps.x.http.url: the url names no host (for example `https://example.com/orders`)"],
    ),
    (
        "{url: 'https://host/a b'}",
        &["4:32: steps.x.http.url: a url cannot contain spaces (write a space as `%20`)"],
    ),
    (
        "{url: 'https://me:pass@host/'}",
        &[
            "4:17: steps.x.http.url: the password in the url is stored and shown with the flow (use a secret: `https://${secrets.USER}:${secrets.PASSWORD}@example.com`)",
        ],
    ),
    (
        "{url: 'https://host/', method: GTE}",
        &[
            "4:42: steps.x.http.method: expected `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`, not `GTE` (did you mean `GET`?)",
        ],
    ),
    (
        "{uri: 'https://host/', header: {a: b}}",
        &[
            "4:11: steps.x.http: `http` has no `url` (for example `url: https://example.com/orders`)",
            "4:12: steps.x.http.uri: `http` has no field `uri` (did you mean `url`?)",
            "4:34: steps.x.http.header: `http` has no field `header` (did you mean `headers`?)",
        ],
    ),
    (
        "{url: 'https://host/', headers: '${input.headers}'}",
        &[
            "4:43: steps.x.http.headers: headers cannot be computed as a whole (write each name, and compute its value: `headers: {accept: \"${input.accept}\"}`)",
        ],
    ),
    (
        "{url: 'https://host/', headers: {a b: c, Host: d, X-A: 1, x-a: 2, e: [1]}}",
        &[
            "4:44: steps.x.http.headers.a b: `a b` is not the name of a header (use letters, digits and `-`)",
            "4:52: steps.x.http.headers.Host: the header `host` cannot be set: it follows from the `url` (remove it)",
            "4:69: steps.x.http.headers.x-a: the header `x-a` is given twice",
            "4:80: steps.x.http.headers.e: expected text, not a list",
        ],
    ),
    (
        "{url: 'https://host/', headers: {a: \"b\\nc\"}}",
        &["4:47: steps.x.http.headers.a: the value of a header is one line of text (remove the line break)"],
    ),
    (
        "{url: 'https://host/', on: {teapot: failed, 409: done, 99: failed}}",
        &[
            "4:39: steps.x.http.on.teapot: `teapot` is not a status (write a status from 200 to 599, or all of a kind as in `5xx`)",
            "4:60: steps.x.http.on.409: expected `completed`, `stalled`, `failed` or `deferred`, not `done`",
            "4:66: steps.x.http.on.99: `99` is not a status (write a status from 200 to 599, or all of a kind as in `5xx`)",
        ],
    ),
    (
        "{url: 'https://host/', on: ok}",
        &["4:38: steps.x.http.on: expected a map such as `{\"409\": completed}`, not `ok`"],
    ),
    (
        "{url: 'https://host/${steps.y.output}'}",
        &["4:39: steps.x.http.url: there is no step `y` (the steps are `x`)"],
    ),
    (
        "{url: 'https://host/'}\n    with: {a: 1}",
        &[
            "5:5: steps.x.with: `with` does not apply to a `http` step (it applies to `action`, `run`, `flow` and `emulate` steps)",
        ],
    ),
];

#[test]
fn a_wrong_request_is_refused_with_its_place() {
    for (http, expected) in REQUESTS {
        assert_eq!(problems(&format!("flow: a\nsteps:\n  - id: x\n    http: {http}\n")), *expected, "{http}");
    }
}

#[test]
fn secrets_stand_only_where_they_are_handed_over() {
    let allowed = [
        "http: {url: 'https://${secrets.USER}:${secrets.PASSWORD}@host/', headers: {a: 'Bearer ${ secrets.TOKEN }'}, body: {b: ['${secrets.B}']}}",
        "http: {url: \"${secrets['WEBHOOK_URL']}\"}",
        "action: work\n    with: {token: '${secrets.TOKEN}'}",
        "run: 'true'\n    timeout: 1m\n    with: {token: '${secrets.TOKEN}'}",
    ];
    for step in allowed {
        let file = format!("flow: a\nsteps:\n  - id: x\n    {step}\n");
        assert_eq!(problems(&file), Vec::<String>::new(), "{step}");
    }
    let nowhere =
        "secrets are not allowed here (use them in `http`, and in the `with` of `action` and `run` steps)";
    let refused = [
        ("set: '${secrets.A}'", "4:13: steps.x.set"),
        ("flow: known\n    with: {a: '${secrets.A}'}", "5:18: steps.x.with.a"),
        ("emulate: pass\n    with: {a: '${secrets.A}'}", "5:18: steps.x.with.a"),
        ("set: 1\n    if: ${secrets.A == 'x'}", "5:11: steps.x.if"),
        ("set: 1\n    forEach: ${secrets.A}", "5:16: steps.x.forEach"),
        ("wait: ${secrets.A}", "4:13: steps.x.wait"),
        ("set: 1\noutput: ${secrets.A}", "5:11: output"),
        ("set: 1\nconcurrency: {limit: 1, key: '${secrets.A}'}", "5:33: concurrency.key"),
    ];
    for (step, place) in refused {
        let file = format!("flow: a\nsteps:\n  - id: x\n    {step}\n");
        assert_eq!(problems(&file), [format!("{place}: {nowhere}")], "{step}");
    }
    let alone = "a secret cannot be part of an expression (write it alone, as in `Bearer ${secrets.NAME}`: its value is known only when the attempt starts)";
    let cases = [
        ("${'Bearer ' + secrets.A}", "4:37", alone),
        ("${secrets}", "4:25", alone),
        ("${secrets.A.size()}", "4:25", alone),
        (
            "${secrets['a-b']}",
            "4:33",
            "`a-b` cannot be the name of a secret (use letters, digits and `_`, as in `secrets.API_TOKEN`)",
        ),
    ];
    for (value, place, message) in cases {
        let file = format!("flow: a\nsteps:\n  - id: x\n    action: b\n    with: {{a: \"{value}\"}}\n");
        let found = problems(&file);
        assert_eq!(found.len(), 1, "{value}: {found:?}");
        assert!(found[0].ends_with(&format!(": {message}")), "{value} {place}: {found:?}");
    }
    let command = problems("flow: a\nsteps:\n  - id: x\n    timeout: 1m\n    run: 'curl -u ${secrets.A}'\n");
    assert!(command[0].contains("expressions are not allowed in a command"), "{command:?}");
}
