//! What can be wrong with a server, as this machine sees it.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use unstuck_client::{Client, ClientError};
use unstuck_core::time::Millis;

use super::certificate::find_expiry;
use super::{Check, Status};

/// Clocks that differ by more confuse whoever compares times.
const MOST_DIFFERENCE: i64 = 2_000;
/// A certificate that ends sooner should be renewed.
const SOON_DAYS: i64 = 21;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What a server says of itself.
#[derive(Debug, Deserialize)]
struct About {
    version: String,
    name: String,
    now: Timestamp,
    you: You,
}

#[derive(Debug, Deserialize)]
struct You {
    name: String,
    role: String,
}

/// Looks at everything.
pub(super) fn examine(client: &Client) -> Vec<Check> {
    let mut checks = Vec::new();
    if client.address().is_encrypted() {
        checks.extend(check_certificate(client));
    }
    let asked = Timestamp::now();
    match client.get_page(&["v1", "server"]) {
        Ok((200, body)) => match serde_json::from_str::<About>(&body) {
            Ok(about) => checks.extend(check_server(client, &about, asked)),
            Err(error) => {
                checks.push(Check::problem("answer", format!("this is no unstuck server: {error}")));
            }
        },
        Ok((status, body)) => checks.push(describe_refusal(status, &body)),
        Err(error) => checks.push(Check::problem("reachable", sentence(error))),
    }
    checks
}

fn sentence(error: ClientError) -> String {
    match error {
        ClientError::Problem(problem) => problem.detail,
        ClientError::Unreachable(sentence) | ClientError::Lost(sentence) => sentence,
    }
}

/// Says why a server does not tell what it is.
fn describe_refusal(status: u16, body: &str) -> Check {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("it did not say why").to_owned();
    match status {
        401 => Check::problem("token", format!("the server answers, but not to this token: {detail}"))
            .with_command("unstuck token create NAME --role operator"),
        _ => Check::problem("answer", format!("the server answers with status {status}: {detail}")),
    }
}

fn check_server(client: &Client, about: &About, asked: Timestamp) -> Vec<Check> {
    let own = env!("CARGO_PKG_VERSION");
    let version = if about.version == own {
        Check::ok("version", format!("`{}` is an unstuck server of this version ({own})", about.name))
    } else {
        let detail = format!(
            "`{}` has version {}, and this command {own}. Use the same on both sides",
            about.name, about.version
        );
        Check::warning("version", detail)
    };
    let token = Check::ok("token", format!("you are `{}` with the role {}", about.you.name, about.you.role));
    let mut checks = vec![version, token, check_time(about.now, asked, Timestamp::now())];
    checks.extend(check_health(client, &about.you.role));
    checks
}

/// Compares the clocks: what the server said lies between the question and its answer, if they agree.
fn check_time(said: Timestamp, asked: Timestamp, answered: Timestamp) -> Check {
    let ahead = said.as_millisecond() - answered.as_millisecond();
    let behind = asked.as_millisecond() - said.as_millisecond();
    let difference = ahead.max(behind);
    if difference <= MOST_DIFFERENCE {
        return Check::ok("clock", "the clocks of the server and of this machine agree");
    }
    let length = Millis(u64::try_from(difference).unwrap_or_default());
    let which = if ahead > behind { "ahead of" } else { "behind" };
    Check::warning("clock", format!("the clock of the server is {length} {which} the one of this machine. Let both be set by the network"))
        .with_command("timedatectl status")
}

/// Takes over what the server says about itself.
fn check_health(client: &Client, role: &str) -> Vec<Check> {
    let (status, body) = match client.get_page(&["health"]) {
        Ok(answer) => answer,
        Err(error) => return vec![Check::problem("health", sentence(error))],
    };
    if status == 403 {
        return vec![Check::warning(
            "health",
            format!("the role {role} may not see how the server is; a viewer may"),
        )];
    }
    let health: Value = serde_json::from_str(&body).unwrap_or_default();
    let Some(found) = health["checks"].as_array() else { return vec![describe_refusal(status, &body)] };
    let bad = found.iter().filter(|check| check["status"] != "ok").map(|check| {
        let is_failing = check["status"] == "failing";
        let (name, detail) = (&check["name"], check["detail"].as_str().unwrap_or_default());
        let status = if is_failing { Status::Problem } else { Status::Warning };
        Check::new("health", status, format!("{}: {detail}", name.as_str().unwrap_or("check")))
    });
    let mut checks: Vec<Check> = bad.collect();
    if checks.is_empty() {
        checks.push(Check::ok("health", format!("all {} checks of the server are well", found.len())));
    }
    checks
}

fn check_certificate(client: &Client) -> Option<Check> {
    // That it cannot be reached is told once, by what comes next.
    let certificate = client.certificate().ok()??;
    let Some(expiry) = find_expiry(&certificate.0) else {
        return Some(Check::warning(
            "certificate",
            "it is not known until when the certificate of the server is valid",
        ));
    };
    Some(check_expiry(expiry, Timestamp::now()))
}

fn check_expiry(expiry: Timestamp, now: Timestamp) -> Check {
    let days = (expiry.as_millisecond() - now.as_millisecond()).div_euclid(DAY_MS);
    let date = expiry.strftime("%Y-%m-%d");
    match days {
        ..0 => Check::problem(
            "certificate",
            format!(
                "the certificate of the server has ended on {date}. Renew it; the server reads it by itself"
            ),
        ),
        0..SOON_DAYS => Check::warning(
            "certificate",
            format!(
                "the certificate of the server ends on {date}, in {days} days. Renew it; the server reads it by itself"
            ),
        ),
        _ => Check::ok("certificate", format!("the certificate of the server is valid until {date}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("it is in range")
    }

    #[test]
    fn clocks_that_differ_are_told() {
        for (said, asked, answered, wanted) in [
            (100, 100, 100, Status::Ok),
            (102, 100, 100, Status::Ok),
            (103, 100, 100, Status::Warning),
            (98, 100, 110, Status::Ok),
            (97, 100, 110, Status::Warning),
            (105, 100, 110, Status::Ok),
        ] {
            assert_eq!(
                check_time(at(said), at(asked), at(answered)).status,
                wanted,
                "{said} {asked} {answered}"
            );
        }
    }

    #[test]
    fn certificates_that_end_are_told() {
        for (days, wanted) in
            [(30, Status::Ok), (20, Status::Warning), (0, Status::Warning), (-1, Status::Problem)]
        {
            assert_eq!(check_expiry(at(days * 86_400), at(0)).status, wanted, "{days}");
        }
    }
}
