//! JSON text with line breaks and indentation: the order of keys and the digits of numbers stay as they came.

/// The same JSON, laid out for reading. `json` is valid JSON.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut characters = json.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' => {
                out.push('"');
                copy_string(&mut characters, &mut out);
            }
            '{' | '[' => {
                out.push(c);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(depth, &mut out);
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(depth, &mut out);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(depth, &mut out);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Copies the rest of a string, with its closing quote.
fn copy_string(characters: &mut impl Iterator<Item = char>, out: &mut String) {
    while let Some(c) = characters.next() {
        out.push(c);
        match c {
            '"' => return,
            '\\' => out.extend(characters.next()),
            _ => {}
        }
    }
}

fn new_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_changes_and_nothing_else() {
        let cases = [
            ("null", "null"),
            ("[]", "[]"),
            ("{ }", "{}"),
            (r#""a { \" [ , : b""#, r#""a { \" [ , : b""#),
            ("[1,[ ],{}]", "[\n  1,\n  [],\n  {}\n]"),
            (
                r#"{"b":1.50,"a" : [12345678901234567890, true]}"#,
                "{\n  \"b\": 1.50,\n  \"a\": [\n    12345678901234567890,\n    true\n  ]\n}",
            ),
        ];
        for (json, wanted) in cases {
            assert_eq!(pretty(json), wanted, "{json}");
        }
    }
}
