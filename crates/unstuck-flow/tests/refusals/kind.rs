//! What is wrong with what a step does.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "a bad action",
        "\
flow: a
steps:
  - id: x
    action: do it
",
        &[
            "4:13: steps.x.action: `do it` is not a valid action name: start with a letter, then use letters, digits, `_`, `-`, `.`, `:` and `/` (for example `do-it`)",
        ],
    ),
    (
        "an empty command",
        "\
flow: a
steps:
  - id: x
    run: []
",
        &["4:10: steps.x.run: the command is empty (for example `run: [make, all]`)"],
    ),
    (
        "a command that is no command",
        "\
flow: a
steps:
  - id: x
    run: {a: 1}
",
        &["4:10: steps.x.run: expected a list of a program and its arguments, or a shell line, not a map"],
    ),
    (
        "inputs in a shell line",
        "\
flow: a
steps:
  - id: x
    run: 'cat ${input.file}'
",
        &[
            "4:15: steps.x.run: expressions are not allowed in a command (pass the value in `with`: the process gets it as JSON on stdin and in $UNSTUCK_INPUT, and each field as $INPUT_<NAME>)",
        ],
    ),
    (
        "inputs in an argument",
        "\
flow: a
steps:
  - id: x
    run: [cat, --, '${ steps.x.output }']
",
        &[
            "4:21: steps.x.run[2]: expressions are not allowed in a command (pass the value in `with`: the process gets it as JSON on stdin and in $UNSTUCK_INPUT, and each field as $INPUT_<NAME>)",
        ],
    ),
    (
        "inputs in a longer shell line",
        "\
flow: a
steps:
  - id: x
    run: |
      set -e
      echo ${HOME}
      cat ${input.file}
",
        &[
            "7:11: steps.x.run: expressions are not allowed in a command (pass the value in `with`: the process gets it as JSON on stdin and in $UNSTUCK_INPUT, and each field as $INPUT_<NAME>)",
        ],
    ),
    (
        "a bad wait",
        "\
flow: a
steps:
  - id: x
    wait: a while
",
        &[
            "4:11: steps.x.wait: `a while` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds (or an instant, such as `2030-01-31T08:30:00Z`)",
        ],
    ),
    (
        "times of day",
        r#"
flow: a
steps:
  - {id: a, wait: "02:00"}
  - {id: b, wait: {until: "25:00", zone: Europe/Berln}}
  - {id: c, wait: {zone: UTC}}
  - {id: d, wait: {until: "2:00"}}
  - {id: e, wait: {until: 2030-01-31T08:30:00Z, zone: UTC}}
  - {id: f, wait: {until: noon, zone: "${input.zone}"}}
  - {id: g, wait: {until: 2, zone: UTC, days: []}}
  - {id: h, wait: {until: "02:00", zone: UTC, days: [mon, frday]}}
  - {id: i, wait: {at: "02:00", zone: UTC}}
"#,
        &[
            "4:19: steps.a.wait: a time of day needs a time zone (write for example `{until: \"02:00\", zone: Europe/Berlin}`)",
            "5:27: steps.b.wait.until: `25:00` is not a time of day: use `00:00` to `23:59`",
            "5:42: steps.b.wait.zone: there is no time zone `Europe/Berln` (did you mean `Europe/Berlin`?)",
            "6:19: steps.c.wait: `wait` has no `until` (write for example `{until: \"02:00\", zone: Europe/Berlin}`)",
            "7:19: steps.d.wait: `wait` has no `zone` (write for example `{until: \"02:00\", zone: Europe/Berlin}`)",
            "8:27: steps.e.wait.until: expected a time of day such as `02:00` (for an instant, write `wait: 2030-01-31T08:30:00Z`)",
            "9:27: steps.f.wait.until: expected a time of day such as `02:00` (write for example `{until: \"02:00\", zone: Europe/Berlin}`)",
            "9:39: steps.f.wait.zone: expressions are not allowed here (to wait for a computed instant, write `wait: ${ ... }`)",
            "10:27: steps.g.wait.until: expected a time of day such as `\"02:00\"`, in quotes, not `2`",
            "10:47: steps.g.wait.days: `days` is empty (remove it to mean every day)",
            "11:59: steps.h.wait.days[1]: expected `monday`, `tuesday`, `wednesday`, `thursday`, `friday`, `saturday` or `sunday`, not `frday` (did you mean `friday`?)",
            "12:19: steps.i.wait: `wait` has no `until` (write for example `{until: \"02:00\", zone: Europe/Berlin}`)",
            "12:20: steps.i.wait.at: `wait` has no field `at`",
        ],
    ),
    (
        "a negative wait",
        "\
flow: a
steps:
  - id: x
    wait: -5
",
        &["4:11: steps.x.wait: `-5` is negative: write the duration without the sign"],
    ),
    (
        "a bad signal",
        "\
flow: a
steps:
  - id: x
    signal: ''
",
        &["4:13: steps.x.signal: must not be empty"],
    ),
    (
        "an unknown behaviour",
        "\
flow: a
steps:
  - id: x
    emulate: stal
",
        &[
            "4:14: steps.x.emulate: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `stal` (did you mean `stall`?)",
        ],
    ),
    (
        "an unknown behaviour in a sequence",
        "\
flow: a
steps:
  - id: x
    emulate: {sequence: [pass, fial]}
",
        &[
            "4:32: steps.x.emulate.sequence[1]: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `fial` (did you mean `fail`?)",
        ],
    ),
    (
        "a wait without its time",
        "\
flow: a
steps:
  - id: x
    emulate: wait
",
        &["4:14: steps.x.emulate: `wait` needs a duration (write `{wait: 5s}`)"],
    ),
    (
        "an empty sequence",
        "\
flow: a
steps:
  - id: x
    emulate: {sequence: []}
",
        &[
            "4:25: steps.x.emulate.sequence: a sequence has 1 to 1000 behaviours, not 0 (the last one repeats)",
        ],
    ),
    (
        "an emulation of nothing",
        "\
flow: a
steps:
  - id: x
    emulate: {seed: 3}
",
        &[
            "4:14: steps.x.emulate: the emulation has no behaviour (give it a `sequence`, for example `{sequence: [stall, pass]}`, or `odds`)",
            "4:21: steps.x.emulate.seed: `seed` works only with `odds` (remove it: nothing here is random)",
        ],
    ),
    (
        "an emulation of two plans",
        "\
flow: a
steps:
  - id: x
    emulate: {sequence: [pass], odds: {pass: 1}}
",
        &[
            "4:14: steps.x.emulate: give only one of `sequence`, `odds` and `wait` (a `sequence` can contain `{wait: 5s}`)",
        ],
    ),
    (
        "bad odds",
        "\
flow: a
steps:
  - id: x
    emulate: {odds: {pas: 1, stall: -1}}
",
        &[
            "4:22: steps.x.emulate.odds.pas: expected `pass`, `stall`, `fail`, `crash`, `drag`, `stick` or `choke`, not `pas` (did you mean `pass`?)",
            "4:37: steps.x.emulate.odds.stall: expected a number of at least 0, not `-1`",
        ],
    ),
    (
        "odds of nothing",
        "\
flow: a
steps:
  - id: x
    emulate: {odds: {pass: 0}}
",
        &[
            "4:21: steps.x.emulate.odds: the odds must add up to more than zero (for example `{stall: 1, pass: 9}`)",
        ],
    ),
    (
        "an expression in an emulation",
        "\
flow: a
steps:
  - id: x
    emulate: {sequence: [pass], output: {a: '${input.b}'}}
",
        &[
            "4:46: steps.x.emulate.output: expressions are not allowed here (put the value in `with`: an emulated step outputs it by default)",
        ],
    ),
];

#[test]
fn a_wrong_kind_is_refused_with_its_place() {
    refused(CASES);
}
