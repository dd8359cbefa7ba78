//! The `http` kind: a request, whose values may have expressions and secrets, and what statuses mean.

use unstuck_core::model::expression::Template;
use unstuck_core::model::http::{HttpOutcome, StatusPattern, StatusRules};

use crate::computed::{self, Scope};
use crate::problem::Problems;
use crate::read::{LocatedNode, Object, shortened};
use crate::tree::Content;
use crate::{fields, suggest};

/// The methods of requests.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that the request itself needs, with why nobody else sets them.
const OWN_HEADERS: [(&str, &str); 8] = [
    ("host", "it follows from the `url`"),
    ("content-length", "it follows from the `body`"),
    ("transfer-encoding", "it follows from the `body`"),
    ("connection", "each request has a connection of its own"),
    ("keep-alive", "each request has a connection of its own"),
    ("upgrade", "a step is one request and its response"),
    ("te", "a step is one request and its response"),
    ("trailer", "a step is one request and its response"),
];

/// Compiles the request of a step: an object of `url` and, where they are given, `method`, `headers` and `body`. It becomes
/// the input of the step.
pub(crate) fn compile_request(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<Template> {
    let object = Object::read(spot, fields::HTTP, "`http`", problems)?;
    let is_fine = check_url(&object, spot, problems)
        & check_method(&object, problems)
        & check_headers(&object, problems);
    let Content::Map(entries) = &spot.node.content else { return None };
    let kept =
        entries.iter().filter(|entry| entry.key != "on" && fields::find(fields::HTTP, &entry.key).is_some());
    let node = spot.node.with_content(Content::Map(kept.cloned().collect()));
    let request = LocatedNode { node: &node, path: spot.path.clone() };
    computed::compile_template(&request, scope, problems).filter(|_| is_fine)
}

/// Reads the fields of `http`, and what its `on` says about statuses.
pub(crate) fn read_status_rules(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<StatusRules> {
    let object = Object::read(spot, fields::HTTP, "`http`", problems)?;
    let Some(on) = object.spot("on") else { return Some(StatusRules::default()) };
    let Content::Map(entries) = &on.node.content else {
        on.report_expected(problems, "a map such as `{\"409\": completed}`");
        return None;
    };
    let words = HttpOutcome::ALL.map(|outcome| (outcome.word(), outcome));
    let mut rules = Vec::new();
    for entry in entries {
        let spot = LocatedNode { node: &entry.node, path: format!("{}.{}", on.path, shortened(&entry.key)) };
        let outcome = spot.read_word(&words, problems);
        let Some(pattern) = StatusPattern::parse(entry.key.trim()) else {
            let message = format!("`{}` is not a status", shortened(&entry.key));
            problems
                .error(entry.at, &spot.path, message)
                .hint("write a status from 200 to 599, or all of a kind as in `5xx`");
            continue;
        };
        rules.extend(outcome.map(|outcome| (pattern, outcome)));
    }
    (rules.len() == entries.len()).then_some(StatusRules(rules))
}

/// Checks as much of the url as is known before it is computed.
fn check_url(object: &Object<'_>, http: &LocatedNode<'_>, problems: &mut Problems<'_>) -> bool {
    let Some(spot) = object.spot("url") else {
        http.refuse(problems, "`http` has no `url`").hint("for example `url: https://example.com/orders`");
        return false;
    };
    let Some(url) = spot.read_text(problems) else { return false };
    let is_computed = url.contains("${");
    let fixed = &url[..url.find("${").unwrap_or(url.len())];
    if let Some(at) = fixed.find(|c: char| c.is_whitespace() || c.is_control()) {
        problems
            .error_inside(spot.node, at, &spot.path, "a url cannot contain spaces")
            .hint("write a space as `%20`");
        return false;
    }
    let known = fixed.split_once("://");
    match known.map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest)) {
        Some((scheme, rest)) if scheme == "http" || scheme == "https" => {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            if host.is_empty() && (!is_computed || rest.len() > host.len()) {
                spot.refuse(problems, "the url names no host")
                    .hint("for example `https://example.com/orders`");
                return false;
            }
            warn_about_password(&spot, host, problems);
            true
        }
        Some((scheme, _)) => {
            spot.refuse(problems, format!("`{}` is not a scheme for requests", shortened(&scheme)))
                .hint("a url starts with `https://` or `http://`");
            false
        }
        // What comes first is computed, or may still turn out to be a scheme.
        None if is_computed && "https://".starts_with(&fixed.to_ascii_lowercase()) => true,
        None if is_computed && "http://".starts_with(&fixed.to_ascii_lowercase()) => true,
        None => {
            let hint = format!("write `https://{}`", shortened(url));
            spot.refuse(problems, "the url has no scheme").hint(hint);
            false
        }
    }
}

/// Warns about credentials that are written in a url: the flow is stored and shown as it is written.
fn warn_about_password(spot: &LocatedNode<'_>, host: &str, problems: &mut Problems<'_>) {
    if host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        problems
            .warning(spot.node.at, &spot.path, "the password in the url is stored and shown with the flow")
            .hint("use a secret: `https://${secrets.USER}:${secrets.PASSWORD}@example.com`");
    }
}

/// Checks the method, where it is not computed.
fn check_method(object: &Object<'_>, problems: &mut Problems<'_>) -> bool {
    let Some(spot) = object.spot("method") else { return true };
    let Some(method) = spot.read_text(problems) else { return false };
    if method.contains("${") || METHODS.contains(&method.to_ascii_uppercase().as_str()) {
        return true;
    }
    let near = suggest::find_nearest(&method.to_ascii_uppercase(), METHODS);
    let expected = suggest::join_words(&METHODS, "or");
    spot.refuse(problems, format!("expected {expected}, not `{}`", shortened(method)))
        .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
    false
}

/// Checks the names of the headers, and the values that are not computed.
fn check_headers(object: &Object<'_>, problems: &mut Problems<'_>) -> bool {
    let Some(spot) = object.spot("headers") else { return true };
    let Content::Map(entries) = &spot.node.content else {
        if spot.node.text().is_some_and(|text| text.contains("${")) {
            spot.refuse(problems, "headers cannot be computed as a whole")
                .hint("write each name, and compute its value: `headers: {accept: \"${input.accept}\"}`");
        } else {
            spot.report_expected(problems, "a map such as `{accept: application/json}`");
        }
        return false;
    };
    let mut is_fine = true;
    let mut seen: Vec<String> = Vec::new();
    for entry in entries {
        let name = entry.key.to_ascii_lowercase();
        let value =
            LocatedNode { node: &entry.node, path: format!("{}.{}", spot.path, shortened(&entry.key)) };
        let own = OWN_HEADERS.iter().find(|(own, _)| *own == name);
        if !is_header_name(&name) {
            let message = format!("`{}` is not the name of a header", shortened(&entry.key));
            problems.error(entry.at, &value.path, message).hint("use letters, digits and `-`");
        } else if let Some((_, why)) = own {
            problems
                .error(entry.at, &value.path, format!("the header `{name}` cannot be set: {why}"))
                .hint("remove it");
        } else if seen.contains(&name) {
            problems.error(entry.at, &value.path, format!("the header `{name}` is given twice"));
        } else if check_header_value(&value, problems) {
            seen.push(name);
            continue;
        }
        is_fine = false;
    }
    is_fine
}

/// Checks the value of a header: one line of text.
fn check_header_value(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> bool {
    match &spot.node.content {
        Content::Text(text) => {
            let control = text.find(|c: char| c.is_control() && c != '\t');
            if let Some(at) = control.filter(|_| !text.contains("${")) {
                problems
                    .error_inside(spot.node, at, &spot.path, "the value of a header is one line of text")
                    .hint("remove the line break");
                return false;
            }
            true
        }
        Content::Number(_) | Content::Bool(_) => true,
        Content::Null | Content::List(_) | Content::Map(_) => {
            spot.report_expected(problems, "text");
            false
        }
    }
}

/// Returns whether this can be the name of a header (a *token* of RFC 9110).
fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}
