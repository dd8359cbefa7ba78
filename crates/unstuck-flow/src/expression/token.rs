//! The scanner of expressions: text to tokens with their positions.

use super::{ExpressionError, MAX_SOURCE_BYTES};

/// One word and where it stands, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'s> {
    pub(super) word: TokenKind<'s>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'s> {
    /// A name, or a keyword: what it is depends on where it stands.
    Name(&'s str),
    /// A field name in backticks, for names that are no words.
    Quoted(&'s str),
    /// An integer without its sign: the smallest one has a magnitude that the largest has not.
    Integer(u64),
    Double(f64),
    Text(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// After the last one.
    End,
}

/// The tokens of an expression, and where it ended.
pub(super) struct Scan<'s> {
    /// The last one is always [`Word::End`].
    pub(super) tokens: Vec<Token<'s>>,
    /// The byte of the closing brace, or the length of the text.
    pub(super) end: usize,
}

/// Scans `text` into tokens; with `braced`, only up to the `}` that closes the `${` before it.
pub(super) fn scan(text: &str, braced: bool) -> Result<Scan<'_>, ExpressionError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut tokens = Vec::new();
    let mut open = 0_usize;
    loop {
        scanner.skip_space();
        if scanner.at > MAX_SOURCE_BYTES {
            return Err(too_long_error(braced));
        }
        let start = scanner.at;
        let word = scanner.scan_token()?;
        match word {
            TokenKind::Symbol("{") => open += 1,
            TokenKind::Symbol("}") if open == 0 && braced => {
                tokens.push(Token { word: TokenKind::End, start, end: start });
                return Ok(Scan { tokens, end: start });
            }
            TokenKind::Symbol("}") => open = open.saturating_sub(1),
            TokenKind::End if braced => {
                return Err(ExpressionError::new(0, "this `${` has no `}` that closes it")
                    .hint("add the `}`; for the characters `${` themselves, write `$${`"));
            }
            TokenKind::End => {
                tokens.push(Token { word, start, end: start });
                return Ok(Scan { tokens, end: start });
            }
            TokenKind::Name(_)
            | TokenKind::Quoted(_)
            | TokenKind::Integer(_)
            | TokenKind::Double(_)
            | TokenKind::Text(_)
            | TokenKind::Symbol(_) => {}
        }
        tokens.push(Token { word, start, end: scanner.at });
    }
}

fn too_long_error(braced: bool) -> ExpressionError {
    let message = format!("the expression is longer than {MAX_SOURCE_BYTES} bytes");
    let hint = if braced {
        "compute a part of it in a `set` step, or add the missing `}`"
    } else {
        "compute a part of it in a `set` step"
    };
    ExpressionError::new(0, message).hint(hint)
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Scanner<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']).len();
    }

    /// Scans the next token.
    fn scan_token(&mut self) -> Result<TokenKind<'s>, ExpressionError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return self.scan_number();
        }
        if let Some(quote) = Quote::at(rest) {
            return self.scan_string(&quote).map(TokenKind::Text);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(TokenKind::Name(self.take_while(is_name)));
        }
        if first == '`' {
            return self.scan_backticked_name();
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(&"/") if rest.starts_with("//") => Err(self
                .error_here("`//` starts a comment, and expressions cannot have comments")
                .hint("write comments outside the `${ ... }`; a single `/` divides")),
            Some(symbol) => {
                self.at += symbol.len();
                Ok(TokenKind::Symbol(symbol))
            }
            None => Err(self.unknown_character_error(first)),
        }
    }

    fn take_while(&mut self, of: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let length = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Scans an integer or a double, decimal or hexadecimal.
    fn scan_number(&mut self) -> Result<TokenKind<'s>, ExpressionError> {
        let start = self.at;
        if let Some(digits) = self.rest().strip_prefix("0x").or_else(|| self.rest().strip_prefix("0X")) {
            let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            self.at += 2 + length;
            self.check_end_of_number(start)?;
            return match u64::from_str_radix(&digits[..length], 16) {
                Ok(value) => Ok(TokenKind::Integer(value)),
                Err(_) => Err(integer_overflow_error(start, &self.text[start..self.at])),
            };
        }
        let whole = self.take_while(|c| c.is_ascii_digit());
        let mut fraction = false;
        if self.rest().starts_with('.') && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
            fraction = true;
        }
        fraction |= self.scan_exponent();
        self.check_end_of_number(start)?;
        let text = &self.text[start..self.at];
        if !fraction {
            return whole.parse().map(TokenKind::Integer).map_err(|_| integer_overflow_error(start, text));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(TokenKind::Double(value)),
            _ => Err(ExpressionError::new(start, format!("`{text}` is too large for a number"))),
        }
    }

    /// Scans `e10` or `E-3`; an `e` without digits after it is left alone.
    fn scan_exponent(&mut self) -> bool {
        let Some(power) = self.rest().strip_prefix(['e', 'E']) else { return false };
        let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if length == 0 {
            return false;
        }
        self.at += 1 + (power.len() - digits.len()) + length;
        true
    }

    /// Refuses a number that runs into a word, which is a slip: `1u`, `30s`, `2x`.
    fn check_end_of_number(&mut self, start: usize) -> Result<(), ExpressionError> {
        let tail = self.take_while(is_name);
        if tail.is_empty() {
            return Ok(());
        }
        let number = &self.text[start..self.at - tail.len()];
        let error = ExpressionError::new(start, format!("`{number}{tail}` is neither a number nor a name"));
        Err(match tail {
            "u" | "U" => error.hint(format!("integers have no suffix: write `{number}`")),
            "ms" | "s" | "m" | "h" | "d" | "w" => {
                error.hint(format!("a duration is written `duration('{number}{tail}')`"))
            }
            _ => error.hint("a name begins with a letter; a field with such a name is written `input['2x']`"),
        })
    }

    /// Scans a field name in backticks.
    fn scan_backticked_name(&mut self) -> Result<TokenKind<'s>, ExpressionError> {
        let inner = &self.rest()[1..];
        match inner.find('`') {
            Some(0) => Err(self.error_here("there is no name between these backticks")),
            Some(length) => {
                self.at += length + 2;
                Ok(TokenKind::Quoted(&inner[..length]))
            }
            None => Err(self.error_here("this backtick is not closed")),
        }
    }

    /// Scans a string literal.
    fn scan_string(&mut self, quote: &Quote) -> Result<String, ExpressionError> {
        let start = self.at;
        if quote.bytes {
            return Err(self
                .error_here("expressions have no byte strings")
                .hint("remove the `b` before the quote"));
        }
        self.at += quote.prefix + quote.mark.len();
        let mut value = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(quote.mark) {
                self.at += quote.mark.len();
                return Ok(value);
            }
            match rest.chars().next() {
                Some('\\') if !quote.raw => value.push(self.scan_escape()?),
                Some('\n' | '\r') if quote.mark.len() == 1 => {
                    return Err(ExpressionError::new(start, "this string is not closed on its line")
                        .hint("close it, write a line break as `\\n`, or put three quotes around the text"));
                }
                Some(c) => {
                    value.push(c);
                    self.at += c.len_utf8();
                }
                None => {
                    return Err(ExpressionError::new(
                        start,
                        format!("this string is not closed: a `{}` is missing", quote.mark),
                    ));
                }
            }
        }
    }

    /// Scans the character after a backslash.
    fn scan_escape(&mut self) -> Result<char, ExpressionError> {
        let start = self.at;
        let mut rest = self.rest()[1..].chars();
        let kind = rest.next();
        self.at += 1 + kind.map_or(0, char::len_utf8);
        let simple = match kind {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('v') => '\u{b}',
            Some(c @ ('\\' | '\'' | '"' | '`' | '?')) => c,
            Some('x' | 'X') => return self.scan_code_point(start, 2, 16),
            Some('u') => return self.scan_code_point(start, 4, 16),
            Some('U') => return self.scan_code_point(start, 8, 16),
            Some('0'..='3') => {
                self.at -= 1;
                return self.scan_code_point(start, 3, 8);
            }
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(ExpressionError::new(start, format!("`\\{shown}` is not a known escape"))
                    .hint("write `\\\\` for a backslash, or `r'...'` for a string without escapes"));
            }
        };
        Ok(simple)
    }

    /// Scans the digits of a numeric escape.
    fn scan_code_point(&mut self, start: usize, digits: usize, radix: u32) -> Result<char, ExpressionError> {
        let code = self.rest().get(..digits).filter(|text| text.chars().all(|c| c.is_digit(radix)));
        let value = code.and_then(|text| u32::from_str_radix(text, radix).ok()).and_then(char::from_u32);
        self.at += code.map_or(0, str::len);
        value.ok_or_else(|| {
            ExpressionError::new(start, format!("`{}` is not a character", &self.text[start..self.at]))
                .hint(format!("{digits} digits must follow, and name a character"))
        })
    }

    /// Builds the error of a character that begins no token, with a hint for common slips.
    fn unknown_character_error(&self, c: char) -> ExpressionError {
        let error = self.error_here(format!("`{c}` has no meaning in an expression"));
        match c {
            '=' => error.hint("write `==` to compare; nothing is assigned in an expression"),
            '&' => error.hint("write `&&` for \"and\""),
            '|' => error.hint("write `||` for \"or\"; there are no filters"),
            '$' => error.hint("inside `${ ... }`, write names without `$`: `input.x`"),
            '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => {
                error.hint("write straight quotes, `'` or `\"`")
            }
            c if c.is_alphabetic() => {
                error.hint(format!("a field whose name has such letters is written `input['...{c}...']`"))
            }
            _ => error,
        }
    }

    fn error_here(&self, message: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.at, message)
    }
}

/// Builds the error of an integer that does not fit 64 bits.
pub(super) fn integer_overflow_error(at: usize, number: &str) -> ExpressionError {
    ExpressionError::new(at, format!("`{number}` does not fit in a 64-bit integer"))
        .hint("put it in quotes, or write it with `.0` if it need not be exact")
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// How a string literal opens: `'`, `"`, three of them, with `r` (raw) or `b` (bytes) before.
struct Quote {
    mark: &'static str,
    prefix: usize,
    raw: bool,
    bytes: bool,
}

impl Quote {
    /// Detects the start of a string literal.
    fn at(text: &str) -> Option<Quote> {
        let marks = ["\"\"\"", "'''", "\"", "'"];
        let letters = text.bytes().take(2).take_while(|b| matches!(b, b'r' | b'R' | b'b' | b'B')).count();
        for prefix in 0..=letters {
            let mark = marks.into_iter().find(|mark| text[prefix..].starts_with(mark));
            if let Some(mark) = mark {
                let has = |letter| text.as_bytes()[..prefix].iter().any(|b| b.eq_ignore_ascii_case(letter));
                return Some(Quote { mark, prefix, raw: has(&b'r'), bytes: has(&b'b') });
            }
        }
        None
    }
}
