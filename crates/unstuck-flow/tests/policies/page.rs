//! The page on policies tells of every field.

use std::path::Path;

use serde_json::Value;
use unstuck_flow::policies::schema;

#[test]
fn every_field_of_the_schema_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let schema = schema();
    for object in ["/$defs/policy", "/$defs/backOff"] {
        let fields =
            schema.pointer(&format!("{object}/properties")).and_then(Value::as_object).expect("fields");
        for (name, field) in fields {
            let alias = field["description"].as_str().is_some_and(|text| text.starts_with("Another name of"));
            assert!(alias || page.contains(&format!("`{name}`")), "{object}: {name}");
        }
    }
}
