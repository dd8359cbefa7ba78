//! Values with `${ ... }` in them, and fields that are one expression.

use serde_json::{Value, json};
use unstuck_core::model::expression::Template;
use unstuck_flow::template::{self, TemplateError};

use super::{scope, with_names};

fn compile(value: &Value) -> Result<Template, Vec<TemplateError>> {
    with_names(true, |names| template::compile(value, names))
}

fn computed(value: &Value) -> Result<Value, String> {
    match compile(value).map_err(|errors| format!("{errors:?}"))? {
        Template::Fixed(json) => Err(format!("fixed: {json}")),
        Template::Computed(expression) => expression.program.evaluate(&scope()),
    }
}

#[test]
fn a_value_with_secrets_has_references_and_nothing_that_looks_like_one() {
    use unstuck_core::model::expression::Scope;
    let scope =
        Scope { input: json!({"a": "${secrets.B}", "b": ["x$", {"c": "$${secrets.B}"}], "n": 1}), ..scope() };
    let cases = [
        (json!("${secrets.A}"), json!("${secrets.A}")),
        (json!("Bearer ${ secrets.A }!"), json!("Bearer ${secrets.A}!")),
        (json!(["${secrets['A']}", "${input.a}"]), json!(["${secrets.A}", "$${secrets.B}"])),
        (json!("${input.a}${secrets.A}"), json!("$${secrets.B}${secrets.A}")),
        (
            json!({"a": "${secrets.A}", "b": "${input.b}", "n": "${input.n}"}),
            json!({"a": "${secrets.A}", "b": ["x$$", {"c": "$$$${secrets.B}"}], "n": 1}),
        ),
        (
            json!(["${secrets.A}", "$${secrets.B} costs $5"]),
            json!(["${secrets.A}", "$${secrets.B} costs $5"]),
        ),
        (json!("$${secrets.B}$ ${secrets.A}"), json!("$${secrets.B}$ ${secrets.A}")),
        (json!("$ ${secrets.A}$"), json!("$ ${secrets.A}$$")),
    ];
    for (value, expected) in cases {
        match compile(&value) {
            Ok(Template::Computed(expression)) => {
                assert_eq!(
                    expression.reads.secrets.iter().map(|name| &**name).collect::<Vec<_>>(),
                    ["A"],
                    "{value}"
                );
                assert_eq!(expression.program.evaluate(&scope), Ok(expected), "{value}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
    // A value without secrets is not in that form.
    assert_eq!(computed(&json!(["${input.n}", "$${secrets.B}$$"])), Ok(json!([5, "${secrets.B}$$"])));
}

#[test]
fn a_value_without_expressions_is_fixed() {
    let cases = [
        (json!(null), json!(null)),
        (json!(5), json!(5)),
        (json!("plain"), json!("plain")),
        (json!("a $ b { c } $d"), json!("a $ b { c } $d")),
        (json!("$${ not } this"), json!("${ not } this")),
        (json!(["$${a}", {"b": "$${c}"}]), json!(["${a}", {"b": "${c}"}])),
        (json!("$$${a}"), json!("$${a}")),
        (json!({"${ input.n }": 1}), json!({"${ input.n }": 1})),
        (json!([]), json!([])),
        (json!({}), json!({})),
        (json!(""), json!("")),
    ];
    for (value, expected) in cases {
        match compile(&value) {
            Ok(Template::Fixed(json)) => assert_eq!(json.value(), expected, "{value}"),
            other => panic!("{value}: {other:?}"),
        }
    }
}

#[test]
fn a_string_that_is_one_expression_keeps_its_type() {
    let cases = [
        ("${ input.n }", json!(5)),
        ("${input.n}", json!(5)),
        ("${ input.list }", json!([3, 1, 2])),
        ("${ input.none }", json!(null)),
        ("${\n  input.n +\n  1\n}", json!(6)),
        ("${ {'a': {'b': 1}} }", json!({"a": {"b": 1}})),
        ("${{'a': 1}.a}", json!(1)),
        ("${ '}' }", json!("}")),
        ("${ \"}\" + '{' }", json!("}{")),
        (r"${ 'it\'s }' }", json!("it's }")),
        (r"${ r'\' + '}' }", json!(r"\}")),
        ("${ '''a'}'b''' }", json!("a'}'b")),
        ("${ {'}': 1}['}'] }", json!(1)),
        ("${ '${' }", json!("${")),
    ];
    for (text, expected) in cases {
        assert_eq!(computed(&json!(text)), Ok(expected), "{text}");
    }
}

#[test]
fn text_around_an_expression_makes_a_string() {
    let cases = [
        ("Hello ${ input.name }!", "Hello Ada!"),
        ("${ input.name }${ input.n }", "Ada5"),
        (" ${ input.n }", " 5"),
        ("${ input.price } / ${ input.ok } / ${ input.none }", "2.5 / true / null"),
        ("list: ${ input.list }", "list: [3,1,2]"),
        ("map: ${ {'a': 'b'} }", r#"map: {"a":"b"}"#),
        ("wait ${ duration('1h') }", "wait 3600s"),
        ("$${ ${ input.n } }", "${ 5 }"),
        ("${ '$' }${ input.price }", "$2.5"),
        ("é ${ input.name } é", "é Ada é"),
    ];
    for (text, expected) in cases {
        assert_eq!(computed(&json!(text)), Ok(json!(expected)), "{text}");
    }
}

#[test]
fn structures_are_computed_part_by_part() {
    let value = json!({
        "fixed": [1, "two", {"three": "$${"}],
        "url": "https://example.org/${ input.user.id }",
        "body": {"rows": "${ steps.fetch.output.rows }", "first": ["${ input.list[0] }", null]},
    });
    let expected = json!({
        "fixed": [1, "two", {"three": "${"}],
        "url": "https://example.org/7",
        "body": {"rows": [{"id": 1}, {"id": 2}], "first": [3, null]},
    });
    assert_eq!(computed(&value), Ok(expected));
    let Ok(template) = compile(&value) else { panic!("compiles") };
    let reads = template.reads().expect("computed");
    assert!(reads.input && !reads.run && !reads.item && reads.steps.len() == 1, "{reads:?}");
    let Template::Computed(expression) = template else { panic!("computed") };
    assert_eq!(*expression.source, *value.to_string());
}

#[test]
fn every_string_that_is_wrong_is_reported_with_its_place() {
    let value = json!({
        "ok": "${ input.n }",
        "a": "${ inptu.n }",
        "b/c": [1, {"d~": "é ${ input.n } ${ steps.fech.output }"}],
        "open": "x ${ input.n",
        "string": "${ 'abc }",
        "empty": "${}",
    });
    let errors = compile(&value).map(|_| ()).expect_err("wrong");
    let found: Vec<(&str, usize, &str)> =
        errors.iter().map(|wrong| (&*wrong.pointer, wrong.error.offset, &*wrong.error.message)).collect();
    let expected = [
        ("/a", 3, "`inptu` does not exist here"),
        ("/b~1c/1/d~0", 25, "there is no step `fech`"),
        ("/empty", 2, "the expression is empty"),
        ("/open", 4, "this `${` has no `}` that closes it"),
        ("/string", 3, "this string is not closed: a `'` is missing"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_field_may_have_to_be_one_expression() {
    let one = |text: &str| with_names(true, |names| template::compile_expression(text, names));
    for (text, expected) in [
        ("${ input.n > 3 }", json!(true)),
        ("input.n > 3", json!(true)),
        ("  ${input.n}  ", json!(5)),
        ("'${' + input.name", json!("${Ada")),
    ] {
        let expression = one(text).expect(text);
        assert_eq!(&*expression.source, text);
        assert_eq!(expression.program.evaluate(&scope()), Ok(expected), "{text}");
    }
    for (text, offset, message) in [
        ("${ input.n } or so", 12, "this must be one expression, with nothing after it"),
        ("${ input.n }${ input.n }", 12, "this must be one expression, with nothing after it"),
        ("order-${ input.n }", 6, "this must be one expression, with nothing before it"),
        ("input.n >", 9, "the expression ends where a value should follow"),
        ("  ${ inptu }", 5, "`inptu` does not exist here"),
        ("${ input.n", 2, "this `${` has no `}` that closes it"),
        ("", 0, "the expression is empty"),
    ] {
        let error = one(text).map(|_| ()).expect_err(text);
        assert_eq!((error.offset, &*error.message), (offset, message), "{text}");
    }
}

#[test]
fn a_sentence_at_run_time_names_the_expression() {
    let sentence = computed(&json!({"a": ["x ${ input.user.x }"]})).expect_err("no such field");
    assert_eq!(
        sentence,
        "input.user.x: there is no field `x` in input.user; it has `first-name`, `id`, `kind`"
    );
}

#[test]
fn a_compiled_value_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let Ok(template) = compile(&json!(["${ input.name.matches('A.*') }"])) else { panic!("compiles") };
    shared(&template);
}
