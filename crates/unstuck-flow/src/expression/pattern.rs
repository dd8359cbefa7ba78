//! Patterns of `matches`: compiled when the flow is loaded, without backtracking, and priced by their size.

use regex::{Regex, RegexBuilder};

use super::ExpressionError;
use super::meter::{EvaluationError, Meter};
use super::syntax::{Form, Syntax};
use super::value::Val;

/// A compiled pattern.
pub(super) struct Pattern {
    regex: Regex,
    /// What looking at one byte costs: in the worst case each byte is held against every part of the pattern.
    price: usize,
}

/// The size limits that are tried: the first one that a pattern fits determines its price.
const SIZES: [usize; 4] = [1 << 12, 1 << 14, 1 << 16, 1 << 18];

impl Pattern {
    /// Compiles the pattern of a `matches` call, which must be a literal.
    pub(super) fn compile(written: &Syntax) -> Result<Pattern, ExpressionError> {
        let at = written.start;
        let Form::Text(text) = &written.form else {
            return Err(ExpressionError::new(
                at,
                "the pattern of `matches` is checked on load, so it must be a string",
            )
            .hint("write it in quotes; to look for text that is known only at run time, use `contains`"));
        };
        let pattern = with_ascii_classes(text);
        for size in SIZES {
            let mut builder = RegexBuilder::new(&pattern);
            match builder.size_limit(size).dfa_size_limit(SIZES[3]).nest_limit(50).build() {
                Ok(regex) => return Ok(Pattern { regex, price: size / SIZES[0] }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(other) => return Err(bad_pattern_error(at, &other)),
            }
        }
        Err(ExpressionError::new(at, "this pattern is too large").hint("remove repetitions such as `{1000}`"))
    }

    /// Evaluates `text.matches('pattern')`.
    pub(super) fn matches<'a>(&self, of: &Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
        let Val::Text(text) = of else {
            return EvaluationError::wrong(format!("`matches` works on a string, not on {}", of.described()));
        };
        meter.spend(1 + text.as_str().len().saturating_mul(self.price))?;
        Ok(Val::Bool(self.regex.is_match(text.as_str())))
    }
}

/// Builds the error of an invalid pattern.
fn bad_pattern_error(at: usize, error: &regex::Error) -> ExpressionError {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    ExpressionError::new(at, format!("this is not a pattern: {reason}"))
        .hint("patterns use the RE2 syntax: no look-around, no back-references")
}

/// Rewrites `\d`, `\w`, `\s` and `\b` to ASCII, as in RE2: their Unicode forms are hundreds of times as large.
fn with_ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut classes = 0_usize;
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' { rest.next() } else { None };
        match (c, escaped) {
            ('\\', Some(kind @ ('d' | 'w' | 's'))) if classes > 0 => out.push_str(ascii_class(kind)),
            ('\\', Some(kind @ ('d' | 'w' | 's'))) => out.extend(["[", ascii_class(kind), "]"]),
            ('\\', Some(kind @ ('D' | 'W' | 'S'))) => {
                out.extend(["[^", ascii_class(kind.to_ascii_lowercase()), "]"]);
            }
            ('\\', Some('b')) if classes == 0 => out.push_str("(?-u:\\b)"),
            ('[', _) => {
                classes += 1;
                out.push(c);
                // A bracket that comes first is one of the characters.
                for first in ["^", "]"] {
                    if let Some(after) = rest.as_str().strip_prefix(first) {
                        out.push_str(first);
                        rest = after.chars();
                    }
                }
            }
            (']', _) => {
                classes = classes.saturating_sub(1);
                out.push(c);
            }
            _ => {
                out.push(c);
                out.extend(escaped);
            }
        }
    }
    out
}

fn ascii_class(kind: char) -> &'static str {
    match kind {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => r"\t\n\x0C\r ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_re2() {
        let cases = [
            (r"\d+", "[0-9]+"),
            (r"[\w.-]@", "[0-9A-Za-z_.-]@"),
            (r"[^\W_]\D", "[^[^0-9A-Za-z_]_][^0-9]"),
            (r"[]\d]\d", "[]0-9][0-9]"),
            (r"\[\d", r"\[[0-9]"),
            (r"[[:alpha:]\d]\s", r"[[:alpha:]0-9][\t\n\x0C\r ]"),
            (r"\bx\\d", r"(?-u:\b)x\\d"),
            ("\\", "\\"),
        ];
        for (pattern, ascii) in cases {
            assert_eq!(with_ascii_classes(pattern), ascii, "{pattern}");
        }
    }
}
