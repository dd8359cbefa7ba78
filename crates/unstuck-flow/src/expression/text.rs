//! Functions of strings. Positions and lengths count characters, not bytes; results are paid for before they are made.

use std::rc::Rc;

use super::convert::double_to_integer;
use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::value::{Text, Val};

/// Evaluates `a + b` for strings.
pub(super) fn concat<'a>(a: &str, b: &str, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    meter.spend_on_reading(a.len() + b.len())?;
    meter.spend_bytes(a.len() + b.len())?;
    Ok(Val::text([a, b].concat()))
}

/// Calls a function on a string, which is the first argument.
pub(super) fn call_text_function<'a>(
    function: Function,
    arguments: &[Val<'a>],
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    let of = text_at(function, arguments, 0)?;
    meter.spend_on_reading(of.len())?;
    Ok(match function {
        Function::Contains => Val::Bool(of.contains(text_at(function, arguments, 1)?)),
        Function::StartsWith => Val::Bool(of.starts_with(text_at(function, arguments, 1)?)),
        Function::EndsWith => Val::Bool(of.ends_with(text_at(function, arguments, 1)?)),
        Function::LowerAscii => make_metered(of.len(), meter, || of.to_ascii_lowercase())?,
        Function::UpperAscii => make_metered(of.len(), meter, || of.to_ascii_uppercase())?,
        Function::Trim => make_metered(of.len(), meter, || of.trim().to_owned())?,
        Function::IndexOf => character_index(of, of.find(text_at(function, arguments, 1)?)),
        Function::LastIndexOf => character_index(of, of.rfind(text_at(function, arguments, 1)?)),
        Function::Substring => substring(of, arguments, meter)?,
        Function::Replace => replace(of, arguments, meter)?,
        _ => split(of, arguments, meter)?,
    })
}

/// Returns an argument that must be a string.
pub(super) fn text_at<'v>(
    function: Function,
    arguments: &'v [Val<'_>],
    at: usize,
) -> Result<&'v str, EvaluationError> {
    match arguments.get(at) {
        Some(Val::Text(text)) => Ok(text.as_str()),
        Some(other) if at == 0 => EvaluationError::wrong(format!(
            "`{}` works on a string, not on {}",
            function.name(),
            other.described()
        )),
        Some(other) => {
            EvaluationError::wrong(format!("`{}` takes a string, not {}", function.name(), other.described()))
        }
        None => Ok(""),
    }
}

/// Returns an argument that must be an integer, if it is given.
pub(super) fn integer_at(
    function: Function,
    arguments: &[Val<'_>],
    at: usize,
) -> Result<Option<i64>, EvaluationError> {
    match arguments.get(at) {
        None => Ok(None),
        Some(Val::Integer(n)) => Ok(Some(*n)),
        Some(Val::Double(n)) if n.fract() == 0.0 => Ok(double_to_integer(*n)),
        Some(other) => EvaluationError::wrong(format!(
            "`{}` takes an integer, not {}",
            function.name(),
            other.described()
        )),
    }
}

/// Pays for a string of this size, then makes it.
fn make_metered<'a, T: Into<Rc<str>>>(
    bytes: usize,
    meter: &Meter,
    make: impl FnOnce() -> T,
) -> Result<Val<'a>, EvaluationError> {
    meter.spend_bytes(bytes)?;
    Ok(Val::text(make()))
}

/// Converts a byte offset to a character index; -1 for none.
fn character_index<'a>(of: &str, byte: Option<usize>) -> Val<'a> {
    byte.map_or(Val::Integer(-1), |byte| Val::count(of[..byte].chars().count()))
}

/// Evaluates `substring`, in characters.
fn substring<'a>(of: &str, arguments: &[Val<'a>], meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let length = of.chars().count();
    let start = integer_at(Function::Substring, arguments, 1)?.unwrap_or(0);
    let end = match integer_at(Function::Substring, arguments, 2)? {
        Some(end) => end,
        None => i64::try_from(length).unwrap_or(i64::MAX),
    };
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= length => {
            meter.spend_bytes(of.len())?;
            Ok(Val::text(of.chars().skip(start).take(end - start).collect::<String>()))
        }
        _ => EvaluationError::wrong(format!(
            "a string of {length} characters has no part from {start} to {end}"
        )),
    }
}

/// Evaluates `replace`, at most as often as the limit says.
fn replace<'a>(of: &str, arguments: &[Val<'a>], meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let old = text_at(Function::Replace, arguments, 1)?;
    let new = text_at(Function::Replace, arguments, 2)?;
    let limit = limit_at(Function::Replace, arguments, 3)?;
    let times = of.matches(old).take(limit).count();
    meter.spend(times)?;
    make_metered(of.len().saturating_add(times.saturating_mul(new.len())), meter, || {
        of.replacen(old, new, limit)
    })
}

/// Evaluates `split`; an empty separator splits into characters.
fn split<'a>(of: &str, arguments: &[Val<'a>], meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let separator = text_at(Function::Split, arguments, 1)?;
    let limit = limit_at(Function::Split, arguments, 2)?;
    let count = if separator.is_empty() { of.chars().count() } else { of.matches(separator).count() + 1 };
    let count = count.min(limit);
    super::list::spend_on_list(count, meter)?;
    meter.spend_bytes(of.len() + count * 16)?;
    let part = |text: &str| Val::Text(Text::Made(text.into()));
    if separator.is_empty() {
        return Ok(Val::list(split_characters(of, limit).map(part).collect()));
    }
    Ok(Val::list(of.splitn(limit, separator).map(part).collect()))
}

/// Splits into characters, with the rest in the last part if there is a limit.
fn split_characters(of: &str, limit: usize) -> impl Iterator<Item = &str> {
    let rest = of.char_indices().nth(limit.saturating_sub(1)).map_or(of.len(), |(at, _)| at);
    let (alone, rest) = if limit == 0 { ("", "") } else { of.split_at(rest) };
    alone.split_inclusive(|_: char| true).chain(Some(rest).filter(|rest| !rest.is_empty()))
}

/// Returns an argument that is a number of times; a negative one means no limit.
fn limit_at(function: Function, arguments: &[Val<'_>], at: usize) -> Result<usize, EvaluationError> {
    Ok(integer_at(function, arguments, at)?
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}
