//! Reads from Rust tokens what the rules need: functions, string literals, paths.
//!
//! Tokens rather than a syntax tree: comments, strings and lifetimes are told apart, braces match, and code inside
//! macros (`proptest! { fn ... }`) is seen like everything else.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of its `fn`.
    pub(crate) line: usize,
    /// From the line of its `fn` to that of its closing brace, both included.
    pub(crate) lines: usize,
}

/// A string literal, with what stands between its quotes, as written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StringLiteral {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A path such as `std::fs::read`, with `use` groups unfolded, or a macro call, whose last segment ends in `!`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodePath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// Lists every function with a body, at any depth.
pub(crate) fn functions(tokens: TokenStream) -> Vec<Function> {
    let mut found = Vec::new();
    for_each_level(tokens, &mut |level| {
        found.extend((0..level.len()).filter_map(|at| function_at(level, at)));
    });
    found
}

/// Lists every string literal outside of attributes (doc comments are attributes to the compiler).
pub(crate) fn string_literals(tokens: TokenStream) -> Vec<StringLiteral> {
    let mut found = Vec::new();
    for_each_level(tokens, &mut |level| {
        for token in level {
            if let TokenTree::Literal(literal) = token
                && let Some(text) = between_quotes(&literal.to_string())
            {
                found.push(StringLiteral { text, line: literal.span().start().line });
            }
        }
    });
    found
}

/// Lists every path and macro call; a lone name is a path of one segment.
pub(crate) fn paths(tokens: TokenStream) -> Vec<CodePath> {
    let mut found = Vec::new();
    collect_paths(&tokens.into_iter().collect::<Vec<_>>(), &[], &mut found);
    found
}

/// Lists the words of each inner attribute of a file (`#![deny(...)]`).
pub(crate) fn inner_attributes(tokens: TokenStream) -> Vec<Vec<String>> {
    let level: Vec<TokenTree> = tokens.into_iter().collect();
    let attribute = |three: &[TokenTree]| match three {
        [hash, bang, TokenTree::Group(group)] if is_punct(hash, '#') && is_punct(bang, '!') => {
            Some(attribute_words(group))
        }
        _ => None,
    };
    level.windows(3).filter_map(attribute).collect()
}

fn attribute_words(group: &Group) -> Vec<String> {
    paths(group.stream()).into_iter().flat_map(|path| path.segments).collect()
}

/// Calls `visit` with the tokens of each level: the file's own, and those inside each pair of brackets.
fn for_each_level(tokens: TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let level: Vec<TokenTree> = tokens.into_iter().collect();
    visit(&level);
    for (at, token) in level.iter().enumerate() {
        if let TokenTree::Group(group) = token
            && !is_attribute(&level, at)
        {
            for_each_level(group.stream(), visit);
        }
    }
}

fn is_attribute(level: &[TokenTree], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|index| &level[index]);
    let is = |token: Option<&TokenTree>, symbol| token.is_some_and(|token| is_punct(token, symbol));
    is(before(1), '#') || (is(before(1), '!') && is(before(2), '#'))
}

/// Returns the function whose `fn` keyword is at this index.
fn function_at(level: &[TokenTree], at: usize) -> Option<Function> {
    let TokenTree::Ident(keyword) = &level[at] else { return None };
    if keyword != "fn" {
        return None;
    }
    // `fn(u8) -> u8` is a type; `fn $name()` is a function in a macro.
    let name = match level.get(at + 1)? {
        TokenTree::Ident(name) => name.to_string(),
        dollar if is_punct(dollar, '$') => format!("${}", level.get(at + 2)?),
        _ => return None,
    };
    let line = keyword.span().start().line;
    let last_line = find_body(&level[at + 2..])?.span_close().end().line;
    Some(Function { name, line, lines: last_line - line + 1 })
}

/// Finds the first braces after a signature, outside of angle brackets (where `{N}` is a const argument).
fn find_body(after_name: &[TokenTree]) -> Option<&Group> {
    let mut angles = 0_i32;
    let mut after_minus = false;
    for token in after_name {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && angles == 0 => {
                return Some(group);
            }
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' => return None,
                '<' => angles += 1,
                '>' if !after_minus => angles -= 1,
                _ => {}
            },
            _ => {}
        }
        after_minus = is_punct(token, '-');
    }
    None
}

/// Collects the paths of a level and of those inside it.
fn collect_paths(level: &[TokenTree], prefix: &[String], found: &mut Vec<CodePath>) {
    let mut at = 0;
    while at < level.len() {
        match &level[at] {
            // The new name in `use a::{b as c}` is no path.
            TokenTree::Ident(word) if word == "as" && !prefix.is_empty() => at += 2,
            TokenTree::Ident(_) => at = read_path(level, at, prefix, found),
            TokenTree::Group(group) => {
                collect_paths(&group.stream().into_iter().collect::<Vec<_>>(), &[], found);
                at += 1;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
        }
    }
}

/// Reads the path that begins at an identifier, and returns where it ends.
fn read_path(level: &[TokenTree], from: usize, prefix: &[String], found: &mut Vec<CodePath>) -> usize {
    let mut segments = prefix.to_vec();
    let line = level[from].span().start().line;
    let mut at = from;
    loop {
        segments.push(level[at].to_string());
        at += 1;
        if !is_double_colon(level, at) {
            break;
        }
        match level.get(at + 2) {
            Some(TokenTree::Ident(_)) => at += 2,
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                collect_paths(&group.stream().into_iter().collect::<Vec<_>>(), &segments, found);
                return at + 3;
            }
            _ => break,
        }
    }
    let is_macro = level.get(at).is_some_and(|token| is_punct(token, '!'))
        && matches!(level.get(at + 1), Some(TokenTree::Group(_)));
    if let (true, Some(last)) = (is_macro, segments.last_mut()) {
        last.push('!');
    }
    found.push(CodePath { segments, line });
    at
}

fn is_double_colon(level: &[TokenTree], at: usize) -> bool {
    let joint =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
    match level.get(at..at + 2) {
        Some([first, second]) => is_punct(first, ':') && joint(first) && is_punct(second, ':'),
        _ => false,
    }
}

fn is_punct(token: &TokenTree, symbol: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == symbol)
}

/// Returns the text between the quotes of `"a"`, `r#"a"#`, `b"a"`, `c"a"`; nothing for characters and numbers.
fn between_quotes(literal: &str) -> Option<String> {
    let open = literal.find('"')?;
    let close = literal.rfind('"')?;
    let is_string = literal[..open].chars().all(|c| matches!(c, 'r' | 'b' | 'c' | '#'));
    (is_string && open < close).then(|| literal[open + 1..close].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> TokenStream {
        source.parse().expect("the example is Rust")
    }

    /// A function's name, first line and length.
    type Found<'a> = (&'a str, usize, usize);

    #[test]
    fn functions_are_counted_from_fn_to_closing_brace() {
        let cases: [(&str, &[Found<'_>]); 12] = [
            ("fn a() {}", &[("a", 1, 1)]),
            ("\n#[test]\npub fn a()\n{\n}\n", &[("a", 3, 3)]),
            ("fn a() {\n fn b() {\n }\n}", &[("a", 1, 4), ("b", 2, 2)]),
            ("impl A {\n const fn a() {\n }\n}", &[("a", 2, 2)]),
            ("trait A { fn a(); fn b() {\n} }", &[("b", 1, 2)]),
            ("type A = fn(u8) -> u8; struct B {}", &[]),
            ("fn a<'a, T: Into<&'a str>>() -> impl Fn(u8) -> u8 where T: 'a,\n{\n}", &[("a", 1, 3)]),
            ("fn a() -> A<{ 1 + 1 }> {\n\n}", &[("a", 1, 3)]),
            ("fn a() { let _ = (\"}\", '}', r#\"}\"}\"#, b'{');\n// }\n/* } */ }", &[("a", 1, 3)]),
            ("proptest! {\n fn a(x in 0..1) {\n }\n}", &[("a", 2, 2)]),
            ("macro_rules! m { () => { fn $name() {\n} } }", &[("$name", 1, 2)]),
            ("/// fn a() {}\nconst A: &str = \"fn b() {}\"; // fn c() {}", &[]),
        ];
        for (source, expected) in cases {
            let found = functions(tokens(source));
            let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn string_literals_leave_out_attributes_and_comments() {
        let source = "//! \"no\"\n/// no\n#[doc = \"no\"]\nfn a() { f(\"one\", r#\"t\"wo\"#,\n b\"three\", 'x', '\"', 7) } // \"no\"";
        let found = string_literals(tokens(source));
        let found: Vec<_> = found.iter().map(|s| (s.text.as_str(), s.line)).collect();
        assert_eq!(found, [("one", 4), ("t\"wo", 4), ("three", 5)]);
    }

    #[test]
    fn paths_unfold_groups_and_know_macros() {
        let cases: [(&str, &[&str]); 5] = [
            ("std::fs::read(x)", &["std::fs::read", "x"]),
            ("use std::{fs, io::{self, Read as R}};", &["use", "std::fs", "std::io::self", "std::io::Read"]),
            ("a!(b); c != d", &["a!", "b", "c", "d"]),
            ("x: Y = Vec::<u8>::new()", &["x", "Y", "Vec", "u8", "new"]),
            ("'a: loop { \"std::fs\" } // std::fs", &["a", "loop"]),
        ];
        for (source, expected) in cases {
            let found: Vec<_> = paths(tokens(source)).iter().map(|path| path.segments.join("::")).collect();
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn inner_attributes_are_told_from_outer_ones() {
        let found = inner_attributes(tokens("//! doc\n#![deny(clippy::x)]\n#[deny(clippy::y)]\nfn a() {}"));
        assert_eq!(found.last().expect("one"), &["deny", "clippy", "x"]);
        assert!(!found.iter().flatten().any(|word| word == "y"));
    }
}
