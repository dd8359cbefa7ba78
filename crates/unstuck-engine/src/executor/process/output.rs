//! What a process prints: its standard output as a payload, and the tails of both streams.

use serde_json::Value;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::json::Json;
use unstuck_core::model::log::{MAX_TAIL_BYTES, Tail};

/// So much is remembered of the end of a standard output that is too large to be kept: its last line may be the output.
const MAX_LAST_LINE: usize = 1024 * 1024;

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

/// Standard output: all of it up to the size of a payload, then its end.
pub(super) struct Stdout {
    bytes: Vec<u8>,
    total: u64,
}

/// Standard error: its end.
pub(super) struct Stderr {
    bytes: Vec<u8>,
    total: u64,
}

impl Stdout {
    pub(super) fn new() -> Stdout {
        Stdout { bytes: Vec::new(), total: 0 }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        self.bytes.extend_from_slice(piece);
        if self.is_too_large() {
            keep_end(&mut self.bytes, MAX_LAST_LINE);
        }
    }

    /// How many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether there was more than an output may have, so that only its end is here.
    fn is_too_large(&self) -> bool {
        self.total > MAX_PAYLOAD_BYTES as u64
    }

    /// The output of the attempt. Of one that is too large only the last line can be it: a document over several lines
    /// does not end with a line that is a document.
    pub(super) fn output(&self) -> Option<Json> {
        if !self.is_too_large() {
            return Some(payload(&self.bytes));
        }
        let end = self.bytes.trim_ascii_end();
        let newline = end.iter().rposition(|byte| *byte == b'\n')?;
        document(std::str::from_utf8(&end[newline + 1..]).ok()?)
    }

    /// What is kept of it as a log.
    pub(super) fn tail(&self) -> Tail {
        tail(&self.bytes, self.total, MAX_TAIL_BYTES)
    }

    /// A shorter end, as a text.
    pub(super) fn end(&self, max: usize) -> String {
        tail(&self.bytes, self.total, max).text.trim().to_owned()
    }
}

impl Stderr {
    pub(super) fn new() -> Stderr {
        Stderr { bytes: Vec::new(), total: 0 }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        self.bytes.extend_from_slice(piece);
        keep_end(&mut self.bytes, MAX_TAIL_BYTES);
    }

    /// What is kept of it as a log.
    pub(super) fn tail(&self) -> Tail {
        tail(&self.bytes, self.total, MAX_TAIL_BYTES)
    }

    /// A shorter end, as a text.
    pub(super) fn end(&self, max: usize) -> String {
        tail(&self.bytes, self.total, max).text.to_string()
    }
}

/// Drops what comes before the last `max` bytes: now and then, so that a byte is moved once and not with every piece.
fn keep_end(bytes: &mut Vec<u8>, max: usize) {
    if bytes.len() > 2 * max {
        bytes.drain(..bytes.len() - max);
        bytes.shrink_to(3 * max);
    }
}

/// At most `max` bytes of the end of a stream of `total` bytes, without half a line or half a character at its beginning.
fn tail(bytes: &[u8], total: u64, max: usize) -> Tail {
    let mut end = &bytes[bytes.len().saturating_sub(max)..];
    let mut cut = (end.len() as u64) < total;
    if cut {
        let begin = match end.iter().position(|byte| *byte == b'\n') {
            Some(newline) if newline + 1 < end.len() => newline + 1,
            _ => end.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0),
        };
        end = &end[begin..];
    }
    let text = String::from_utf8_lossy(end);
    let mut text = text.trim_end();
    // What is no text becomes longer when it is made one.
    if let Some(over) = text.len().checked_sub(max).filter(|over| *over > 0) {
        text = &text[text.ceil_char_boundary(over)..];
        cut = true;
    }
    Tail { text: text.into(), bytes: total, cut }
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
        let tail = |pieces: &[&[u8]]| {
            let mut stderr = Stderr::new();
            for piece in pieces {
                stderr.add(piece);
            }
            stderr.tail()
        };
        let whole = |text: &str, bytes| Tail { text: text.into(), bytes, cut: false };
        assert_eq!(tail(&[]), whole("", 0));
        assert_eq!(tail(&[b"one\n", b"two\n"]), whole("one\ntwo", 8));
        assert_eq!(tail(&[b"caf\xe9"]), whole("caf\u{fffd}", 4));
        let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}\n")).collect();
        let all = lines.concat();
        let kept = tail(&all.as_bytes().chunks(1_000).collect::<Vec<_>>());
        assert!(kept.cut && kept.bytes == all.len() as u64);
        assert!(kept.text.len() <= MAX_TAIL_BYTES && kept.text.len() > MAX_TAIL_BYTES - 20);
        assert!(kept.text.starts_with("line ") && kept.text.ends_with("\nline 99999"), "{}", kept.text);
        let kept = tail(&["é".repeat(MAX_TAIL_BYTES).as_bytes(), b"x"]).text;
        assert!(kept.len() <= MAX_TAIL_BYTES && kept.starts_with('é') && kept.ends_with("éx"));
        let kept = tail(&[&[0xff].repeat(MAX_TAIL_BYTES)]);
        assert!(kept.cut && kept.text.len() <= MAX_TAIL_BYTES, "{}", kept.text.len());
    }

    #[test]
    fn an_output_that_is_too_large_is_its_last_line_if_that_is_a_document() {
        let output = |end: &[u8]| {
            let mut stdout = Stdout::new();
            let line = [b"x".repeat(99), b"\n".to_vec()].concat();
            for _ in 0..=MAX_PAYLOAD_BYTES / 100 {
                stdout.add(&line);
            }
            stdout.add(end);
            assert!(stdout.bytes.capacity() <= 4 * MAX_LAST_LINE, "what is too large is not kept");
            stdout.output().map(|output| output.text().to_owned())
        };
        assert_eq!(output(b""), None);
        assert_eq!(output(b"{\"a\": 1}\n\n").as_deref(), Some("{\"a\": 1}"));
        assert_eq!(output(b"{\"a\": 1}\ndone\n"), None, "no more than the last line is looked at");
        assert_eq!(output(b"[\n1\n]\n"), None, "a line of a document is no output");
        assert_eq!(output(&b"1".repeat(2 * MAX_LAST_LINE)), None, "a line that is too long");
    }
}
