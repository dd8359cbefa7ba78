//! JSON from the command line, a file or stdin.

use unstuck_core::json::Json;

use crate::error::CommandError;
use crate::input::source::{self, STDIN};

/// Parses JSON that is given directly, as `@file`, or as `-` for stdin; `what` names it in errors.
pub(crate) fn parse(given: &str, what: &str) -> Result<Json, CommandError> {
    if given == STDIN {
        return parse_json_text(&source::read(STDIN)?, &format!("{what} from stdin"));
    }
    match given.strip_prefix('@') {
        Some(file) => parse_json_text(&source::read(file)?, file),
        None => parse_json_text(given, what),
    }
}

/// Parses `--input` and `--step-input`, of which only one can be stdin.
pub(crate) fn parse_changed_inputs(
    input: Option<String>,
    step_input: Option<String>,
) -> Result<(Option<String>, Option<String>), CommandError> {
    if [&input, &step_input].iter().all(|given| given.as_deref() == Some(STDIN)) {
        return Err(CommandError::new("only one of --input and --step-input can be read from stdin"));
    }
    let json = |given: Option<String>, what| -> Result<Option<String>, CommandError> {
        given.map(|given| Ok(parse(&given, what)?.text().to_owned())).transpose()
    };
    Ok((json(input, "--input")?, json(step_input, "--step-input")?))
}

/// Parses JSON; `whence` names its source in errors.
fn parse_json_text(text: &str, whence: &str) -> Result<Json, CommandError> {
    if text.trim().is_empty() {
        return Err(CommandError::new(format!("{whence} is empty; give JSON, such as {{\"n\": 1}}")));
    }
    Json::parse(text).map_err(|error| {
        let message = error.to_string();
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        let (line, column) = (error.line(), error.column());
        let hint = if text.trim_start().starts_with(['{', '[', '"']) {
            ""
        } else {
            "; give JSON, @FILE for a file, or - for stdin"
        };
        CommandError::new(format!("{whence} is not JSON: line {line}, column {column}: {what}{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_taken_as_it_is() {
        let cases = [("{\"a\": 1}", "{\"a\": 1}"), (" 3 ", "3"), ("null", "null")];
        for (given, wanted) in cases {
            assert_eq!(
                parse(given, "--input").ok().map(|json| json.text().to_owned()).as_deref(),
                Some(wanted),
                "{given:?}"
            );
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        let cases = [
            ("{\"a\": 1,}", "--input is not JSON: line 1, column 9: key must be a string"),
            ("{\"a\":\n x}", "--input is not JSON: line 2, column 2: expected value"),
            (
                "name=x",
                "--input is not JSON: line 1, column 2: expected ident; give JSON, @FILE for a file, or - for stdin",
            ),
            ("", "--input is empty; give JSON, such as {\"n\": 1}"),
            ("@nowhere.json", "there is no file nowhere.json; check the path"),
        ];
        for (given, wanted) in cases {
            assert_eq!(
                parse(given, "--input").err().map(|failure| failure.sentence()).as_deref(),
                Some(wanted),
                "{given}"
            );
        }
    }
}
