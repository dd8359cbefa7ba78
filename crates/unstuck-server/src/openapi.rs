//! The description of the API, `OpenAPI` 3.1, made from the table of routes and the table of documents.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use unstuck_api::documents;

use crate::access::Access;
use crate::answer::Answer;
use crate::body::BodyKind;
use crate::call::Call;
use crate::parameter::{Parameter, ParameterKind};
use crate::route::{Answered, OtherAnswer, Route};
use crate::routes::ROUTES;

#[expect(clippy::unnecessary_wraps, reason = "it stands in the table of routes, where others may fail")]
pub(crate) fn show(_: &Call) -> Answered {
    static TEXT: OnceLock<String> = OnceLock::new();
    Ok(Answer::json(TEXT.get_or_init(|| describe_api().to_string()).clone()))
}

/// Builds the description.
pub(crate) fn describe_api() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.word().to_ascii_lowercase()] = describe_route(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Unstuck",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable workflow engine. Every error is a problem document (RFC 9457); an answer comes only when what it says is durable.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": documents::components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn describe_route(route: &Route) -> Value {
    let mut answers = Map::new();
    let (status, schema) = route.gives;
    let is_usual = schema.is_some() || status == 204;
    let media = if schema.is_some() { "application/json" } else { "" };
    let usual = is_usual.then_some(OtherAnswer { status, media, schema });
    for answer in usual.iter().chain(route.others) {
        let described =
            answers.entry(answer.status.to_string()).or_insert_with(|| json!({"description": "Done."}));
        if answer.status == 304 {
            described["description"] = json!("It is still as `If-None-Match` says.");
        }
        if !answer.media.is_empty() {
            let known = described["content"][answer.media]["schema"].take();
            described["content"][answer.media] = match answer.schema {
                Some(name) if !known.is_null() => json!({"schema": {"anyOf": [known, reference(name)]}}),
                Some(name) => json!({"schema": reference(name)}),
                None => json!({}),
            };
        }
    }
    answers.insert(
        "default".to_owned(),
        json!({"description": "A problem.", "content": {"application/problem+json": {"schema": reference("problem")}}}),
    );
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.about,
        "responses": answers,
    });
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = parts.map(|name| {
        json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
    });
    let parameters: Vec<Value> = path.chain(route.parameters.iter().map(describe_parameter)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = describe_body(route) {
        operation["requestBody"] = body;
    }
    if let Access::Roles(roles) = route.access {
        let words: Vec<&str> = roles.iter().map(|role| role.word()).collect();
        operation["security"] = json!([{"token": words}]);
    }
    operation
}

fn describe_body(route: &Route) -> Option<Value> {
    let schema = route.takes.map(reference)?;
    let content = match route.body {
        BodyKind::Nothing => return None,
        BodyKind::Json | BodyKind::OptionalJson => json!({"application/json": {"schema": schema}}),
        BodyKind::File => {
            json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}})
        }
    };
    Some(json!({"required": route.body != BodyKind::OptionalJson, "content": content}))
}

fn describe_parameter(parameter: &Parameter) -> Value {
    let one = match parameter.kind {
        ParameterKind::Text => json!({"type": "string"}),
        ParameterKind::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        ParameterKind::Flag => json!({"type": "boolean"}),
        ParameterKind::Duration => json!({"type": "string", "examples": ["30s", "PT30M"]}),
        ParameterKind::Time => json!({"type": "string", "examples": ["2030-01-31T08:30:00Z", "7d"]}),
        ParameterKind::OneOf(words) => json!({"enum": words}),
    };
    let schema = if parameter.is_repeated { json!({"type": "array", "items": one}) } else { one };
    json!({"name": parameter.name, "in": "query", "required": false, "description": parameter.about, "schema": schema})
}

fn reference(name: &'static str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_that_a_route_names_is_described() {
        let components = documents::components();
        for route in ROUTES {
            let others = route.others.iter().filter_map(|other| other.schema.as_ref());
            for name in route.takes.iter().chain(route.gives.1.iter()).chain(others) {
                assert!(components.contains_key(*name), "{} names `{name}`", route.path);
            }
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_a_sentence() {
        let names: BTreeSet<&str> = ROUTES.iter().map(|route| route.operation).collect();
        assert_eq!(names.len(), ROUTES.len());
        assert!(ROUTES.iter().all(|route| route.about.ends_with('.')));
    }

    #[test]
    fn every_operation_says_what_it_answers() {
        for route in ROUTES {
            let described = describe_route(route);
            let answers = described["responses"].as_object().expect("it is an object");
            let goes_well = answers.keys().filter(|status| status.starts_with('2'));
            assert!(goes_well.count() > 0, "{} {}", route.verb.word(), route.path);
        }
    }
}
