//! Bodies of requests: their type, their size, and what is wrong with them, by field.

use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use unstuck_api::ProblemType;
use unstuck_service::find_nearest;

use crate::call::Call;
use crate::problem::Problem;

/// Characters of what is said about a field, at most.
const LONGEST_MESSAGE: usize = 1_000;

/// What a route takes as its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Nothing,
    Json,
    /// JSON, and an empty body means an empty object.
    OptionalJson,
    /// A file, YAML or JSON.
    File,
}

impl BodyKind {
    /// Refuses a body of a type that the route does not take. This also keeps out forms that pages of other sites post.
    pub(crate) fn check_type(self, headers: &HeaderMap, is_empty: bool) -> Result<(), Problem> {
        let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let given = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let taken: &[&str] = match self {
            BodyKind::Nothing => return Ok(()),
            BodyKind::OptionalJson if is_empty => return Ok(()),
            BodyKind::Json | BodyKind::OptionalJson => &["application/json"],
            BodyKind::File => &["application/yaml", "application/json"],
        };
        if taken.contains(&given.as_str()) {
            return Ok(());
        }
        let given = if given.is_empty() { "a body without a type".to_owned() } else { format!("`{given}`") };
        Err(Problem::new(
            ProblemType::UnsupportedMediaType,
            format!("{given} is not taken here; send `Content-Type: {}`", taken.join("` or `")),
        ))
    }
}

impl Call {
    /// Reads the JSON of the body.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let text = self.body_text()?;
        let text = if text.trim().is_empty() { "{}" } else { text };
        check_depth(text, self.app.settings.limits.json_depth)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| bad_json(&error))?;
        reader.end().map_err(|error| {
            Problem::new(ProblemType::BadRequest, format!("the body is not JSON: {error}"))
        })?;
        Ok(read)
    }

    /// Returns the body as a text.
    pub(crate) fn body_text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.body.bytes)
            .map_err(|_| Problem::new(ProblemType::BadRequest, "the body is not UTF-8; send it as UTF-8"))
    }
}

/// Says which field is wrong, and which one may be meant.
fn bad_json(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if inner.is_syntax() || inner.is_eof() {
        return Problem::new(ProblemType::BadRequest, format!("the body is not JSON: {inner}"));
    }
    let path = shorten(&error.path().to_string());
    let mut message = shorten(&without_place(&inner.to_string()));
    if let Some(hint) = suggest_field(&message) {
        message = format!("{message}; is `{hint}` meant?");
    }
    if path == "." {
        return Problem::new(ProblemType::BadRequest, format!("the body: {message}"));
    }
    Problem::bad_field(&path, message)
}

/// Cuts what repeats a text of the body, which may be millions of characters long.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_MESSAGE) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Cuts ` at line 1 column 9` off: a body is usually one line that somebody's program wrote.
fn without_place(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message).to_owned()
}

/// Finds the known field that is closest to an unknown one, in serde's sentence about it.
fn suggest_field(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    find_nearest(wrong, quoted)
}

/// Refuses JSON that is nested too deep, before anything is built from it.
fn check_depth(text: &str, most: usize) -> Result<(), Problem> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > most {
                    return Err(Problem::new(
                        ProblemType::BadRequest,
                        format!("the body is nested more than {most} deep"),
                    ));
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_texts() {
        for (text, is_fine) in [
            ("{}", true),
            ("[[]]", true),
            ("[[[]]]", false),
            (r#"{"a": {"b": "[[[["}}"#, true),
            (r#"{"a": {"b": "\"[[[["}}"#, true),
            (r#"["\\", [[]]]"#, false),
            ("[][][][]", true),
        ] {
            assert_eq!(check_depth(text, 2).is_ok(), is_fine, "{text}");
        }
    }

    #[test]
    fn an_unknown_field_is_told_with_the_one_that_may_be_meant() {
        let message = "unknown field `raeson`, expected one of `step`, `reason`";
        assert_eq!(suggest_field(message), Some("reason"));
        assert_eq!(suggest_field("missing field `step`"), None);
    }
}
