//! Where a server is.

use std::fmt;
use std::str::FromStr;

/// The port of a server whose address names none.
const PORT: u16 = 7070;

/// The address of a server, as `http://host:port` or `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether it speaks TLS.
    pub(crate) is_encrypted: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Why a text is no address of a server, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadAddress {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad =
            |why: &str| Err(BadAddress(format!("`{text}` {why}; write it as `http://127.0.0.1:{PORT}`")));
        let (is_encrypted, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return bad("is not an http address"),
            None => (false, text),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '@', '?', '#', ' ']) {
            return bad("has more than a host and a port");
        }
        // The colons of an IPv6 address are inside of brackets.
        let end_of_host = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[end_of_host..].rfind(':') {
            Some(colon) => authority.split_at(end_of_host + colon),
            None => (authority, ""),
        };
        let port = match port.strip_prefix(':') {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(port) => port,
                Err(_) => return bad("has no valid port"),
            },
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !is_bracketed) {
            return bad("has no valid host");
        }
        Ok(Address { is_encrypted, host: host.to_owned(), port })
    }
}

impl Address {
    /// Returns whether the server speaks TLS.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the host without the brackets of an IPv6 address, as it is connected to.
    pub(crate) fn bare_host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, wanted) in [
            ("http://127.0.0.1:7070", Some("http://127.0.0.1:7070")),
            ("http://localhost/", Some("http://localhost:7070")),
            ("localhost:8080", Some("http://localhost:8080")),
            ("[::1]:1", Some("http://[::1]:1")),
            ("http://[::1]", Some("http://[::1]:7070")),
            ("https://localhost", Some("https://localhost:7070")),
            ("https://[::1]:1", Some("https://[::1]:1")),
            ("ftp://localhost", None),
            ("http://", None),
            ("http://a:b", None),
            ("http://a:70000", None),
            ("::1", None),
            ("http://u@host", None),
            ("http://host/v1", None),
        ] {
            let found = text.parse::<Address>().ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), wanted, "{text}");
        }
    }
}
