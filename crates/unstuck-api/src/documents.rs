//! The JSON Schemas of every document and of the bodies of HTTP requests, made from a table that tests hold against what commands
//! print and what a server takes and answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

const TABLE: &str = include_str!("documents.txt");

/// A document, or a part of one.
#[derive(Default)]
struct Shape {
    description: &'static str,
    is_document: bool,
    /// Whether it is sent to a server, which refuses fields that it does not know.
    is_body: bool,
    fields: Vec<Field>,
    /// Others whose fields it has, too.
    includes: Vec<&'static str>,
}

struct Field {
    name: &'static str,
    is_optional: bool,
    kind: &'static str,
    description: &'static str,
}

/// The names of all documents.
pub fn names() -> Vec<&'static str> {
    parse_shapes().iter().filter(|(_, shape)| shape.is_document).map(|(name, _)| *name).collect()
}

/// Builds the schema of a document, or of all if none is named. Returns nothing for an unknown name.
pub fn schema(name: Option<&str>) -> Option<Value> {
    let shapes = parse_shapes();
    if let Some(name) = name {
        shapes.get(name).filter(|shape| shape.is_document)?;
    }
    let mut parts = BTreeSet::new();
    match name {
        Some(name) => add_parts(name, &shapes, &mut parts),
        None => parts.extend(shapes.keys().copied()),
    }
    let definitions: Map<String, Value> =
        parts.into_iter().map(|name| (name.to_owned(), shape_schema(name, &shapes))).collect();
    let all = names().into_iter().map(reference).collect::<Vec<_>>();
    let mut schema = match name {
        Some(name) => reference(name),
        None => json!({ "anyOf": all }),
    };
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$defs"] = Value::Object(definitions);
    Some(schema)
}

/// Builds the schemas of all documents, their parts and bodies, by name, as an `OpenAPI` document has them.
pub fn components() -> Map<String, Value> {
    let shapes = parse_shapes();
    shapes.keys().map(|name| ((*name).to_owned(), to_component(shape_schema(name, &shapes)))).collect()
}

/// Lets references point to where an `OpenAPI` document has its schemas.
fn to_component(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let target =
                    value.as_str().filter(|_| name == "$ref").and_then(|to| to.strip_prefix("#/$defs/"));
                *value = match target {
                    Some(target) => json!(format!("#/components/schemas/{target}")),
                    None => to_component(value.take()),
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = to_component(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    schema
}

/// Adds a shape and all shapes that its fields use.
fn add_parts(name: &str, shapes: &BTreeMap<&'static str, Shape>, parts: &mut BTreeSet<&'static str>) {
    let Some((name, shape)) = shapes.get_key_value(base_type(name)) else { return };
    if parts.insert(*name) {
        let fields = shape.fields.iter().map(|field| field.kind);
        fields.chain(shape.includes.iter().copied()).for_each(|part| add_parts(part, shapes, parts));
    }
}

/// Returns the type without list, map and null marks.
fn base_type(kind: &str) -> &str {
    let part = kind.trim_end_matches("|null").trim_matches(|c| matches!(c, '[' | ']' | '{' | '}'));
    part.trim_end_matches("|null")
}

/// Parses the table of documents.
fn parse_shapes() -> BTreeMap<&'static str, Shape> {
    let mut shapes: BTreeMap<&str, Shape> = BTreeMap::new();
    let mut last = "";
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('%')) {
        if let Some(head) = line.strip_prefix('#') {
            let (is_document, head) = head.strip_prefix('#').map_or((false, head), |head| (true, head));
            let (is_body, head) = head.strip_prefix('>').map_or((false, head), |head| (true, head));
            let (name, description) = head.split_once(':').unwrap_or((head, ""));
            last = name.trim();
            let description = description.trim();
            shapes.insert(last, Shape { description, is_document, is_body, ..Shape::default() });
            continue;
        }
        let Some(shape) = shapes.get_mut(last) else { continue };
        if let Some(included) = line.strip_prefix("+ ") {
            shape.includes.push(included.trim());
            continue;
        }
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (kind, description) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
        let (name, is_optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        shape.fields.push(Field { name, is_optional, kind, description: description.trim() });
    }
    shapes
}

/// Builds the definition of a shape. Unknown fields are allowed in documents, because fields may be added later.
fn shape_schema(name: &str, shapes: &BTreeMap<&'static str, Shape>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    add_fields(name, shapes, &mut properties, &mut required);
    let description = shapes.get(name).map_or("", |shape| shape.description);
    let mut schema =
        json!({"type": "object", "description": description, "required": required, "properties": properties});
    if shapes.get(name).is_some_and(|shape| shape.is_body) {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

/// Adds the fields of a shape and of those it includes.
fn add_fields(
    name: &str,
    shapes: &BTreeMap<&'static str, Shape>,
    properties: &mut Map<String, Value>,
    required: &mut Vec<&'static str>,
) {
    let Some(shape) = shapes.get(name) else { return };
    for included in &shape.includes {
        add_fields(included, shapes, properties, required);
    }
    for field in &shape.fields {
        let mut schema = type_schema(field.kind);
        if !field.description.is_empty() {
            schema["description"] = json!(field.description);
        }
        properties.insert(field.name.to_owned(), schema);
        if !field.is_optional {
            required.push(field.name);
        }
    }
}

/// Builds the schema of a type such as `[text]`, `{count}` or `run|null`.
fn type_schema(word: &str) -> Value {
    if let Some(some) = word.strip_suffix("|null") {
        return json!({"anyOf": [type_schema(some), {"type": "null"}]});
    }
    if let Some(item) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        return json!({"type": "array", "items": type_schema(item)});
    }
    if let Some(value) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        return json!({"type": "object", "additionalProperties": type_schema(value)});
    }
    match word {
        "text" => json!({"type": "string"}),
        "id" => json!({"type": "string", "pattern": "^[a-z]+_[0-9a-z]+$"}),
        "time" => json!({
            "type": "string", "format": "date-time",
            "pattern": r"^-?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        }),
        "seconds" => json!({"type": "number", "minimum": 0}),
        "count" => json!({"type": "integer", "minimum": 0}),
        "number" => json!({"type": "number"}),
        "flag" => json!({"type": "boolean"}),
        "integer" => json!({"type": "integer"}),
        "any" => json!({}),
        name => reference(name),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_table_is_there_and_has_a_description() {
        let shapes = parse_shapes();
        assert!(names().len() > 25, "{:?}", names());
        for (name, shape) in &shapes {
            assert!(!shape.description.is_empty(), "{name}");
            for field in &shape.fields {
                let word = base_type(field.kind);
                let plain = ["text", "id", "time", "seconds", "count", "number", "integer", "flag", "any"];
                assert!(plain.contains(&word) || shapes.contains_key(word), "{name}.{}: {word}", field.name);
            }
            assert!(shape.includes.iter().all(|included| shapes.contains_key(included)), "{name}");
        }
    }
}
