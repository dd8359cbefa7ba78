//! Who calls, and what they may do. Without any token a server is for its own machine alone, and everybody there is admin. The owner of the store
//! is admin on its socket, with tokens or without.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, header};
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_core::api_token::{ApiToken, Role};
use unstuck_core::time::Time;
use unstuck_service::tokens::KnownTokens;

use crate::problem::Problem;

/// Names the person behind a shared token. It is recorded, and trusted for nothing.
const USER: HeaderName = HeaderName::from_static("unstuck-user");
/// Characters of a name at most.
const LONGEST_NAME: usize = 128;

/// Returns whether whoever has a role may do all that the other may.
fn includes(role: Role, other: Role) -> bool {
    match role {
        Role::Admin => true,
        Role::Operator => matches!(other, Role::Operator | Role::Viewer | Role::Client),
        Role::Viewer | Role::Client | Role::Worker | Role::Peer => role == other,
    }
}

/// Who may use a route.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// Everybody, without a token.
    Public,
    /// Whoever has one of these roles, or one that includes it.
    Roles(&'static [Role]),
}

impl Access {
    /// Returns whether this role is enough.
    pub(crate) fn allows(self, role: Role) -> bool {
        match self {
            Access::Public => true,
            Access::Roles(roles) => roles.iter().any(|needed| includes(role, *needed)),
        }
    }

    /// Refuses a caller whose role is not enough.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), Problem> {
        if self.allows(caller.role) {
            return Ok(());
        }
        let Access::Roles(roles) = self else { return Ok(()) };
        let needs: Vec<String> = roles.iter().map(|role| role.word().to_owned()).collect();
        let mut problem = ProblemDocument::new(
            ProblemType::Forbidden,
            format!(
                "the token has the role {}, and this needs {}; use another token",
                caller.role.word(),
                needs.join(" or ")
            ),
        );
        problem.about.needs = needs;
        Err(Problem::from(problem))
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Network(IpAddr),
    /// The socket in the folder of the store, which is for its owner alone.
    Socket,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Network(address) => address.fmt(f),
            Peer::Socket => f.write_str("socket"),
        }
    }
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// The name that changes are recorded under: of the token, or of the person where there are no tokens.
    pub(crate) name: Arc<str>,
    /// The person behind a shared token, as they claim.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) peer: Peer,
    pub(crate) token: Option<Arc<ApiToken>>,
}

impl Caller {
    /// Finds out who calls: whoever comes with a token has its role. Where there has never been one, only the machine itself is let
    /// in, under a name that a page of another site cannot give.
    pub(crate) fn identify(
        tokens: &KnownTokens,
        headers: &HeaderMap,
        peer: Peer,
        now: Time,
    ) -> Result<Caller, Problem> {
        let user = claimed_name(headers)?;
        let Peer::Network(address) = peer else {
            // Whoever owns the store can do everything to it anyway.
            let name = user.unwrap_or_else(|| "local".into());
            return Ok(Caller { role: Role::Admin, name, user: None, peer, token: None });
        };
        if let Some(presented) = bearer_token(headers) {
            let token = tokens.authenticate(presented, now).ok_or_else(unauthenticated)?;
            return Ok(Caller { role: token.role, name: token.name.clone(), user, peer, token: Some(token) });
        }
        if !tokens.is_empty() || !is_loopback(address) {
            return Err(unauthenticated());
        }
        check_host(headers)?;
        check_origin(headers)?;
        let name = user.unwrap_or_else(|| "local".into());
        Ok(Caller { role: Role::Admin, name, user: None, peer, token: None })
    }

    /// Whoever may only use what is for everybody.
    pub(crate) fn stranger(peer: Peer) -> Caller {
        Caller { role: Role::Peer, name: "anybody".into(), user: None, peer, token: None }
    }

    /// Returns how changes are recorded: `ada (ops-cli)` for a person behind a token.
    pub(crate) fn shown_name(&self) -> String {
        match &self.user {
            Some(user) => format!("{user} ({})", self.name),
            None => self.name.to_string(),
        }
    }

    /// Refuses a flow that is not the token's.
    pub(crate) fn check_flow(&self, flow: &str) -> Result<(), Problem> {
        let flows = self.token.as_deref().map_or(&[][..], |token| &token.flows);
        if flows.is_empty() || flows.iter().any(|allowed| **allowed == *flow) {
            return Ok(());
        }
        Err(Problem::new(
            ProblemType::Forbidden,
            format!("the token is for other flows than `{}`; use another token", shorten(flow)),
        ))
    }

    /// Returns whether the caller may see only some flows.
    pub(crate) fn is_limited(&self) -> bool {
        self.token.as_ref().is_some_and(|token| !token.flows.is_empty())
    }

    /// Returns whether the caller may read payloads.
    pub(crate) fn reads_payloads(&self) -> bool {
        self.token.as_ref().is_none_or(|token| token.payloads)
    }
}

/// Reads the token of a request; a query string is never looked at.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns whether an address is this machine's own.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}

fn unauthenticated() -> Problem {
    Problem::new(
        ProblemType::Unauthenticated,
        "a valid token is needed; send it as `Authorization: Bearer TOKEN` (commands take it from UNSTUCK_TOKEN)",
    )
}

/// Refuses a `Host` that is not this machine: a page of another site that resolves its own name to the loopback address sends
/// that name.
fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_own_name(host) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemType::Forbidden,
        format!(
            "without tokens this server answers to `localhost`, `127.0.0.1` and `[::1]` only, not to `{}`; use one of these names, or create a token",
            shorten(host)
        ),
    ))
}

/// Refuses pages of other sites.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if host.is_some_and(is_own_name) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemType::Forbidden,
        format!("requests of pages from `{}` are refused; call the API from a program", shorten(origin)),
    ))
}

/// Returns whether an authority is this machine's, with any port.
fn is_own_name(authority: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        authority.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
    })
}

/// Reads the name of the person behind the request, as they say.
fn claimed_name(headers: &HeaderMap) -> Result<Option<Arc<str>>, Problem> {
    let Some(name) = headers.get(USER) else { return Ok(None) };
    let name = name.to_str().unwrap_or_default().trim();
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(Problem::new(
            ProblemType::BadRequest,
            format!("`Unstuck-User` is a name of 1 to {LONGEST_NAME} visible characters"),
        ));
    }
    Ok(Some(name.into()))
}

/// Cuts what a stranger sent before it is repeated.
fn shorten(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_includes_those_below_it() {
        let allowed = |access: Access| -> Vec<&str> {
            Role::ALL.into_iter().filter(|role| access.allows(*role)).map(Role::word).collect()
        };
        assert_eq!(allowed(Access::Public), ["viewer", "client", "worker", "operator", "admin", "peer"]);
        assert_eq!(allowed(Access::Roles(&[Role::Viewer])), ["viewer", "operator", "admin"]);
        assert_eq!(allowed(Access::Roles(&[Role::Client])), ["client", "operator", "admin"]);
        assert_eq!(allowed(Access::Roles(&[Role::Operator])), ["operator", "admin"]);
        assert_eq!(allowed(Access::Roles(&[Role::Admin])), ["admin"]);
    }

    #[test]
    fn only_the_names_of_this_machine_are_its_own() {
        for own in ["localhost", "localhost:7070", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:65535"] {
            assert!(is_own_name(own), "{own}");
        }
        for foreign in [
            "",
            "example.com",
            "localhost.example.com",
            "localhost:",
            "localhost:65536",
            "127.0.0.1.nip.io",
            "127.0.0.2",
            "::1",
            "[::1]x",
            "localhost@example.com",
            "localhost:80:80",
            "LOCALHOST.",
        ] {
            assert!(!is_own_name(foreign), "{foreign}");
        }
    }

    #[test]
    fn loopback_is_loopback_in_every_notation() {
        for (address, wanted) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::", false),
            ("0.0.0.0", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(address.parse().expect("it is an address")), wanted, "{address}");
        }
    }
}
