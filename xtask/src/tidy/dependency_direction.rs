//! Rule: the crates depend on each other in one direction, and the core on nothing that has a clock, chance or IO.

use std::path::Path;

use serde_json::Value;

use super::Violation;
use crate::repo::Tree;
use crate::tools;

/// Which crates of ours each crate may depend on.
const TABLE: &[Row] = &[
    Row { name: "unstuck-api", may_use: &[], tests_may_use: &[] },
    Row { name: "unstuck-core", may_use: &[], tests_may_use: &[] },
    Row { name: "unstuck-flow", may_use: &["unstuck-core", "unstuck-api"], tests_may_use: &[] },
    Row { name: "unstuck-store", may_use: &["unstuck-core"], tests_may_use: &["unstuck-flow"] },
    Row {
        name: "unstuck-sqlite",
        may_use: &["unstuck-core", "unstuck-store"],
        tests_may_use: &["unstuck-flow", "unstuck-sim"],
    },
    Row { name: "unstuck-postgres", may_use: &["unstuck-core", "unstuck-store"], tests_may_use: &[] },
    Row {
        name: "unstuck-engine",
        may_use: &["unstuck-core", "unstuck-store", "unstuck-api"],
        tests_may_use: &["unstuck-flow"],
    },
    Row {
        name: "unstuck-service",
        may_use: &["unstuck-api", "unstuck-core", "unstuck-engine", "unstuck-flow", "unstuck-store"],
        tests_may_use: &[],
    },
    Row { name: "unstuck-client", may_use: &["unstuck-api"], tests_may_use: &[] },
    Row { name: "unstuck-worker", may_use: &["unstuck-api", "unstuck-client"], tests_may_use: &[] },
    Row {
        name: "unstuck-server",
        may_use: &["unstuck-api", "unstuck-service", "unstuck-engine", "unstuck-store", "unstuck-core"],
        tests_may_use: &[],
    },
    Row {
        name: "unstuck-sim",
        may_use: &["unstuck-api", "unstuck-core", "unstuck-store", "unstuck-engine", "unstuck-flow"],
        tests_may_use: &[],
    },
    Row { name: "unstuck", may_use: &[ANYTHING], tests_may_use: &[] },
    Row { name: "unstuck-bench", may_use: &[ANYTHING], tests_may_use: &[] },
    Row { name: "unstuck-fuzz", may_use: &[ANYTHING], tests_may_use: &[] },
    Row { name: "xtask", may_use: &[ANYTHING], tests_may_use: &[] },
];

const ANYTHING: &str = "*";

/// What would bring a clock, chance, threads or logging into the core.
const NOT_IN_CORE: &[&str] = &["tokio", "rand", "tracing", "log", "chrono", "uuid", "getrandom"];

struct Row {
    name: &'static str,
    may_use: &'static [&'static str],
    /// In `[dev-dependencies]`, in addition.
    tests_may_use: &'static [&'static str],
}

/// A crate of the workspace, as its `Cargo.toml` describes it.
pub(super) struct Package {
    name: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    for_tests: bool,
}

/// The packages of the workspace, read by cargo, which knows every way to write a dependency.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = tools::cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("`cargo metadata` could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`cargo metadata` gave what is no JSON: {error}"))?;
    Ok(read_packages(&metadata, root))
}

/// Compares what the packages depend on with the table.
pub(super) fn check(packages: &[Package], tree: &Tree) -> Vec<Violation> {
    let ours: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut violations = Vec::new();
    for package in packages {
        let complain = |word: &str, wrong: String, remedy: &str| {
            Violation::new(&package.manifest, line_of(tree, &package.manifest, word), wrong, remedy)
        };
        let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
            let wrong = format!("`{}` is an unknown crate", package.name);
            let remedy = "add it to the table in xtask/src/tidy/dependency_direction.rs";
            violations.push(complain("name", wrong, remedy));
            continue;
        };
        for dependency in &package.dependencies {
            let Dependency { name, for_tests } = dependency;
            if ours.contains(&name.as_str()) && !row.allows(name, *for_tests) {
                let wrong = format!("`{}` must not depend on `{name}`", row.name);
                violations.push(complain(name, wrong, &row.remedy(*for_tests)));
            }
            if row.name == "unstuck-core" && NOT_IN_CORE.contains(&name.as_str()) {
                let wrong = format!("the core must not depend on `{name}`");
                violations.push(complain(
                    name,
                    wrong,
                    "take what it is for (time, ids, chance) as an argument",
                ));
            }
        }
    }
    violations
}

impl Row {
    fn allows(&self, dependency: &str, for_tests: bool) -> bool {
        // A crate may name itself to switch its own features on in tests.
        let itself = for_tests && dependency == self.name;
        let in_tests = for_tests && self.tests_may_use.contains(&dependency);
        itself || in_tests || self.may_use.iter().any(|name| [ANYTHING, dependency].contains(name))
    }

    fn remedy(&self, for_tests: bool) -> String {
        let mut names = self.may_use.to_vec();
        if for_tests {
            names.extend(self.tests_may_use);
        }
        match names.as_slice() {
            [] => "of our crates it may use none: move the code to where the direction allows it".to_owned(),
            names => format!("of our crates it may use {} only: move the code", names.join(", ")),
        }
    }
}

fn read_packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let array = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let dependency =
        |value: &Value| Dependency { name: text(value, "name"), for_tests: value["kind"] == "dev" };
    let package = |value: &Value| {
        let manifest = text(value, "manifest_path");
        let relative =
            Path::new(&manifest).strip_prefix(root).map(|path| path.to_string_lossy().replace('\\', "/"));
        Package {
            name: text(value, "name"),
            manifest: relative.unwrap_or(manifest),
            dependencies: array(value, "dependencies").iter().map(dependency).collect(),
        }
    };
    array(metadata, "packages").iter().map(package).collect()
}

/// The line of the manifest that begins with this key, or its first.
fn line_of(tree: &Tree, manifest: &str, key: &str) -> usize {
    let begins = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let position = tree.text(manifest).and_then(|text| text.lines().position(begins));
    position.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    const ALL: &[&str] =
        &["unstuck-api", "unstuck-core", "unstuck-flow", "unstuck-store", "unstuck-engine", "unstuck"];

    /// What the rule says about one more dependency of a crate, in a workspace of all these crates.
    fn check_one(name: &str, dependency: &str, for_tests: bool) -> Vec<Violation> {
        let others = ALL.iter().filter(|other| **other != name);
        let mut packages: Vec<Package> = others.map(|name| package(name, &[])).collect();
        packages.push(package(name, &[(dependency, for_tests)]));
        let table = if for_tests { "dev-dependencies" } else { "dependencies" };
        let text = format!("[package]\nname = \"{name}\"\n\n[{table}]\n{dependency}.workspace = true\n");
        check(&packages, &Tree::of(&[(&format!("crates/{name}/Cargo.toml"), &text)]))
    }

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency =
            |(name, for_tests): &(&str, bool)| Dependency { name: (*name).to_owned(), for_tests: *for_tests };
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    #[test]
    fn which_crate_may_depend_on_which() {
        let cases = [
            ("unstuck-flow", "unstuck-core", false, true),
            ("unstuck-flow", "unstuck-store", false, false),
            ("unstuck-core", "unstuck-api", false, false),
            ("unstuck-core", "unstuck-flow", true, false),
            ("unstuck-store", "unstuck-flow", false, false),
            ("unstuck-store", "unstuck-flow", true, true),
            ("unstuck-store", "unstuck-store", true, true),
            ("unstuck-engine", "unstuck-api", false, true),
            ("unstuck-engine", "unstuck-flow", false, false),
            ("unstuck-engine", "unstuck-flow", true, true),
            ("unstuck-api", "unstuck-core", false, false),
            ("unstuck", "unstuck-engine", false, true),
            ("xtask", "unstuck-core", false, true),
            ("unstuck-core", "serde", false, true),
            ("unstuck-core", "tokio", false, false),
            ("unstuck-core", "rand", true, false),
            ("unstuck-engine", "tokio", false, true),
        ];
        for (name, dependency, for_tests, allowed) in cases {
            let place = format!("crates/{name}/Cargo.toml:5");
            let expected: &[&str] = if allowed { &[] } else { &[&place] };
            let case = format!("{name} -> {dependency}, for tests: {for_tests}");
            assert_places(&case, &check_one(name, dependency, for_tests), expected);
        }
    }

    #[test]
    fn an_unknown_crate_is_to_be_added_to_the_table() {
        let violations = check_one("unstuck-extra", "serde", false);
        assert_places("an unknown crate", &violations, &["crates/unstuck-extra/Cargo.toml:2"]);
        assert!(violations[0].remedy.contains("add it to the table"), "{}", violations[0]);
    }

    #[test]
    fn the_table_is_without_a_circle() {
        let reaches =
            |from: &str, to: &str| TABLE.iter().any(|row| row.name == from && row.may_use.contains(&to));
        let mut left: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        while let Some(at) = left.iter().position(|name| !left.iter().any(|other| reaches(name, other))) {
            left.remove(at);
        }
        assert!(left.is_empty(), "these depend on each other in a circle: {left:?}");
    }

    #[test]
    fn packages_are_read_from_cargos_own_description() {
        let metadata = serde_json::json!({"packages": [{
            "name": "unstuck-flow",
            "manifest_path": "/srv/unstuck/crates/unstuck-flow/Cargo.toml",
            "dependencies": [
                {"name": "unstuck-core", "kind": null, "rename": "core"},
                {"name": "proptest", "kind": "dev"},
                {"name": "cc", "kind": "build"},
            ],
        }]});
        let packages = read_packages(&metadata, Path::new("/srv/unstuck"));
        let [package] = packages.as_slice() else { panic!("one package") };
        assert_eq!(
            (package.name.as_str(), package.manifest.as_str()),
            ("unstuck-flow", "crates/unstuck-flow/Cargo.toml")
        );
        let dependencies: Vec<_> =
            package.dependencies.iter().map(|d| (d.name.as_str(), d.for_tests)).collect();
        assert_eq!(dependencies, [("unstuck-core", false), ("proptest", true), ("cc", false)]);
    }
}
