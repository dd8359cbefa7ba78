//! The documentation and the examples: each loads without a problem, and the published schema agrees.

use std::path::{Path, PathBuf};

use serde_json::Value;
use unstuck_flow::{load, schema};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The fenced blocks of YAML in the documentation of flow files, and the files among the examples.
fn flow_files() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(project().join("docs/flow-files.md")).expect("the page is there");
    let mut files: Vec<(String, String)> = page
        .split("```yaml\n")
        .skip(1)
        .enumerate()
        .map(|(number, rest)| {
            let block = rest.split("```").next().unwrap_or_default();
            (format!("docs/flow-files.md, block {}", number + 1), block.to_owned())
        })
        .collect();
    assert!(files.len() >= 12, "the page has an example for each kind");
    for entry in std::fs::read_dir(project().join("examples")).into_iter().flatten() {
        let path = entry.expect("a folder can be listed").path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            let text = std::fs::read_to_string(&path).expect("an example can be read");
            files.push((path.display().to_string(), text));
        }
    }
    files
}

#[test]
fn every_documented_flow_loads_without_a_problem() {
    for (name, text) in flow_files() {
        let loaded = load(&text, &name, "/flows", &|_| false);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        let documented = name.starts_with("docs");
        assert!(!documented || loaded.warnings.is_empty(), "{name}: {:#?}", loaded.warnings);
    }
}

#[test]
fn every_documented_flow_is_valid_by_the_published_schema() {
    let validator = jsonschema::draft202012::options().offline().build(&schema()).expect("a schema");
    for (name, text) in flow_files() {
        let loaded = load(&text, &name, "/flows", &|_| false).expect("loads");
        for flow in loaded.flows {
            let document: Value = serde_json::from_str(&flow.source).expect("the source is JSON");
            let problems: Vec<String> =
                validator.iter_errors(&document).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{name}: {}: {problems:#?}", flow.name);
        }
    }
}

#[test]
fn the_source_of_a_flow_is_the_same_flow_again() {
    for (name, text) in flow_files() {
        for flow in load(&text, &name, "/flows", &|_| false).expect("loads").flows {
            let again = load(&flow.source, "source", &flow.directory, &|_| true).expect("loads again");
            assert_eq!(again.flows.len(), 1);
            assert_eq!(again.flows[0].source, flow.source, "{name}");
            assert_eq!(format!("{:?}", again.flows[0].steps), format!("{:?}", flow.steps), "{name}");
        }
    }
}

#[test]
fn every_field_of_the_schema_is_documented() {
    let page = std::fs::read_to_string(project().join("docs/flow-files.md")).expect("the page is there");
    let schema = schema();
    for object in [
        "",
        "/$defs/step",
        "/$defs/backOff",
        "/$defs/defer",
        "/$defs/forEach",
        "/$defs/concurrency",
        "/$defs/schedule",
        "/$defs/catchUp",
        "/$defs/emulate",
    ] {
        let fields =
            schema.pointer(&format!("{object}/properties")).and_then(Value::as_object).expect("fields");
        for (name, field) in fields {
            let alias = field["description"].as_str().is_some_and(|text| text.starts_with("Another name of"));
            assert!(alias || page.contains(&format!("`{name}`")), "{object}: {name}");
        }
    }
}
