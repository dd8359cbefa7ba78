//! The page on rehearsals tells of every field of a plan.

use std::path::Path;

use serde_json::Value;
use unstuck_flow::plan::schema;

#[test]
fn every_field_of_the_schema_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rehearsal.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let schema = schema();
    let objects = [
        "",
        "/$defs/rule",
        "/$defs/attempt",
        "/$defs/outage",
        "/$defs/workers",
        "/$defs/death",
        "/$defs/signal",
        "/$defs/operator",
    ];
    for object in objects {
        let fields =
            schema.pointer(&format!("{object}/properties")).and_then(Value::as_object).expect("fields");
        for (name, field) in fields {
            let alias = field["description"].as_str().is_some_and(|text| text.starts_with("Another name of"));
            assert!(alias || page.contains(&format!("`{name}`")), "{object}: {name}");
        }
    }
}
