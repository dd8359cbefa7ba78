//! What a process puts out: its standard output as a payload, and the tail of its standard error.

use serde_json::Value;
use unstuck_core::json::Json;

/// The most that a process may put out.
pub(super) const MAX_OUTPUT: usize = 16 * 1024 * 1024;
/// So much of the end of standard error is kept.
const TAIL: usize = 8 * 1024;

/// The output of an attempt: the whole text if it is one JSON document, else its last line that is one, else the text.
pub(super) fn payload(stdout: &[u8]) -> Json {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Json::NULL;
    }
    let mut documents = std::iter::once(text).chain(text.lines().rev());
    documents.find_map(document).unwrap_or_else(|| Json::of(&Value::from(text)))
}

fn document(text: &str) -> Option<Json> {
    // A glance first: there can be millions of lines, and an error of the parser costs more than the line.
    let may_be = text.trim_start().starts_with(|c: char| c.is_ascii_digit() || "{[\"-tfn".contains(c));
    if may_be { Json::parse(text).ok() } else { None }
}

/// The end of a text that may be long.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Now and then, so that a byte is moved once and not with every piece.
        if self.bytes.len() > 16 * TAIL {
            self.cut();
        }
    }

    /// The text, without half a line or half a character at its beginning.
    pub(super) fn text(mut self) -> String {
        self.cut();
        let mut bytes = self.bytes.as_slice();
        if self.cut {
            let begin = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(newline) if newline + 1 < bytes.len() => newline + 1,
                _ => bytes.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0),
            };
            bytes = &bytes[begin..];
        }
        String::from_utf8_lossy(bytes).trim_end().to_owned()
    }

    fn cut(&mut self) {
        let over = self.bytes.len().saturating_sub(TAIL);
        self.cut |= over > 0;
        self.bytes.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_a_document_or_the_last_line_that_is_one_or_the_text() {
        let cases: [(&[u8], &str); 15] = [
            (b"", "null"),
            (b"\n\r\n", "null"),
            (b"null\n", "null"),
            (b"hello\n", "\"hello\""),
            (b"two\nlines\n\n", "\"two\\nlines\""),
            (b"42", "42"),
            (b"{\"a\": 1}\n", "{\"a\": 1}"),
            (b"starting\n{\"a\":1}\n{\"a\":2}\n", "{\"a\":2}"),
            (b"{\"a\":1}\r\ndone.\r\n", "{\"a\":1}"),
            (b"{\n  \"a\": [\n    1\n  ]\n}\n", "{\n  \"a\": [\n    1\n  ]\n}"),
            (b"{\"a\":1} trailing", "\"{\\\"a\\\":1} trailing\""),
            (b"NaN\n", "\"NaN\""),
            (b"\n\nx", "\"\\n\\nx\""),
            (b"caf\xe9", "\"caf\u{fffd}\""),
            (b"\xff\xfe\n[1]\n", "[1]"),
        ];
        for (stdout, expected) in cases {
            let json = payload(stdout);
            assert_eq!(json.text(), expected, "{}", String::from_utf8_lossy(stdout));
        }
    }

    #[test]
    fn the_tail_is_the_end_in_whole_lines() {
        let text = |pieces: &[&[u8]]| {
            let mut tail = Tail::default();
            for piece in pieces {
                tail.add(piece);
            }
            tail.text()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[b"one\n", b"two\n"]), "one\ntwo");
        assert_eq!(text(&[b"caf\xe9"]), "caf\u{fffd}");
        let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}\n")).collect();
        let kept = text(&lines.concat().as_bytes().chunks(1_000).collect::<Vec<_>>());
        assert!(kept.len() <= TAIL && kept.starts_with("line ") && kept.ends_with("\nline 99999"), "{kept}");
        let kept = text(&["é".repeat(TAIL).as_bytes(), b"x"]);
        assert!(kept.len() <= TAIL && kept.starts_with('é') && kept.ends_with("éx"), "{kept}");
    }
}
