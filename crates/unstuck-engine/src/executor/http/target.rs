//! Where a request goes: a url that was read, and what of it may be shown.

use std::fmt;

use fluent_uri::{Uri, UriRef};

use crate::secrets::percent_encode;

/// The longest url.
const MAX_URL: usize = 16 * 1024;

/// Where a request goes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) is_https: bool,
    /// Without brackets around an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
    pub(super) query: Option<String>,
    /// `user:password`, as it was meant.
    pub(super) user: Option<String>,
    /// The whole of it, for what is relative to it.
    uri: String,
}

impl Target {
    /// Reads a url, or says what is wrong with it without showing more of it than its host.
    pub(super) fn parse(url: &str) -> Result<Target, String> {
        if url.len() > MAX_URL {
            return Err(format!("the url is longer than {MAX_URL} characters"));
        }
        let url = encode(url.trim());
        let uri = Uri::parse(url.as_str()).map_err(|_| {
            "the url is not valid: it must look like `https://example.com/path?name=value`".to_owned()
        })?;
        Target::of_uri(&uri)
    }

    /// Where a redirect leads from here. Credentials in it are not used.
    pub(super) fn redirected(&self, location: &str) -> Result<Target, String> {
        let wrong = || format!("{self} redirects to something that is not a url");
        let location = encode(location.trim());
        let location = UriRef::parse(location.as_str()).map_err(|_| wrong())?;
        let base = Uri::parse(self.uri.as_str()).map_err(|_| wrong())?;
        let uri = location.resolve_against(&base).map_err(|_| wrong())?;
        let target =
            Target::of_uri(&uri.borrow()).map_err(|why| format!("{self} redirects elsewhere: {why}"))?;
        Ok(Target { user: None, ..target })
    }

    fn of_uri(uri: &Uri<&str>) -> Result<Target, String> {
        let is_https = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            other => return Err(format!("the scheme `{other}` is not supported: use `https` or `http`")),
        };
        let authority = uri.authority().ok_or("the url names no host")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err("the url names no host".to_owned());
        }
        if host.contains('%') {
            return Err(format!(
                "`{host}` is not the name of a host: write one with other letters in its ASCII form (`xn--...`)"
            ));
        }
        let port = authority.port_to_u16().map_err(|_| "the port in the url is not a number up to 65535")?;
        let decode = |text: &str| String::from_utf8_lossy(&percent_decode(text)).into_owned();
        let path = uri.path().as_str();
        let fragment = uri.as_str().find('#').unwrap_or(uri.as_str().len());
        Ok(Target {
            is_https,
            host,
            port: port.unwrap_or(if is_https { 443 } else { 80 }),
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            query: uri.query().map(|query| query.as_str().to_owned()),
            user: authority.userinfo().map(|user| decode(user.as_str())),
            uri: uri.as_str()[..fragment].to_owned(),
        })
    }

    /// What the request line has.
    pub(super) fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The host, with its port where that is not the usual one: what the `host` header has.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.is_https { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether credentials for one are for the other too.
    pub(super) fn has_same_origin(&self, other: &Target) -> bool {
        (self.is_https, &self.host, self.port) == (other.is_https, &other.host, other.port)
    }
}

/// The url as people see it: without credentials, and without the query, which often has some.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// Encodes what a url cannot contain and everybody writes all the same: spaces, other letters, brackets in a query. The
/// host stays as it is.
fn encode(url: &str) -> String {
    let after_scheme =
        url.find("//").filter(|at| *at == 0 || url[..*at].ends_with(':')).map_or(0, |at| at + 2);
    let is_relative = after_scheme == 0;
    let rest = &url[after_scheme..];
    let host_end = if is_relative { 0 } else { rest.find(['/', '?', '#']).unwrap_or(rest.len()) };
    let (head, tail) = url.split_at(after_scheme + host_end);
    let mut encoded = head.to_owned();
    for (at, c) in tail.char_indices() {
        let is_escape = c == '%' && tail[at + 1..].bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if is_escape || (c.is_ascii_graphic() && !"%\"<>\\^`{|}[]".contains(c)) {
            encoded.push(c);
        } else {
            encoded.push_str(&percent_encode(c.encode_utf8(&mut [0; 4])));
        }
    }
    encoded
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let escaped = (*byte == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let Some(escaped) = escaped {
            bytes.push(escaped);
            rest = &after[2..];
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => format!(
                "{} {} {} {}{}",
                if target.is_https { "tls" } else { "plain" },
                target.host,
                target.port,
                target.path_and_query(),
                target.user.map(|user| format!(" as {user}")).unwrap_or_default()
            ),
            Err(why) => format!("! {why}"),
        }
    }

    #[test]
    fn urls_are_read() {
        let cases = [
            ("https://example.com", "tls example.com 443 /"),
            ("HTTP://Example.COM:8080/A?b=c#d", "plain example.com 8080 /A?b=c"),
            ("https://[::1]:9/x", "tls ::1 9 /x"),
            ("http://a?x", "plain a 80 /?x"),
            ("https://u:p%40ss@host/", "tls host 443 / as u:p@ss"),
            ("https://host/a b/ü?q=[1]&r=100%", "tls host 443 /a%20b/%C3%BC?q=%5B1%5D&r=100%25"),
            ("https://host/%7Bx%7D{y}", "tls host 443 /%7Bx%7D%7By%7D"),
            ("https://host/a//b", "tls host 443 /a//b"),
            ("ftp://host/", "! the scheme `ftp` is not supported: use `https` or `http`"),
            ("file:///etc/passwd", "! the scheme `file` is not supported: use `https` or `http`"),
            ("https:///x", "! the url names no host"),
            ("https://", "! the url names no host"),
            ("https://host:99999/", "! the port in the url is not a number up to 65535"),
            (
                "example.com/x",
                "! the url is not valid: it must look like `https://example.com/path?name=value`",
            ),
            (
                "https://good\\@evil/",
                "! the url is not valid: it must look like `https://example.com/path?name=value`",
            ),
            (
                "https://b%C3%BCcher.de/",
                "! `b%c3%bccher.de` is not the name of a host: write one with other letters in its ASCII form (`xn--...`)",
            ),
            ("", "! the url is not valid: it must look like `https://example.com/path?name=value`"),
        ];
        for (url, expected) in cases {
            assert_eq!(summary(url), expected, "{url}");
        }
    }

    #[test]
    fn what_is_shown_has_neither_credentials_nor_a_query() {
        let target =
            Target::parse("https://user:s3cret@example.com:444/a/b?token=s3cret#s3cret").expect("a url");
        assert_eq!(target.to_string(), "https://example.com:444/a/b");
        assert_eq!(format!("{target:?}"), "Target(https://example.com:444/a/b)");
    }

    #[test]
    fn redirects_are_relative_to_where_they_come_from() {
        let from = Target::parse("https://u:p@example.com/a/b?x#y").expect("a url");
        let cases = [
            ("/c", Ok("https://example.com/c")),
            ("c?d", Ok("https://example.com/a/c")),
            ("../../c", Ok("https://example.com/c")),
            ("//other/x", Ok("https://other/x")),
            ("http://other:81/x y", Ok("http://other:81/x%20y")),
            ("https://v:w@other/", Ok("https://other/")),
            ("", Ok("https://example.com/a/b")),
            (
                "file:///etc/passwd",
                Err(
                    "https://example.com/a/b redirects elsewhere: the scheme `file` is not supported: use `https` or `http`",
                ),
            ),
            ("http://[", Err("https://example.com/a/b redirects to something that is not a url")),
        ];
        for (location, expected) in cases {
            let to = from.redirected(location);
            assert!(to.as_ref().map_or(true, |to| to.user.is_none()), "{location}");
            assert_eq!(
                to.map(|to| to.to_string()),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{location}"
            );
        }
        let other = |url: &str| Target::parse(url).expect("a url").has_same_origin(&from);
        assert!(other("https://EXAMPLE.com:443/z"));
        assert!(
            !other("http://example.com/")
                && !other("https://example.com:444/")
                && !other("https://a.example.com/")
        );
    }
}
