//! What strings can do. Places and lengths count characters, not bytes; results are paid for before they are made.

use std::rc::Rc;

use super::convert::double_to_integer;
use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::value::{Text, Val};

/// `a + b`
pub(super) fn concat<'a>(a: &str, b: &str, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    meter.spend_on_reading(a.len() + b.len())?;
    meter.spend_bytes(a.len() + b.len())?;
    Ok(Val::text([a, b].concat()))
}

/// A function on a string, which is the first argument.
pub(super) fn call<'a>(
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
        Function::LowerAscii => made(of.len(), meter, || of.to_ascii_lowercase())?,
        Function::UpperAscii => made(of.len(), meter, || of.to_ascii_uppercase())?,
        Function::Trim => made(of.len(), meter, || of.trim().to_owned())?,
        Function::IndexOf => place(of, of.find(text_at(function, arguments, 1)?)),
        Function::LastIndexOf => place(of, of.rfind(text_at(function, arguments, 1)?)),
        Function::Substring => substring(of, arguments, meter)?,
        Function::Replace => replace(of, arguments, meter)?,
        _ => split(of, arguments, meter)?,
    })
}

/// An argument that must be a string.
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

/// An argument that must be an integer.
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

fn made<'a, T: Into<Rc<str>>>(
    bytes: usize,
    meter: &Meter,
    make: impl FnOnce() -> T,
) -> Result<Val<'a>, EvaluationError> {
    meter.spend_bytes(bytes)?;
    Ok(Val::text(make()))
}

/// The place of a byte counted in characters, -1 for none.
fn place<'a>(of: &str, byte: Option<usize>) -> Val<'a> {
    byte.map_or(Val::Integer(-1), |byte| Val::count(of[..byte].chars().count()))
}

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

fn replace<'a>(of: &str, arguments: &[Val<'a>], meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let old = text_at(Function::Replace, arguments, 1)?;
    let new = text_at(Function::Replace, arguments, 2)?;
    let limit = limit_at(Function::Replace, arguments, 3)?;
    let times = of.matches(old).take(limit).count();
    meter.spend(times)?;
    made(of.len().saturating_add(times.saturating_mul(new.len())), meter, || of.replacen(old, new, limit))
}

fn split<'a>(of: &str, arguments: &[Val<'a>], meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let separator = text_at(Function::Split, arguments, 1)?;
    let limit = limit_at(Function::Split, arguments, 2)?;
    let count = if separator.is_empty() { of.chars().count() } else { of.matches(separator).count() + 1 };
    let count = count.min(limit);
    super::list::pay(count, meter)?;
    meter.spend_bytes(of.len() + count * 16)?;
    let part = |text: &str| Val::Text(Text::Made(text.into()));
    if separator.is_empty() {
        return Ok(Val::list(characters(of, limit).map(part).collect()));
    }
    Ok(Val::list(of.splitn(limit, separator).map(part).collect()))
}

/// Each character alone, and the rest in the last part where there is a limit.
fn characters(of: &str, limit: usize) -> impl Iterator<Item = &str> {
    let rest = of.char_indices().nth(limit.saturating_sub(1)).map_or(of.len(), |(at, _)| at);
    let (alone, rest) = if limit == 0 { ("", "") } else { of.split_at(rest) };
    alone.split_inclusive(|_: char| true).chain(Some(rest).filter(|rest| !rest.is_empty()))
}

/// A number of times; a negative one is no limit.
fn limit_at(function: Function, arguments: &[Val<'_>], at: usize) -> Result<usize, EvaluationError> {
    Ok(integer_at(function, arguments, at)?
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}
