//! The evaluator: walks a compiled expression and pays the meter for every part.

use std::rc::Rc;

use unstuck_core::model::expression::Scope;

use super::convert::double_to_integer;
use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::program::{Loop, LoopKind, Node, Part, Variable};
use super::sentence::{one_line, shortened};
use super::syntax::Operator;
use super::value::{List, Map, Val, same_key};
use super::{arithmetic, call, compare, list};

/// One evaluation.
pub(super) struct Evaluator<'a> {
    scope: &'a Scope,
    meter: &'a Meter,
    source: &'a str,
    /// The variables of the loops that go on, outermost first.
    locals: Vec<Val<'a>>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(scope: &'a Scope, meter: &'a Meter, source: &'a str) -> Evaluator<'a> {
        Evaluator { scope, meter, source, locals: Vec::new() }
    }

    /// Evaluates a node.
    pub(super) fn evaluate(&mut self, node: &'a Node) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend(1)?;
        match &node.part {
            Part::Constant(constant) => Ok(constant.value()),
            Part::Variable(variable) => self.evaluate_variable(variable),
            Part::Local(place) => Ok(self.locals.get(*place).cloned().unwrap_or(Val::Null)),
            Part::List(items) => self.build_list(items),
            Part::Map(entries) => self.build_map(entries),
            Part::Field { of, name, optional } => {
                let value = self.evaluate(of)?;
                self.get_field(&value, of, name, *optional)
            }
            Part::Item { of, at, optional } => {
                let value = self.evaluate(of)?;
                let key = self.evaluate(at)?;
                self.get_item(&value, of, &key, *optional)
            }
            Part::Has(node) => Ok(Val::Bool(self.evaluate_if_present(node)?.is_some())),
            Part::Not(operand) => Ok(Val::Bool(!self.evaluate_truth(operand, "`!` takes true or false")?)),
            Part::Negate(operand) => arithmetic::negate(&self.evaluate(operand)?),
            Part::All(terms) => self.evaluate_logic(terms, false),
            Part::Any(terms) => self.evaluate_logic(terms, true),
            Part::Binary { operator, sides } => self.evaluate_binary(*operator, &sides.0, &sides.1),
            Part::Choice(parts) => {
                let holds =
                    self.evaluate_truth(&parts.0, "the condition before `?` must be true or false")?;
                self.evaluate(if holds { &parts.1 } else { &parts.2 })
            }
            Part::OrValue(sides) => self.evaluate_or_value(&sides.0, &sides.1),
            Part::Call { function, arguments } => {
                let values: Result<Vec<Val<'a>>, EvaluationError> =
                    arguments.iter().map(|node| self.evaluate(node)).collect();
                call::call_function(*function, values?, self.meter)
            }
            Part::Matches { of, pattern } => pattern.matches(&self.evaluate(of)?, self.meter),
            Part::Loop(each) => self.evaluate_loop(each),
        }
    }

    /// Looks a variable up in the scope.
    fn evaluate_variable(&self, variable: &'a Variable) -> Result<Val<'a>, EvaluationError> {
        match variable {
            Variable::Input => Ok(Val::json(&self.scope.input)),
            Variable::Run => Ok(Val::json(&self.scope.run)),
            Variable::Now => Ok(Val::Timestamp(self.scope.now.timestamp())),
            Variable::Item => match &self.scope.item {
                Some((item, _)) => Ok(Val::json(item)),
                None => EvaluationError::wrong("`item` has no value outside a `forEach`"),
            },
            Variable::Index => match &self.scope.item {
                Some((_, index)) => Ok(Val::Integer(i64::from(*index))),
                None => EvaluationError::wrong("`index` has no value outside a `forEach`"),
            },
            Variable::Output(id) => match self.scope.steps.iter().find(|(known, _)| known == id) {
                Some((_, output)) => Ok(Val::json(output)),
                None => EvaluationError::wrong(format!("step `{id}` has no output yet")),
            },
        }
    }

    /// Evaluates a list literal.
    fn build_list(&mut self, items: &'a [Node]) -> Result<Val<'a>, EvaluationError> {
        list::spend_on_list(items.len(), self.meter)?;
        let values: Result<Vec<Val<'a>>, EvaluationError> =
            items.iter().map(|item| self.evaluate(item)).collect();
        Ok(Val::list(values?))
    }

    /// Evaluates a map literal; keys must be unique and of a simple type.
    fn build_map(&mut self, entries: &'a [(Node, Node)]) -> Result<Val<'a>, EvaluationError> {
        list::spend_on_list(2 * entries.len(), self.meter)?;
        let mut made: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.evaluate(key)?;
            if !matches!(key, Val::Text(_) | Val::Integer(_) | Val::Bool(_)) {
                return EvaluationError::wrong(format!(
                    "a key of a map must be a string, an integer or a bool, not {}",
                    key.described()
                ));
            }
            self.meter.spend(made.len())?;
            if made.iter().any(|(known, _)| same_key(known, &key)) {
                return EvaluationError::wrong(format!("the map has two entries for {}", key.described()));
            }
            let value = self.evaluate(value)?;
            made.push((key, value));
        }
        Ok(Val::Map(Map::Made(made.into())))
    }

    /// Evaluates `value.name`; `of` is the node that gave the value, for error messages.
    fn get_field(
        &self,
        value: &Val<'a>,
        of: &Node,
        name: &str,
        optional: bool,
    ) -> Result<Val<'a>, EvaluationError> {
        match value {
            Val::Map(map) => match map.field(name) {
                Some(found) if optional => Ok(Val::Optional(Some(Rc::new(found)))),
                Some(found) => Ok(found),
                None if optional => Ok(Val::Optional(None)),
                None => self.missing_field(map, of, name),
            },
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => self.get_field(inner, of, name, true),
            Val::Null if optional => Ok(Val::Optional(None)),
            Val::Null => EvaluationError::wrong(format!(
                "{} is null and has no field `{name}`; for a default, write `.?{name}.orValue(...)`",
                self.source_text(of)
            )),
            other => EvaluationError::wrong(format!(
                "{} is {} and has no field `{name}`",
                self.source_text(of),
                other.described()
            )),
        }
    }

    /// Fails because a map lacks a field, with the field that was probably meant.
    fn missing_field(&self, map: &Map<'_>, of: &Node, name: &str) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend(10)?;
        let name = &*shortened(name, 40);
        let of = self.source_text(of);
        let known = match (map.len(), map.nearest(name)) {
            (0, _) => "which is empty".to_owned(),
            (_, Some(near)) => format!("did you mean `{near}`? It has {}", map.listed()),
            (_, None) => format!("it has {}", map.listed()),
        };
        let joint = if map.len() == 0 { "," } else { ";" };
        EvaluationError::wrong(format!("there is no field `{name}` in {of}{joint} {known}"))
    }

    /// Evaluates `value[key]`; `of` is the node that gave the value, for error messages.
    fn get_item(
        &self,
        value: &Val<'a>,
        of: &Node,
        key: &Val<'a>,
        optional: bool,
    ) -> Result<Val<'a>, EvaluationError> {
        let found = match value {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => return self.get_item(inner, of, key, true),
            Val::Null if optional => None,
            Val::List(list) => list_index(key).and_then(|at| list.get(at)),
            Val::Map(map) => map.get(key),
            other => {
                let of = self.source_text(of);
                return EvaluationError::wrong(format!(
                    "{of} is {} and has no items; only lists and maps have items",
                    other.described()
                ));
            }
        };
        match (found, optional) {
            (Some(found), true) => Ok(Val::Optional(Some(Rc::new(found)))),
            (Some(found), false) => Ok(found),
            (None, true) => Ok(Val::Optional(None)),
            (None, false) => self.missing_item(value, of, key),
        }
    }

    /// Fails because a list or map has no such item.
    fn missing_item(&self, value: &Val<'a>, of: &Node, key: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
        let of_text = self.source_text(of);
        match (value, key) {
            (Val::Map(map), Val::Text(name)) => self.missing_field(map, of, name.as_str()),
            (Val::Map(_), key) => {
                EvaluationError::wrong(format!("the keys of {of_text} are strings, not {}", key.described()))
            }
            (Val::List(list), Val::Integer(at)) => EvaluationError::wrong(match list.len() {
                0 => format!("there is no item {at} in {of_text}, which is empty"),
                n => format!("there is no item {at} in {of_text}; it has {n}, from 0 to {}", n - 1),
            }),
            (_, key) => EvaluationError::wrong(format!(
                "an item of {of_text} is found by its number, not by {}",
                key.described()
            )),
        }
    }

    /// Evaluates a field or item if it and everything on the way to it is present.
    fn evaluate_if_present(&mut self, node: &'a Node) -> Result<Option<Val<'a>>, EvaluationError> {
        self.meter.spend(1)?;
        match &node.part {
            Part::Field { of, name, .. } => Ok(match self.evaluate_if_present(of)? {
                Some(Val::Map(map)) => map.field(name),
                _ => None,
            }),
            Part::Item { of, at, .. } => {
                let Some(value) = self.evaluate_if_present(of)? else { return Ok(None) };
                let key = self.evaluate(at)?;
                Ok(match value {
                    Val::List(list) => list_index(&key).and_then(|at| list.get(at)),
                    Val::Map(map) => map.get(&key),
                    _ => None,
                })
            }
            _ => self.evaluate(node).map(Some),
        }
    }

    /// Evaluates a node that must give true or false; `rule` begins the error message.
    fn evaluate_truth(&mut self, node: &'a Node, rule: &str) -> Result<bool, EvaluationError> {
        match self.evaluate(node)? {
            Val::Bool(truth) => Ok(truth),
            other => EvaluationError::wrong(format!(
                "{rule}, but {} is {}",
                self.source_text(node),
                other.described()
            )),
        }
    }

    /// Evaluates `&&` and `||`: a decisive term wins even if other terms fail.
    fn evaluate_logic(&mut self, terms: &'a [Node], decisive: bool) -> Result<Val<'a>, EvaluationError> {
        let rule = if decisive { "`||` takes true or false" } else { "`&&` takes true or false" };
        let mut wrong = None;
        for term in terms {
            match self.evaluate_truth(term, rule) {
                Ok(truth) if truth == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(EvaluationError::Wrong(sentence)) => wrong = wrong.or(Some(sentence)),
                Err(limit) => return Err(limit),
            }
        }
        wrong.map_or(Ok(Val::Bool(!decisive)), EvaluationError::wrong)
    }

    /// Evaluates `orValue`; the default is evaluated only if it is needed.
    fn evaluate_or_value(&mut self, of: &'a Node, default: &'a Node) -> Result<Val<'a>, EvaluationError> {
        match self.evaluate(of)? {
            Val::Optional(Some(inner)) => Ok((*inner).clone()),
            Val::Optional(None) => self.evaluate(default),
            other => Err(call::not_optional_error(Function::OrValue, &other)),
        }
    }

    /// Evaluates an operator with two sides.
    fn evaluate_binary(
        &mut self,
        operator: Operator,
        left: &'a Node,
        right: &'a Node,
    ) -> Result<Val<'a>, EvaluationError> {
        let a = self.evaluate(left)?;
        let b = self.evaluate(right)?;
        let ordered = |test: fn(std::cmp::Ordering) -> bool| {
            compare::order(&a, &b, self.meter).map(|order| Val::Bool(order.is_some_and(test)))
        };
        match operator {
            Operator::Equal => compare::equal(&a, &b, self.meter).map(Val::Bool),
            Operator::NotEqual => compare::equal(&a, &b, self.meter).map(|equal| Val::Bool(!equal)),
            Operator::Less => ordered(std::cmp::Ordering::is_lt),
            Operator::LessOrEqual => ordered(std::cmp::Ordering::is_le),
            Operator::Greater => ordered(std::cmp::Ordering::is_gt),
            Operator::GreaterOrEqual => ordered(std::cmp::Ordering::is_ge),
            Operator::In => match &b {
                Val::List(list) => compare::contains(list, &a, self.meter).map(Val::Bool),
                Val::Map(map) => Ok(Val::Bool(map.get(&a).is_some())),
                other => EvaluationError::wrong(format!(
                    "`in` needs a list or a map, but {} is {}",
                    self.source_text(right),
                    other.described()
                )),
            },
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => arithmetic::apply_arithmetic(operator, &a, &b, self.meter),
        }
    }

    /// Evaluates a loop such as `map` or `exists`. Pays for the whole range before the first item.
    fn evaluate_loop(&mut self, each: &'a Loop) -> Result<Val<'a>, EvaluationError> {
        let items = match self.evaluate(&each.over)? {
            Val::List(list) => {
                self.meter.spend(list.len())?;
                list
            }
            Val::Map(map) => {
                list::spend_on_list(map.len(), self.meter)?;
                List::Made(map.keys().into())
            }
            other => {
                let over = self.source_text(&each.over);
                return EvaluationError::wrong(format!(
                    "{over} is {}; only a list or a map has items to go through",
                    other.described()
                ));
            }
        };
        match each.kind {
            LoopKind::All => self.evaluate_quantifier(each, &items, false),
            LoopKind::Exists => self.evaluate_quantifier(each, &items, true),
            LoopKind::ExistsOne => {
                let mut count = 0;
                for item in items.iter() {
                    count += usize::from(self.holds_for_item(&each.body, item)?);
                }
                Ok(Val::Bool(count == 1))
            }
            LoopKind::Filter => self.filter_items(&each.body, None, &items),
            LoopKind::Map => match &each.only {
                Some(only) => self.filter_items(only, Some(&each.body), &items),
                None => self.map_items(&each.body, &items),
            },
        }
    }

    /// Evaluates `all` or `exists`: as with `&&` and `||`, a decisive item wins even if others fail.
    fn evaluate_quantifier(
        &mut self,
        each: &'a Loop,
        items: &List<'a>,
        decisive: bool,
    ) -> Result<Val<'a>, EvaluationError> {
        let mut wrong = None;
        for item in items.iter() {
            match self.holds_for_item(&each.body, item) {
                Ok(truth) if truth == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(EvaluationError::Wrong(sentence)) => wrong = wrong.or(Some(sentence)),
                Err(limit) => return Err(limit),
            }
        }
        wrong.map_or(Ok(Val::Bool(!decisive)), EvaluationError::wrong)
    }

    /// Collects the items for which `only` holds, or the value of `body` for each of them.
    fn filter_items(
        &mut self,
        only: &'a Node,
        body: Option<&'a Node>,
        items: &List<'a>,
    ) -> Result<Val<'a>, EvaluationError> {
        let mut made = Vec::new();
        for item in items.iter() {
            if self.holds_for_item(only, item.clone())? {
                self.meter.spend_bytes(list::ITEM_BYTES)?;
                made.push(match body {
                    Some(body) => self.with_local(item, |machine| machine.evaluate(body))?,
                    None => item,
                });
            }
        }
        Ok(Val::list(made))
    }

    /// Collects the value of `body` for every item.
    fn map_items(&mut self, body: &'a Node, items: &List<'a>) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend_bytes(items.len().saturating_mul(list::ITEM_BYTES))?;
        let mut made = Vec::with_capacity(items.len());
        for item in items.iter() {
            made.push(self.with_local(item, |machine| machine.evaluate(body))?);
        }
        Ok(Val::list(made))
    }

    /// Evaluates a condition with the loop variable bound to `item`.
    fn holds_for_item(&mut self, condition: &'a Node, item: Val<'a>) -> Result<bool, EvaluationError> {
        self.with_local(item, |machine| {
            machine.evaluate_truth(condition, "the condition must be true or false")
        })
    }

    /// Runs `run` with the loop variable bound to `item`.
    fn with_local<T>(
        &mut self,
        item: Val<'a>,
        run: impl FnOnce(&mut Evaluator<'a>) -> Result<T, EvaluationError>,
    ) -> Result<T, EvaluationError> {
        self.locals.push(item);
        let result = run(self);
        self.locals.pop();
        result
    }

    /// Returns the source of a node, for messages.
    fn source_text(&self, node: &Node) -> String {
        one_line(self.source.get(node.start..node.end).unwrap_or_default())
    }
}

/// Converts a key to a list index; JSON may write a whole number as a double.
fn list_index(key: &Val<'_>) -> Option<usize> {
    match key {
        Val::Integer(at) => usize::try_from(*at).ok(),
        Val::Double(at) if at.fract() == 0.0 => {
            double_to_integer(*at).and_then(|at| usize::try_from(at).ok())
        }
        _ => None,
    }
}
