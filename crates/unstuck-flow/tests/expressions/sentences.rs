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
        ("input.none.x", "input.none is null and has no field `x`; for a default, write `.?x.orValue(...)`"),
        ("steps.skipped.output.path", "steps.skipped.output is null and has no field `path`"),
        ("input.n.x", "input.n is the integer 5 and has no field `x`"),
        ("input.list.x", "input.list is a list of 3 and has no field `x`"),
        ("input.list[7]", "there is no item 7 in input.list; it has 3, from 0 to 2"),
        ("input.list[-1]", "there is no item -1 in input.list"),
        ("input.empty[0]", "there is no item 0 in input.empty, which is empty"),
        ("input.list['a']", "an item of input.list is found by its number, not by the string \"a\""),
        ("input.user[1]", "the keys of input.user are strings, not the integer 1"),
        ("input.name[0]", "input.name is the string \"Ada\" and has no items"),
    ]);
}

#[test]
fn operators_and_conditions() {
    assert_sentences(&[
        (
            "input.name + 1",
            "`+` does not work on the string \"Ada\" and the integer 1; convert one of them, with `string(...)`",
        ),
        (
            "input.name * 2",
            "`*` does not work on the string \"Ada\" and the integer 2; convert the string, with `int(...)`",
        ),
        ("input.none + 1", "`+` does not work on null and the integer 1"),
        (
            "input.?n + 1",
            "`+` does not work on an optional with the integer 5 and the integer 1; give the optional a default",
        ),
        ("input.list - input.list", "`-` does not work on a list of 3 and a list of 3"),
        ("input.n / 0", "5 cannot be divided by 0"),
        ("input.n % 0", "5 cannot be divided by 0"),
        ("input.n % 2.5", "`%` takes integers, not the integer 5 and the double 2.5"),
        ("input.price / 0", "the value is inf, which is not a JSON number"),
        (
            "9223372036854775807 + input.n",
            "9223372036854775807 + 5 does not fit in a 64-bit integer; `double(...)` holds larger numbers",
        ),
        ("-9223372036854775808 * -1", "does not fit in a 64-bit integer"),
        ("input.big + 1", "18446744073709551615 + 1 does not fit in a 64-bit integer"),
        ("-input.name", "`-` takes a number, not the string \"Ada\""),
        ("!input.n", "`!` takes true or false, but input.n is the integer 5"),
        ("input.n ? 1 : 2", "the condition before `?` must be true or false, but input.n is the integer 5"),
        ("input.n && true", "`&&` takes true or false, but input.n is the integer 5"),
        ("false || input.none", "`||` takes true or false, but input.none is null"),
        ("input.name < 5", "the string \"Ada\" and the integer 5 cannot be ordered"),
        ("'a' in input.name", "`in` needs a list or a map, but input.name is the string \"Ada\""),
        ("input.n.map(x, x)", "input.n is the integer 5; only a list or a map has items to go through"),
        ("input.list.filter(x, x)", "the condition must be true or false, but x is the integer 3"),
        ("input.list.map(x, x.y)", "x is the integer 3 and has no field `y`"),
    ]);
}

#[test]
fn functions() {
    assert_sentences(&[
        ("size(input.n)", "`size` takes a string, a list or a map, not the integer 5"),
        ("input.n.contains('a')", "`contains` works on a string, not on the integer 5"),
        ("input.name.contains(1)", "`contains` takes a string, not the integer 1"),
        ("input.n.matches('a')", "`matches` works on a string, not on the integer 5"),
        ("input.name.substring(2, 1)", "a string of 3 characters has no part from 2 to 1"),
        ("input.name.substring('a')", "`substring` takes an integer, not the string \"a\""),
        ("input.list.join(',')", "item 0 is the integer 3; convert them with `.map(x, string(x))`"),
        ("input.name.sort()", "`sort` works on a list, not on the string \"Ada\""),
        ("[1, 'a'].sort()", "cannot be ordered"),
        ("[0.0 / 0.0, 1.0].sort()", "a list that contains NaN cannot be sorted"),
        ("max([])", "`max` of an empty list has no value"),
        ("int('x')", "`int` takes a string of digits, not the string \"x\""),
        ("int(1e300)", "the double 1e300 does not fit in a 64-bit integer"),
        ("int(input.user)", "not a map with `first-name`, `id`, `kind`"),
        ("double('x')", "`double` takes a number or a string with one, not the string \"x\""),
        ("bool('maybe')", "`bool` takes \"true\" or \"false\", not the string \"maybe\""),
        ("string(input.list)", "`string` cannot convert a list of 3"),
        ("math.round('x')", "`math.round` takes a number, not the string \"x\""),
        ("{'a': 1, 'a': 2}", "the map has two entries for the string \"a\""),
        ("{1.5: 2}", "a key of a map must be a string, an integer or a bool, not the double 1.5"),
        ("input.?missing", "the value is an empty optional; give it a default with `.orValue(...)`"),
        ("input.n.orValue(1)", "`orValue` works on an optional"),
        ("timestamp(input.name)", "`Ada` is not an instant"),
        ("timestamp(input.ok)", "`timestamp` takes a string, not true"),
        ("duration(input.name)", "`Ada` is not a duration"),
        (
            "input.name.getHours()",
            "the string \"Ada\" is not a timestamp; convert a string with `timestamp(...)`",
        ),
        ("now.getHours(input.name)", "there is no time zone `Ada`; "),
        ("now.getHours(input.n)", "`getHours` takes a time zone such as 'Europe/Berlin', not the integer 5"),
        ("duration('1h').getHours('UTC')", "the duration 3600s is not a timestamp and has no time zone"),
        ("now.x", "now is the timestamp 2030-01-31T09:15:00.5Z and has no field `x`"),
        ("duration('1h').getMonth()", "the duration 3600s is not a timestamp and has no date"),
        ("timestamp('9999-12-30T00:00:00Z') + duration('1000d')", "is outside the range of dates"),
    ]);
}
