//! The parser of expressions: tokens to a syntax tree, by CEL's grammar.

use super::syntax::{Form, NameAt, Operator, Syntax, build, too_deep_error};
use super::token::{Token, TokenKind, integer_overflow_error};
use super::{ExpressionError, MAX_NESTING};

/// Parses one whole expression.
pub(super) fn parse(tokens: Vec<Token<'_>>) -> Result<Syntax, ExpressionError> {
    let mut parser = Parser { tokens, at: 0, nesting: 0 };
    if parser.peek().word == TokenKind::End {
        return Err(ExpressionError::new(parser.peek().start, "the expression is empty")
            .hint("write an expression, such as `input.name`"));
    }
    let syntax = parser.parse_expression()?;
    match parser.peek().word {
        TokenKind::End => Ok(syntax),
        _ => Err(parser.left_over_error()),
    }
}

struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    nesting: usize,
}

impl<'s> Parser<'s> {
    /// Parses an expression with an optional `? :`, and counts the nesting.
    fn parse_expression(&mut self) -> Result<Syntax, ExpressionError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(too_deep_error(self.peek().start));
        }
        let condition = self.parse_binary(1)?;
        let syntax = if self.take_symbol("?") {
            let one = self.parse_binary(1)?;
            self.expect_symbol(":", "`:` and the other choice")?;
            let other = self.parse_expression()?;
            let (start, end) = (condition.start, other.end);
            build(Form::Choice(Box::new((condition, one, other))), start, end)?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(syntax)
    }

    /// Parses operands joined by operators that bind at least as tightly as `tightness`.
    fn parse_binary(&mut self, tightness: u8) -> Result<Syntax, ExpressionError> {
        let mut left = self.parse_unary()?;
        while let Some((joint, level)) = BinaryJoint::of(&self.peek().word) {
            if level < tightness {
                break;
            }
            self.at += 1;
            let right = self.parse_binary(level + 1)?;
            left = join_operands(joint, left, right)?;
        }
        Ok(left)
    }

    /// Parses `!x`, `-x` or an operand without a sign. A minus before a literal belongs to it, so that the smallest
    /// integer parses.
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
                    .ok_or_else(|| integer_overflow_error(start, &format!("-{magnitude}")))?;
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

    /// Parses what follows a value: `.field`, `.call(...)`, `[index]`.
    fn parse_members(&mut self, mut syntax: Syntax) -> Result<Syntax, ExpressionError> {
        loop {
            let start = syntax.start;
            if self.take_symbol(".") {
                let optional = self.take_symbol("?");
                let name = self.parse_field_name()?;
                let form = if !optional && self.take_symbol("(") {
                    let arguments = self.parse_list_until(")")?;
                    Form::Call { target: Some(Box::new(syntax)), name, arguments }
                } else {
                    Form::Field { of: Box::new(syntax), name, optional }
                };
                syntax = build(form, start, self.tokens[self.at - 1].end)?;
            } else if self.take_symbol("[") {
                let optional = self.take_symbol("?");
                let at = Box::new(self.parse_expression()?);
                self.expect_symbol("]", "`]`")?;
                let form = Form::Item { of: Box::new(syntax), at, optional };
                syntax = build(form, start, self.tokens[self.at - 1].end)?;
            } else {
                return Ok(syntax);
            }
        }
    }

    /// Parses the name of a field, which may be a keyword or in backticks.
    fn parse_field_name(&mut self) -> Result<NameAt, ExpressionError> {
        let token = self.peek();
        let at = token.start;
        match token.word {
            TokenKind::Name(name) | TokenKind::Quoted(name) => {
                self.at += 1;
                Ok(NameAt { name: name.to_owned(), at })
            }
            TokenKind::Integer(n) => Err(self
                .unexpected_token_error("a field's name after `.`")
                .hint(format!("an item of a list is written `[{n}]`"))),
            _ => Err(self.unexpected_token_error("a field's name after `.`")),
        }
    }

    /// Parses a literal, a name, a call, or an expression in parentheses.
    fn parse_primary(&mut self) -> Result<Syntax, ExpressionError> {
        let Token { word, start, end } = self.peek().clone();
        self.at += 1;
        let form = match word {
            TokenKind::Name("null") => Form::Null,
            TokenKind::Name("true") => Form::Bool(true),
            TokenKind::Name("false") => Form::Bool(false),
            TokenKind::Name(name) if RESERVED.contains(&name) => {
                self.at -= 1;
                return Err(self.reserved_word_error(name));
            }
            TokenKind::Name(name) if self.take_symbol("(") => {
                let arguments = self.parse_list_until(")")?;
                Form::Call { target: None, name: NameAt { name: name.to_owned(), at: start }, arguments }
            }
            TokenKind::Name(name) => Form::Name(name.to_owned()),
            TokenKind::Integer(magnitude) => Form::Integer(
                i64::try_from(magnitude)
                    .map_err(|_| integer_overflow_error(start, &magnitude.to_string()))?,
            ),
            TokenKind::Double(value) => Form::Double(value),
            TokenKind::Text(text) => Form::Text(text),
            TokenKind::Symbol("(") => {
                let inner = self.parse_expression()?;
                self.expect_symbol(")", "`)`")?;
                return Ok(inner);
            }
            TokenKind::Symbol("[") => Form::List(self.parse_list_until("]")?),
            TokenKind::Symbol("{") => Form::Map(self.parse_entries()?),
            TokenKind::Symbol(_) | TokenKind::Quoted(_) | TokenKind::End => {
                self.at -= 1;
                return Err(self.unexpected_token_error("a value"));
            }
        };
        let end = end.max(self.tokens[self.at - 1].end);
        build(form, start, end)
    }

    /// Parses expressions separated by commas up to `close`; one comma may follow the last.
    fn parse_list_until(&mut self, close: &'static str) -> Result<Vec<Syntax>, ExpressionError> {
        let mut items = Vec::new();
        loop {
            if self.take_symbol(close) {
                return Ok(items);
            }
            items.push(self.parse_expression()?);
            if !self.take_symbol(",") {
                self.expect_symbol(close, &format!("`,` or `{close}`"))?;
                return Ok(items);
            }
        }
    }

    /// Parses the entries of a map literal.
    fn parse_entries(&mut self) -> Result<Vec<(Syntax, Syntax)>, ExpressionError> {
        let mut entries = Vec::new();
        loop {
            if self.take_symbol("}") {
                return Ok(entries);
            }
            let key = self.parse_expression()?;
            self.expect_symbol(":", "`:` and a value")?;
            entries.push((key, self.parse_expression()?));
            if !self.take_symbol(",") {
                self.expect_symbol("}", "`,` or `}`")?;
                return Ok(entries);
            }
        }
    }

    fn peek(&self) -> &Token<'s> {
        &self.tokens[self.at]
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek().word, TokenKind::Symbol(next) if next == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, symbol: &str, what: &str) -> Result<(), ExpressionError> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected_token_error(what)) }
    }

    /// Builds the error of a token where `wanted` should be.
    fn unexpected_token_error(&self, wanted: &str) -> ExpressionError {
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
                return self.error_with_word_hint(name, format!("expected {wanted}, but there is `{name}`"));
            }
            TokenKind::Quoted(name) => format!("`{name}` in backticks"),
            TokenKind::Integer(n) => format!("`{n}`"),
            TokenKind::Double(n) => format!("`{n}`"),
            TokenKind::Symbol(symbol) => format!("`{symbol}`"),
        };
        ExpressionError::new(token.start, format!("expected {wanted}, but there is {found}"))
    }

    /// Builds the error of a token after the end of the expression.
    fn left_over_error(&self) -> ExpressionError {
        let token = self.peek();
        let last = self.tokens[..self.at].last();
        let complete = "the expression is already complete before this";
        match &token.word {
            _ if last.is_some_and(|last| last.word == TokenKind::Name("not")) => {
                self.error_with_word_hint("not", complete.to_owned())
            }
            TokenKind::Name(name) => {
                self.error_with_word_hint(name, format!("`{name}` cannot follow a complete expression"))
            }
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

    fn reserved_word_error(&self, name: &str) -> ExpressionError {
        self.error_with_word_hint(name, format!("`{name}` is a reserved word"))
    }

    /// Builds an error with a hint if the word belongs to another language (`and`, `not`, `if`).
    fn error_with_word_hint(&self, name: &str, message: String) -> ExpressionError {
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

/// Reserved words of CEL: allowed as fields, not as names.
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

/// Joins two operands. `a && b && c` becomes one node, so that long conditions are not deep.
fn join_operands(joint: BinaryJoint, left: Syntax, right: Syntax) -> Result<Syntax, ExpressionError> {
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
    /// Returns the operator of a token, and how tightly it binds.
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
