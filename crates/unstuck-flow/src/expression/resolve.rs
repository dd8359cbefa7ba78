//! The resolver: finds every variable, step and function when an expression is compiled, or refuses it with a
//! suggestion.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use unstuck_core::model::expression::Reads;
use unstuck_core::model::secret::is_secret_name;

use super::function::{Function, LOOPS, Signature, find_signature, wrong_count_error};
use super::pattern::Pattern;
use super::program::{Constant, Loop, LoopKind, Node, Part, Program, Variable};
use super::sentence::{find_similar_name, list_names};
use super::syntax::{Form, NameAt, Syntax};
use super::value::Kind;
use super::{ExpressionError, Names, RUN_FIELDS, time_functions};
use crate::zone;

/// Resolves a syntax tree into a program, and collects what it reads.
pub(super) fn resolve(
    source: &str,
    syntax: &Syntax,
    names: &Names<'_>,
) -> Result<(Reads, Program), ExpressionError> {
    let mut resolver = Resolver { source, names, reads: Reads::default(), locals: Vec::new() };
    let root = resolver.resolve_node(syntax)?;
    Ok((resolver.reads, Program { root, source: source.into() }))
}

/// Returns the name of the secret that an expression is, if it is one and nothing else.
pub(super) fn find_secret(syntax: &Syntax, names: &Names<'_>) -> Result<Option<Arc<str>>, ExpressionError> {
    let (of, name, at) = match &syntax.form {
        Form::Field { of, name, optional: false } => (of, &name.name, name.at),
        Form::Item { of, at, optional: false } => match &at.form {
            Form::Text(name) => (of, name, at.start),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if !matches!(&of.form, Form::Name(root) if root == "secrets") {
        return Ok(None);
    }
    if !names.secrets {
        return Err(misplaced_secret_error(names, of.start));
    }
    if !is_secret_name(name) {
        return Err(ExpressionError::new(at, format!("`{name}` cannot be the name of a secret"))
            .hint("use letters, digits and `_`, as in `secrets.API_TOKEN`"));
    }
    Ok(Some(name.as_str().into()))
}

/// Builds the error of a secret where there can be none.
fn misplaced_secret_error(names: &Names<'_>, at: usize) -> ExpressionError {
    if names.secrets {
        return ExpressionError::new(at, "a secret cannot be part of an expression").hint(
            "write it alone, as in `Bearer ${secrets.NAME}`: its value is known only when the attempt starts",
        );
    }
    ExpressionError::new(at, "secrets are not allowed here")
        .hint("use them in `http`, and in the `with` of `action` and `run` steps")
}

struct Resolver<'n> {
    source: &'n str,
    names: &'n Names<'n>,
    reads: Reads,
    /// The variables of the loops around, outermost first.
    locals: Vec<String>,
}

impl Resolver<'_> {
    fn resolve_node(&mut self, syntax: &Syntax) -> Result<Node, ExpressionError> {
        let part = self.resolve_part(syntax)?;
        Ok(Node { part, start: syntax.start, end: syntax.end })
    }

    /// Resolves the form of a node. Every arm is one call, because this function recurses and its frame should be
    /// small.
    fn resolve_part(&mut self, syntax: &Syntax) -> Result<Part, ExpressionError> {
        match &syntax.form {
            Form::Null => Ok(Part::Constant(Constant::Null)),
            Form::Bool(value) => Ok(Part::Constant(Constant::Bool(*value))),
            Form::Integer(n) => Ok(Part::Constant(Constant::Integer(*n))),
            Form::Double(n) => Ok(Part::Constant(Constant::Double(*n))),
            Form::Text(text) => Ok(Part::Constant(Constant::Text(text.as_str().into()))),
            Form::Name(name) => self.resolve_variable(name, syntax.start),
            Form::List(items) => self.resolve_nodes(items).map(Part::List),
            Form::Map(entries) => self.resolve_entries(entries),
            Form::Field { of, name, optional } => self.resolve_field(of, name, *optional),
            Form::Item { of, at, optional } => self.resolve_item(of, at, *optional),
            Form::Call { target, name, arguments } => self.resolve_call(target.as_deref(), name, arguments),
            Form::Not(operand) => self.resolve_boxed(operand).map(Part::Not),
            Form::Negate(operand) => self.resolve_boxed(operand).map(Part::Negate),
            Form::All(terms) => self.resolve_nodes(terms).map(Part::All),
            Form::Any(terms) => self.resolve_nodes(terms).map(Part::Any),
            Form::Binary { operator, sides } => {
                self.resolve_pair(&sides.0, &sides.1).map(|sides| Part::Binary { operator: *operator, sides })
            }
            Form::Choice(parts) => self.resolve_choice(&parts.0, &parts.1, &parts.2),
        }
    }

    fn resolve_nodes(&mut self, list: &[Syntax]) -> Result<Vec<Node>, ExpressionError> {
        list.iter().map(|syntax| self.resolve_node(syntax)).collect()
    }

    fn resolve_boxed(&mut self, syntax: &Syntax) -> Result<Box<Node>, ExpressionError> {
        self.resolve_node(syntax).map(Box::new)
    }

    fn resolve_pair(&mut self, left: &Syntax, right: &Syntax) -> Result<Box<(Node, Node)>, ExpressionError> {
        Ok(Box::new((self.resolve_node(left)?, self.resolve_node(right)?)))
    }

    /// Resolves `condition ? one : other`.
    fn resolve_choice(
        &mut self,
        condition: &Syntax,
        one: &Syntax,
        other: &Syntax,
    ) -> Result<Part, ExpressionError> {
        Ok(Part::Choice(Box::new((
            self.resolve_node(condition)?,
            self.resolve_node(one)?,
            self.resolve_node(other)?,
        ))))
    }

    /// Resolves a map literal.
    fn resolve_entries(&mut self, entries: &[(Syntax, Syntax)]) -> Result<Part, ExpressionError> {
        let entries =
            entries.iter().map(|(key, value)| Ok((self.resolve_node(key)?, self.resolve_node(value)?)));
        Ok(Part::Map(entries.collect::<Result<_, ExpressionError>>()?))
    }

    /// Resolves `of[at]`.
    fn resolve_item(&mut self, of: &Syntax, at: &Syntax, optional: bool) -> Result<Part, ExpressionError> {
        self.refuse_bare_step(of, Some(at))?;
        Ok(Part::Item { of: self.resolve_boxed(of)?, at: self.resolve_boxed(at)?, optional })
    }

    /// Resolves a name: a loop variable, a root such as `input`, or a type.
    fn resolve_variable(&mut self, name: &str, at: usize) -> Result<Part, ExpressionError> {
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
            "secrets" => return Err(misplaced_secret_error(self.names, at)),
            "steps" => {
                return Err(ExpressionError::new(at, "`steps` alone is not a value")
                    .hint(format!("name the step, as in `{}`", self.example_output())));
            }
            _ => match Kind::named(name) {
                Some(kind) => return Ok(Part::Constant(Constant::Type(kind))),
                None => return Err(self.unknown_variable_error(name, at)),
            },
        }))
    }

    /// Builds the error of an unknown name, with what was probably meant.
    fn unknown_variable_error(&self, name: &str, at: usize) -> ExpressionError {
        let error = ExpressionError::new(at, format!("`{name}` does not exist here"));
        if let Some(written) = self.find_hyphenated_name(at) {
            return error
                .hint(format!("`-` subtracts; a field with a `-` in its name is written `['{written}']`"));
        }
        if self.names.step_ids.contains(&name) {
            return error.hint(format!("the output of that step is `{}`", output_expression(name)));
        }
        let mut known = vec!["input", "steps", "run", "now"];
        if self.names.item {
            known.extend(["item", "index"]);
        }
        known.extend(self.names.secrets.then_some("secrets"));
        known.extend(self.locals.iter().map(String::as_str));
        match find_similar_name(name, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!(
                "there are {}; a string needs quotes: `'{name}'`",
                list_names(known.iter().copied())
            )),
        }
    }

    /// Resolves `of.name`, in particular `steps.<id>.output` and the fields of `run`.
    fn resolve_field(&mut self, of: &Syntax, name: &NameAt, optional: bool) -> Result<Part, ExpressionError> {
        if let Some(id) = self.find_step_id(of) {
            return self.resolve_output(&id, name);
        }
        self.refuse_bare_step(of, None).map_err(|_| self.unfinished_step_error(name))?;
        if matches!(&of.form, Form::Name(variable) if variable == "run")
            && !self.is_local("run")
            && !RUN_FIELDS.contains(&&*name.name)
        {
            let error = ExpressionError::new(name.at, format!("`run` has no `{}`", name.name));
            return Err(match find_similar_name(&name.name, RUN_FIELDS) {
                Some(near) => error.hint(format!("did you mean `run.{near}`?")),
                None => error.hint(format!("it has {}", list_names(RUN_FIELDS.into_iter()))),
            });
        }
        Ok(Part::Field { of: self.resolve_boxed(of)?, name: name.name.as_str().into(), optional })
    }

    /// Returns the id in `steps.<id>` or `steps['<id>']`.
    fn find_step_id(&self, syntax: &Syntax) -> Option<NameAt> {
        match &syntax.form {
            Form::Field { of, name, .. } if self.is_steps(of) => Some(name.clone()),
            Form::Item { of, at, .. } if self.is_steps(of) => match &at.form {
                Form::Text(id) => Some(NameAt { name: id.clone(), at: at.start }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Resolves the output of a step, and records that it is read.
    fn resolve_output(&mut self, id: &NameAt, field: &NameAt) -> Result<Part, ExpressionError> {
        let Some(place) = (self.names.steps)(&id.name) else { return Err(self.unknown_step_error(id)) };
        if field.name != "output" {
            let error = ExpressionError::new(
                field.at,
                format!("a step has only an `output` here, not `{}`", field.name),
            );
            let output = output_expression(&id.name);
            return Err(match find_similar_name(&field.name, ["output"]) {
                Some(_) => error.hint(format!("did you mean `{output}`?")),
                None => error.hint(format!("a field of its output is written `{output}.{}`", field.name)),
            });
        }
        self.reads.steps.insert(place);
        Ok(Part::Variable(Variable::Output(id.name.as_str().into())))
    }

    /// Builds the error of an unknown step, with what was probably meant.
    fn unknown_step_error(&self, id: &NameAt) -> ExpressionError {
        let error = ExpressionError::new(id.at, format!("there is no step `{}`", id.name));
        if let Some(written) = self.find_hyphenated_name(id.at) {
            return error.hint(self.hint_about_subtraction(written));
        }
        match find_similar_name(&id.name, self.names.step_ids.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{}`?", output_expression(near))),
            None if self.names.step_ids.is_empty() => error.hint("no step can be read here"),
            None => error.hint(format!("the steps are {}", list_names(self.names.step_ids.iter().copied()))),
        }
    }

    /// Refuses `steps.a` without `.output`, and `steps[x]` with a computed id, which cannot be checked.
    fn refuse_bare_step(&self, of: &Syntax, at: Option<&Syntax>) -> Result<(), ExpressionError> {
        if let Some(id) = self.find_step_id(of) {
            return Err(self.unfinished_step_error(&id));
        }
        if !self.is_steps(of) {
            return Ok(());
        }
        Err(match at.map(|at| (&at.form, at.start)) {
            Some((Form::Text(id), start)) => {
                self.unfinished_step_error(&NameAt { name: id.clone(), at: start })
            }
            Some((_, start)) => {
                ExpressionError::new(start, "a step must be named by its id, so that the flow can be checked")
                    .hint(format!("write it out, as in `{}`", self.example_output()))
            }
            None => ExpressionError::new(of.start, "`steps` alone is not a value"),
        })
    }

    /// Builds the error of a step that is used as a value.
    fn unfinished_step_error(&self, id: &NameAt) -> ExpressionError {
        if (self.names.steps)(&id.name).is_none() {
            return self.unknown_step_error(id);
        }
        let error = ExpressionError::new(id.at, format!("`{}` is a step, not a value", id.name));
        error.hint(match self.find_hyphenated_name(id.at) {
            Some(written) => self.hint_about_subtraction(written),
            None => format!("write `{}`", output_expression(&id.name)),
        })
    }

    /// Returns the hint for an id with a hyphen, which was parsed as a subtraction.
    fn hint_about_subtraction(&self, written: &str) -> String {
        let id = find_similar_name(written, self.names.step_ids.iter().copied()).unwrap_or(written);
        format!("`-` subtracts; write `{}`", output_expression(id))
    }

    /// Resolves a call of a function, a loop or `has`.
    fn resolve_call(
        &mut self,
        target: Option<&Syntax>,
        name: &NameAt,
        arguments: &[Syntax],
    ) -> Result<Part, ExpressionError> {
        let Some(target) = target else {
            if name.name == "has" {
                return self.resolve_has(name, arguments);
            }
            let signature = find_signature(&name.name, name.at, false, arguments.len())?;
            return self.resolve_function(signature, arguments);
        };
        if matches!(&target.form, Form::Name(space) if space == "math" && !self.is_local("math")) {
            let full = format!("math.{}", name.name);
            let signature = find_signature(&full, name.at, false, arguments.len())?;
            return self.resolve_function(signature, arguments);
        }
        if let Some((_, usage)) = LOOPS.iter().find(|(known, _)| *known == name.name) {
            return self.resolve_loop(target, name, arguments, usage);
        }
        let signature = find_signature(&name.name, name.at, true, arguments.len())?;
        self.resolve_method(signature, target, arguments)
    }

    /// Resolves a function that is called alone; literal durations and timestamps become constants.
    fn resolve_function(
        &mut self,
        signature: &Signature,
        arguments: &[Syntax],
    ) -> Result<Part, ExpressionError> {
        match (signature.function, arguments) {
            (Function::Duration, [Syntax { form: Form::Text(text), start, .. }]) => fold_constant(
                time_functions::parse_signed_duration(text),
                *start,
                Constant::Duration as fn(SignedDuration) -> Constant,
            ),
            (Function::Timestamp, [Syntax { form: Form::Text(text), start, .. }]) => fold_constant(
                time_functions::parse_timestamp(text),
                *start,
                Constant::Timestamp as fn(Timestamp) -> Constant,
            ),
            (function, _) => Ok(Part::Call { function, arguments: self.resolve_nodes(arguments)? }),
        }
    }

    /// Resolves a function that is called on a value.
    fn resolve_method(
        &mut self,
        signature: &Signature,
        target: &Syntax,
        arguments: &[Syntax],
    ) -> Result<Part, ExpressionError> {
        match (signature.function, arguments) {
            (Function::Matches, [written]) => {
                Ok(Part::Matches { pattern: Pattern::compile(written)?, of: self.resolve_boxed(target)? })
            }
            (Function::OrValue, [default]) => self.resolve_pair(target, default).map(Part::OrValue),
            (function, [Syntax { form: Form::Text(zone), start, .. }]) if function.is_part_of_time() => {
                if let Err(unknown) = zone::find_zone(zone) {
                    return Err(ExpressionError::new(*start, unknown.message).hint(unknown.hint));
                }
                let arguments = vec![self.resolve_node(target)?, self.resolve_node(&arguments[0])?];
                Ok(Part::Call { function, arguments })
            }
            (function, _) => {
                let mut nodes = vec![self.resolve_node(target)?];
                for argument in arguments {
                    nodes.push(self.resolve_node(argument)?);
                }
                Ok(Part::Call { function, arguments: nodes })
            }
        }
    }

    /// Resolves `has(x.y)`, which takes a field or an item.
    fn resolve_has(&mut self, name: &NameAt, arguments: &[Syntax]) -> Result<Part, ExpressionError> {
        let usage = "has(input.name)";
        let [of] = arguments else {
            return Err(wrong_count_error("has", name.at, "1 argument", arguments.len(), usage));
        };
        let node = self.resolve_boxed(of)?;
        match &node.part {
            Part::Field { .. } | Part::Item { .. } => Ok(Part::Has(node)),
            Part::Variable(Variable::Output(id)) => Err(ExpressionError::new(
                of.start,
                "a step always has an output; it is null if the step was skipped",
            )
            .hint(format!("write `{} != null`", output_expression(id)))),
            _ => Err(ExpressionError::new(
                of.start,
                "`has` checks whether a field exists, and this is not a field",
            )
            .hint(format!("write for example `{usage}`"))),
        }
    }

    /// Resolves a loop; its variable is known only inside.
    fn resolve_loop(
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
                return Err(wrong_count_error(&name.name, name.at, wanted, arguments.len(), usage));
            }
        };
        let Form::Name(variable_name) = &variable.form else {
            let message = format!("the first argument of `{}` is a name for each item", name.name);
            return Err(
                ExpressionError::new(variable.start, message).hint(format!("write for example `{usage}`"))
            );
        };
        let over = self.resolve_node(over)?;
        self.locals.push(variable_name.clone());
        let only = only.map(|only| self.resolve_node(only)).transpose()?;
        let body = self.resolve_node(body)?;
        self.locals.pop();
        Ok(Part::Loop(Box::new(Loop { kind, over, only, body })))
    }

    fn is_steps(&self, syntax: &Syntax) -> bool {
        matches!(&syntax.form, Form::Name(name) if name == "steps") && !self.is_local("steps")
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|local| local == name)
    }

    fn example_output(&self) -> String {
        output_expression(self.names.step_ids.first().copied().unwrap_or("fetch"))
    }

    /// Returns the hyphenated name that the word at this offset is a part of: `fetch-data` was parsed as a subtraction.
    fn find_hyphenated_name(&self, at: usize) -> Option<&str> {
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

/// Formats the expression for the output of a step.
fn output_expression(id: &str) -> String {
    let is_name = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { format!("steps.{id}.output") } else { format!("steps['{id}'].output") }
}

/// Turns a literal duration or timestamp into a constant, or an error when the flow is loaded.
fn fold_constant<T>(
    value: Result<T, String>,
    at: usize,
    make: fn(T) -> Constant,
) -> Result<Part, ExpressionError> {
    value.map(|value| Part::Constant(make(value))).map_err(|sentence| ExpressionError::new(at, sentence))
}
