//! The language is CEL: random expressions give the same value here and in the `cel` crate.

use std::cell::Cell;
use std::sync::Arc;

use cel::{Context, Env, extensions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{evaluate, scope};

/// That parser needs more than a hundred kibibytes for each bracket.
const ORACLE_STACK_BYTES: usize = 256 * 1024 * 1024;
/// Of each type.
const CASES: u32 = 1_000;

#[test]
fn expressions_mean_what_they_mean_in_cel() {
    let run = || {
        let mut env = Env::stdlib();
        env.add_extension(extensions::strings).expect("strings");
        let env = Arc::new(env);
        let values = Cell::new(0);
        for sources in [boolean(4), integer(4), text(4), list(4)] {
            let mut runner =
                TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
            let agreed = runner.run(&sources, |source| {
                values.set(values.get() + u32::from(agree(&env, &source)?));
                Ok(())
            });
            agreed.unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(values.get() > CASES, "hardly anything had a value to compare: {values:?} of {}", 4 * CASES);
    };
    let large = std::thread::Builder::new().stack_size(ORACLE_STACK_BYTES).spawn(run).expect("a thread");
    large.join().expect("they agree");
}

/// Both give the same value, or both give none. Whether there was a value.
fn agree(env: &Arc<Env>, source: &str) -> Result<bool, TestCaseError> {
    let program = env.compile(source).map_err(|error| TestCaseError::fail(format!("{source}: {error}")))?;
    let mut context = Context::with_env(Arc::clone(env));
    context.add_variable_from_value("input", to_cel(&scope().input));
    let expected = program.execute(&context).map(|value| from_cel(&value));
    let found = evaluate(source);
    match (&found, &expected) {
        (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected, "{}", source),
        (Err(_), Err(_)) => {}
        _ => prop_assert!(false, "{source}: {found:?} here, {expected:?} there"),
    }
    Ok(found.is_ok())
}

fn integer(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        (-20_i64..20).prop_map(|n| n.to_string()),
        Just("input.n".to_owned()),
        Just("input.user.id".to_owned()),
        Just("9223372036854775807".to_owned()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (below, other) = (integer(depth - 1), integer(depth - 1));
    prop_oneof![
        leaf,
        (below.clone(), "[-+*/%]", other).prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
        below.clone().prop_map(|a| format!("-{a}").replace("--", "- -")),
        list(depth - 1).prop_map(|list| format!("size({list})")),
        text(depth - 1).prop_map(|text| format!("{text}.size()")),
        (list(depth - 1), 0_usize..4).prop_map(|(list, at)| format!("{list}[{at}]")),
        (boolean(depth - 1), below.clone(), integer(depth - 1))
            .prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        below.clone().prop_map(|a| format!("int(string({a}))")),
        below.prop_map(|a| format!("{{'a': {a}, 'b': 2}}.a")),
    ]
    .boxed()
}

fn boolean(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("input.ok".to_owned()),
        Just("has(input.user)".to_owned()),
        Just("has(input.missing)".to_owned()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (int, txt, lst) = (integer(depth - 1), text(depth - 1), list(depth - 1));
    let below = boolean(depth - 1);
    let relation = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let join = prop::sample::select(vec!["&&", "||"]);
    let test = prop::sample::select(vec!["contains", "startsWith", "endsWith"]);
    let each = prop::sample::select(vec!["all", "exists", "exists_one"]);
    prop_oneof![
        leaf,
        (int.clone(), relation.clone(), integer(depth - 1)).prop_map(|(a, is, b)| format!("{a} {is} {b}")),
        (txt.clone(), relation, text(depth - 1)).prop_map(|(a, is, b)| format!("{a} {is} {b}")),
        (below.clone(), join, boolean(depth - 1)).prop_map(|(a, join, b)| format!("({a} {join} {b})")),
        below.prop_map(|a| format!("!({a})")),
        (txt, test, text(depth - 1)).prop_map(|(a, test, b)| format!("{a}.{test}({b})")),
        (int.clone(), lst.clone()).prop_map(|(a, list)| format!("{a} in {list}")),
        (lst.clone(), list(depth - 1)).prop_map(|(a, b)| format!("{a} == {b}")),
        (lst, each, int).prop_map(|(list, each, a)| format!("{list}.{each}(x, x > {a})")),
    ]
    .boxed()
}

fn text(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof!["'[aAbé ,]{0,5}'", Just("input.name".to_owned()), Just("input.text".to_owned())];
    if depth == 0 {
        return leaf.boxed();
    }
    let (below, other) = (text(depth - 1), text(depth - 1));
    prop_oneof![
        leaf,
        (below.clone(), other.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
        integer(depth - 1).prop_map(|n| format!("string({n})")),
        below.clone().prop_map(|a| format!("{a}.lowerAscii()")),
        below.clone().prop_map(|a| format!("{a}.trim()")),
        (below.clone(), other.clone()).prop_map(|(a, b)| format!("{a}.replace('a', {b})")),
        (below, other).prop_map(|(a, b)| format!("{a}.split({b}).join('-')")),
    ]
    .boxed()
}

fn list(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        "\\[([0-9](, [0-9]){0,3})?\\]",
        Just("input.list".to_owned()),
        Just("input.empty".to_owned())
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (below, int) = (list(depth - 1), integer(depth - 1));
    prop_oneof![
        leaf,
        (below.clone(), list(depth - 1)).prop_map(|(a, b)| format!("({a} + {b})")),
        (below.clone(), int.clone()).prop_map(|(a, n)| format!("{a}.map(x, x + {n})")),
        (below.clone(), int.clone()).prop_map(|(a, n)| format!("{a}.map(x, x > 1, x * {n})")),
        (below, int).prop_map(|(a, n)| format!("{a}.filter(x, x != {n})")),
    ]
    .boxed()
}

fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)), cel::Value::Int),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(entries) => {
            let entries: std::collections::HashMap<String, cel::Value> =
                entries.iter().map(|(key, value)| (key.clone(), to_cel(value))).collect();
            entries.into()
        }
    }
}

fn from_cel(value: &cel::Value) -> Value {
    match value {
        cel::Value::Bool(value) => json!(value),
        cel::Value::Int(n) => json!(n),
        cel::Value::String(text) => json!(**text),
        cel::Value::List(items) => Value::Array(items.iter().map(from_cel).collect()),
        other => json!(format!("{other:?}")),
    }
}
