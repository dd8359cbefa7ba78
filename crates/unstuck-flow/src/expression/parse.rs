//! The grammar of expressions, which is CEL's: tokens to a tree.

use super::syntax::{Form, NameAt, Operator, Syntax, build, too_deep};
use super::token::{Token, TokenKind, not_64_bits};
use super::{ExpressionError, MAX_NESTING};

/// Reads one whole expression.
pub(super) fn parse(tokens: Vec<Token<'_>>) -> Result<Syntax, ExpressionError> {
    let mut parser = Parser { tokens, at: 0, nesting: 0 };
    if parser.peek().word == TokenKind::End {
        return Err(ExpressionError::new(parser.peek().start, "the expression is empty")
            .hint("write an expression, such as `input.name`"));
    }
    let syntax = parser.parse_expression()?;
    match parser.peek().word {
        TokenKind::End => Ok(syntax),
        _ => Err(parser.left_over()),
    }
}

struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    nesting: usize,
}

impl<'s> Parser<'s> {
    fn parse_expression(&mut self) -> Result<Syntax, ExpressionError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(too_deep(self.peek().start));
        }
        let condition = self.parse_binary(1)?;
        let syntax = if self.take("?") {
            let one = self.parse_binary(1)?;
            self.expect(":", "`:` and the other choice")?;
            let other = self.parse_expression()?;
            let (start, end) = (condition.start, other.end);
            build(Form::Choice(Box::new((condition, one, other))), start, end)?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(syntax)
    }

    /// Operands joined by operators that bind at least as tightly as `tightness`.
    fn parse_binary(&mut self, tightness: u8) -> Result<Syntax, ExpressionError> {
        let mut left = self.parse_unary()?;
        while let Some((joint, level)) = BinaryJoint::of(&self.peek().word) {
            if level < tightness {
                break;
            }
            self.at += 1;
            let right = self.parse_binary(level + 1)?;
            left = join(joint, left, right)?;
        }
        Ok(left)
    }

    /// `!x`, `-x`, or what has no sign.
    fn parse_unary(&mut self) -> Result<Syntax, ExpressionError> {
        let mut signs = Vec::new();
        while let TokenKind::Symbol(sign @ ("!" | "-")) = self.peek().word {
            signs.push((sign, self.peek().start));
            self.at += 1;
        }
        let negative = signs.last().is_some_and(|(sign, _)| *sign == "-");
        let mut syntax = match self.peek().word {
            // The sign belongs to the literal: the smallest integer has no positive counterpart.
            TokenKind::Integer(magnitude) if negative => {
                let (_, start) = signs.pop().unwrap_or_default();
                let value = 0_i64
                    .checked_sub_unsigned(magnitude)
                    .ok_or_else(|| not_64_bits(start, &format!("-{magnitude}")))?;
                self.at += 1;
                self.parse_members(build(Form::Integer(value), start, self.tokens[self.at - 1].end)?)?
            }
            _ => {
                let primary = self.parse_primary()?;
                self.parse_members(primary)?
            }
        };
        for (sign, start) in signs.into_iter().rev() {
            let end = syntax.end;
            let operand = Box::new(syntax);
            syntax = build(if sign == "!" { Form::Not(operand) } else { Form::Negate(operand) }, start, end)?;
        }
        Ok(syntax)
    }

    /// What follows a value: `.field`, `.call(...)`, `[index]`.
    fn parse_members(&mut self, mut syntax: Syntax) -> Result<Syntax, ExpressionError> {
        loop {
            let start = syntax.start;
            if self.take(".") {
                let optional = self.take("?");
                let name = self.field_name()?;
                let form = if !optional && self.take("(") {
                    let arguments = self.list_until(")")?;
                    Form::Call { target: Some(Box::new(syntax)), name, arguments }
                } else {
                    Form::Field { of: Box::new(syntax), name, optional }
                };
                syntax = build(form, start, self.tokens[self.at - 1].end)?;
            } else if self.take("[") {
                let optional = self.take("?");
                let at = Box::new(self.parse_expression()?);
                self.expect("]", "`]`")?;
                let form = Form::Item { of: Box::new(syntax), at, optional };
                syntax = build(form, start, self.tokens[self.at - 1].end)?;
            } else {
                return Ok(syntax);
            }
        }
    }

    fn field_name(&mut self) -> Result<NameAt, ExpressionError> {
        let token = self.peek();
        let at = token.start;
        match token.word {
            TokenKind::Name(name) | TokenKind::Quoted(name) => {
                self.at += 1;
                Ok(NameAt { name: name.to_owned(), at })
            }
            TokenKind::Integer(n) => Err(self
                .unexpected("a field's name after `.`")
                .hint(format!("an item of a list is written `[{n}]`"))),
            _ => Err(self.unexpected("a field's name after `.`")),
        }
    }

    fn parse_primary(&mut self) -> Result<Syntax, ExpressionError> {
        let Token { word, start, end } = self.peek().clone();
        self.at += 1;
        let form = match word {
            TokenKind::Name("null") => Form::Null,
            TokenKind::Name("true") => Form::Bool(true),
            TokenKind::Name("false") => Form::Bool(false),
            TokenKind::Name(name) if RESERVED.contains(&name) => {
                self.at -= 1;
                return Err(self.reserved(name));
            }
            TokenKind::Name(name) if self.take("(") => {
                let arguments = self.list_until(")")?;
                Form::Call { target: None, name: NameAt { name: name.to_owned(), at: start }, arguments }
            }
            TokenKind::Name(name) => Form::Name(name.to_owned()),
            TokenKind::Integer(magnitude) => Form::Integer(
                i64::try_from(magnitude).map_err(|_| not_64_bits(start, &magnitude.to_string()))?,
            ),
            TokenKind::Double(value) => Form::Double(value),
            TokenKind::Text(text) => Form::Text(text),
            TokenKind::Symbol("(") => {
                let inner = self.parse_expression()?;
                self.expect(")", "`)`")?;
                return Ok(inner);
            }
            TokenKind::Symbol("[") => Form::List(self.list_until("]")?),
            TokenKind::Symbol("{") => Form::Map(self.parse_entries()?),
            TokenKind::Symbol(_) | TokenKind::Quoted(_) | TokenKind::End => {
                self.at -= 1;
                return Err(self.unexpected("a value"));
            }
        };
        let end = end.max(self.tokens[self.at - 1].end);
        build(form, start, end)
    }

    /// Expressions with commas between them; one comma may follow the last.
    fn list_until(&mut self, close: &'static str) -> Result<Vec<Syntax>, ExpressionError> {
        let mut items = Vec::new();
        loop {
            if self.take(close) {
                return Ok(items);
            }
            items.push(self.parse_expression()?);
            if !self.take(",") {
                self.expect(close, &format!("`,` or `{close}`"))?;
                return Ok(items);
            }
        }
    }

    fn parse_entries(&mut self) -> Result<Vec<(Syntax, Syntax)>, ExpressionError> {
        let mut entries = Vec::new();
        loop {
            if self.take("}") {
                return Ok(entries);
            }
            let key = self.parse_expression()?;
            self.expect(":", "`:` and a value")?;
            entries.push((key, self.parse_expression()?));
            if !self.take(",") {
                self.expect("}", "`,` or `}`")?;
                return Ok(entries);
            }
        }
    }

    fn peek(&self) -> &Token<'s> {
        &self.tokens[self.at]
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek().word, TokenKind::Symbol(next) if next == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str, what: &str) -> Result<(), ExpressionError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn unexpected(&self, wanted: &str) -> ExpressionError {
        let token = self.peek();
        let found = match &token.word {
            TokenKind::End => {
                return ExpressionError::new(
                    token.start,
                    format!("the expression ends where {wanted} should follow"),
                );
            }
            TokenKind::Text(_) => "a string".to_owned(),
            TokenKind::Name(name) => {
                return self.slip(name, format!("expected {wanted}, but there is `{name}`"));
            }
            TokenKind::Quoted(name) => format!("`{name}` in backticks"),
            TokenKind::Integer(n) => format!("`{n}`"),
            TokenKind::Double(n) => format!("`{n}`"),
            TokenKind::Symbol(symbol) => format!("`{symbol}`"),
        };
        ExpressionError::new(token.start, format!("expected {wanted}, but there is {found}"))
    }

    fn left_over(&self) -> ExpressionError {
        let token = self.peek();
        let last = self.tokens[..self.at].last();
        let complete = "the expression is already complete before this";
        match &token.word {
            _ if last.is_some_and(|last| last.word == TokenKind::Name("not")) => {
                self.slip("not", complete.to_owned())
            }
            TokenKind::Name(name) => self.slip(name, format!("`{name}` cannot follow a complete expression")),
            TokenKind::Symbol(symbol @ (")" | "]" | "}")) => {
                ExpressionError::new(token.start, format!("this `{symbol}` closes nothing"))
            }
            // `list.0` is read as `list` and `.0`.
            TokenKind::Double(_) if last.is_some_and(|last| last.end == token.start) => {
                ExpressionError::new(token.start, complete).hint("an item of a list is written `list[0]`")
            }
            _ => ExpressionError::new(token.start, complete)
                .hint("is an operator missing, such as `+` or `&&`?"),
        }
    }

    fn reserved(&self, name: &str) -> ExpressionError {
        self.slip(name, format!("`{name}` is a reserved word"))
    }

    /// Words of other languages that people reach for.
    fn slip(&self, name: &str, message: String) -> ExpressionError {
        let error = ExpressionError::new(self.peek().start, message);
        match name {
            "and" => error.hint("write `&&`"),
            "or" => error.hint("write `||`; for a default, `input.?name.orValue('none')`"),
            "not" => error.hint("write `!`, as in `!(x in y)`"),
            "is" => error.hint("write `==`"),
            "if" | "else" | "then" => error.hint("a choice is written `condition ? one : other`"),
            "for" | "while" | "loop" => {
                error.hint("to go through a list, use `list.map(x, ...)`, `filter`, `all` or `exists`")
            }
            name if RESERVED.contains(&name) => {
                error.hint(format!("a field of that name is written `input.{name}`"))
            }
            _ => error.hint("is an operator missing, such as `+` or `&&`? A string needs quotes"),
        }
    }
}

/// Not to be used as names, as in CEL; as fields they are.
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// `a && b && c` becomes one node, so that long conditions are not deep.
fn join(joint: BinaryJoint, left: Syntax, right: Syntax) -> Result<Syntax, ExpressionError> {
    let (start, end) = (left.start, right.end);
    let form = match joint {
        BinaryJoint::And => Form::All(match left.form {
            Form::All(mut terms) => {
                terms.push(right);
                terms
            }
            _ => vec![left, right],
        }),
        BinaryJoint::Or => Form::Any(match left.form {
            Form::Any(mut terms) => {
                terms.push(right);
                terms
            }
            _ => vec![left, right],
        }),
        BinaryJoint::Operator(operator) => Form::Binary { operator, sides: Box::new((left, right)) },
    };
    build(form, start, end)
}

/// What joins two sides, and how tightly.
#[derive(Clone, Copy)]
enum BinaryJoint {
    Or,
    And,
    Operator(Operator),
}

impl BinaryJoint {
    fn of(word: &TokenKind<'_>) -> Option<(BinaryJoint, u8)> {
        let (TokenKind::Symbol(text) | TokenKind::Name(text)) = word else { return None };
        Some(match *text {
            "||" => (BinaryJoint::Or, 1),
            "&&" => (BinaryJoint::And, 2),
            "==" => (BinaryJoint::Operator(Operator::Equal), 3),
            "!=" => (BinaryJoint::Operator(Operator::NotEqual), 3),
            "<" => (BinaryJoint::Operator(Operator::Less), 3),
            "<=" => (BinaryJoint::Operator(Operator::LessOrEqual), 3),
            ">" => (BinaryJoint::Operator(Operator::Greater), 3),
            ">=" => (BinaryJoint::Operator(Operator::GreaterOrEqual), 3),
            "in" => (BinaryJoint::Operator(Operator::In), 3),
            "+" => (BinaryJoint::Operator(Operator::Add), 4),
            "-" => (BinaryJoint::Operator(Operator::Subtract), 4),
            "*" => (BinaryJoint::Operator(Operator::Multiply), 5),
            "/" => (BinaryJoint::Operator(Operator::Divide), 5),
            "%" => (BinaryJoint::Operator(Operator::Remainder), 5),
            _ => return None,
        })
    }
}
