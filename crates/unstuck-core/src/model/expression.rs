//! Expressions as the core sees them: compiled elsewhere, pure, with the set of what they read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::model::flow::StepIndex;
use crate::time::Time;

/// What an expression may refer to. Only what it reads is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// `input`: the run's input.
    pub input: bool,
    /// `run`: id, key, flow, version, generation, createdAt.
    pub run: bool,
    /// `item` or `index`: the item of a `forEach` and its place.
    pub item: bool,
    /// `steps.<id>`: the steps whose outputs are read.
    pub steps: BTreeSet<StepIndex>,
    /// `secrets.<name>`: never bound. A value that reads some is in the form of [`crate::model::secret`].
    pub secrets: BTreeSet<Arc<str>>,
}

impl Reads {
    /// Adds what `other` reads.
    pub fn extend(&mut self, other: &Reads) {
        self.input |= other.input;
        self.run |= other.run;
        self.item |= other.item;
        self.steps.extend(&other.steps);
        self.secrets.extend(other.secrets.iter().cloned());
    }
}

/// The values that are bound when an expression is evaluated.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub input: Value,
    pub run: Value,
    /// `item` and `index`, inside a `forEach`.
    pub item: Option<(Value, u32)>,
    /// The outputs of the steps that are read, by step id.
    pub steps: Vec<(Arc<str>, Value)>,
    /// `now`: when this is decided, the same for all that is computed with one decision.
    pub now: Time,
}

/// A compiled program, or a whole value with programs in it.
pub trait Evaluate: Send + Sync {
    /// Evaluates in this scope, or returns a sentence that says what is wrong.
    fn evaluate(&self, scope: &Scope) -> Result<Value, String>;
}

/// A value of a flow file that has `${ ... }` in it: one expression, or a structure that contains some.
#[derive(Clone)]
pub struct Expression {
    /// As written in the flow file, for people.
    pub source: Arc<str>,
    /// What it refers to.
    pub reads: Reads,
    /// What gives the value.
    pub program: Arc<dyn Evaluate>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression")
            .field("source", &self.source)
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}

/// A value of a flow file: fixed, or computed when the step is scheduled.
#[derive(Clone, Debug)]
pub enum Template {
    /// Has no expression in it.
    Fixed(crate::json::Json),
    /// Has at least one.
    Computed(Expression),
}

impl Template {
    /// What must be bound to evaluate it.
    pub fn reads(&self) -> Option<&Reads> {
        match self {
            Template::Fixed(_) => None,
            Template::Computed(expression) => Some(&expression.reads),
        }
    }
}
