//! Limits: of size, of depth, of time and of memory. Nothing that a flow file says may bring the engine down.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use unstuck_core::model::expression::Scope;
use unstuck_flow::expression::{MAX_DEPTH, MAX_NESTING, MAX_SOURCE_BYTES};
use unstuck_flow::template;

use super::{compile, evaluate, evaluate_in, scope, with_names};

/// Far above what the limits allow to take, also without optimisation and on a busy machine.
const LONG: Duration = Duration::from_secs(5);

#[test]
fn a_source_has_at_most_a_kibibyte() {
    let longest = format!("'{}'", "x".repeat(MAX_SOURCE_BYTES - 2));
    assert!(compile(&longest).is_ok());
    let cases = [
        format!("'{}'", "x".repeat(MAX_SOURCE_BYTES)),
        vec!["1"; 2_000].join(" + "),
        format!("input{}", ".a".repeat(2_000)),
        "(".repeat(5_000),
        format!("1{}", " ".repeat(5_000)),
    ];
    for source in cases {
        let error = compile(&source).expect_err("too long");
        assert!(error.message.contains("longer than 1024 bytes"), "{}", error.message);
    }
}

/// Each is as deep as 1,024 bytes can make it.
#[test]
fn a_deep_expression_is_refused_and_not_parsed() {
    let cases = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{1:", "1", "}"),
        ("size(", "1", ")"),
        ("input[", "1", "]"),
        ("input.a.map(x,", "x", ")"),
        ("true?1:", "1", ""),
        ("!", "true", ""),
        ("-", "input.n", ""),
        ("1+", "1", ""),
        ("1<", "1", ""),
        ("input.a.", "b", ""),
        ("[1][", "0", "]"),
        ("!(", "true", ")"),
        ("(", "", ""),
        ("[[", "", ""),
    ];
    for (open, middle, close) in cases {
        let times = (MAX_SOURCE_BYTES - middle.len()) / (open.len() + close.len());
        let source = format!("{}{middle}{}", open.repeat(times), close.repeat(times));
        let error = compile(&source).expect_err(&source);
        assert!(error.message.contains("nested deeper than"), "{source}: {}", error.message);
    }
}

#[test]
fn what_is_deep_but_allowed_fits_a_small_stack() {
    let nested = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    let cases = [
        nested("(", "1", ")", MAX_NESTING - 1),
        nested("[", "1", "]", MAX_NESTING - 1),
        nested("{1:", "1", "}", MAX_NESTING - 1),
        nested("max(1,", "1", ")", MAX_NESTING - 1),
        nested("[1].map(x,", "1", ")", MAX_NESTING - 1),
        nested("true?1:", "1", "", MAX_NESTING - 1),
        nested("(1+1*(1<1||true?1:1)+1*", "1", ")", MAX_NESTING / 2 - 1),
        nested("1+", "1", "", MAX_DEPTH - 1),
        nested("-", "input.n", "", MAX_DEPTH - 2),
        format!("true{}", " && true".repeat(100)),
    ];
    for source in cases {
        let small = std::thread::Builder::new().stack_size(512 * 1024);
        let running = small.spawn(move || evaluate(&source).expect(&source)).expect("a thread");
        running.join().expect("no overflow");
    }
}

fn large_scope() -> Scope {
    let list: Vec<u32> = (0..1_000).collect();
    let order = |id: usize| json!({"id": id, "state": if id.is_multiple_of(2) { "paid" } else { "open" }});
    let orders: Vec<Value> = (0..10_000).map(order).collect();
    let text = "x".repeat(100_000);
    let mut scope = scope();
    scope.input = json!({"list": list, "orders": orders, "text": text, "million": vec![0; 1_000_000]});
    scope
}

#[test]
fn what_flows_need_is_within_the_limits() {
    let scope = large_scope();
    for source in [
        "input.orders.filter(o, o.state == 'paid').map(o, o.id)",
        "input.orders.map(o, o.state).distinct()",
        "input.orders.all(o, has(o.id) && o.id >= 0)",
        "input.list.sort().reverse()",
        "input.text + input.text",
        "input.text.matches('^x+$')",
        "input.orders",
        "input.million",
    ] {
        assert!(evaluate_in(source, &scope).is_ok(), "{source}: {:?}", evaluate_in(source, &scope));
    }
}

/// Each would run for minutes or fill the memory.
#[test]
fn what_would_take_too_long_or_too_much_is_refused_at_run_time() {
    let scope = large_scope();
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let operations = "this takes more than 200000 operations; shorten the lists, or do it in a step";
    let bytes = "the value is larger than 16 MiB";
    let cases = [
        (
            format!(
                "{digits}.map(a, {digits}.map(b, {digits}.map(c, {digits}.map(d, {digits}.map(e, {digits}.map(f, 0))))))"
            ),
            operations,
        ),
        (
            format!(
                "{digits}.all(a, {digits}.all(b, {digits}.all(c, {digits}.all(d, {digits}.all(e, {digits}.all(f, true))))))"
            ),
            operations,
        ),
        ("input.million.map(x, x)".to_owned(), operations),
        ("input.million.exists(x, x == 1)".to_owned(), operations),
        ("1 in input.million".to_owned(), operations),
        ("input.million == [0] + input.million".to_owned(), operations),
        ("input.million.sort()".to_owned(), operations),
        ("input.million.map(x, 1) == 0 || true".to_owned(), operations),
        ("input.list.map(a, input.orders)".to_owned(), bytes),
        ("input.list.map(a, input.text)".to_owned(), bytes),
        ("input.list.map(a, input.text + 'y')".to_owned(), operations),
        ("[input, input, input, input, input, input, input, input, input]".to_owned(), bytes),
        ("input.list.map(a, input.text.contains('y'))".to_owned(), operations),
        ("input.list.map(a, input.list.sort())".to_owned(), operations),
        ("input.text.replace('x', input.text)".to_owned(), bytes),
        ("input.text.split('').map(c, input.text)".to_owned(), operations),
        ("input.list.map(a, a.foo == 1).exists(b, b)".to_owned(), "has no field `foo`"),
        ("[input.text + input.text].map(t, t.matches('([a-z]{1,20}|x|xx){20}y'))".to_owned(), operations),
    ];
    for (source, part) in cases {
        assert!(source.len() <= 200, "{source}");
        let begun = Instant::now();
        let sentence = evaluate_in(&source, &scope).expect_err(&source);
        assert!(sentence.contains(part), "{sentence}");
        assert!(begun.elapsed() < LONG, "{source} took {:?}", begun.elapsed());
    }
}

#[test]
fn a_result_is_not_nested_deeper_than_json_is_read() {
    let nested = (0..90).fold(json!(1), |value, _| json!([value]));
    let mut scope = scope();
    scope.input = nested;
    assert!(evaluate_in("[[[[[input]]]]]", &scope).is_ok());
    let sentence = evaluate_in("[[[[[[[[[[[[input]]]]]]]]]]]]", &scope).expect_err("too deep");
    assert!(sentence.contains("nested deeper than 100 levels"), "{sentence}");
}

#[test]
fn the_parts_of_one_value_share_their_bytes() {
    let mut scope = scope();
    scope.input = json!("x".repeat(1_000_000));
    let value = |times: usize| Value::Array(vec![json!("${ input }"); times]);
    let evaluate = |value: &Value| {
        let template = with_names(true, |names| template::compile(value, names)).expect("compiles");
        let unstuck_core::model::expression::Template::Computed(expression) = template else {
            panic!("computed")
        };
        expression.program.evaluate(&scope)
    };
    assert!(evaluate(&value(8)).is_ok());
    assert!(evaluate(&value(17)).expect_err("too large").contains("larger than 16 MiB"));
    assert!(evaluate(&json!("${ input }".repeat(9))).is_err());
}

/// Text that looks like an expression, so that it gets past the first token.
fn scraps() -> impl Strategy<Value = String> {
    let words = [
        "input",
        "steps",
        "run",
        "item",
        "x",
        ".",
        "?",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "<",
        "in",
        "&&",
        "||",
        "'a'",
        "\"b\"",
        "1",
        "2.5",
        "null",
        "true",
        ".map(x,",
        ".all(x,",
        ".list",
        ".n",
        ".fetch.output",
        "has(",
        "size(",
        "max(",
        ".join(",
        ".split(",
        "'",
        "${",
        "$${",
        " ",
        "\n",
        "é",
        "\\",
        "`",
        "1e9",
        "duration('1h')",
        "timestamp(run.createdAt)",
        ".matches('a+')",
        "0x",
        "orValue(",
        ".?",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.concat())
}

fn nothing_breaks(source: &str) {
    let begun = Instant::now();
    if let Err(error) = compile(source) {
        assert!(
            error.offset <= source.len() && source.is_char_boundary(error.offset),
            "{source:?}: {error:?}"
        );
        assert!(!error.message.is_empty());
    }
    let value = json!({"a": source, "b": [source]});
    with_names(false, |names| {
        if let Ok(unstuck_core::model::expression::Template::Computed(expression)) =
            template::compile(&value, names)
        {
            let _ = expression.program.evaluate(&scope());
        }
        let _ = template::compile_expression(source, names);
    });
    let _ = evaluate(source);
    assert!(begun.elapsed() < LONG, "{source:?} took {:?}", begun.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_compiled_or_refused(source in "\\PC{0,80}") {
        nothing_breaks(&source);
    }

    #[test]
    fn any_bytes_are_compiled_or_refused(source in prop::collection::vec(any::<char>(), 0..40)) {
        nothing_breaks(&source.into_iter().collect::<String>());
    }

    #[test]
    fn scraps_of_expressions_are_compiled_or_refused(source in scraps()) {
        nothing_breaks(&source);
        nothing_breaks(&format!("${{{source}}}"));
    }
}
