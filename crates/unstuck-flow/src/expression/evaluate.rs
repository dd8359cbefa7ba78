//! The evaluator: walks a compiled expression, and pays for every part.

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

    pub(super) fn value(&mut self, node: &'a Node) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend(1)?;
        match &node.part {
            Part::Constant(constant) => Ok(constant.value()),
            Part::Variable(variable) => self.variable(variable),
            Part::Local(place) => Ok(self.locals.get(*place).cloned().unwrap_or(Val::Null)),
            Part::List(items) => self.list(items),
            Part::Map(entries) => self.map(entries),
            Part::Field { of, name, optional } => {
                let value = self.value(of)?;
                self.field(&value, of, name, *optional)
            }
            Part::Item { of, at, optional } => {
                let value = self.value(of)?;
                let key = self.value(at)?;
                self.item(&value, of, &key, *optional)
            }
            Part::Has(node) => Ok(Val::Bool(self.present(node)?.is_some())),
            Part::Not(operand) => Ok(Val::Bool(!self.truth(operand, "`!` takes true or false")?)),
            Part::Negate(operand) => arithmetic::negate(&self.value(operand)?),
            Part::All(terms) => self.logic(terms, false),
            Part::Any(terms) => self.logic(terms, true),
            Part::Binary { operator, sides } => self.binary(*operator, &sides.0, &sides.1),
            Part::Choice(parts) => {
                let holds = self.truth(&parts.0, "the condition before `?` must be true or false")?;
                self.value(if holds { &parts.1 } else { &parts.2 })
            }
            Part::OrValue(sides) => self.or_value(&sides.0, &sides.1),
            Part::Call { function, arguments } => {
                let values: Result<Vec<Val<'a>>, EvaluationError> =
                    arguments.iter().map(|node| self.value(node)).collect();
                call::call(*function, values?, self.meter)
            }
            Part::Matches { of, pattern } => pattern.matches(&self.value(of)?, self.meter),
            Part::Loop(each) => self.go_through(each),
        }
    }

    fn variable(&self, variable: &'a Variable) -> Result<Val<'a>, EvaluationError> {
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

    fn list(&mut self, items: &'a [Node]) -> Result<Val<'a>, EvaluationError> {
        list::pay(items.len(), self.meter)?;
        let values: Result<Vec<Val<'a>>, EvaluationError> =
            items.iter().map(|item| self.value(item)).collect();
        Ok(Val::list(values?))
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Result<Val<'a>, EvaluationError> {
        list::pay(2 * entries.len(), self.meter)?;
        let mut made: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.value(key)?;
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
            let value = self.value(value)?;
            made.push((key, value));
        }
        Ok(Val::Map(Map::Made(made.into())))
    }

    /// `value.name`, where `of` is the part that gave the value.
    fn field(
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
                None => self.no_field(map, of, name),
            },
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => self.field(inner, of, name, true),
            Val::Null if optional => Ok(Val::Optional(None)),
            Val::Null => EvaluationError::wrong(format!(
                "{} is null and has no field `{name}`; for a default, write `.?{name}.orValue(...)`",
                self.written(of)
            )),
            other => EvaluationError::wrong(format!(
                "{} is {} and has no field `{name}`",
                self.written(of),
                other.described()
            )),
        }
    }

    fn no_field(&self, map: &Map<'_>, of: &Node, name: &str) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend(10)?;
        let name = &*shortened(name, 40);
        let of = self.written(of);
        let known = match (map.len(), map.nearest(name)) {
            (0, _) => "which is empty".to_owned(),
            (_, Some(near)) => format!("did you mean `{near}`? It has {}", map.listed()),
            (_, None) => format!("it has {}", map.listed()),
        };
        let joint = if map.len() == 0 { "," } else { ";" };
        EvaluationError::wrong(format!("there is no field `{name}` in {of}{joint} {known}"))
    }

    /// `value[key]`, where `of` is the part that gave the value.
    fn item(
        &self,
        value: &Val<'a>,
        of: &Node,
        key: &Val<'a>,
        optional: bool,
    ) -> Result<Val<'a>, EvaluationError> {
        let found = match value {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => return self.item(inner, of, key, true),
            Val::Null if optional => None,
            Val::List(list) => place(key).and_then(|at| list.get(at)),
            Val::Map(map) => map.get(key),
            other => {
                let of = self.written(of);
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
            (None, false) => self.no_item(value, of, key),
        }
    }

    fn no_item(&self, value: &Val<'a>, of: &Node, key: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
        let of_text = self.written(of);
        match (value, key) {
            (Val::Map(map), Val::Text(name)) => self.no_field(map, of, name.as_str()),
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

    /// The value of a field or item if it is there, and everything on the way to it.
    fn present(&mut self, node: &'a Node) -> Result<Option<Val<'a>>, EvaluationError> {
        self.meter.spend(1)?;
        match &node.part {
            Part::Field { of, name, .. } => Ok(match self.present(of)? {
                Some(Val::Map(map)) => map.field(name),
                _ => None,
            }),
            Part::Item { of, at, .. } => {
                let Some(value) = self.present(of)? else { return Ok(None) };
                let key = self.value(at)?;
                Ok(match value {
                    Val::List(list) => place(&key).and_then(|at| list.get(at)),
                    Val::Map(map) => map.get(&key),
                    _ => None,
                })
            }
            _ => self.value(node).map(Some),
        }
    }

    fn truth(&mut self, node: &'a Node, rule: &str) -> Result<bool, EvaluationError> {
        match self.value(node)? {
            Val::Bool(truth) => Ok(truth),
            other => {
                EvaluationError::wrong(format!("{rule}, but {} is {}", self.written(node), other.described()))
            }
        }
    }

    /// `&&` and `||`: a term that decides does so whatever is wrong with the others.
    fn logic(&mut self, terms: &'a [Node], decisive: bool) -> Result<Val<'a>, EvaluationError> {
        let rule = if decisive { "`||` takes true or false" } else { "`&&` takes true or false" };
        let mut wrong = None;
        for term in terms {
            match self.truth(term, rule) {
                Ok(truth) if truth == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(EvaluationError::Wrong(sentence)) => wrong = wrong.or(Some(sentence)),
                Err(limit) => return Err(limit),
            }
        }
        wrong.map_or(Ok(Val::Bool(!decisive)), EvaluationError::wrong)
    }

    /// The default is evaluated only if it is needed.
    fn or_value(&mut self, of: &'a Node, default: &'a Node) -> Result<Val<'a>, EvaluationError> {
        match self.value(of)? {
            Val::Optional(Some(inner)) => Ok((*inner).clone()),
            Val::Optional(None) => self.value(default),
            other => Err(call::no_optional(Function::OrValue, &other)),
        }
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: &'a Node,
        right: &'a Node,
    ) -> Result<Val<'a>, EvaluationError> {
        let a = self.value(left)?;
        let b = self.value(right)?;
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
                    self.written(right),
                    other.described()
                )),
            },
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => arithmetic::apply(operator, &a, &b, self.meter),
        }
    }

    /// The whole range is paid for before the first item is looked at.
    fn go_through(&mut self, each: &'a Loop) -> Result<Val<'a>, EvaluationError> {
        let items = match self.value(&each.over)? {
            Val::List(list) => {
                self.meter.spend(list.len())?;
                list
            }
            Val::Map(map) => {
                list::pay(map.len(), self.meter)?;
                List::Made(map.keys().into())
            }
            other => {
                let over = self.written(&each.over);
                return EvaluationError::wrong(format!(
                    "{over} is {}; only a list or a map has items to go through",
                    other.described()
                ));
            }
        };
        match each.kind {
            LoopKind::All => self.all_or_any(each, &items, false),
            LoopKind::Exists => self.all_or_any(each, &items, true),
            LoopKind::ExistsOne => {
                let mut count = 0;
                for item in items.iter() {
                    count += usize::from(self.holds(&each.body, item)?);
                }
                Ok(Val::Bool(count == 1))
            }
            LoopKind::Filter => self.collect(&each.body, None, &items),
            LoopKind::Map => match &each.only {
                Some(only) => self.collect(only, Some(&each.body), &items),
                None => self.collect_all(&each.body, &items),
            },
        }
    }

    /// As with `&&` and `||`, an item that decides does so whatever is wrong with the others.
    fn all_or_any(
        &mut self,
        each: &'a Loop,
        items: &List<'a>,
        decisive: bool,
    ) -> Result<Val<'a>, EvaluationError> {
        let mut wrong = None;
        for item in items.iter() {
            match self.holds(&each.body, item) {
                Ok(truth) if truth == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(EvaluationError::Wrong(sentence)) => wrong = wrong.or(Some(sentence)),
                Err(limit) => return Err(limit),
            }
        }
        wrong.map_or(Ok(Val::Bool(!decisive)), EvaluationError::wrong)
    }

    /// The items for which `only` holds, or what `body` makes of them.
    fn collect(
        &mut self,
        only: &'a Node,
        body: Option<&'a Node>,
        items: &List<'a>,
    ) -> Result<Val<'a>, EvaluationError> {
        let mut made = Vec::new();
        for item in items.iter() {
            if self.holds(only, item.clone())? {
                self.meter.spend_bytes(list::ITEM_BYTES)?;
                made.push(match body {
                    Some(body) => self.with_local(item, |machine| machine.value(body))?,
                    None => item,
                });
            }
        }
        Ok(Val::list(made))
    }

    fn collect_all(&mut self, body: &'a Node, items: &List<'a>) -> Result<Val<'a>, EvaluationError> {
        self.meter.spend_bytes(items.len().saturating_mul(list::ITEM_BYTES))?;
        let mut made = Vec::with_capacity(items.len());
        for item in items.iter() {
            made.push(self.with_local(item, |machine| machine.value(body))?);
        }
        Ok(Val::list(made))
    }

    fn holds(&mut self, condition: &'a Node, item: Val<'a>) -> Result<bool, EvaluationError> {
        self.with_local(item, |machine| machine.truth(condition, "the condition must be true or false"))
    }

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

    /// A part as it is written, for a sentence.
    fn written(&self, node: &Node) -> String {
        one_line(self.source.get(node.start..node.end).unwrap_or_default())
    }
}

/// The place in a list that a key names; JSON may write a whole number as a double.
fn place(key: &Val<'_>) -> Option<usize> {
    match key {
        Val::Integer(at) => usize::try_from(*at).ok(),
        Val::Double(at) if at.fract() == 0.0 => {
            double_to_integer(*at).and_then(|at| usize::try_from(at).ok())
        }
        _ => None,
    }
}
