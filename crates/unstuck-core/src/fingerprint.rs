//! Fingerprints of errors: the cause with its changing parts masked, so that errors of the same kind get the same
//! group.

use std::sync::Arc;

use serde_json::json;

use crate::digest::digest;

/// The version of the masking rules. Raise it with every change that changes a pattern.
pub const FINGERPRINT_VERSION: u32 = 2;

/// How many characters of a cause are looked at.
const MAX_CHARACTERS: usize = 400;

/// What an error has in common with others of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The id of the group: a digest of the action and the pattern.
    pub group: Arc<str>,
    /// The cause without its changing parts.
    pub pattern: Arc<str>,
}

impl Fingerprint {
    /// Computes the fingerprint of an error from the full name of its action and its cause.
    pub fn of(action: &str, cause: &str) -> Fingerprint {
        let pattern = mask_variable_parts(cause);
        let group = digest(&json!([action, pattern]));
        Fingerprint { group: format!("err_{}", &group[..12]).into(), pattern: pattern.into() }
    }
}

/// Masks numbers, ids, addresses, quoted values and variable parts of paths in a cause. Status and exit codes stay,
/// because a 404 and a 503 are different problems.
pub fn mask_variable_parts(cause: &str) -> String {
    let is_long = cause.chars().nth(MAX_CHARACTERS).is_some();
    let cause: Vec<char> = cause.chars().take(MAX_CHARACTERS).collect();
    let mut pattern = String::with_capacity(cause.len());
    let mut code = Code::None;
    let mut at = 0;
    while at < cause.len() {
        let c = cause[at];
        if let Some(end) = end_of_quotation(&cause, at) {
            pattern.extend([c, '…', cause[end]]);
            let name: String = cause[at + 1..end].iter().collect();
            code = Code::None.after_word(&name);
            at = end + 1;
        } else if c.is_whitespace() {
            // Line breaks and indentation count as one space.
            if !pattern.ends_with(' ') {
                pattern.push(' ');
            }
            at += 1;
        } else if is_delimiter(c) {
            if !matches!(c, '=' | '(' | '[' | '<') {
                code = Code::None;
            }
            pattern.push(c);
            at += 1;
        } else {
            let end = end_of_word(&cause, at);
            let word: String = cause[at..end].iter().collect();
            pattern.push_str(&mask_word_before_punctuation(
                &word,
                code.confirm_for_number(&word, &cause[end..]),
            ));
            code = code.after_word(&word);
            at = end;
        }
    }
    if is_long {
        pattern.push('…');
    }
    pattern.trim().to_owned()
}

/// Returns where the word that begins at `at` ends. The query of a URL belongs to its word.
fn end_of_word(text: &[char], at: usize) -> usize {
    let until = |stops: fn(char) -> bool| {
        let length = text[at..].iter().position(|c| c.is_whitespace() || stops(*c));
        length.map_or(text.len(), |length| at + length)
    };
    let end = until(is_delimiter);
    let is_address = text[at..end].windows(3).any(|three| three == [':', '/', '/']);
    if is_address { until(|c| is_delimiter(c) && !matches!(c, '=' | ';')) } else { end }
}

/// Returns where the quotation that begins at `at` ends, if one begins there. An apostrophe inside a word does not.
fn end_of_quotation(text: &[char], at: usize) -> Option<usize> {
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

/// Masks a word and puts its final punctuation back. A word that the words before announced as a code stays.
fn mask_word_before_punctuation(word: &str, announced: Code) -> String {
    let core = word.trim_end_matches(['.', ':', '!', '?']);
    let is_code = announced.is_code(core.trim_start_matches(':')) || is_named_code(core);
    let shown = if is_code { core.to_owned() } else { mask_word(core) };
    format!("{shown}{}", &word[core.len()..])
}

/// Phrases that follow a status code: `503 Service Unavailable`, `404 Client Error`.
const PHRASES: [&str; 20] = [
    "bad gateway",
    "bad request",
    "client error",
    "conflict",
    "forbidden",
    "gateway time-out",
    "gateway timeout",
    "gone",
    "internal server error",
    "method not allowed",
    "not found",
    "not implemented",
    "payload too large",
    "payment required",
    "precondition failed",
    "request timeout",
    "server error",
    "service unavailable",
    "too many requests",
    "unauthorized",
];
const LONGEST_PHRASE: usize = 24;

/// The kind of code that the words so far announce.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    None,
    /// The status of an answer: `HTTP 503`, `status code 404`, `code=429`.
    Status,
    /// Perhaps one, for a count of something may follow as well: `returned error: 503`, but not `error: 503 rows are bad`.
    Error,
    /// How a process ended, or a number of the system: `exit code 3`, `exited with status 137`, `signal 9`, `errno 28`.
    Exit,
}

impl Code {
    /// Returns what is announced after one more word: some words announce a code, most end the announcement.
    fn after_word(self, word: &str) -> Code {
        let is_letter = |c: &char| c.is_ascii_alphabetic();
        // `HTTP/1.1` announces what `HTTP` does.
        let start = word.to_ascii_lowercase().split('/').next().unwrap_or_default().to_owned();
        let name: String = start.chars().filter(is_letter).collect();
        match name.as_str() {
            "exit" | "exits" | "exited" | "exitcode" | "exitstatus" | "returncode" | "rc" | "errno"
            | "signal" => Code::Exit,
            // `exit code`, `exited with status` announce what `exit` does.
            "status" | "statuscode" | "code" | "response" | "http" | "https" | "httpstatus" | "httpcode"
            | "responsecode"
                if matches!(self, Code::None | Code::Error) =>
            {
                Code::Status
            }
            // `requests.exceptions.HTTPError: 503`
            name if name.ends_with("httperror") => Code::Status,
            "error" if self == Code::None => Code::Error,
            "status" | "statuscode" | "code" | "response" | "error" | "with" | "was" | "is" | "of"
            | "returned" => self,
            _ => Code::None,
        }
    }

    /// Decides what a number is, knowing the text behind it: a status phrase confirms a status, and an error number
    /// counts as one only at the end of the sentence.
    fn confirm_for_number(self, word: &str, rest: &[char]) -> Code {
        let rest: String = rest.iter().take(LONGEST_PHRASE).collect();
        let rest = rest.trim_start().to_ascii_lowercase();
        let is_last =
            rest.is_empty() || word.ends_with([':', '.', '!', '?']) || rest.starts_with(is_delimiter);
        match self {
            Code::Error if is_last => Code::Status,
            Code::None | Code::Error if PHRASES.iter().any(|phrase| starts_with_phrase(&rest, phrase)) => {
                Code::Status
            }
            Code::None | Code::Error => Code::None,
            Code::Status | Code::Exit => self,
        }
    }

    /// Returns whether a word is a code of the announced kind, which stays in the pattern.
    fn is_code(self, word: &str) -> bool {
        let is_short = (1..=3).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
        match self {
            Code::None | Code::Error => false,
            Code::Status => is_short && (100..=599).contains(&word.parse().unwrap_or(0)),
            Code::Exit => is_short,
        }
    }
}

/// Returns whether a text begins with these words.
fn starts_with_phrase(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
}

/// Returns whether a word contains both a code and its name: `HTTP503`, `status:404`, `exit-3`.
fn is_named_code(word: &str) -> bool {
    let Some(at) = word.find(|c: char| c.is_ascii_digit()) else { return false };
    let (name, number) = word.split_at(at);
    let is_name = name.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | ':' | '#'));
    is_name && !name.is_empty() && Code::None.after_word(name).is_code(number)
}

/// Masks the changing parts of a word: address, URL, id, time, path or number.
fn mask_word(word: &str) -> String {
    if !word.contains(|c: char| c.is_ascii_digit()) {
        return if is_email_address(word) { "<address>".to_owned() } else { word.to_owned() };
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        return format!("{scheme}://{}{}", mask_host(host), mask_path(path));
    }
    if is_uuid(word) {
        "<id>".to_owned()
    } else if is_time(word) {
        "<time>".to_owned()
    } else if is_address(word) || is_email_address(word) {
        "<address>".to_owned()
    } else if word.contains(['/', '\\']) && !is_number(word) {
        mask_path(word)
    } else {
        mask_numbers_and_ids(word)
    }
}

/// Masks the host of a URL, without its user; a port becomes `<n>`.
fn mask_host(host: &str) -> String {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if is_address(host) {
        return "<address>".to_owned();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{}:<n>", mask_numbers_and_ids(name))
        }
        Some(_) | None => mask_numbers_and_ids(host),
    }
}

/// Masks each segment of a path that contains a digit, and drops the query.
fn mask_path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (mut general, mut rest) = (String::new(), path);
    while let Some(at) = rest.find(['/', '\\']) {
        general.push_str(&mask_path_segment(&rest[..at]));
        general.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    general + &mask_path_segment(rest)
}

/// Masks a path segment with a star if it contains a digit; the extension of a file name stays.
fn mask_path_segment(segment: &str) -> String {
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

/// Masks numbers and ids in a word that is neither an address nor a path. The name before an id stays.
fn mask_numbers_and_ids(word: &str) -> String {
    if is_id(word) {
        return "<id>".to_owned();
    }
    // `run_0abc…`, `order-7f3a…`: the name before an id says what it is.
    if let Some(at) = word.rfind(['_', '-', ':', '#'])
        && is_id(&word[at + 1..])
    {
        return format!("{}{}<id>", mask_numbers_and_ids(&word[..at]), &word[at..=at]);
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

/// Returns whether a word looks generated: hexadecimal, or long with digits among letters.
fn is_id(word: &str) -> bool {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = hex.len() >= 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let is_mixed = word.bytes().all(|b| b.is_ascii_alphanumeric()) && word.len() >= 12 && digits >= 3;
    (is_hex && digits > 0 && letters > 0) || (is_mixed && letters > 0) || (hex.len() < word.len() && is_hex)
}

/// Returns whether a word is a UUID, with or without braces.
fn is_uuid(word: &str) -> bool {
    let word = word.trim_matches(['{', '}']);
    let groups: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns whether a word is a date, with or without a time of day, or a time of day.
fn is_time(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_day = shape.starts_with("0000-00-00") || shape.starts_with("0000/00/00");
    let of_day = ["00:00:00", "00:00"].iter().any(|clock| shape.starts_with(clock) && shape.len() <= 16);
    is_day || (of_day && shape.chars().all(|c| matches!(c, '0' | ':' | '.' | ',' | 'Z' | '+')))
}

/// Returns whether a word is an IPv4 or IPv6 address, with or without a port.
fn is_address(word: &str) -> bool {
    let word = word.trim_start_matches('/');
    let bare = word.rsplit_once(':').map_or(word, |(host, _)| host);
    let is_v4 = |text: &str| text.parse::<core::net::Ipv4Addr>().is_ok();
    let is_v6 = |text: &str| text.matches(':').count() > 1 && text.parse::<core::net::Ipv6Addr>().is_ok();
    [word, bare].into_iter().any(|text| is_v4(text) || is_v6(text.trim_matches(['[', ']'])))
}

/// Returns whether a word looks like an e-mail address.
fn is_email_address(word: &str) -> bool {
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
            ("HTTP 503 after 12 tries", "HTTP 503 after <n> tries"),
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
            ("exit status 137", "exit status 137"),
            ("two\n   lines\t here", "two lines here"),
            ("", ""),
            ("…漢字 17", "…漢字 <n>"),
        ];
        for (cause, wanted) in cases {
            assert_eq!(mask_variable_parts(cause), wanted, "{cause}");
        }
    }

    #[test]
    fn status_and_exit_codes_stay_and_other_numbers_do_not() {
        let kept = [
            "HTTP 401",
            "HTTP/1.1 404 Not Found",
            "status 429, slow down",
            "status code: 500",
            "statusCode=503",
            "got status code 503.",
            "HTTP error 502: no answer",
            "Request failed with status code 404",
            "HTTP503",
            "status:404",
            "curl: The requested URL returned error: 503",
            "wget: server said ERROR 404: Not Found.",
            "503 Service Unavailable",
            "429 Too Many Requests",
            "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error",
            "urllib.error.HTTPError: HTTP Error 502: Bad Gateway",
            "404 Client Error: Not Found for url: http://example.org/a",
            "an error (503) from the store",
            "the server (HTTP 503) is down",
            "exit code 3",
            "exited with code 137",
            "exited with status 2",
            "exit-3",
            "process exited: exit status: 1",
            "killed by signal 9",
            "killed by signal 11 (SIGSEGV)",
            "[Errno 28] No space left on device",
        ];
        for cause in kept {
            assert_eq!(mask_variable_parts(cause).replace("HTTP/*", "HTTP/1.1"), cause, "{cause}");
        }
        assert_eq!(mask_variable_parts(r#"{"status":503,"id":17}"#), r#"{"…":503,"…":<n>}"#);
        let taken_out = [
            ("code 17", "code <n>"),
            ("status 4041", "status <n>"),
            ("exit after 17 tries", "exit after <n> tries"),
            ("HTTP from 10.0.0.1, 503 times", "HTTP from <address>, <n> times"),
            ("status, 503", "status, <n>"),
            ("order 503", "order <n>"),
            ("error: 503 rows are bad", "error: <n> rows are bad"),
            ("error 17", "error <n>"),
            ("503 goners", "<n> goners"),
            ("4041 not found", "<n> not found"),
            ("http://503.example.org/404", "http://<n>.example.org/*"),
            ("barcode 503", "barcode <n>"),
        ];
        for (cause, wanted) in taken_out {
            assert_eq!(mask_variable_parts(cause), wanted, "{cause}");
        }
    }

    #[test]
    fn the_same_trouble_has_one_name_in_each_action() {
        let of = |action, cause| Fingerprint::of(action, cause).group;
        let one = of("f.encode", "HTTP 503 from 10.0.0.1");
        assert_eq!(one, of("f.encode", "HTTP 503 from 10.0.0.99"));
        assert_ne!(one, of("f.decode", "HTTP 503 from 10.0.0.1"));
        assert_ne!(one, of("f.encode", "HTTP 502 from 10.0.0.1"));
        assert_ne!(one, of("f.encode", "HTTP 503 from nowhere"));
        assert!(one.starts_with("err_") && one.len() == 16, "{one}");
    }

    #[test]
    fn a_pattern_is_its_own_pattern_and_bounded() {
        for cause in ["HTTP 503 from 10.0.0.1", "cannot read /data/in/2026/part-00017.csv", "a 'b' c", "x_17"]
        {
            let once = mask_variable_parts(cause);
            assert_eq!(mask_variable_parts(&once), once);
        }
        let long = "no room ".repeat(10_000);
        assert!(mask_variable_parts(&long).chars().count() <= MAX_CHARACTERS + 1);
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
            let _ = mask_variable_parts(&cause);
        }
    }
}
