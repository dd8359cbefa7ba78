//! The published JSON Schemas of flow files, policy files and plan files.

use serde_json::{Value, json};

use crate::fields::{self, Field};

/// Where the fields of a table are in a schema.
type Objects = &'static [(&'static str, &'static [Field])];

const FLOW: Objects = &[
    ("", fields::FLOW),
    ("/$defs/step", fields::STEP),
    ("/$defs/defaults", fields::DEFAULTS),
    ("/$defs/backOff", fields::BACK_OFF),
    ("/$defs/defer", fields::DEFER),
    ("/$defs/forEach", fields::FOR_EACH),
    ("/$defs/concurrency", fields::CONCURRENCY),
    ("/$defs/schedule", fields::SCHEDULE),
    ("/$defs/catchUp", fields::CATCH_UP),
    ("/$defs/emulate", fields::EMULATE),
    ("/$defs/http", fields::HTTP),
    ("/$defs/timeOfDay", fields::WAIT),
];

const POLICY: Objects = &[("/$defs/policy", fields::POLICY), ("/$defs/backOff", fields::BACK_OFF)];

const PLAN: Objects = &[
    ("", fields::PLAN),
    ("/$defs/rule", fields::PLAN_RULE),
    ("/$defs/attempt", fields::PLAN_ACT),
    ("/$defs/outage", fields::OUTAGE),
    ("/$defs/workers", fields::WORKERS),
    ("/$defs/death", fields::DEATH),
    ("/$defs/signal", fields::PLAN_SIGNAL),
    ("/$defs/operator", fields::OPERATOR),
];

/// Returns the JSON Schema (draft 2020-12) of one flow document, aliases included.
pub fn schema() -> Value {
    add_aliases(parse_schema(include_str!("../schema/flow.json")), FLOW)
}

/// Returns the JSON Schema (draft 2020-12) of a policy file, aliases included.
pub fn policy_schema() -> Value {
    add_aliases(parse_schema(include_str!("../schema/policy.json")), POLICY)
}

/// Returns the JSON Schema (draft 2020-12) of a plan file, aliases included.
pub fn plan_schema() -> Value {
    add_aliases(parse_schema(include_str!("../schema/plan.json")), PLAN)
}

/// Adds the aliases of each field next to it, as references to its schema.
fn add_aliases(mut schema: Value, objects: Objects) -> Value {
    for (place, table) in objects {
        let Some(Value::Object(properties)) = schema.pointer_mut(&format!("{place}/properties")) else {
            continue;
        };
        for field in *table {
            for alias in field.other_names() {
                let same = json!({
                    "description": format!("Another name of `{}`.", field.name),
                    "$ref": format!("#{place}/properties/{}", field.name),
                });
                properties.insert(alias, same);
            }
        }
    }
    schema
}

/// Parses a schema as it is written, without aliases.
fn parse_schema(text: &str) -> Value {
    serde_json::from_str(text).expect("the schema is JSON, as a test shows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn written_schemas() -> [(Value, Objects); 3] {
        [
            (parse_schema(include_str!("../schema/flow.json")), FLOW),
            (parse_schema(include_str!("../schema/policy.json")), POLICY),
            (parse_schema(include_str!("../schema/plan.json")), PLAN),
        ]
    }

    #[test]
    fn every_field_is_in_the_schema_and_the_other_way_round() {
        for (schema, objects) in written_schemas() {
            for (place, table) in objects {
                let properties = &schema.pointer(place).expect("the object is there")["properties"];
                let described: BTreeSet<&str> =
                    properties.as_object().expect("it has fields").keys().map(String::as_str).collect();
                let known: BTreeSet<&str> = table.iter().map(|field| field.name).collect();
                assert_eq!(described, known, "{place}");
            }
        }
    }

    #[test]
    fn every_field_is_described() {
        for (schema, objects) in [(schema(), FLOW), (policy_schema(), POLICY), (plan_schema(), PLAN)] {
            for (place, _) in objects {
                let properties = schema.pointer(place).expect("the object is there")["properties"].clone();
                for (name, field) in properties.as_object().expect("it has fields") {
                    let referred = field["$ref"].as_str().and_then(|place| schema.pointer(&place[1..]));
                    let described = |field: &Value| field["description"].is_string();
                    assert!(described(field) || referred.is_some_and(described), "{place}: {name}");
                }
            }
        }
    }

    #[test]
    fn the_schemas_are_schemas() {
        for schema in [schema(), policy_schema(), plan_schema()] {
            jsonschema::draft202012::meta::validate(&schema).expect("valid");
            jsonschema::draft202012::options().offline().build(&schema).expect("compiles");
        }
    }
}
