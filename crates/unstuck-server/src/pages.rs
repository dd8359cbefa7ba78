//! Pages for people about the API itself: every call, and every type of problem. They need nothing from elsewhere.

use std::fmt::Write as _;

use axum::http::StatusCode;
use unstuck_api::ProblemType;

use crate::access::Access;
use crate::answer::{Answer, Content};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;
use crate::routes::ROUTES;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
code{font:0.95em ui-monospace,monospace}table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid #ddd}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}td,th{border-color:#333}a{color:#8ab4f8}}";

/// Lists every call.
#[expect(clippy::unnecessary_wraps, reason = "it stands in the table of routes, where others may fail")]
pub(crate) fn docs(_: &Call) -> Answered {
    let mut rows = String::new();
    for route in ROUTES {
        let roles = match route.access {
            Access::Public => "everybody".to_owned(),
            Access::Roles(roles) => roles.iter().map(|role| role.word()).collect::<Vec<_>>().join(", "),
        };
        let parameters: Vec<String> =
            route.parameters.iter().map(|parameter| format!("<code>{}</code>", parameter.name)).collect();
        let _ = write!(
            rows,
            "<tr><td><code>{} {}</code></td><td>{}{}</td><td>{roles}</td></tr>",
            route.verb.word(),
            escape(route.path),
            escape(route.about),
            if parameters.is_empty() { String::new() } else { format!("<br>{}", parameters.join(" ")) },
        );
    }
    let body = format!(
        "<h1>The HTTP API</h1><p>JSON in and out; every error is a problem document. For programs: <a href=\"/openapi.json\">openapi.json</a>.</p>\
         <table><thead><tr><th>Call</th><th>What it does</th><th>Who may</th></tr></thead><tbody>{rows}</tbody></table>"
    );
    Ok(page("The HTTP API", &body))
}

/// Says what a type of problem means.
pub(crate) fn problem(call: &Call) -> Answered {
    let slug = call.part("type");
    let kind = ProblemType::of(slug).ok_or_else(|| {
        Problem::new(ProblemType::NotFound, format!("there is no type of problem `{slug}`"))
    })?;
    let body = format!(
        "<h1>{}</h1><p>Type <code>{}</code>, status {}.</p><p>{}</p><p>The <code>detail</code> of each such problem says what is wrong and what to do.</p>",
        escape(kind.title()),
        escape(slug),
        kind.status(),
        escape(kind.meaning()),
    );
    Ok(page(kind.title(), &body))
}

fn page(title: &str, body: &str) -> Answer {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{} - Unstuck</title><style>{STYLE}</style></head><body>{body}</body></html>",
        escape(title)
    );
    Answer::new(StatusCode::OK, Content::Html(html))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
