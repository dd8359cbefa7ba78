//! What is refused, where, and with which sentence.

use unstuck_flow::Severity;

use crate::{lines, read};

/// What it is about, the file, and its problems.
type Case = (&'static str, &'static str, &'static [&'static str]);

const FILES: &[Case] = &[
    (
        "nothing",
        "",
        &[
            "1:1: the file contains no policy (start with `name: <name>`, then what it matches (such as `errorSubstring`) and its `backOff`)",
        ],
    ),
    (
        "an empty list",
        "[]",
        &[
            "1:1: the file contains no policy (start with `name: <name>`, then what it matches (such as `errorSubstring`) and its `backOff`)",
        ],
    ),
    ("not a map", "just text\n", &["1:1: a policy is a map, not text (write `name: ...`)"]),
    ("a list of lists", "[[]]", &["1:2: a policy is a map, not a list (write `name: ...`)"]),
    ("JSON that stops", "{\"name\": [1", &["1:10: unclosed bracket '['"]),
    (
        "a flow",
        "flow: a\nsteps: [{id: x, set: 1}]\n",
        &["1:1: this is a flow, not a policy (run flows with `unstuck run`)"],
    ),
    (
        "a list with a word around it",
        "policies:\n  - {name: a, flow: f, maxAttempts: 2, backOff: {delay: 1}}\n",
        &[
            "1:1: policies: a policy file is the list itself, without `policies:` around it (start each policy with \
           `- name: <name>`, or put `---` between them)",
        ],
    ),
    (
        "a key twice",
        "{name: a, flow: f, maxAttempts: 2, backOff: 1, name: b}",
        &["1:48: name: given twice; the first is on line 1 (keep one of the two)"],
    ),
    (
        "two names of one field",
        "{name: a, flow: f, maxAttempts: 2, max-attempts: 3, backOff: 1}",
        &["1:36: max-attempts: `maxAttempts` is given twice, under two different names"],
    ),
];

const FIELDS: &[Case] = &[
    (
        "nothing of what it needs",
        "{}",
        &[
            "1:1: backOff: the policy has no `backOff` (write `backOff: {delay: 60}`, in seconds)",
            "1:1: errorSubstring: the policy would match every error (give at least one of `errorSubstring`, `flow`, `action`, `actionType`)",
            "1:1: maxAttempts: the policy has no `maxAttempts` (2 resumes once, 10 resumes at most nine times)",
            "1:1: name: the policy has no name (give it a name that says which errors it handles)",
        ],
    ),
    (
        "blank ones",
        "name: ' '\nflow: ''\nmaxAttempts: 2\nbackOff: 1\n",
        &[
            "1:1: errorSubstring: the policy would match every error (give at least one of `errorSubstring`, `flow`, `action`, `actionType`)",
            "1:7: name: the policy has no name (give it a name that says which errors it handles)",
            "2:7: flow: is empty and is ignored (remove it, or give it a value)",
        ],
    ),
    (
        "an unknown field, and one that is misspelled",
        "name: a\nflow: f\nmaxAttemps: 2\nbackof: 1\ncolour: red\n",
        &[
            "3:1: maxAttemps: a policy has no field `maxAttemps` (did you mean `maxAttempts`?)",
            "4:1: backof: a policy has no field `backof` (did you mean `backOff`?)",
            "5:1: colour: a policy has no field `colour`",
        ],
    ),
    (
        "words from elsewhere",
        "name: a\ncause: x\ntype: T\nattempts: 2\ndelay: 1\nfatal: true\n",
        &[
            "2:1: cause: a policy has no field `cause` (did you mean `errorSubstring`?)",
            "3:1: type: a policy has no field `type` (did you mean `actionType`?)",
            "4:1: attempts: a policy has no field `attempts` (did you mean `maxAttempts`?)",
            "5:1: delay: a policy has no field `delay` (did you mean `backOff`?)",
            "6:1: fatal: a policy has no field `fatal` (did you mean `includeFatal`?)",
        ],
    ),
    (
        "texts that are none",
        "id: [1]\nname: true\nerrorSubstring: {}\nflow: [a]\nmaxAttempts: 2\nbackOff: 1\n",
        &[
            "1:5: id: expected text, not a list",
            "2:7: name: expected text, not `true`",
            "3:17: errorSubstring: expected text, not a map",
            "4:7: flow: expected text, not a list",
        ],
    ),
    (
        "a name of two lines",
        "name: \"a\\nb\"\nflow: f\nmaxAttempts: 2\nbackOff: 1\n",
        &["1:7: name: contains a line break or another control character (keep it to one line)"],
    ),
    (
        "an action without its flow",
        "name: a\naction: SmokeFormatAction\nmaxAttempts: 2\nbackOff: 1\n",
        &[
            "2:9: action: `action` is `SmokeFormatAction`, without its flow (write the full name, as in `smoke.SmokeFormatAction`; `unstuck errors` shows it)",
        ],
    ),
    (
        "numbers that are none",
        "name: a\nflow: f\nmaxAttempts: many\npriority: 1.5\nbackOff: {delay: 1, multiplier: '2'}\nenabled: yes\nincludeFatal: 1\n",
        &[
            "3:14: maxAttempts: expected a whole number of at least 2, not `many`",
            "4:11: priority: expected a whole number, such as 150, not `1.5`",
            "5:33: backOff.multiplier: expected a number of at least 1, not `\"2\"` (remove the quotes)",
            "6:10: enabled: expected `true` or `false`, not `yes` (write `true`)",
            "7:15: includeFatal: expected `true` or `false`, not `1`",
        ],
    ),
    (
        "too few attempts",
        "name: a\nflow: f\nmaxAttempts: 1\nbackOff: 1\n",
        &[
            "3:14: maxAttempts: `maxAttempts` is 1; below 2 the policy would never resume anything (2 resumes once, 10 resumes at most nine times)",
        ],
    ),
    (
        "attempts without end, as steps may have",
        "name: a\nflow: f\nmaxAttempts: -1\nbackOff: 1\n",
        &[
            "3:14: maxAttempts: `maxAttempts` is -1; below 2 the policy would never resume anything (2 resumes once, 10 resumes at most nine times)",
        ],
    ),
];

const BACK_OFFS: &[Case] = &[
    (
        "no delay",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff: {multiplier: 2}\n",
        &["4:10: backOff.delay: `backOff` has no `delay` (write `delay: 60`, in seconds, or `delay: 5m`)"],
    ),
    (
        "a misspelled delay",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff: {dealy: 2}\n",
        &["4:11: backOff.dealy: `backOff` has no field `dealy` (did you mean `delay`?)"],
    ),
    (
        "no duration",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff: {delay: soon, maxDelay: [1], random: true}\n",
        &[
            "4:18: backOff.delay: `soon` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
            "4:34: backOff.maxDelay: a list is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        ],
    ),
    (
        "negative, as a number and as texts",
        "- {name: a, flow: f, maxAttempts: 2, backOff: -1}\n- {name: b, flow: g, maxAttempts: 2, backOff: {delay: -5s, maxDelay: -PT1S, multiplier: 1}}\n- {name: c, flow: h, maxAttempts: 2, backOff: {delay: 5s ago}}\n",
        &[
            "1:47: backOff.delay: `backOff.delay` is negative (a delay is 0 or more)",
            "2:55: backOff.delay: `backOff.delay` is negative (a delay is 0 or more)",
            "2:70: backOff.maxDelay: `backOff.maxDelay` is negative (a delay is 0 or more)",
            "3:55: backOff.delay: `backOff.delay` is negative (a delay is 0 or more)",
        ],
    ),
    (
        "random without an end",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff:\n  delay: 1\n  random: true\n",
        &[
            "5:3: backOff.maxDelay: `random` needs a `maxDelay` (the delay is random between `delay` and `maxDelay`: give both)",
        ],
    ),
    (
        "an end before the start",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff: {delay: 10m, maxDelay: 5m, multiplier: 1}\n",
        &["4:33: backOff.maxDelay: `maxDelay` 5m is below `delay` 10m (raise it, or leave it out)"],
    ),
    (
        "shrinking",
        "name: a\nflow: f\nmaxAttempts: 2\nbackOff: {delay: 1, multiplier: 0.5}\n",
        &[
            "4:33: backOff.multiplier: `multiplier` is below 1 (the delay is `delay * multiplier * rounds`: 1 grows by one delay each round)",
        ],
    ),
];

const TOGETHER: &[Case] = &[
    (
        "a name, an id and criteria twice",
        "- {id: i, name: a, flow: f, maxAttempts: 2, backOff: 1}\n- {id: i, name: b, action: f.x, maxAttempts: 2, backOff: 1}\n- {name: a, flow: g, maxAttempts: 2, backOff: 1}\n- {name: d, flow: f, maxAttempts: 2, backOff: 5}\n- {name: e, flow: f, maxAttempts: 3, backOff: 5}\n",
        &[
            "2:8: id: this id is already used by the policy on line 1 (remove the id, and a new one is generated)",
            "3:10: name: the name `a` is already used by the policy on line 1 (give each policy its own name)",
            "4:3: errorSubstring: it has the same criteria and `maxAttempts` as policy `a` on line 1 (only one of the two can ever apply: change or remove one)",
        ],
    ),
    (
        "everything at once, over two documents",
        "name: a\nmaxAttempts: 0\nbackOff: {delay: -1, random: true}\n---\nname: a\nactoin: x\nbackOff: never\n",
        &[
            "1:1: errorSubstring: the policy would match every error (give at least one of `errorSubstring`, `flow`, `action`, `actionType`)",
            "2:14: maxAttempts: `maxAttempts` is 0; below 2 the policy would never resume anything (2 resumes once, 10 resumes at most nine times)",
            "3:10: backOff.maxDelay: `random` needs a `maxDelay` (the delay is random between `delay` and `maxDelay`: give both)",
            "3:18: backOff.delay: `backOff.delay` is negative (a delay is 0 or more)",
            "5:1: maxAttempts: the policy has no `maxAttempts` (2 resumes once, 10 resumes at most nine times)",
            "5:7: name: the name `a` is already used by the policy on line 1 (give each policy its own name)",
            "6:1: actoin: a policy has no field `actoin` (did you mean `action`?)",
            "7:10: backOff: `never` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        ],
    ),
];

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    for (what, file, expected) in [FILES, FIELDS, BACK_OFFS, TOGETHER].concat() {
        let problems = read(file).err().unwrap_or_else(|| panic!("{what}: accepted"));
        assert_eq!(lines(&problems), expected, "{what}");
        assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{what}");
    }
}

#[test]
fn a_name_has_an_end() {
    let named =
        |length: usize| format!("{{name: {}, flow: f, maxAttempts: 2, backOff: 1}}", "a".repeat(length));
    assert!(read(&named(200)).is_ok());
    let problems = read(&named(201)).expect_err("too long");
    assert_eq!(lines(&problems), ["1:8: name: longer than 200 characters"]);
}
