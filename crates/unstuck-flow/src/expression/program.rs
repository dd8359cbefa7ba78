//! A compiled expression: a tree in which every name is resolved.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use unstuck_core::model::expression::Scope;

use super::convert;
use super::evaluate::Evaluator;
use super::function::Function;
use super::meter::Meter;
use super::pattern::Pattern;
use super::sentence::one_line;
use super::syntax::Operator;
use super::value::{Kind, Text, Val};

/// A compiled expression.
pub(crate) struct Program {
    pub(super) root: Node,
    pub(super) source: Box<str>,
}

/// One part of it, and where that stands in the source.
pub(super) struct Node {
    pub(super) part: Part,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a part does.
pub(super) enum Part {
    Constant(Constant),
    Variable(Variable),
    /// The variable of a loop, by how many loops are around that one.
    Local(usize),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Field {
        of: Box<Node>,
        name: Box<str>,
        optional: bool,
    },
    Item {
        of: Box<Node>,
        at: Box<Node>,
        optional: bool,
    },
    /// `has(x.y)`: of the field or item.
    Has(Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Binary {
        operator: Operator,
        sides: Box<(Node, Node)>,
    },
    Choice(Box<(Node, Node, Node)>),
    /// `optional.orValue(default)`
    OrValue(Box<(Node, Node)>),
    Call {
        function: Function,
        arguments: Vec<Node>,
    },
    Matches {
        of: Box<Node>,
        pattern: Pattern,
    },
    Loop(Box<Loop>),
}

/// A value that stands in the source.
pub(super) enum Constant {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(Box<str>),
    Type(Kind),
    Duration(SignedDuration),
    Timestamp(Timestamp),
}

/// A value that is bound from outside.
pub(super) enum Variable {
    Input,
    Run,
    Item,
    Index,
    Now,
    /// The output of a step, by its id.
    Output(Arc<str>),
}

/// `list.map(x, ...)` and its like.
pub(super) struct Loop {
    pub(super) kind: LoopKind,
    pub(super) over: Node,
    /// The condition of `map` with three arguments.
    pub(super) only: Option<Node>,
    pub(super) body: Node,
}

/// What a loop gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

impl Program {
    /// Evaluates the program in this scope. An error begins with the expression.
    pub(crate) fn run(&self, scope: &Scope, meter: &Meter) -> Result<Value, String> {
        meter.next_expression();
        let mut machine = Evaluator::new(scope, meter, &self.source);
        let result = machine.evaluate(&self.root).and_then(|value| convert::to_json(&value, meter));
        result.map_err(|fault| format!("{}: {}", one_line(&self.source), fault.into_sentence()))
    }
}

impl Constant {
    pub(super) fn value(&self) -> Val<'_> {
        match self {
            Constant::Null => Val::Null,
            Constant::Bool(value) => Val::Bool(*value),
            Constant::Integer(n) => Val::Integer(*n),
            Constant::Double(n) => Val::Double(*n),
            Constant::Text(text) => Val::Text(Text::Borrowed(text)),
            Constant::Type(kind) => Val::Type(*kind),
            Constant::Duration(span) => Val::Duration(*span),
            Constant::Timestamp(at) => Val::Timestamp(*at),
        }
    }
}
