//! The canonical form of a flow: one JSON document with the fields under their own names and sorted keys.

use std::fmt::Write;

use crate::fields::{self, Field};
use crate::tree::{Content, Node};

/// What is at a position of a flow file, as far as field names and spelling matter.
#[derive(Clone, Copy)]
enum Shape {
    /// Anything: taken as it is.
    Free,
    /// A scalar that is kept as it is spelled: `1.10` is not 1.1.
    Spelled,
    /// A list or a map of spelled ones.
    AllSpelled,
    Flow,
    Steps,
    Step,
    Defaults,
    Named(&'static [Field]),
}

/// Writes the canonical JSON of a flow document, which a store keeps and compares.
pub(crate) fn canonical_source(node: &Node, file: &str) -> String {
    let mut text = String::new();
    write_node(node, Shape::Flow, file, &mut text);
    text
}

/// Writes a node as JSON. `shape` says which field names to normalise and which scalars keep their spelling.
fn write_node(node: &Node, shape: Shape, file: &str, text: &mut String) {
    match &node.content {
        Content::List(nodes) => {
            let inner = match shape {
                Shape::Steps => Shape::Step,
                Shape::AllSpelled => Shape::Spelled,
                Shape::Free
                | Shape::Spelled
                | Shape::Flow
                | Shape::Step
                | Shape::Defaults
                | Shape::Named(_) => Shape::Free,
            };
            text.push('[');
            for (place, node) in nodes.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_node(node, inner, file, text);
            }
            text.push(']');
        }
        Content::Map(entries) => {
            let mut entries: Vec<(&str, &Node)> =
                entries.iter().map(|entry| (field_name(shape, &entry.key), &entry.node)).collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (place, (key, node)) in entries.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                push_json(key, text);
                text.push(':');
                write_node(node, shape_of_field(shape, key), file, text);
            }
            text.push('}');
        }
        Content::Number(_) if matches!(shape, Shape::Spelled) => {
            push_json(&node.spelling(file).unwrap_or_default(), text);
        }
        Content::Bool(value) if matches!(shape, Shape::Spelled) => push_json(&value.to_string(), text),
        Content::Null => text.push_str("null"),
        Content::Bool(value) => drop(write!(text, "{value}")),
        Content::Number(number) => drop(write!(text, "{number}")),
        Content::Text(value) => push_json(value, text),
    }
}

fn push_json(value: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(value).to_string());
}

/// Returns the field that a key means in an object of this shape; aliases become the field's own name.
fn field_name(shape: Shape, key: &str) -> &str {
    let fields = match shape {
        Shape::Flow => fields::FLOW,
        Shape::Step => fields::STEP,
        Shape::Defaults => fields::DEFAULTS,
        Shape::Named(fields) => fields,
        Shape::Free | Shape::Spelled | Shape::AllSpelled | Shape::Steps => return key,
    };
    fields::find(fields, key).unwrap_or(key)
}

/// Returns the shape of a field's value.
fn shape_of_field(shape: Shape, key: &str) -> Shape {
    match (shape, key) {
        (Shape::Flow, "version") => Shape::Spelled,
        (Shape::Flow, "labels") => Shape::AllSpelled,
        (Shape::Flow, "concurrency") => Shape::Named(fields::CONCURRENCY),
        (Shape::Flow, "schedule") => Shape::Named(fields::SCHEDULE),
        (Shape::Flow, "defaults") => Shape::Defaults,
        (Shape::Flow, "steps") => Shape::Steps,
        (Shape::Step, "run") => Shape::AllSpelled,
        (Shape::Step, "forEach") => Shape::Named(fields::FOR_EACH),
        (Shape::Step, "emulate") => Shape::Named(fields::EMULATE),
        (Shape::Step | Shape::Defaults, "backOff") => Shape::Named(fields::BACK_OFF),
        (Shape::Step | Shape::Defaults, "defer") => Shape::Named(fields::DEFER),
        (Shape::AllSpelled, _) => Shape::Spelled,
        _ => Shape::Free,
    }
}
