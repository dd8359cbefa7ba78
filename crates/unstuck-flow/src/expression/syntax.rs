//! The syntax tree of an expression: of limited depth, with positions, names not resolved.

use super::{ExpressionError, MAX_DEPTH, MAX_NESTING};

/// One part of an expression, from byte `start` to byte `end`.
#[derive(Clone, Debug)]
pub(super) struct Syntax {
    pub(super) form: Form,
    pub(super) start: usize,
    pub(super) end: usize,
    /// How many levels there are from here down, this one included.
    depth: usize,
}

/// What a part is.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    Name(String),
    List(Vec<Syntax>),
    Map(Vec<(Syntax, Syntax)>),
    Field {
        of: Box<Syntax>,
        name: NameAt,
        optional: bool,
    },
    Item {
        of: Box<Syntax>,
        at: Box<Syntax>,
        optional: bool,
    },
    Call {
        target: Option<Box<Syntax>>,
        name: NameAt,
        arguments: Vec<Syntax>,
    },
    Not(Box<Syntax>),
    Negate(Box<Syntax>),
    /// `a && b && c`
    All(Vec<Syntax>),
    /// `a || b || c`
    Any(Vec<Syntax>),
    Binary {
        operator: Operator,
        sides: Box<(Syntax, Syntax)>,
    },
    /// `condition ? one : other`
    Choice(Box<(Syntax, Syntax, Syntax)>),
}

/// A name and where it stands.
#[derive(Clone, Debug)]
pub(super) struct NameAt {
    pub(super) name: String,
    pub(super) at: usize,
}

/// An operator with two sides, other than `&&` and `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    /// As it is written.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::In => "in",
        }
    }
}

/// Builds a node, or fails if the tree becomes too deep: walking it later needs no depth limit.
pub(super) fn build(form: Form, start: usize, end: usize) -> Result<Syntax, ExpressionError> {
    let deepest = |parts: &[Syntax]| parts.iter().map(|part| part.depth).max().unwrap_or(0);
    let below = match &form {
        Form::Null | Form::Bool(_) | Form::Integer(_) | Form::Double(_) | Form::Text(_) | Form::Name(_) => 0,
        Form::List(parts) | Form::All(parts) | Form::Any(parts) => deepest(parts),
        Form::Map(entries) => {
            entries.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0)
        }
        Form::Field { of, .. } => of.depth,
        Form::Item { of, at, .. } => of.depth.max(at.depth),
        Form::Call { target, arguments, .. } => {
            deepest(arguments).max(target.as_ref().map_or(0, |target| target.depth))
        }
        Form::Not(operand) | Form::Negate(operand) => operand.depth,
        Form::Binary { sides, .. } => sides.0.depth.max(sides.1.depth),
        Form::Choice(parts) => parts.0.depth.max(parts.1.depth).max(parts.2.depth),
    };
    if below >= MAX_DEPTH {
        Err(too_deep_error(start))
    } else {
        Ok(Syntax { form, start, end, depth: below + 1 })
    }
}

pub(super) fn too_deep_error(at: usize) -> ExpressionError {
    ExpressionError::new(
        at,
        format!("this expression is nested deeper than {MAX_NESTING} brackets, or has more than {MAX_DEPTH} operators in a row"),
    )
    .hint("compute a part of it in a `set` step")
}
