//! What is refused when an expression is evaluated: one sentence, with what the value was.

use super::evaluate;

/// Each expression, and a part of the one sentence that says why it has no value.
fn assert_sentences(cases: &[(&str, &str)]) {
    for (source, part) in cases {
        let sentence = evaluate(source).expect_err(source);
        assert!(sentence.contains(part), "{source}: {sentence}");
        assert!(sentence.starts_with(source), "{source}: {sentence}");
        assert!(!sentence.contains('\n'), "{source}: {sentence}");
    }
}

#[test]
fn fields_and_items() {
    assert_sentences(&[
        (
            "input.usr.name",
            "input.usr.name: there is no field `usr` in input; did you mean `user`? It has `big`, ",
        ),
        ("input.user.x", "there is no field `x` in input.user; it has `first-name`, `id`, `kind`"),
        ("input.user['x']", "there is no field `x` in input.user; it has"),
        (
            "input.user[[input.text].map(t, t + t + t + t + t + t + t + t + t)[0]]",
            "`a,b,ca,b,ca,b,ca,b,ca,b,ca,b,ca,b,ca,b,c...`",
        ),
        ("input.nothing.x", "there is no field `x` in input.nothing, which is empty"),
        ("input.none.x", "input.none is null, and has no field `x`; for a default, write `.?x.orValue(...)`"),
        ("steps.skipped.output.path", "steps.skipped.output is null, and has no field `path`"),
        ("input.n.x", "input.n is the integer 5, and has no field `x`"),
        ("input.list.x", "input.list is a list of 3, and has no field `x`"),
        ("input.list[7]", "there is no item 7 in input.list; it has 3, from 0 to 2"),
        ("input.list[-1]", "there is no item -1 in input.list"),
        ("input.empty[0]", "there is no item 0 in input.empty, which is empty"),
        ("input.list['a']", "an item of input.list is found by its number, and this is the string \"a\""),
        ("input.user[1]", "the keys of input.user are strings, and the integer 1 is none"),
        ("input.name[0]", "input.name is the string \"Ada\", and has no items"),
    ]);
}

#[test]
fn operators_and_conditions() {
    assert_sentences(&[
        (
            "input.name + 1",
            "`+` cannot take the string \"Ada\" and the integer 1; convert one of them, with `string(...)`",
        ),
        (
            "input.name * 2",
            "`*` cannot take the string \"Ada\" and the integer 2; convert the string, with `int(...)`",
        ),
        ("input.none + 1", "`+` cannot take null and the integer 1"),
        (
            "input.?n + 1",
            "`+` cannot take an optional with the integer 5 and the integer 1; give the optional a default",
        ),
        ("input.list - input.list", "`-` cannot take a list of 3 and a list of 3"),
        ("input.n / 0", "5 cannot be divided by 0"),
        ("input.n % 0", "5 cannot be divided by 0"),
        ("input.n % 2.5", "`%` takes integers, and these are the integer 5 and the double 2.5"),
        ("input.price / 0", "the value is inf, which JSON has no number for"),
        (
            "9223372036854775807 + input.n",
            "9223372036854775807 + 5 is not an integer of 64 bits; `double(...)` goes further",
        ),
        ("-9223372036854775808 * -1", "is not an integer of 64 bits"),
        ("input.big + 1", "18446744073709551615 + 1 is not an integer of 64 bits"),
        ("-input.name", "`-` takes a number, and this is the string \"Ada\""),
        ("!input.n", "`!` takes true or false, and input.n is the integer 5"),
        ("input.n ? 1 : 2", "the condition before `?` must be true or false, and input.n is the integer 5"),
        ("input.n && true", "`&&` takes true or false, and input.n is the integer 5"),
        ("false || input.none", "`||` takes true or false, and input.none is null"),
        ("input.name < 5", "the string \"Ada\" and the integer 5 cannot be put in order"),
        ("'a' in input.name", "`in` looks into a list or a map, and input.name is the string \"Ada\""),
        ("input.n.map(x, x)", "input.n is the integer 5; only a list or a map can be gone through"),
        ("input.list.filter(x, x)", "the condition must be true or false, and x is the integer 3"),
        ("input.list.map(x, x.y)", "x is the integer 3, and has no field `y`"),
    ]);
}

#[test]
fn functions() {
    assert_sentences(&[
        ("size(input.n)", "`size` takes a string, a list or a map, and this is the integer 5"),
        ("input.n.contains('a')", "`contains` is for strings, and this is the integer 5"),
        ("input.name.contains(1)", "`contains` takes a string, and this is the integer 1"),
        ("input.n.matches('a')", "`matches` is for strings, and this is the integer 5"),
        ("input.name.substring(2, 1)", "a string of 3 characters has no part from 2 to 1"),
        ("input.name.substring('a')", "`substring` takes an integer, and this is the string \"a\""),
        ("input.list.join(',')", "item 0 is the integer 3; convert them with `.map(x, string(x))`"),
        ("input.name.sort()", "`sort` is for lists, and this is the string \"Ada\""),
        ("[1, 'a'].sort()", "cannot be put in order"),
        ("[0.0 / 0.0, 1.0].sort()", "a list with NaN in it cannot be put in order"),
        ("max([])", "`max` of an empty list has no value"),
        ("int('x')", "`int` takes a string of digits, and this is the string \"x\""),
        ("int(1e300)", "the double 1e300 is not within the integers of 64 bits"),
        ("int(input.user)", "this is a map with `first-name`, `id`, `kind`"),
        ("double('x')", "`double` takes a number or a string with one, and this is the string \"x\""),
        ("bool('maybe')", "`bool` takes \"true\" or \"false\", and this is the string \"maybe\""),
        ("string(input.list)", "`string` cannot take a list of 3"),
        ("math.round('x')", "`math.round` takes a number, and this is the string \"x\""),
        ("{'a': 1, 'a': 2}", "the map has two entries for the string \"a\""),
        ("{1.5: 2}", "a key of a map must be a string, and this is the double 1.5"),
        ("input.?missing", "the value is an empty optional; give it a default with `.orValue(...)`"),
        ("input.n.orValue(1)", "`orValue` belongs to what `.?` or `[?]` gives"),
        ("timestamp(input.name)", "`Ada` is not an instant"),
        ("timestamp(input.ok)", "`timestamp` takes a string, and this is true"),
        ("duration(input.name)", "`Ada` is not a duration"),
        (
            "input.name.getHours()",
            "the string \"Ada\" is no timestamp; make one of a string with `timestamp(...)`",
        ),
        ("now.getHours(input.name)", "there is no time zone `Ada`; "),
        (
            "now.getHours(input.n)",
            "`getHours` takes a time zone such as 'Europe/Berlin', and this is the integer 5",
        ),
        ("duration('1h').getHours('UTC')", "the duration 3600s is no timestamp, and in no time zone"),
        ("now.x", "now is the timestamp 2030-01-31T09:15:00.5Z, and has no field `x`"),
        ("duration('1h').getMonth()", "the duration 3600s is no timestamp, and has no date"),
        ("timestamp('9999-12-30T00:00:00Z') + duration('1000d')", "is out of the range of the calendar"),
    ]);
}
