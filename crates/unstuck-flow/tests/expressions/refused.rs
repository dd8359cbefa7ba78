//! What is refused when a flow is loaded: with the place, and what to do.

use super::{compile, with_names};
use unstuck_flow::expression;

/// Each source, the byte where it goes wrong, a part of the message, a part of the hint.
fn assert_refused(cases: &[(&str, usize, &str, &str)]) {
    for (source, offset, message, hint) in cases {
        let error = compile(source).map(|_| ()).expect_err(source);
        assert!(error.message.contains(message), "{source}: {}", error.message);
        let given = error.hint.as_deref().unwrap_or("");
        assert!(given.contains(hint), "{source}: {given}");
        assert_eq!(error.offset, *offset, "{source}: {error}");
    }
}

#[test]
fn syntax() {
    assert_refused(&[
        ("", 0, "the expression is empty", "such as `input.name`"),
        ("  ", 2, "the expression is empty", ""),
        ("input.n +", 9, "the expression ends where a value should follow", ""),
        ("+ 1", 0, "expected a value, but there is `+`", ""),
        ("input..n", 6, "expected a field's name after `.`, but there is `.`", ""),
        ("input.", 6, "the expression ends where a field's name after `.` should follow", ""),
        ("input.[0]", 6, "expected a field's name after `.`, but there is `[`", ""),
        ("(1", 2, "the expression ends where `)` should follow", ""),
        ("1)", 1, "this `)` closes nothing", ""),
        ("[1 2]", 3, "expected `,` or `]`, but there is `2`", ""),
        ("[1, 2", 5, "ends where `,` or `]` should follow", ""),
        ("[,]", 1, "expected a value, but there is `,`", ""),
        ("{'a' 1}", 5, "expected `:` and a value", ""),
        ("{'a': 1", 7, "ends where `,` or `}` should follow", ""),
        ("size(1", 6, "ends where `,` or `)` should follow", ""),
        ("true ? 1", 8, "ends where `:` and the other choice should follow", ""),
        ("input.n 5", 8, "the expression is already complete before this", "is an operator missing"),
        ("input.list.0", 10, "complete before this", "an item of a list is written `list[0]`"),
        ("input.user {}", 11, "complete before this", "is an operator missing"),
        ("'abc", 0, "this string is not closed: a `'` is missing", ""),
        ("input.n + 'a\nb'", 10, "not closed on its line", "`\\n`"),
        (r"'\q'", 1, r"`\q` is not a known escape", r"write `\\` for a backslash"),
        (r"'\u12'", 1, "is not a character", "4 digits must follow"),
        (r"'\ud800'", 1, r"`\ud800` is not a character", ""),
        ("'\\", 1, "is not a known escape", ""),
        ("input.``", 6, "no name between these backticks", ""),
        ("input.`a", 6, "this backtick is not closed", ""),
        ("1e999", 0, "too large for a number", ""),
        ("99999999999999999999", 0, "does not fit in a 64-bit integer", "put it in quotes"),
        ("9223372036854775808", 0, "does not fit in a 64-bit integer", ""),
        ("0xfffffffffffffffff", 0, "does not fit in a 64-bit integer", ""),
        ("0x", 0, "does not fit in a 64-bit integer", ""),
        ("b'x'", 0, "expressions have no byte strings", "remove the `b`"),
        ("1 // one", 2, "`//` starts a comment", "a single `/` divides"),
        ("'é' + é", 7, "`é` has no meaning", "is written `input['...é...']`"),
        ("\u{201c}a\u{201d}", 0, "has no meaning", "straight quotes"),
        ("input.a # b", 8, "`#` has no meaning", ""),
    ]);
}

#[test]
fn habits_of_other_languages() {
    assert_refused(&[
        ("input.n = 5", 8, "`=` has no meaning", "write `==`"),
        ("input.ok & true", 9, "`&` has no meaning", "write `&&`"),
        ("input.name | upper", 11, "`|` has no meaning", "there are no filters"),
        ("input.ok and true", 9, "`and` cannot follow", "write `&&`"),
        ("input.a or 'x'", 8, "`or` cannot follow", "input.?name.orValue('none')"),
        ("not input.ok", 4, "complete before this", "write `!`"),
        ("input.n is null", 8, "`is` cannot follow", "write `==`"),
        ("if input.ok", 0, "`if` is a reserved word", "`condition ? one : other`"),
        ("for x in input.list", 0, "`for` is a reserved word", "list.map(x, ...)"),
        ("let x", 0, "`let` is a reserved word", "input.let"),
        ("1u", 0, "`1u` is neither a number nor a name", "write `1`"),
        ("30s", 0, "`30s` is neither a number nor a name", "duration('30s')"),
        ("$x", 0, "`$` has no meaning", "names without `$`"),
        ("input.name.lower()", 11, "no function `lower`", "did you mean `text.lowerAscii()`?"),
        ("len(input.list)", 0, "no function `len`", "did you mean `size(x)`?"),
        ("input.list.any(x, x)", 11, "no function `any`", "did you mean `list.exists(x, condition)`?"),
        ("now()", 0, "`now` is a value, not a function", "write `now`"),
        ("random()", 0, "no function `random`", "no random values"),
        ("today()", 0, "no function `today`", "the time is `now`"),
        ("now.getHours('Europe/Berln')", 13, "no time zone `Europe/Berln`", "did you mean `Europe/Berlin`?"),
        ("now.getHours('+2')", 13, "`+2` is not a UTC offset", "for example `+02:00`"),
        ("now.getHours('UTC', 'UTC')", 4, "`getHours` takes 0 to 1 arguments", "getHours('Europe/Berlin')"),
    ]);
}

#[test]
fn names() {
    assert_refused(&[
        ("inptu.n", 0, "`inptu` does not exist here", "did you mean `input`?"),
        ("1 + Input.n", 4, "`Input` does not exist here", "did you mean `input`?"),
        ("hello", 0, "`hello` does not exist here", "a string needs quotes: `'hello'`"),
        ("fetch.path", 0, "`fetch` does not exist here", "the output of that step is `steps.fetch.output`"),
        ("input.list.map(x, y)", 18, "`y` does not exist here", "`secrets`, `x`"),
        ("input.list.map(x, x) + x", 23, "`x` does not exist here", ""),
        (
            "input.first-name",
            12,
            "`name` does not exist here",
            "a field with a `-` in its name is written `['first-name']`",
        ),
        ("input.n-m", 8, "`m` does not exist here", "['n-m']"),
        ("run.foo", 4, "`run` has no `foo`", "`generation`, `createdAt`"),
        ("run.creatdAt", 4, "`run` has no `creatdAt`", "did you mean `run.createdAt`?"),
        ("has(input)", 4, "`has` checks whether a field exists", "has(input.name)"),
        ("has(steps.fetch.output)", 4, "a step always has an output", "write `steps.fetch.output != null`"),
    ]);
}

#[test]
fn steps() {
    assert_refused(&[
        ("steps.fech.output", 6, "there is no step `fech`", "did you mean `steps.fetch.output`?"),
        (
            "steps['fetch-dta'].output",
            6,
            "there is no step `fetch-dta`",
            "did you mean `steps['fetch-data'].output`?",
        ),
        (
            "steps.zzzzzz.output",
            6,
            "there is no step `zzzzzz`",
            "the steps are `fetch`, `fetch-data`, `skipped`",
        ),
        (
            "steps.fetch-data.output",
            6,
            "`fetch` is a step",
            "`-` subtracts; write `steps['fetch-data'].output`",
        ),
        ("steps.fetch-dat.output.x", 6, "`fetch` is a step", "write `steps['fetch-data'].output`"),
        ("1 + steps.load-all.output", 10, "there is no step `load`", "write `steps['load-all'].output`"),
        ("steps.fetch", 6, "`fetch` is a step, not a value", "write `steps.fetch.output`"),
        ("steps['fetch-data']", 6, "`fetch-data` is a step, not a value", "steps['fetch-data'].output"),
        ("steps.fetch.size()", 6, "`fetch` is a step, not a value", "write `steps.fetch.output`"),
        ("steps.fetch['output']", 6, "`fetch` is a step, not a value", "write `steps.fetch.output`"),
        ("steps.fetch.outptu.x", 12, "a step has only an `output`", "did you mean `steps.fetch.output`?"),
        ("steps.fetch.path", 12, "a step has only an `output`", "is written `steps.fetch.output.path`"),
        ("steps", 0, "`steps` alone is not a value", "`steps.fetch.output`"),
        ("steps.map(s, s)", 0, "`steps` alone is not a value", ""),
        ("steps[input.name].output", 6, "a step must be named by its id", "write it out"),
        ("steps[0].output", 6, "a step must be named by its id", ""),
    ]);
}

#[test]
fn items_are_known_only_in_a_for_each() {
    for name in ["item", "index"] {
        let source = format!("input.n + {name}");
        assert!(compile(&source).is_ok());
        let refused = with_names(false, |names| expression::compile(&source, names).map(|_| ()));
        let error = refused.expect_err("outside");
        assert_eq!(error.message, format!("`{name}` exists only in a step with `forEach`"));
        assert_eq!(error.offset, 10);
    }
}

#[test]
fn functions() {
    assert_refused(&[
        ("foo(1)", 0, "there is no function `foo`", "there are size, string, int"),
        ("input.name.foo()", 11, "there is no function `foo`", "there are size, contains"),
        (
            "input.name.startswith('a')",
            11,
            "no function `startswith`",
            "did you mean `text.startsWith('start')`?",
        ),
        ("math.flor(1.5)", 5, "no function `math.flor`", "did you mean `math.floor(x)`?"),
        ("contains('a', 'b')", 0, "`contains` is called differently", "text.contains('part')"),
        ("input.n.string()", 8, "`string` is called differently", "write `string(x)`"),
        ("map(input.list, x)", 0, "`map` is called on a list", "list.map(x, value)"),
        ("size()", 0, "`size` takes 1 argument, but there are none", "size(x)"),
        ("size(1, 2)", 0, "`size` takes 1 argument, but there are 2", "size(x)"),
        ("'a'.split()", 4, "`split` takes 1 to 2 arguments, but there are none", ""),
        ("'a'.trim(1)", 4, "`trim` takes no argument, but there is 1", "text.trim()"),
        ("max()", 0, "`max` takes at least 1 argument, but there are none", "max(a, b) or max(list)"),
        ("has(input.a, input.b)", 0, "`has` takes 1 argument, but there are 2", ""),
        (
            "input.list.map(x)",
            11,
            "`map` takes a name and an expression, but there is 1",
            "list.map(x, value)",
        ),
        ("input.list.all(x, true, true)", 11, "`all` takes a name and an expression, but there are 3", ""),
        (
            "input.list.map(1, 2)",
            15,
            "the first argument of `map` is a name for each item",
            "list.map(x, value)",
        ),
        ("'a'.matches(input.text)", 12, "is checked on load, so it must be a string", "`contains`"),
        ("'a'.matches('(')", 12, "this is not a pattern: unclosed group", "RE2"),
        ("'a'.matches('(?=a)')", 12, "look-around", "RE2"),
        ("'a'.matches('((a{100}){100}){100}')", 12, "this pattern is too large", "repetitions"),
        ("duration('soon')", 9, "`soon` is not a duration", ""),
        ("duration('P1M')", 9, "uses months or years", ""),
        ("timestamp('2030-01-01')", 10, "has no time zone: add `Z`", ""),
    ]);
}
