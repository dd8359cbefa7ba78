//! How many requests a token may make: on average so many a second, and some at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use unstuck_core::id::TokenId;

use crate::settings::Rates;

/// So many tokens are remembered before those that have been quiet are forgotten.
const MOST_REMEMBERED: usize = 10_000;

/// When each token's allowance will be whole again. A request moves that time on; it may lie ahead by as much as a burst takes.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// The time that one request stands for; none where there is no limit.
    interval: Option<Duration>,
    burst: Duration,
    whole_at: Mutex<HashMap<TokenId, Instant>>,
}

impl RateLimiter {
    pub(crate) fn new(rates: Rates) -> RateLimiter {
        let nanos = 1_000_000_000_u64.checked_div(rates.requests);
        let interval = nanos.map(Duration::from_nanos);
        let ahead = u32::try_from(rates.burst.saturating_sub(1)).unwrap_or(u32::MAX);
        let burst = interval.unwrap_or_default().saturating_mul(ahead);
        RateLimiter { interval, burst, whole_at: Mutex::default() }
    }

    /// Takes one request of a token's allowance, or returns after which time there is one.
    pub(crate) fn take(&self, token: TokenId, now: Instant) -> Result<(), Duration> {
        let Some(interval) = self.interval else { return Ok(()) };
        let mut whole_at = self.whole_at.lock().unwrap_or_else(PoisonError::into_inner);
        if whole_at.len() >= MOST_REMEMBERED {
            whole_at.retain(|_, at| *at > now);
        }
        let at = whole_at.entry(token).or_insert(now);
        let ahead = at.saturating_duration_since(now);
        if ahead > self.burst {
            return Err(ahead.saturating_sub(self.burst));
        }
        *at = (*at).max(now) + interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_burst_and_then_its_rate() {
        let (limiter, begun) = (RateLimiter::new(Rates { requests: 10, burst: 3 }), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        let (ada, bob) = (TokenId(1), TokenId(2));
        for (token, millis, wanted) in [
            (ada, 0, None),
            (ada, 0, None),
            (ada, 0, None),
            (ada, 0, Some(100)),
            (ada, 60, Some(40)),
            (bob, 60, None),
            (ada, 100, None),
            (ada, 100, Some(100)),
            (ada, 1_000, None),
            (ada, 1_000, None),
            (ada, 1_000, None),
            (ada, 1_000, Some(100)),
        ] {
            let refused = limiter.take(token, at(millis)).err().map(|wait| wait.as_millis());
            assert_eq!(refused, wanted, "at {millis}");
        }
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let limiter = RateLimiter::new(Rates { requests: 0, burst: 1 });
        let now = Instant::now();
        assert!((0..10_000).all(|_| limiter.take(TokenId(1), now).is_ok()));
    }
}
