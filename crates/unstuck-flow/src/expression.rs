//! Expressions: the text between `${` and `}`, compiled when a flow is loaded and evaluated within limits.
//!
//! The language is CEL, the Common Expression Language, over JSON; `docs/expressions.md` describes it. Parser and
//! evaluator are our own, because both must be bounded: nothing that a flow file says may overflow the stack, run
//! for long or fill the memory; and because every refusal must say in one sentence what is wrong and where.

use std::sync::Arc;

use serde_json::Value;
use unstuck_core::model::expression::{Evaluate, Reads, Scope};
use unstuck_core::model::flow::StepIndex;

mod arithmetic;
mod call;
mod compare;
mod convert;
mod evaluate;
mod function;
mod list;
mod meter;
mod parse;
mod pattern;
mod program;
mod resolve;
mod sentence;
mod syntax;
mod text;
mod time_functions;
mod token;
mod value;

pub(crate) use meter::{Meter, TooLarge};
pub(crate) use program::Program;

/// The longest expression, in bytes.
pub const MAX_SOURCE_BYTES: usize = 1024;
/// How many brackets and choices may be open at once.
pub const MAX_NESTING: usize = 24;
/// How many operators may build on each other, as in `a + b + c`.
pub const MAX_DEPTH: usize = 64;
/// How many operations one evaluation may take: a part evaluated, an item gone through, 16 bytes looked at.
pub const MAX_OPERATIONS: usize = 200_000;
/// How many bytes one evaluation may make, its result included.
pub const MAX_RESULT_BYTES: usize = unstuck_core::decide::MAX_PAYLOAD_BYTES;
/// How deep a result may be nested.
pub const MAX_RESULT_DEPTH: usize = 100;
/// What `run` has.
pub const RUN_FIELDS: [&str; 6] = ["id", "key", "flow", "version", "generation", "createdAt"];

/// What an expression may refer to where it stands.
pub struct Names<'a> {
    /// The place of a step, by its id.
    pub steps: &'a dyn Fn(&str) -> Option<StepIndex>,
    /// Every step's id, for suggestions.
    pub step_ids: &'a [&'a str],
    /// Whether it stands inside a `forEach`, where `item` and `index` are known.
    pub item: bool,
    /// Whether it may be `secrets.<name>`: alone, for a secret is put in when an attempt starts and is never computed with.
    pub secrets: bool,
}

/// Why an expression was refused when it was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// What is wrong.
    pub message: String,
    /// The byte in the source where it is.
    pub offset: usize,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ExpressionError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> ExpressionError {
        ExpressionError { message: message.into(), offset, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> ExpressionError {
        self.hint = Some(hint.into());
        self
    }

    /// Shifts the error by `start`, where the source begins in a longer text.
    pub(crate) fn moved(mut self, start: usize) -> ExpressionError {
        self.offset += start;
        self
    }
}

impl std::fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExpressionError {}

/// Compiles the text between `${` and `}`, and returns what it reads with the program.
pub fn compile(source: &str, names: &Names<'_>) -> Result<(Reads, Arc<dyn Evaluate>), ExpressionError> {
    let (reads, program) = compile_program(source, names)?;
    Ok((reads, Arc::new(program)))
}

/// Scans, parses and resolves an expression.
pub(crate) fn compile_program(source: &str, names: &Names<'_>) -> Result<(Reads, Program), ExpressionError> {
    resolve::resolve(source, &parse::parse(token::scan(source, false)?.tokens)?, names)
}

/// An expression that was found in a text.
pub(crate) struct Braced {
    pub(crate) reads: Reads,
    pub(crate) content: BracedContent,
    /// The place of the `}` that closes it.
    pub(crate) end: usize,
}

/// What stands between `${` and `}`.
pub(crate) enum BracedContent {
    Program(Program),
    /// `secrets.<name>`, alone.
    Secret(Arc<str>),
}

/// Compiles the expression at the start of `text`, up to the `}` that closes the `${` before it.
pub(crate) fn compile_braced(text: &str, names: &Names<'_>) -> Result<Braced, ExpressionError> {
    let scan = token::scan(text, true)?;
    let syntax = parse::parse(scan.tokens)?;
    if let Some(name) = resolve::find_secret(&syntax, names)? {
        let reads = Reads { secrets: [Arc::clone(&name)].into(), ..Reads::default() };
        return Ok(Braced { reads, content: BracedContent::Secret(name), end: scan.end });
    }
    let (reads, program) = resolve::resolve(&text[..scan.end], &syntax, names)?;
    Ok(Braced { reads, content: BracedContent::Program(program), end: scan.end })
}

impl Evaluate for Program {
    fn evaluate(&self, scope: &Scope) -> Result<Value, String> {
        self.run(scope, &Meter::new())
    }
}
