//! Fuzz targets: what must hold whatever bytes come in. Each is a plain function that panics where it does not.
//!
//! `cargo xtask fuzz` lets libFuzzer look for such bytes; the test puts the corpus through, with some changes to it.

pub mod corpus;
mod expressions;
mod files;
mod payloads;
mod stored;
mod texts;

/// What is tried with bytes of any kind.
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What the bytes are, and what must hold.
    pub about: &'static str,
    /// Panics where it does not hold.
    pub check: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "flow",
        about: "a flow file: flows that are kept as the same flows, or problems with a place in the text",
        check: files::flow,
    },
    Target {
        name: "policies",
        about: "a policy file: policies that can be exported and loaded again, or problems with a place",
        check: files::policies,
    },
    Target {
        name: "plan",
        about: "the plan of a rehearsal: can be asked about every step at any time, or problems with a place",
        check: files::plan,
    },
    Target {
        name: "expression",
        about: "an expression, a line `---` and its input: a value within the limits, or a refusal with a place",
        check: expressions::expression,
    },
    Target {
        name: "template",
        about: "a value with `${ ... }` in it: the same of every string in it",
        check: expressions::template,
    },
    Target {
        name: "json",
        about: "a payload: what is accepted can be read, stored and put into a list",
        check: payloads::json,
    },
    Target {
        name: "row",
        about: "the kind of a stored row and its text: what can be read is written again as the same",
        check: stored::row,
    },
    Target {
        name: "history",
        about: "a list of events: the check of a store finds what is wrong with it, and lives",
        check: stored::history,
    },
    Target {
        name: "snapshot",
        about: "a state of a run that was kept, and events after it: is refused, or goes on and is kept as the same",
        check: stored::snapshot,
    },
    Target {
        name: "duration",
        about: "a duration: what is read is within bounds and can be printed and read again",
        check: texts::duration,
    },
    Target {
        name: "instant",
        about: "an instant: what is read can be printed and read again",
        check: texts::instant,
    },
    Target {
        name: "token",
        about: "a token or the parts of one: names its attempt and no other, and cannot be changed",
        check: texts::token,
    },
    Target {
        name: "fingerprint",
        about: "the cause of an error: has a pattern of bounded length",
        check: texts::fingerprint,
    },
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
