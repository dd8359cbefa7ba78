//! Fingerprints of errors: the cause with its changing parts taken out, so that the same trouble has the same name.

use std::sync::Arc;

use serde_json::json;

use crate::digest::digest;

/// The rules below; a change of them that changes a pattern is another version.
pub const FINGERPRINT_VERSION: u32 = 1;

/// So many characters of a cause are looked at: what comes later does not make it another trouble.
const MAX_CHARACTERS: usize = 400;

/// What an error has in common with others of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// A short name of the kind: of its action and its pattern.
    pub group: Arc<str>,
    /// The cause as people read it, without its changing parts.
    pub pattern: Arc<str>,
}

impl Fingerprint {
    /// Of an error of this action (full name) with this cause.
    pub fn of(action: &str, cause: &str) -> Fingerprint {
        let pattern = pattern(cause);
        let group = digest(&json!([action, pattern]));
        Fingerprint { group: format!("err_{}", &group[..12]).into(), pattern: pattern.into() }
    }
}

/// The cause with numbers, ids, addresses, quoted values and variable parts of paths taken out.
pub fn pattern(cause: &str) -> String {
    let is_long = cause.chars().nth(MAX_CHARACTERS).is_some();
    let cause: Vec<char> = cause.chars().take(MAX_CHARACTERS).collect();
    let mut pattern = String::with_capacity(cause.len());
    let mut at = 0;
    while at < cause.len() {
        let c = cause[at];
        if let Some(end) = quoted(&cause, at) {
            pattern.extend([c, '…', cause[end]]);
            at = end + 1;
        } else if c.is_whitespace() {
            // However it was wrapped or indented.
            if !pattern.ends_with(' ') {
                pattern.push(' ');
            }
            at += 1;
        } else if is_delimiter(c) {
            pattern.push(c);
            at += 1;
        } else {
            let end = end_of_word(&cause, at);
            let word: String = cause[at..end].iter().collect();
            pattern.push_str(&without_ends(&word));
            at = end;
        }
    }
    if is_long {
        pattern.push('…');
    }
    pattern.trim().to_owned()
}

/// Where a word that begins here ends. The query of an address belongs to it.
fn end_of_word(text: &[char], at: usize) -> usize {
    let until = |stops: fn(char) -> bool| {
        let length = text[at..].iter().position(|c| c.is_whitespace() || stops(*c));
        length.map_or(text.len(), |length| at + length)
    };
    let end = until(is_delimiter);
    let is_address = text[at..end].windows(3).any(|three| three == [':', '/', '/']);
    if is_address { until(|c| is_delimiter(c) && !matches!(c, '=' | ';')) } else { end }
}

/// Where a quotation that begins here ends. An apostrophe inside of a word begins none.
fn quoted(text: &[char], at: usize) -> Option<usize> {
    let close = match text[at] {
        c @ ('"' | '\'' | '`') => c,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let before = at.checked_sub(1).map(|before| text[before]);
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let closes = |place: &usize| {
        text[*place] == close && !text.get(place + 1).copied().is_some_and(char::is_alphanumeric)
    };
    (at + 1..text.len()).find(closes)
}

fn is_delimiter(c: char) -> bool {
    matches!(c, ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '=' | '|' | '"' | '\'' | '`')
}

/// A word without the punctuation that ends it, which is put back.
fn without_ends(word: &str) -> String {
    let core = word.trim_end_matches(['.', ':', '!', '?']);
    format!("{}{}", general(core), &word[core.len()..])
}

/// A word with its changing parts taken out.
fn general(word: &str) -> String {
    if !word.contains(|c: char| c.is_ascii_digit()) {
        return if is_mail(word) { "<address>".to_owned() } else { word.to_owned() };
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        return format!("{scheme}://{}{}", host_of(host), path_of(path));
    }
    if is_uuid(word) {
        "<id>".to_owned()
    } else if is_time(word) {
        "<time>".to_owned()
    } else if is_address(word) || is_mail(word) {
        "<address>".to_owned()
    } else if word.contains(['/', '\\']) && !is_number(word) {
        path_of(word)
    } else {
        part(word)
    }
}

/// The host of an address, without its port and user.
fn host_of(host: &str) -> String {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if is_address(host) {
        return "<address>".to_owned();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => format!("{}:<n>", part(name)),
        Some(_) | None => part(host),
    }
}

/// A path whose variable parts are stars: those with a digit in them. A query is a variable part.
fn path_of(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (mut general, mut rest) = (String::new(), path);
    while let Some(at) = rest.find(['/', '\\']) {
        general.push_str(&segment(&rest[..at]));
        general.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    general + &segment(rest)
}

/// A part of a path: a star for what varies, with the end of a file name kept.
fn segment(segment: &str) -> String {
    // `file.py:12` and `file.py:12:3` are places in a file.
    if let Some((file, place)) = segment.split_once(':')
        && place.split(':').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        && !file.contains(|c: char| c.is_ascii_digit())
    {
        return format!("{file}:<n>");
    }
    if !segment.contains(|c: char| c.is_ascii_digit()) {
        return segment.to_owned();
    }
    match segment.rsplit_once('.') {
        Some((_, end)) if !end.is_empty() && end.bytes().all(|b| b.is_ascii_alphabetic()) => {
            format!("*.{end}")
        }
        Some(_) | None => "*".to_owned(),
    }
}

/// A word that is no address and no path: its numbers and ids.
fn part(word: &str) -> String {
    if is_id(word) {
        return "<id>".to_owned();
    }
    // `run_0abc…`, `order-7f3a…`: the name before an id says what it is.
    if let Some(at) = word.rfind(['_', '-', ':', '#'])
        && is_id(&word[at + 1..])
    {
        return format!("{}{}<id>", part(&word[..at]), &word[at..=at]);
    }
    let mut general = String::new();
    let mut in_number = false;
    let characters: Vec<char> = word.chars().collect();
    for (at, c) in characters.iter().enumerate() {
        let next_is_digit = characters.get(at + 1).is_some_and(char::is_ascii_digit);
        let joins = in_number && matches!(c, '.' | ',' | '_' | ':') && next_is_digit;
        if c.is_ascii_digit() || joins {
            if !in_number {
                general.push_str("<n>");
            }
            in_number = true;
        } else {
            general.push(*c);
            in_number = false;
        }
    }
    general
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'/' | b'-' | b'+' | b'%'))
}

/// Long, with digits among letters, or hexadecimal: nobody means anything by it.
fn is_id(word: &str) -> bool {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = hex.len() >= 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let is_mixed = word.bytes().all(|b| b.is_ascii_alphanumeric()) && word.len() >= 12 && digits >= 3;
    (is_hex && digits > 0 && letters > 0) || (is_mixed && letters > 0) || (hex.len() < word.len() && is_hex)
}

fn is_uuid(word: &str) -> bool {
    let word = word.trim_matches(['{', '}']);
    let groups: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// `2026-11-16`, with or without a time of day; or a time of day.
fn is_time(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_day = shape.starts_with("0000-00-00") || shape.starts_with("0000/00/00");
    let of_day = ["00:00:00", "00:00"].iter().any(|clock| shape.starts_with(clock) && shape.len() <= 16);
    is_day || (of_day && shape.chars().all(|c| matches!(c, '0' | ':' | '.' | ',' | 'Z' | '+')))
}

/// An address of the internet, version 4 or 6, with or without a port.
fn is_address(word: &str) -> bool {
    let word = word.trim_start_matches('/');
    let bare = word.rsplit_once(':').map_or(word, |(host, _)| host);
    let is_v4 = |text: &str| text.parse::<core::net::Ipv4Addr>().is_ok();
    let is_v6 = |text: &str| text.matches(':').count() > 1 && text.parse::<core::net::Ipv6Addr>().is_ok();
    [word, bare].into_iter().any(|text| is_v4(text) || is_v6(text.trim_matches(['[', ']'])))
}

fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty()
            && host.contains('.')
            && host.chars().all(|c| c.is_alphanumeric() || ".-".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changing_parts_are_taken_out_and_the_words_stay() {
        let cases = [
            ("connection refused", "connection refused"),
            ("HTTP 503 after 12 tries", "HTTP <n> after <n> tries"),
            ("took 1.5s, limit 30s", "took <n>s, limit <n>s"),
            ("disk 97% full", "disk <n>% full"),
            ("can't open 'a file.txt'", "can't open '…'"),
            ("no such table: \"users\"", "no such table: \"…\""),
            ("key `k-17` is taken", "key `…` is taken"),
            ("order 3f2a9c1e not found", "order <id> not found"),
            ("run_0k3m9x2v7q1aa is held", "run_<id> is held"),
            ("job 7c9e6679-7425-40de-944b-e07fc1f90ae7 died", "job <id> died"),
            ("no answer from 10.0.3.7:5432", "no answer from <address>"),
            ("no answer from [fe80::1]:80", "no answer from [<address>]:<n>"),
            ("dial tcp db-3.example.org:5432: timeout", "dial tcp db-<n>.example.org:<n>: timeout"),
            (
                "GET https://api.example.org/v2/orders/881?x=1 failed",
                "GET https://api.example.org/*/orders/* failed",
            ),
            ("mail to a.b@example.org bounced", "mail to <address> bounced"),
            ("cannot read /data/in/2026/part-00017.csv", "cannot read /data/in/*/*.csv"),
            ("cannot read /data/in/list.csv", "cannot read /data/in/list.csv"),
            ("at 2026-11-16T02:30:00Z: late", "at <time>: late"),
            ("at app/main.py:17", "at app/main.py:<n>"),
            ("worker-12 is gone", "worker-<n> is gone"),
            ("JsonException: line 3, column 9", "JsonException: line <n>, column <n>"),
            ("pointer 0xdeadbeef", "pointer <id>"),
            ("exit status 137", "exit status <n>"),
            ("two\n   lines\t here", "two lines here"),
            ("", ""),
            ("…漢字 17", "…漢字 <n>"),
        ];
        for (cause, wanted) in cases {
            assert_eq!(pattern(cause), wanted, "{cause}");
        }
    }

    #[test]
    fn the_same_trouble_has_one_name_in_each_action() {
        let of = |action, cause| Fingerprint::of(action, cause).group;
        let one = of("f.encode", "HTTP 503 from 10.0.0.1");
        assert_eq!(one, of("f.encode", "HTTP 502 from 10.0.0.99"));
        assert_ne!(one, of("f.decode", "HTTP 503 from 10.0.0.1"));
        assert_ne!(one, of("f.encode", "HTTP 503 from nowhere"));
        assert!(one.starts_with("err_") && one.len() == 16, "{one}");
    }

    #[test]
    fn a_pattern_is_its_own_pattern_and_bounded() {
        for cause in ["HTTP 503 from 10.0.0.1", "cannot read /data/in/2026/part-00017.csv", "a 'b' c", "x_17"]
        {
            let once = pattern(cause);
            assert_eq!(pattern(&once), once);
        }
        let long = "no room ".repeat(10_000);
        assert!(pattern(&long).chars().count() <= MAX_CHARACTERS + 1);
    }

    #[test]
    fn nothing_makes_it_panic() {
        let mut random = crate::random::Random::new(3);
        let alphabet: Vec<char> = "ab9 0/\\:.'\"`“”<>@[]{}-_#?%…漢\n".chars().collect();
        for _ in 0..20_000 {
            let length = random.between(0, 24);
            let pick = |random: &mut crate::random::Random| {
                let place = random.between(0, alphabet.len() as u64 - 1);
                alphabet[usize::try_from(place).unwrap_or(0)]
            };
            let cause: String = (0..length).map(|_| pick(&mut random)).collect();
            let _ = pattern(&cause);
        }
    }
}
