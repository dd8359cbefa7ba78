//! Sessions of servers on one store: each holds a lease, renews it, and counts as dead once the lease expires.
//!
//! A server that counts as dead loses its executors' attempts, and its reports are refused. It therefore stops its
//! executors itself, well before another server may start the same work.

use crate::downtime::Downtime;
use crate::time::{Millis, Time};

/// How long a session lasts without being renewed.
pub const SESSION_LEASE: Millis = Millis::seconds(30);

/// Returns how often a session with this lease is renewed.
pub fn renewal_interval(lease: Millis) -> Millis {
    Millis((lease.0 / 10).max(1))
}

/// Returns how long a server continues without renewing its session. Then it stops its executors, so that they have
/// stopped before the lease expires.
pub fn renewal_deadline(lease: Millis) -> Millis {
    Millis(lease.0 / 3 * 2)
}

/// Returns whether a session that was last renewed at `renewed` has expired at `now`.
pub fn is_expired(renewed: Time, lease: Millis, now: Time) -> bool {
    now.since(renewed) > lease
}

/// Reduces a downtime of this server to the part in which no other server took reports either; `taken` is when one last
/// did. Returns nothing if others took them all the time.
pub fn subtract_other_servers(down: Downtime, taken: Option<Time>) -> Option<Downtime> {
    let from = taken.map_or(down.from, |taken| down.from.max(taken));
    (from < down.to).then_some(Downtime { from, to: down.to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_its_lease_and_its_server_gives_up_before() {
        // Renewed last, now, whether it is over.
        let cases = [(0, 0, false), (0, 30_000, false), (0, 30_001, true), (5_000, 1_000, false)];
        for (renewed, now, is_over) in cases {
            assert_eq!(is_expired(Time(renewed), SESSION_LEASE, Time(now)), is_over, "{renewed} {now}");
        }
        assert_eq!(renewal_interval(SESSION_LEASE), Millis::seconds(3));
        assert_eq!(renewal_deadline(SESSION_LEASE), Millis::seconds(20));
        assert_eq!(renewal_interval(Millis(1)), Millis(1));
    }

    #[test]
    fn downtime_is_when_no_server_took_answers() {
        let down = |from, to| Downtime { from: Time(from), to: Time(to) };
        // When another server last took answers, and what is left of 100 to 500.
        let cases = [
            (None, Some(down(100, 500))),
            (Some(50), Some(down(100, 500))),
            (Some(100), Some(down(100, 500))),
            (Some(400), Some(down(400, 500))),
            (Some(500), None),
            (Some(700), None),
        ];
        for (taken, left) in cases {
            assert_eq!(subtract_other_servers(down(100, 500), taken.map(Time)), left, "{taken:?}");
        }
    }
}
