//! What expressions compute: a table for each part of the language.

use serde_json::{Value, json};
use unstuck_core::model::expression::Reads;
use unstuck_core::model::flow::StepIndex;

use super::{compile, evaluate};

fn assert_values(cases: &[(&str, Value)]) {
    for (source, expected) in cases {
        assert_eq!(evaluate(source).as_ref(), Ok(expected), "{source}");
    }
}

#[test]
fn values_are_read() {
    assert_values(&[
        ("input.n", json!(5)),
        ("input.user.kind", json!("admin")),
        ("input['user']['kind']", json!("admin")),
        ("input.user['first-name']", json!("Ada")),
        ("input.user.`first-name`", json!("Ada")),
        ("input.list[0]", json!(3)),
        ("input.list[1.0]", json!(1)),
        ("input.none", json!(null)),
        ("steps.fetch.output.path", json!("/tmp/x")),
        ("steps.fetch.output.rows[1].id", json!(2)),
        ("steps['fetch-data'].output[0]", json!(1)),
        ("steps.`fetch-data`.output", json!([1, 2, 3])),
        ("steps.skipped.output", json!(null)),
        ("run.id", json!("run_1")),
        ("run.generation", json!(1)),
        ("item.file", json!("a.txt")),
        ("index", json!(4)),
        ("{'in': 1, 'null': 2}.in", json!(1)),
        ("{'in': 1, 'null': 2}.null", json!(2)),
        ("{'if': 3}.if", json!(3)),
    ]);
}

#[test]
fn literals_are_those_of_cel() {
    assert_values(&[
        ("null", json!(null)),
        ("true", json!(true)),
        ("0x1F", json!(31)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1e3", json!(1000.0)),
        ("2.5E-1", json!(0.25)),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        (r"'it\'s'", json!("it's")),
        (r#""a\n\t\\\x41\u00e9\U0001F600\101""#, json!("a\n\t\\Aé😀A")),
        (r"r'a\n'", json!(r"a\n")),
        ("'''it's \"quoted\"'''", json!("it's \"quoted\"")),
        ("\"\"\"two\nlines\"\"\"", json!("two\nlines")),
        ("'}' + \"{\"", json!("}{")),
        ("[1, 'a', [true], ]", json!([1, "a", [true]])),
        ("{'a': 1, 'b': {'c': []},}", json!({"a": 1, "b": {"c": []}})),
        ("{1: 'one', true: 'yes'}", json!({"1": "one", "true": "yes"})),
        ("{1: 'one', true: 'yes'}[1]", json!("one")),
        ("{}", json!({})),
        ("[]", json!([])),
    ]);
}

#[test]
fn numbers_are_computed() {
    assert_values(&[
        ("input.n + 1", json!(6)),
        ("input.n - 7", json!(-2)),
        ("input.n * input.n", json!(25)),
        ("7 / 2", json!(3)),
        ("-7 / 2", json!(-3)),
        ("-7 % 3", json!(-1)),
        ("7.0 / 2.0", json!(3.5)),
        ("1 + 2 * 3 - 4 / 2", json!(5)),
        ("(1 + 2) * 3", json!(9)),
        ("10 - 2 - 3", json!(5)),
        ("-input.n", json!(-5)),
        ("--5", json!(5)),
        ("- -input.n", json!(5)),
        // JSON writes 2 for 2.0, so that a double and an integer must go together.
        ("input.price * 2", json!(5.0)),
        ("input.n / 2.0", json!(2.5)),
        ("input.n + input.price", json!(7.5)),
        // What is too large for a signed integer is kept exact where it can be.
        ("input.big", json!(u64::MAX)),
        ("input.big - 1", json!(u64::MAX - 1)),
        ("input.big > 1", json!(true)),
        ("input.big == input.big", json!(true)),
        ("input.big / 2", json!(i64::MAX)),
        ("string(input.big)", json!("18446744073709551615")),
    ]);
}

#[test]
fn values_are_compared() {
    assert_values(&[
        ("1 == 1.0", json!(true)),
        ("1 != 2", json!(true)),
        ("1 < 1.5", json!(true)),
        ("9007199254740993 == 9007199254740992.0", json!(false)),
        ("9007199254740993 > 9007199254740992.0", json!(true)),
        ("2.5 >= 2", json!(true)),
        ("1 == '1'", json!(false)),
        ("null == null", json!(true)),
        ("input.none == null", json!(true)),
        ("input.n != null", json!(true)),
        ("'a' < 'b'", json!(true)),
        ("'Z' <= 'a'", json!(true)),
        ("false < true", json!(true)),
        ("[1, [2]] == [1.0, [2]]", json!(true)),
        ("[1] == [1, 2]", json!(false)),
        ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", json!(true)),
        ("{'a': 1} == {'b': 1}", json!(false)),
        ("input.user == {'id': 7, 'kind': 'admin', 'first-name': 'Ada'}", json!(true)),
        ("0.0 / 0.0 == 0.0 / 0.0", json!(false)),
        ("0.0 / 0.0 < 1.0", json!(false)),
        ("1 in input.list", json!(true)),
        ("9 in input.list", json!(false)),
        ("'kind' in input.user", json!(true)),
        ("'x' in {'x': 1}", json!(true)),
        ("1 in {1: 2}", json!(true)),
        ("1 in input.user", json!(false)),
        ("!('x' in input.user)", json!(true)),
    ]);
}

#[test]
fn conditions_are_joined() {
    assert_values(&[
        ("true && false", json!(false)),
        ("true || false && false", json!(true)),
        ("!true || !false", json!(true)),
        ("true && true && true", json!(true)),
        ("input.ok ? 'yes' : 'no'", json!("yes")),
        ("false ? 1 : true ? 2 : 3", json!(2)),
        ("1 < 2 == true", json!(true)),
        // A side that decides does so whatever is wrong with the other.
        ("input.missing == 1 || true", json!(true)),
        ("true || input.missing == 1", json!(true)),
        ("false && input.missing", json!(false)),
        ("input.missing && false", json!(false)),
        ("input.n == 5 ? 1 : input.missing", json!(1)),
    ]);
}

#[test]
fn what_may_be_absent_has_a_default() {
    assert_values(&[
        ("has(input.n)", json!(true)),
        ("has(input.none)", json!(true)),
        ("has(input.missing)", json!(false)),
        ("has(input.missing.deeper)", json!(false)),
        ("has(input.n.deeper)", json!(false)),
        ("has(steps.skipped.output.path)", json!(false)),
        ("has(steps.fetch.output.path)", json!(true)),
        ("has(input.list[0])", json!(true)),
        ("has(input.list[9])", json!(false)),
        ("has(input['n'])", json!(true)),
        ("input.?n.orValue(0)", json!(5)),
        ("input.?missing.orValue(0)", json!(0)),
        ("input.?missing.?deeper.orValue('none')", json!("none")),
        ("input.?missing.deeper.deeper.orValue('none')", json!("none")),
        ("input.?user.kind.orValue('none')", json!("admin")),
        ("input.?none.orValue('none')", json!(null)),
        ("steps.skipped.output.?path.orValue('none')", json!("none")),
        ("input.list[?0].orValue(0)", json!(3)),
        ("input.list[?9].orValue(0)", json!(0)),
        ("input[?'missing'].orValue(0)", json!(0)),
        ("input.?n.hasValue()", json!(true)),
        ("input.?missing.hasValue()", json!(false)),
        ("input.?n.orValue(input.missing)", json!(5)),
    ]);
}

#[test]
fn lists_are_gone_through() {
    assert_values(&[
        ("input.list.all(x, x > 0)", json!(true)),
        ("input.list.exists(x, x > 2)", json!(true)),
        ("input.list.exists_one(x, x > 1)", json!(false)),
        ("input.list.existsOne(x, x > 2)", json!(true)),
        ("input.list.map(x, x * 2)", json!([6, 2, 4])),
        ("input.list.map(x, x > 1, x * 2)", json!([6, 4])),
        ("input.list.filter(x, x > 1)", json!([3, 2])),
        ("input.empty.all(x, false)", json!(true)),
        ("input.empty.exists(x, true)", json!(false)),
        ("input.user.map(key, key)", json!(["first-name", "id", "kind"])),
        ("input.user.filter(key, input.user[key] == 7)", json!(["id"])),
        ("input.orders.filter(o, o.state == 'paid').map(o, o.id)", json!([1])),
        ("[1, 2].map(x, [10, 20].map(y, x + y))", json!([[11, 21], [12, 22]])),
        ("[1, 2].map(x, [x].map(x, x + 1))", json!([[2], [3]])),
        ("input.list.map(item, item + index)", json!([7, 5, 6])),
        ("[[1, 2], [3]].exists(l, l.all(x, x > 2))", json!(true)),
        // An item that decides does so whatever is wrong with the others.
        ("[1, {'a': 1}].exists(x, x.a == 1)", json!(true)),
        ("[1, {'a': 1}].all(x, x.a == 2)", json!(false)),
        ("input.list + [4]", json!([3, 1, 2, 4])),
        ("input.words.join('-')", json!("b-a-b")),
        ("input.words.join()", json!("bab")),
        ("input.empty.join(',')", json!("")),
        ("input.words.distinct()", json!(["b", "a"])),
        ("[1, 1.0, 2, [1], [1.0], 'a', null, null, 1.5].distinct()", json!([1, 2, [1], "a", null, 1.5])),
        ("[[1], 2, [], [3, [4]]].flatten()", json!([1, 2, 3, [4]])),
        ("input.list.sort()", json!([1, 2, 3])),
        ("['b', 'a'].sort()", json!(["a", "b"])),
        ("[2, 1.5].sort()", json!([1.5, 2])),
        ("[].sort()", json!([])),
        ("input.list.reverse()", json!([2, 1, 3])),
        ("min(input.list)", json!(1)),
        ("max(input.list)", json!(3)),
        ("max(1, 2.5, 2)", json!(2.5)),
        ("min('b', 'a')", json!("a")),
        ("math.greatest(1, 2)", json!(2)),
        ("math.least([1, 2])", json!(1)),
        ("size(input.list)", json!(3)),
        ("input.user.size()", json!(3)),
    ]);
}

#[test]
fn strings_are_worked_on() {
    assert_values(&[
        ("'a' + 'b'", json!("ab")),
        ("size('né😀')", json!(3)),
        ("'order-7'.contains('-')", json!(true)),
        ("'order-7'.startsWith('order')", json!(true)),
        ("'order-7'.endsWith('7')", json!(true)),
        ("'Ünder ABC'.lowerAscii()", json!("Ünder abc")),
        ("'über abc'.upperAscii()", json!("üBER ABC")),
        ("' x \\n'.trim()", json!("x")),
        ("input.text.split(',')", json!(["a", "b", "c"])),
        ("input.text.split(',', 2)", json!(["a", "b,c"])),
        ("input.text.split(',', 0)", json!([])),
        ("input.text.split(',', -1)", json!(["a", "b", "c"])),
        ("'aé'.split('')", json!(["a", "é"])),
        ("'abc'.split('', 2)", json!(["a", "bc"])),
        ("'abc'.split('', 0)", json!([])),
        ("''.split(',')", json!([""])),
        ("'a-b-c'.replace('-', '+')", json!("a+b+c")),
        ("'a-b-c'.replace('-', '+', 1)", json!("a+b-c")),
        ("'ab'.replace('', '.')", json!(".a.b.")),
        ("'né😀!'.substring(1)", json!("é😀!")),
        ("'né😀!'.substring(1, 3)", json!("é😀")),
        ("'abc'.substring(3)", json!("")),
        ("'né😀!'.indexOf('!')", json!(3)),
        ("'abc'.indexOf('x')", json!(-1)),
        ("'abcabc'.lastIndexOf('b')", json!(4)),
        ("'order-17'.matches('^order-[0-9]+$')", json!(true)),
        (r"'a.b@c.de'.matches(r'^[\w.-]+@[\w.-]+$')", json!(true)),
        (r"'naïve'.matches(r'^\w+$')", json!(false)),
        ("'naïve'.matches('^.{5}$')", json!(true)),
    ]);
}

#[test]
fn values_are_converted() {
    assert_values(&[
        ("string(5)", json!("5")),
        ("string(2.5)", json!("2.5")),
        ("string(true)", json!("true")),
        ("string('x')", json!("x")),
        ("int('42')", json!(42)),
        ("int(-2.9)", json!(-2)),
        ("int(timestamp('1970-01-01T00:01:00Z'))", json!(60)),
        ("double('2.5')", json!(2.5)),
        ("double(2)", json!(2.0)),
        ("bool('true')", json!(true)),
        ("bool(false)", json!(false)),
        ("math.abs(-5)", json!(5)),
        ("math.abs(-5.5)", json!(5.5)),
        ("math.ceil(1.2)", json!(2.0)),
        ("math.floor(-1.2)", json!(-2.0)),
        ("int(math.round(2.5))", json!(3)),
        ("type(1) == int", json!(true)),
        ("type(1.5) == double", json!(true)),
        ("type('a') == string && type([]) == list && type({}) == map", json!(true)),
        ("type(null) == null_type && type(true) == bool", json!(true)),
        ("type(input.n)", json!("int")),
    ]);
}

#[test]
fn moments_are_computed_without_a_clock() {
    assert_values(&[
        ("duration('1h 30m')", json!("5400s")),
        ("duration('PT1.5S')", json!("1.5s")),
        ("duration('-1m')", json!("-60s")),
        ("-duration('1m')", json!("-60s")),
        ("duration('1h') + duration('30m') > duration('89m')", json!(true)),
        ("duration('90m').getMinutes()", json!(90)),
        ("timestamp(run.createdAt) - duration('1h')", json!("2030-01-31T07:30:00Z")),
        ("timestamp('2030-01-31T09:30:00+01:00') == timestamp(run.createdAt)", json!(true)),
        ("timestamp('2030-02-01T00:00:00Z') - timestamp(run.createdAt)", json!("55800s")),
        ("timestamp(0)", json!("1970-01-01T00:00:00Z")),
        ("timestamp(run.createdAt).getFullYear()", json!(2030)),
        ("timestamp(run.createdAt).getMonth()", json!(0)),
        ("timestamp(run.createdAt).getDate()", json!(31)),
        ("timestamp(run.createdAt).getDayOfMonth()", json!(30)),
        ("timestamp(run.createdAt).getDayOfWeek()", json!(4)),
        ("timestamp(run.createdAt).getDayOfYear()", json!(30)),
        ("timestamp(run.createdAt).getHours()", json!(8)),
        ("timestamp('2030-01-31T08:30:15.250Z').getSeconds()", json!(15)),
        ("timestamp('2030-01-31T08:30:15.250Z').getMilliseconds()", json!(250)),
        // 2030-01-31T09:15:00.500Z: when this is evaluated.
        ("now", json!("2030-01-31T09:15:00.5Z")),
        ("now + duration('2h')", json!("2030-01-31T11:15:00.5Z")),
        ("now - duration('15m') > timestamp(run.createdAt)", json!(true)),
        ("now == now", json!(true)),
        ("type(now) == type(timestamp(0))", json!(true)),
        ("now.getHours('Europe/Berlin')", json!(10)),
        ("now.getHours(' UTC'.trim())", json!(9)),
        ("now.getDate('Pacific/Kiritimati')", json!(31)),
        ("now.getHours('Pacific/Kiritimati')", json!(23)),
        ("timestamp('2030-07-31T23:30:00Z').getDate('Europe/Berlin')", json!(1)),
        ("now.getMinutes('+05:30')", json!(45)),
        ("now.getMilliseconds('-03:00')", json!(500)),
        ("string(timestamp(run.createdAt))", json!("2030-01-31T08:30:00Z")),
    ]);
}

#[test]
fn only_what_is_read_is_bound() {
    let reads = |input: bool, run: bool, item: bool, steps: &[u16]| Reads {
        input,
        run,
        item,
        secrets: std::collections::BTreeSet::new(),
        steps: steps.iter().map(|place| StepIndex(*place)).collect(),
    };
    let cases = [
        ("1 + 1", reads(false, false, false, &[])),
        ("input.n", reads(true, false, false, &[])),
        ("run.id", reads(false, true, false, &[])),
        ("item.file", reads(false, false, true, &[])),
        ("index", reads(false, false, true, &[])),
        ("steps.fetch.output", reads(false, false, false, &[0])),
        ("steps['fetch-data'].output + steps.fetch.output.rows", reads(false, false, false, &[0, 1])),
        ("[1].map(item, item)", reads(false, false, false, &[])),
        ("[1].map(input, input)", reads(false, false, false, &[])),
        ("input.list.map(x, steps.skipped.output)", reads(true, false, false, &[2])),
        ("true ? 1 : run.key", reads(false, true, false, &[])),
    ];
    for (source, expected) in cases {
        assert_eq!(compile(source).as_ref(), Ok(&expected), "{source}");
    }
}
