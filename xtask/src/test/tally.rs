//! Counts tests: turns the lines of `cargo test` into numbers and names.

/// How everything went: checks and tests together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// What failed, one line each.
    pub(super) failures: Vec<String>,
}

/// What the lines of `cargo test` have said so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
    target: Option<Target>,
}

/// The test program that is running, or one crate's doc tests.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    /// Whether it has said how it went: one that crashes never does.
    reported: bool,
}

impl Outcome {
    /// Counts one check.
    pub(super) fn check(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(why) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {why}"));
            }
        }
    }

    /// Counts the tests; that there are none is a failure.
    pub(super) fn tests(&mut self, tally: Tally) {
        if tally.passed + tally.failed == 0 {
            self.check("tests", Err("no test ran".to_owned()));
        }
        self.passed += tally.passed;
        self.failed += tally.failed;
        self.failures.extend(tally.failures);
    }

    /// The line that stands at the very end.
    pub(super) fn last_line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    /// Counts one line of output.
    pub(super) fn line(&mut self, line: &str) {
        let line = without_colour(line);
        let line = line.trim_end();
        if let Some(name) = parse_target(line) {
            self.begin(name);
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
        } else if let Some(test) = line.strip_prefix("test ") {
            self.test(test);
        }
    }

    /// Ends the count; `success` is whether cargo exited well.
    pub(super) fn end(&mut self, success: bool) {
        self.close();
        if !success && self.failed == 0 {
            self.fail("tests: `cargo test` failed; see above".to_owned());
        }
    }

    fn begin(&mut self, name: String) {
        self.close();
        self.target = Some(Target { name, reported: false });
    }

    fn close(&mut self) {
        if let Some(target) = self.target.take()
            && !target.reported
        {
            self.fail(format!("{}: ended without a test result", target.name));
        }
    }

    fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failures.push(what);
    }

    /// `ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
    fn result(&mut self, result: &str) {
        let count = |what: &str| {
            let part = result.split(['.', ';']).map(str::trim).find_map(|part| part.strip_suffix(what));
            part.and_then(|number| number.trim().parse::<usize>().ok()).unwrap_or(0)
        };
        self.passed += count("passed");
        // Nothing is skipped in silence: what is ignored has not passed.
        self.failed += count("failed") + count("ignored");
        if let Some(target) = &mut self.target {
            target.reported = true;
        }
    }

    /// `name ... ok`, `name ... FAILED`, `name ... ignored, reason`.
    fn test(&mut self, test: &str) {
        let Some((name, verdict)) = test.split_once(" ... ") else { return };
        let target = self.target.as_ref().map_or("tests", |target| target.name.as_str());
        if verdict == "FAILED" {
            self.failures.push(format!("{target}: {name}"));
        } else if verdict == "ignored" || verdict.starts_with("ignored, ") {
            self.failures.push(format!("{target}: {name} is ignored; make it run, or remove it"));
        }
    }
}

/// Parses the target from a heading: `Running unittests src/lib.rs (target/debug/deps/unstuck_core-0a1b)` or `Doc-tests
/// unstuck_core`. Cargo indents them; a test that prints such a line does not.
fn parse_target(line: &str) -> Option<String> {
    let heading = line.strip_prefix(' ')?.trim_start();
    if let Some(name) = heading.strip_prefix("Doc-tests ") {
        return Some(format!("{name}, doc tests"));
    }
    let running = heading.strip_prefix("Running ")?;
    let (source, program) = running.split_once(" (")?;
    let program = program.trim_end_matches(')').rsplit(['/', '\\']).next()?;
    Some(format!("{}, {source}", program.rsplit_once('-').map_or(program, |(name, _)| name)))
}

/// Without the escape sequences that colour a terminal.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(success: bool, output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.end(success);
        tally
    }

    /// What one case of `cargo test` is to give: passed, failed, and what failed.
    struct Case {
        name: &'static str,
        success: bool,
        output: &'static str,
        passed: usize,
        failed: usize,
        failures: &'static [&'static str],
    }

    const CASES: &[Case] = &[
        Case {
            name: "two targets that pass",
            success: true,
            output: "     Running unittests src/lib.rs (target/debug/deps/a-1)\n\ntest a ... ok\n\
                     test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\
                     \x20  Doc-tests a\n\
                     test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                     test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            passed: 6,
            failed: 0,
            failures: &[],
        },
        Case {
            name: "one test that fails",
            success: false,
            output: "     Running tests/a.rs (deps/a-1)\ntest a::b ... FAILED\ntest a::c - should panic ... ok\n\
                     test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n",
            passed: 1,
            failed: 1,
            failures: &["a, tests/a.rs: a::b"],
        },
        Case {
            name: "ignored tests are failures",
            success: true,
            output: "     Running tests/a.rs (deps/a-1)\ntest a ... ignored\ntest b ... ignored, too slow ... ok\n\
                     test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1s\n",
            passed: 0,
            failed: 2,
            failures: &[
                "a, tests/a.rs: a is ignored; make it run, or remove it",
                "a, tests/a.rs: b is ignored; make it run, or remove it",
            ],
        },
        Case {
            name: "a target that crashes beside one that fails",
            success: false,
            output: "     Running tests/a.rs (deps/a-1)\ntest a ... error: signal 6\n     Running tests/b.rs (deps/b-2)\n\
                     test b ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n",
            passed: 0,
            failed: 2,
            failures: &["a, tests/a.rs: ended without a test result", "b, tests/b.rs: b"],
        },
        Case {
            name: "what does not build",
            success: false,
            output: "error: could not compile `a` (lib) due to 1 previous error\n",
            passed: 0,
            failed: 1,
            failures: &["tests: `cargo test` failed; see above"],
        },
        Case {
            name: "colours",
            success: true,
            output: "\x1b[1m\x1b[92m     Running\x1b[0m tests/a.rs (deps/a-1)\n\
                     test result: \x1b[32mok\x1b[0m. 2 passed; 0 failed; 0 ignored\n",
            passed: 2,
            failed: 0,
            failures: &[],
        },
        Case {
            name: "what a test prints is no heading and no result",
            success: true,
            output: "     Running tests/a.rs (deps/a-1)\nRunning away\nthe test result: ok. 9 passed; 9 failed\n\
                     test result: ok. 1 passed; 0 failed; 0 ignored\n",
            passed: 1,
            failed: 0,
            failures: &[],
        },
    ];

    #[test]
    fn a_target_is_known_by_its_crate_and_source() {
        let cases = [
            (
                "     Running unittests src/lib.rs (target/debug/deps/unstuck_core-0a1b)",
                Some("unstuck_core, unittests src/lib.rs"),
            ),
            ("     Running tests/a.rs (C:\\target\\debug\\deps\\a-0a1b.exe)", Some("a, tests/a.rs")),
            ("   Doc-tests unstuck_core", Some("unstuck_core, doc tests")),
            ("Running tests/a.rs (a-1)", None),
            ("     Running late", None),
        ];
        for (line, expected) in cases {
            assert_eq!(parse_target(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn what_cargo_prints_is_counted() {
        for case in CASES {
            let found = tally(case.success, case.output);
            assert_eq!((found.passed, found.failed), (case.passed, case.failed), "{}", case.name);
            assert_eq!(found.failures, case.failures, "{}", case.name);
        }
    }

    #[test]
    fn checks_and_tests_add_up_in_the_last_line() {
        let mut outcome = Outcome::default();
        outcome.check("fmt", Ok(()));
        outcome.check("tidy", Err("rules broken at 2 places".to_owned()));
        outcome.tests(Tally { passed: 5, failed: 1, failures: vec!["a: b".to_owned()], target: None });
        assert_eq!(outcome.last_line(), "6 passed, 2 failed");
        assert_eq!(outcome.failures, ["tidy: rules broken at 2 places", "a: b"]);
    }

    #[test]
    fn no_test_at_all_is_a_failure() {
        let mut outcome = Outcome::default();
        outcome.tests(tally(true, "     Running a (x)\ntest result: ok. 0 passed; 0 failed; 0 ignored\n"));
        assert_eq!(outcome.last_line(), "0 passed, 1 failed");
        assert_eq!(outcome.failures, ["tests: no test ran"]);
    }
}
