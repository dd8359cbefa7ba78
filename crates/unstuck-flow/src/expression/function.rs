//! The functions that an expression may call: their names, how they are called, and with how many arguments.

use super::ExpressionError;
use super::sentence::find_similar_name;

/// A function. None of them depends on the clock, on chance or on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Text,
    Integer,
    Double,
    Bool,
    Type,
    Duration,
    Timestamp,
    Min,
    Max,
    Least,
    Greatest,
    Abs,
    Ceil,
    Floor,
    Round,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    LowerAscii,
    UpperAscii,
    Trim,
    IndexOf,
    LastIndexOf,
    Substring,
    Replace,
    Split,
    Join,
    Distinct,
    Flatten,
    Sort,
    Reverse,
    OrValue,
    HasValue,
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// How a function is called.
pub(super) struct Signature {
    pub(super) function: Function,
    pub(super) name: &'static str,
    /// Whether on a value, `x.f()`, or alone, `f(x)`.
    pub(super) method: bool,
    /// The least and the largest number of arguments, without the value that it is called on.
    pub(super) least: usize,
    pub(super) most: usize,
    /// For hints.
    pub(super) usage: &'static str,
}

/// Loops over a list: they take a variable and an expression, so they are not functions.
pub(super) const LOOPS: [(&str, &str); 6] = [
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("existsOne", "list.existsOne(x, condition)"),
    ("map", "list.map(x, value)"),
    ("filter", "list.filter(x, condition)"),
];

/// Every function and way to call it.
pub(super) const SIGNATURES: &[Signature] = &[
    alone(Function::Size, "size", 1, "size(x)"),
    method(Function::Size, "size", 0, 0, "x.size()"),
    alone(Function::Text, "string", 1, "string(x)"),
    alone(Function::Integer, "int", 1, "int(x)"),
    alone(Function::Double, "double", 1, "double(x)"),
    alone(Function::Bool, "bool", 1, "bool(x)"),
    alone(Function::Type, "type", 1, "type(x)"),
    alone(Function::Duration, "duration", 1, "duration('1h 30m')"),
    alone(Function::Timestamp, "timestamp", 1, "timestamp('2030-01-31T08:30:00Z')"),
    several(Function::Min, "min", "min(a, b) or min(list)"),
    several(Function::Max, "max", "max(a, b) or max(list)"),
    several(Function::Least, "math.least", "math.least(a, b)"),
    several(Function::Greatest, "math.greatest", "math.greatest(a, b)"),
    alone(Function::Abs, "math.abs", 1, "math.abs(x)"),
    alone(Function::Ceil, "math.ceil", 1, "math.ceil(x)"),
    alone(Function::Floor, "math.floor", 1, "math.floor(x)"),
    alone(Function::Round, "math.round", 1, "math.round(x)"),
    method(Function::Contains, "contains", 1, 1, "text.contains('part')"),
    method(Function::StartsWith, "startsWith", 1, 1, "text.startsWith('start')"),
    method(Function::EndsWith, "endsWith", 1, 1, "text.endsWith('end')"),
    method(Function::Matches, "matches", 1, 1, "text.matches('^[a-z]+$')"),
    method(Function::LowerAscii, "lowerAscii", 0, 0, "text.lowerAscii()"),
    method(Function::UpperAscii, "upperAscii", 0, 0, "text.upperAscii()"),
    method(Function::Trim, "trim", 0, 0, "text.trim()"),
    method(Function::IndexOf, "indexOf", 1, 1, "text.indexOf('part')"),
    method(Function::LastIndexOf, "lastIndexOf", 1, 1, "text.lastIndexOf('part')"),
    method(Function::Substring, "substring", 1, 2, "text.substring(start, end)"),
    method(Function::Replace, "replace", 2, 3, "text.replace('old', 'new')"),
    method(Function::Split, "split", 1, 2, "text.split(',')"),
    method(Function::Join, "join", 0, 1, "list.join(', ')"),
    method(Function::Distinct, "distinct", 0, 0, "list.distinct()"),
    method(Function::Flatten, "flatten", 0, 0, "list.flatten()"),
    method(Function::Sort, "sort", 0, 0, "list.sort()"),
    method(Function::Reverse, "reverse", 0, 0, "list.reverse()"),
    method(Function::OrValue, "orValue", 1, 1, "input.?name.orValue('default')"),
    method(Function::HasValue, "hasValue", 0, 0, "input.?name.hasValue()"),
    method(Function::FullYear, "getFullYear", 0, 1, "timestamp.getFullYear('Europe/Berlin')"),
    method(Function::Month, "getMonth", 0, 1, "timestamp.getMonth('Europe/Berlin')"),
    method(Function::Date, "getDate", 0, 1, "timestamp.getDate('Europe/Berlin')"),
    method(Function::DayOfMonth, "getDayOfMonth", 0, 1, "timestamp.getDayOfMonth('Europe/Berlin')"),
    method(Function::DayOfWeek, "getDayOfWeek", 0, 1, "timestamp.getDayOfWeek('Europe/Berlin')"),
    method(Function::DayOfYear, "getDayOfYear", 0, 1, "timestamp.getDayOfYear('Europe/Berlin')"),
    method(Function::Hours, "getHours", 0, 1, "timestamp.getHours('Europe/Berlin')"),
    method(Function::Minutes, "getMinutes", 0, 1, "timestamp.getMinutes('Europe/Berlin')"),
    method(Function::Seconds, "getSeconds", 0, 1, "timestamp.getSeconds('Europe/Berlin')"),
    method(Function::Milliseconds, "getMilliseconds", 0, 1, "timestamp.getMilliseconds('Europe/Berlin')"),
];

/// Finds the function with this name and way of calling, and checks the number of arguments.
pub(super) fn find_signature(
    name: &str,
    at: usize,
    method: bool,
    arguments: usize,
) -> Result<&'static Signature, ExpressionError> {
    let Some(found) = SIGNATURES.iter().find(|known| known.name == name && known.method == method) else {
        return Err(unknown_function_error(name, at, method));
    };
    if (found.least..=found.most).contains(&arguments) {
        return Ok(found);
    }
    Err(wrong_count_error(name, at, &describe_argument_count(found), arguments, found.usage))
}

impl Function {
    /// Returns whether it gives a part of a timestamp, in UTC or in a zone.
    pub(super) fn is_part_of_time(self) -> bool {
        matches!(
            self,
            Function::FullYear
                | Function::Month
                | Function::Date
                | Function::DayOfMonth
                | Function::DayOfWeek
                | Function::DayOfYear
                | Function::Hours
                | Function::Minutes
                | Function::Seconds
                | Function::Milliseconds
        )
    }

    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        SIGNATURES.iter().find(|signature| signature.function == self).map_or("", |signature| signature.name)
    }
}

const fn alone(function: Function, name: &'static str, arguments: usize, usage: &'static str) -> Signature {
    Signature { function, name, method: false, least: arguments, most: arguments, usage }
}

const fn several(function: Function, name: &'static str, usage: &'static str) -> Signature {
    Signature { function, name, method: false, least: 1, most: usize::MAX, usage }
}

const fn method(
    function: Function,
    name: &'static str,
    least: usize,
    most: usize,
    usage: &'static str,
) -> Signature {
    Signature { function, name, method: true, least, most, usage }
}

/// Builds the error of an unknown function, with how it is called or what was probably meant.
fn unknown_function_error(name: &str, at: usize, method: bool) -> ExpressionError {
    let error = ExpressionError::new(at, format!("there is no function `{name}`"));
    if let Some(other) = SIGNATURES.iter().find(|known| known.name == name) {
        return ExpressionError::new(at, format!("`{name}` is called differently"))
            .hint(format!("write `{}`", other.usage));
    }
    if let Some((_, usage)) = LOOPS.iter().find(|(known, _)| *known == name) {
        return ExpressionError::new(at, format!("`{name}` is called on a list"))
            .hint(format!("write `{usage}`"));
    }
    if name == "now" {
        return ExpressionError::new(at, "`now` is a value, not a function").hint("write `now`");
    }
    if ["today", "random", "uuid", "rand", "date", "time"].contains(&name) {
        return error
            .hint("expressions have no random values; the time is `now`, and there are `run.createdAt` and `run.id`");
    }
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours);
    let names =
        SIGNATURES.iter().map(|known| known.name).chain(LOOPS.iter().map(|(name, _)| *name)).chain(["has"]);
    if let Some(near) = elsewhere.or_else(|| find_similar_name(name, names)) {
        let usage = SIGNATURES.iter().find(|known| known.name == near).map(|known| known.usage);
        let usage = usage.or_else(|| LOOPS.iter().find(|(known, _)| *known == near).map(|(_, usage)| *usage));
        return error.hint(format!("did you mean `{}`?", usage.unwrap_or("has(input.name)")));
    }
    let others = SIGNATURES.iter().filter(|known| known.method == method && !known.name.starts_with("get"));
    let others: Vec<&str> = others.map(|known| known.name).collect();
    error.hint(format!("there are {}", others.join(", ")))
}

/// Names of other languages for the same function.
const ELSEWHERE: [(&str, &str); 21] = [
    ("lower", "lowerAscii"),
    ("toLower", "lowerAscii"),
    ("toLowerCase", "lowerAscii"),
    ("upper", "upperAscii"),
    ("toUpper", "upperAscii"),
    ("toUpperCase", "upperAscii"),
    ("strip", "trim"),
    ("len", "size"),
    ("length", "size"),
    ("count", "size"),
    ("str", "string"),
    ("toString", "string"),
    ("integer", "int"),
    ("uint", "int"),
    ("float", "double"),
    ("number", "double"),
    ("includes", "contains"),
    ("any", "exists"),
    ("some", "exists"),
    ("every", "all"),
    ("default", "orValue"),
];

/// Describes how many arguments a function takes.
fn describe_argument_count(signature: &Signature) -> String {
    match (signature.least, signature.most) {
        (0, 0) => "no argument".to_owned(),
        (1, 1) => "1 argument".to_owned(),
        (least, usize::MAX) => format!("at least {least} argument"),
        (least, most) if least == most => format!("{least} arguments"),
        (least, most) => format!("{least} to {most} arguments"),
    }
}

/// Builds the error of a call with too few or too many arguments.
pub(super) fn wrong_count_error(
    name: &str,
    at: usize,
    wanted: &str,
    found: usize,
    usage: &str,
) -> ExpressionError {
    let found = match found {
        0 => "there are none".to_owned(),
        1 => "there is 1".to_owned(),
        n => format!("there are {n}"),
    };
    ExpressionError::new(at, format!("`{name}` takes {wanted}, but {found}"))
        .hint(format!("write for example `{usage}`"))
}
