//! Names: every variable, step and function is found when an expression is compiled, or refused with a suggestion.

use jiff::{SignedDuration, Timestamp};
use unstuck_core::model::expression::Reads;

use super::function::{Function, LOOPS, Signature, signature, wrong_count};
use super::pattern::Pattern;
use super::program::{Constant, Loop, LoopKind, Node, Part, Program, Variable};
use super::sentence::{listed, meant};
use super::syntax::{Form, NameAt, Syntax};
use super::value::Kind;
use super::{ExpressionError, Names, RUN_FIELDS, time_functions};
use crate::zone;

/// Turns a syntax tree into a program, and says what it reads.
pub(super) fn resolve(
    source: &str,
    syntax: &Syntax,
    names: &Names<'_>,
) -> Result<(Reads, Program), ExpressionError> {
    let mut resolver = Resolver { source, names, reads: Reads::default(), locals: Vec::new() };
    let root = resolver.node(syntax)?;
    Ok((resolver.reads, Program { root, source: source.into() }))
}

struct Resolver<'n> {
    source: &'n str,
    names: &'n Names<'n>,
    reads: Reads,
    /// The variables of the loops around, outermost first.
    locals: Vec<String>,
}

impl Resolver<'_> {
    fn node(&mut self, syntax: &Syntax) -> Result<Node, ExpressionError> {
        let part = self.part(syntax)?;
        Ok(Node { part, start: syntax.start, end: syntax.end })
    }

    /// Every arm is one call: this is what recurses, and its frame should be small.
    fn part(&mut self, syntax: &Syntax) -> Result<Part, ExpressionError> {
        match &syntax.form {
            Form::Null => Ok(Part::Constant(Constant::Null)),
            Form::Bool(value) => Ok(Part::Constant(Constant::Bool(*value))),
            Form::Integer(n) => Ok(Part::Constant(Constant::Integer(*n))),
            Form::Double(n) => Ok(Part::Constant(Constant::Double(*n))),
            Form::Text(text) => Ok(Part::Constant(Constant::Text(text.as_str().into()))),
            Form::Name(name) => self.variable(name, syntax.start),
            Form::List(items) => self.nodes(items).map(Part::List),
            Form::Map(entries) => self.entries(entries),
            Form::Field { of, name, optional } => self.field(of, name, *optional),
            Form::Item { of, at, optional } => self.item(of, at, *optional),
            Form::Call { target, name, arguments } => self.call(target.as_deref(), name, arguments),
            Form::Not(operand) => self.boxed(operand).map(Part::Not),
            Form::Negate(operand) => self.boxed(operand).map(Part::Negate),
            Form::All(terms) => self.nodes(terms).map(Part::All),
            Form::Any(terms) => self.nodes(terms).map(Part::Any),
            Form::Binary { operator, sides } => {
                self.pair(&sides.0, &sides.1).map(|sides| Part::Binary { operator: *operator, sides })
            }
            Form::Choice(parts) => self.choice(&parts.0, &parts.1, &parts.2),
        }
    }

    fn nodes(&mut self, list: &[Syntax]) -> Result<Vec<Node>, ExpressionError> {
        list.iter().map(|syntax| self.node(syntax)).collect()
    }

    fn boxed(&mut self, syntax: &Syntax) -> Result<Box<Node>, ExpressionError> {
        self.node(syntax).map(Box::new)
    }

    fn pair(&mut self, left: &Syntax, right: &Syntax) -> Result<Box<(Node, Node)>, ExpressionError> {
        Ok(Box::new((self.node(left)?, self.node(right)?)))
    }

    fn choice(&mut self, condition: &Syntax, one: &Syntax, other: &Syntax) -> Result<Part, ExpressionError> {
        Ok(Part::Choice(Box::new((self.node(condition)?, self.node(one)?, self.node(other)?))))
    }

    fn entries(&mut self, entries: &[(Syntax, Syntax)]) -> Result<Part, ExpressionError> {
        let entries = entries.iter().map(|(key, value)| Ok((self.node(key)?, self.node(value)?)));
        Ok(Part::Map(entries.collect::<Result<_, ExpressionError>>()?))
    }

    fn item(&mut self, of: &Syntax, at: &Syntax, optional: bool) -> Result<Part, ExpressionError> {
        self.refuse_bare_step(of, Some(at))?;
        Ok(Part::Item { of: self.boxed(of)?, at: self.boxed(at)?, optional })
    }

    fn variable(&mut self, name: &str, at: usize) -> Result<Part, ExpressionError> {
        if let Some(place) = self.locals.iter().rposition(|local| local == name) {
            return Ok(Part::Local(place));
        }
        match name {
            "input" => self.reads.input = true,
            "run" => self.reads.run = true,
            "item" | "index" if self.names.item => self.reads.item = true,
            _ => {}
        }
        Ok(Part::Variable(match name {
            "input" => Variable::Input,
            "run" => Variable::Run,
            "now" => Variable::Now,
            "item" if self.names.item => Variable::Item,
            "index" if self.names.item => Variable::Index,
            "item" | "index" => {
                return Err(ExpressionError::new(
                    at,
                    format!("`{name}` exists only in a step with `forEach`"),
                )
                .hint("add `forEach: ${ ... }` to the step, or read from `input` or `steps`"));
            }
            "steps" => {
                return Err(ExpressionError::new(at, "`steps` alone is not a value")
                    .hint(format!("name the step, as in `{}`", self.example_step())));
            }
            _ => match Kind::named(name) {
                Some(kind) => return Ok(Part::Constant(Constant::Type(kind))),
                None => return Err(self.unknown_variable(name, at)),
            },
        }))
    }

    fn unknown_variable(&self, name: &str, at: usize) -> ExpressionError {
        let error = ExpressionError::new(at, format!("`{name}` does not exist here"));
        if let Some(written) = self.hyphenated(at) {
            return error
                .hint(format!("`-` subtracts; a field with a `-` in its name is written `['{written}']`"));
        }
        if self.names.step_ids.contains(&name) {
            return error.hint(format!("the output of that step is `{}`", output_of(name)));
        }
        let mut known = vec!["input", "steps", "run", "now"];
        if self.names.item {
            known.extend(["item", "index"]);
        }
        known.extend(self.locals.iter().map(String::as_str));
        match meant(name, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!(
                "there are {}; a string needs quotes: `'{name}'`",
                listed(known.iter().copied())
            )),
        }
    }

    fn field(&mut self, of: &Syntax, name: &NameAt, optional: bool) -> Result<Part, ExpressionError> {
        if let Some(id) = self.step_id(of) {
            return self.output(&id, name);
        }
        self.refuse_bare_step(of, None).map_err(|_| self.unfinished_step(name))?;
        if matches!(&of.form, Form::Name(variable) if variable == "run")
            && !self.is_local("run")
            && !RUN_FIELDS.contains(&&*name.name)
        {
            let error = ExpressionError::new(name.at, format!("`run` has no `{}`", name.name));
            return Err(match meant(&name.name, RUN_FIELDS) {
                Some(near) => error.hint(format!("did you mean `run.{near}`?")),
                None => error.hint(format!("it has {}", listed(RUN_FIELDS.into_iter()))),
            });
        }
        Ok(Part::Field { of: self.boxed(of)?, name: name.name.as_str().into(), optional })
    }

    /// The id in `steps.<id>` or `steps['<id>']`.
    fn step_id(&self, syntax: &Syntax) -> Option<NameAt> {
        match &syntax.form {
            Form::Field { of, name, .. } if self.is_steps(of) => Some(name.clone()),
            Form::Item { of, at, .. } if self.is_steps(of) => match &at.form {
                Form::Text(id) => Some(NameAt { name: id.clone(), at: at.start }),
                _ => None,
            },
            _ => None,
        }
    }

    fn output(&mut self, id: &NameAt, field: &NameAt) -> Result<Part, ExpressionError> {
        let Some(place) = (self.names.steps)(&id.name) else { return Err(self.unknown_step(id)) };
        if field.name != "output" {
            let error = ExpressionError::new(
                field.at,
                format!("a step has only an `output` here, not `{}`", field.name),
            );
            let output = output_of(&id.name);
            return Err(match meant(&field.name, ["output"]) {
                Some(_) => error.hint(format!("did you mean `{output}`?")),
                None => error.hint(format!("a field of its output is written `{output}.{}`", field.name)),
            });
        }
        self.reads.steps.insert(place);
        Ok(Part::Variable(Variable::Output(id.name.as_str().into())))
    }

    fn unknown_step(&self, id: &NameAt) -> ExpressionError {
        let error = ExpressionError::new(id.at, format!("there is no step `{}`", id.name));
        if let Some(written) = self.hyphenated(id.at) {
            return error.hint(self.without_subtraction(written));
        }
        match meant(&id.name, self.names.step_ids.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{}`?", output_of(near))),
            None if self.names.step_ids.is_empty() => error.hint("no step can be read here"),
            None => error.hint(format!("the steps are {}", listed(self.names.step_ids.iter().copied()))),
        }
    }

    /// `steps.a` without `.output` after it; `steps[x]`, which no check could follow.
    fn refuse_bare_step(&self, of: &Syntax, at: Option<&Syntax>) -> Result<(), ExpressionError> {
        if let Some(id) = self.step_id(of) {
            return Err(self.unfinished_step(&id));
        }
        if !self.is_steps(of) {
            return Ok(());
        }
        Err(match at.map(|at| (&at.form, at.start)) {
            Some((Form::Text(id), start)) => self.unfinished_step(&NameAt { name: id.clone(), at: start }),
            Some((_, start)) => {
                ExpressionError::new(start, "a step must be named by its id, so that the flow can be checked")
                    .hint(format!("write it out, as in `{}`", self.example_step()))
            }
            None => ExpressionError::new(of.start, "`steps` alone is not a value"),
        })
    }

    fn unfinished_step(&self, id: &NameAt) -> ExpressionError {
        if (self.names.steps)(&id.name).is_none() {
            return self.unknown_step(id);
        }
        let error = ExpressionError::new(id.at, format!("`{}` is a step, not a value", id.name));
        error.hint(match self.hyphenated(id.at) {
            Some(written) => self.without_subtraction(written),
            None => format!("write `{}`", output_of(&id.name)),
        })
    }

    fn without_subtraction(&self, written: &str) -> String {
        let id = meant(written, self.names.step_ids.iter().copied()).unwrap_or(written);
        format!("`-` subtracts; write `{}`", output_of(id))
    }

    fn call(
        &mut self,
        target: Option<&Syntax>,
        name: &NameAt,
        arguments: &[Syntax],
    ) -> Result<Part, ExpressionError> {
        let Some(target) = target else {
            if name.name == "has" {
                return self.has(name, arguments);
            }
            let signature = signature(&name.name, name.at, false, arguments.len())?;
            return self.alone(signature, arguments);
        };
        if matches!(&target.form, Form::Name(space) if space == "math" && !self.is_local("math")) {
            let full = format!("math.{}", name.name);
            let signature = signature(&full, name.at, false, arguments.len())?;
            return self.alone(signature, arguments);
        }
        if let Some((_, usage)) = LOOPS.iter().find(|(known, _)| *known == name.name) {
            return self.go_through(target, name, arguments, usage);
        }
        let signature = signature(&name.name, name.at, true, arguments.len())?;
        self.method(signature, target, arguments)
    }

    /// A function that is called alone.
    fn alone(&mut self, signature: &Signature, arguments: &[Syntax]) -> Result<Part, ExpressionError> {
        match (signature.function, arguments) {
            (Function::Duration, [Syntax { form: Form::Text(text), start, .. }]) => constant(
                time_functions::duration(text),
                *start,
                Constant::Duration as fn(SignedDuration) -> Constant,
            ),
            (Function::Timestamp, [Syntax { form: Form::Text(text), start, .. }]) => constant(
                time_functions::timestamp(text),
                *start,
                Constant::Timestamp as fn(Timestamp) -> Constant,
            ),
            (function, _) => Ok(Part::Call { function, arguments: self.nodes(arguments)? }),
        }
    }

    /// A function that is called on a value.
    fn method(
        &mut self,
        signature: &Signature,
        target: &Syntax,
        arguments: &[Syntax],
    ) -> Result<Part, ExpressionError> {
        match (signature.function, arguments) {
            (Function::Matches, [written]) => {
                Ok(Part::Matches { pattern: Pattern::compile(written)?, of: self.boxed(target)? })
            }
            (Function::OrValue, [default]) => self.pair(target, default).map(Part::OrValue),
            (function, [Syntax { form: Form::Text(zone), start, .. }]) if function.is_part_of_time() => {
                if let Err(unknown) = zone::find(zone) {
                    return Err(ExpressionError::new(*start, unknown.message).hint(unknown.hint));
                }
                let arguments = vec![self.node(target)?, self.node(&arguments[0])?];
                Ok(Part::Call { function, arguments })
            }
            (function, _) => {
                let mut nodes = vec![self.node(target)?];
                for argument in arguments {
                    nodes.push(self.node(argument)?);
                }
                Ok(Part::Call { function, arguments: nodes })
            }
        }
    }

    fn has(&mut self, name: &NameAt, arguments: &[Syntax]) -> Result<Part, ExpressionError> {
        let usage = "has(input.name)";
        let [of] = arguments else {
            return Err(wrong_count("has", name.at, "1 argument", arguments.len(), usage));
        };
        let node = self.boxed(of)?;
        match &node.part {
            Part::Field { .. } | Part::Item { .. } => Ok(Part::Has(node)),
            Part::Variable(Variable::Output(id)) => Err(ExpressionError::new(
                of.start,
                "a step always has an output; it is null if the step was skipped",
            )
            .hint(format!("write `{} != null`", output_of(id)))),
            _ => Err(ExpressionError::new(
                of.start,
                "`has` checks whether a field exists, and this is not a field",
            )
            .hint(format!("write for example `{usage}`"))),
        }
    }

    fn go_through(
        &mut self,
        over: &Syntax,
        name: &NameAt,
        arguments: &[Syntax],
        usage: &'static str,
    ) -> Result<Part, ExpressionError> {
        let kind = match name.name.as_str() {
            "all" => LoopKind::All,
            "exists" => LoopKind::Exists,
            "map" => LoopKind::Map,
            "filter" => LoopKind::Filter,
            _ => LoopKind::ExistsOne,
        };
        let (variable, only, body) = match arguments {
            [variable, body] => (variable, None, body),
            [variable, only, body] if kind == LoopKind::Map => (variable, Some(only), body),
            _ => {
                let wanted = "a name and an expression";
                return Err(wrong_count(&name.name, name.at, wanted, arguments.len(), usage));
            }
        };
        let Form::Name(variable_name) = &variable.form else {
            let message = format!("the first argument of `{}` is a name for each item", name.name);
            return Err(
                ExpressionError::new(variable.start, message).hint(format!("write for example `{usage}`"))
            );
        };
        let over = self.node(over)?;
        self.locals.push(variable_name.clone());
        let only = only.map(|only| self.node(only)).transpose()?;
        let body = self.node(body)?;
        self.locals.pop();
        Ok(Part::Loop(Box::new(Loop { kind, over, only, body })))
    }

    fn is_steps(&self, syntax: &Syntax) -> bool {
        matches!(&syntax.form, Form::Name(name) if name == "steps") && !self.is_local("steps")
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|local| local == name)
    }

    fn example_step(&self) -> String {
        output_of(self.names.step_ids.first().copied().unwrap_or("fetch"))
    }

    /// The name with hyphens that the word at this place is a part of: `fetch-data` was read as a subtraction.
    fn hyphenated(&self, at: usize) -> Option<&str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let before = self.source.get(..at)?;
        let start = before
            .rfind(|c| !is_part(c))
            .map_or(0, |last| last + before[last..].chars().next().map_or(1, char::len_utf8));
        let rest = self.source.get(start..)?;
        let whole = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let whole = whole.trim_matches('-');
        let fields_before = self.source[..start].ends_with('.');
        (whole.contains('-') && fields_before).then_some(whole)
    }
}

/// How the output of a step is written.
fn output_of(id: &str) -> String {
    let is_name = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { format!("steps.{id}.output") } else { format!("steps['{id}'].output") }
}

/// A literal duration or timestamp is read when the flow is loaded.
fn constant<T>(
    value: Result<T, String>,
    at: usize,
    make: fn(T) -> Constant,
) -> Result<Part, ExpressionError> {
    value.map(|value| Part::Constant(make(value))).map_err(|sentence| ExpressionError::new(at, sentence))
}
