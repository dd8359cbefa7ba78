//! Templates: values of a flow file that contain `${ ... }`. Compiled once, evaluated for every step that begins.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use unstuck_core::json::Json;
use unstuck_core::model::expression::{Evaluate, Expression, Reads, Scope, Template};
use unstuck_core::model::secret;

use crate::expression::{
    BracedContent, ExpressionError, Meter, Names, Program, TooLarge, compile_braced, compile_program,
};

/// What is wrong with one of the strings in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Leads to the string inside the value: a JSON pointer.
    pub pointer: String,
    /// What is wrong, with its offset in that string.
    pub error: ExpressionError,
}

/// Compiles a value, or returns the errors of all strings in it.
pub fn compile(value: &Value, names: &Names<'_>) -> Result<Template, Vec<TemplateError>> {
    let mut compiler = Compiler { names, reads: Reads::default(), errors: Vec::new() };
    let piece = compiler.compile_value(value, &mut String::new());
    if !compiler.errors.is_empty() {
        return Err(compiler.errors);
    }
    Ok(match piece {
        Piece::Fixed(value) => Template::Fixed(Json::of(&value)),
        computed => {
            let source = value.as_str().map_or_else(|| value.to_string(), str::to_owned).into();
            let reads = compiler.reads;
            let program: Arc<dyn Evaluate> =
                if reads.secrets.is_empty() { Arc::new(computed) } else { Arc::new(Referring(computed)) };
            Template::Computed(Expression { source, reads, program })
        }
    })
}

/// Compiles a text that must be one expression: `${ ... }`, or the expression alone.
pub fn compile_expression(text: &str, names: &Names<'_>) -> Result<Expression, ExpressionError> {
    let (reads, program) = match text.trim_start().strip_prefix("${") {
        Some(rest) => {
            let start = text.len() - rest.len();
            let braced = compile_braced(rest, names).map_err(|error| error.moved(start))?;
            let after = start + braced.end + 1;
            if !text[after..].trim().is_empty() {
                return Err(ExpressionError::new(
                    after,
                    "this must be one expression, with nothing after it",
                )
                .hint("join strings inside the expression, as in `${ 'a-' + input.b }`"));
            }
            match braced.content {
                BracedContent::Program(program) => (braced.reads, program),
                BracedContent::Secret(_) => {
                    return Err(ExpressionError::new(start, "secrets are not allowed here"));
                }
            }
        }
        None => compile_program(text, names).map_err(|error| match text.find("${") {
            Some(at) => ExpressionError::new(at, "this must be one expression, with nothing before it")
                .hint("join strings inside the expression, as in `${ 'a-' + input.b }`"),
            None => error,
        })?,
    };
    Ok(Expression { source: text.into(), reads, program: Arc::new(program) })
}

/// A compiled value, or a part of one.
enum Piece {
    Fixed(Value),
    /// A string that is one expression.
    One(Program),
    /// A string with expressions in it.
    Mixed(Vec<Segment>),
    List(Vec<Piece>),
    Map(Vec<(String, Piece)>),
}

/// A part of a string.
enum Segment {
    Plain(String),
    Computed(Program),
    /// The name of a secret.
    Secret(Arc<str>),
}

/// A value that refers to secrets: in the form of [`secret`], with all else escaped.
struct Referring(Piece);

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Plain,
    /// With references to secrets.
    Referring,
}

impl Evaluate for Piece {
    fn evaluate(&self, scope: &Scope) -> Result<Value, String> {
        self.value(scope, &Meter::new(), ValueForm::Plain)
    }
}

impl Evaluate for Referring {
    fn evaluate(&self, scope: &Scope) -> Result<Value, String> {
        self.0.value(scope, &Meter::new(), ValueForm::Referring)
    }
}

impl ValueForm {
    fn write_value(self, value: Value) -> Value {
        if self == ValueForm::Referring { secret::escape_value(value) } else { value }
    }

    fn write_text(self, text: &str) -> Cow<'_, str> {
        if self == ValueForm::Referring { secret::escape(text) } else { Cow::Borrowed(text) }
    }
}

impl Piece {
    /// Evaluates the piece. The whole value shares one budget of bytes; every expression has its own operations.
    fn value(&self, scope: &Scope, meter: &Meter, form: ValueForm) -> Result<Value, String> {
        match self {
            Piece::Fixed(value) => Ok(form.write_value(value.clone())),
            Piece::One(program) => program.run(scope, meter).map(|value| form.write_value(value)),
            Piece::Mixed(segments) => evaluate_mixed(segments, scope, meter, form).map(Value::String),
            Piece::List(pieces) => pieces.iter().map(|piece| piece.value(scope, meter, form)).collect(),
            Piece::Map(entries) => entries
                .iter()
                .map(|(key, piece)| Ok((key.clone(), piece.value(scope, meter, form)?)))
                .collect(),
        }
    }
}

/// Evaluates a string with expressions in it.
fn evaluate_mixed(
    segments: &[Segment],
    scope: &Scope,
    meter: &Meter,
    form: ValueForm,
) -> Result<String, String> {
    let mut text = String::new();
    for segment in segments {
        let computed;
        let printed = match segment {
            Segment::Plain(plain) => form.write_text(plain),
            Segment::Computed(program) => {
                computed = match program.run(scope, meter)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                form.write_text(&computed)
            }
            Segment::Secret(name) => Cow::Owned(secret::reference(name)),
        };
        meter.spend_bytes(printed.len()).map_err(|TooLarge| TooLarge::sentence())?;
        text.push_str(&printed);
    }
    Ok(text)
}

struct Compiler<'n> {
    names: &'n Names<'n>,
    reads: Reads,
    errors: Vec<TemplateError>,
}

impl Compiler<'_> {
    /// Compiles a value. `pointer` leads to it for errors, and is restored afterwards.
    fn compile_value(&mut self, value: &Value, pointer: &mut String) -> Piece {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Piece::Fixed(value.clone()),
            Value::String(text) => self.compile_string(text).unwrap_or_else(|error| {
                self.errors.push(TemplateError { pointer: pointer.clone(), error });
                Piece::Fixed(Value::Null)
            }),
            Value::Array(items) => {
                let keys = (0..items.len()).map(|at| at.to_string());
                let pieces: Vec<Piece> =
                    keys.zip(items).map(|(key, item)| self.compile_child(&key, item, pointer)).collect();
                if pieces.iter().all(Piece::is_fixed) {
                    return Piece::Fixed(pieces.into_iter().filter_map(Piece::into_fixed).collect());
                }
                Piece::List(pieces)
            }
            Value::Object(entries) => {
                let pieces: Vec<(String, Piece)> = entries
                    .iter()
                    .map(|(key, value)| (key.clone(), self.compile_child(key, value, pointer)))
                    .collect();
                if pieces.iter().all(|(_, piece)| piece.is_fixed()) {
                    let fixed =
                        pieces.into_iter().filter_map(|(key, piece)| Some((key, piece.into_fixed()?)));
                    return Piece::Fixed(fixed.collect());
                }
                Piece::Map(pieces)
            }
        }
    }

    /// Compiles a part of a value with `key` appended to the pointer.
    fn compile_child(&mut self, key: &str, value: &Value, pointer: &mut String) -> Piece {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let piece = self.compile_value(value, pointer);
        pointer.truncate(length);
        piece
    }

    /// Compiles a string: fixed text, one expression, or a mix. `$${` stands for `${`.
    fn compile_string(&mut self, text: &str) -> Result<Piece, ExpressionError> {
        let mut segments = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let dollar = at + found;
            if text[at..dollar].ends_with('$') {
                plain.push_str(&text[at..dollar - 1]);
                plain.push_str("${");
                at = dollar + 2;
                continue;
            }
            plain.push_str(&text[at..dollar]);
            if !plain.is_empty() {
                segments.push(Segment::Plain(std::mem::take(&mut plain)));
            }
            let start = dollar + 2;
            let braced = compile_braced(&text[start..], self.names).map_err(|error| error.moved(start))?;
            self.reads.extend(&braced.reads);
            segments.push(match braced.content {
                BracedContent::Program(program) => Segment::Computed(program),
                BracedContent::Secret(name) => Segment::Secret(name),
            });
            at = start + braced.end + 1;
        }
        plain.push_str(&text[at..]);
        if segments.is_empty() {
            return Ok(Piece::Fixed(Value::String(plain)));
        }
        if !plain.is_empty() {
            segments.push(Segment::Plain(plain));
        }
        Ok(match segments.pop() {
            Some(Segment::Computed(program)) if segments.is_empty() => Piece::One(program),
            last => {
                segments.extend(last);
                Piece::Mixed(segments)
            }
        })
    }
}

impl Piece {
    fn is_fixed(&self) -> bool {
        matches!(self, Piece::Fixed(_))
    }

    fn into_fixed(self) -> Option<Value> {
        match self {
            Piece::Fixed(value) => Some(value),
            Piece::One(_) | Piece::Mixed(_) | Piece::List(_) | Piece::Map(_) => None,
        }
    }
}
