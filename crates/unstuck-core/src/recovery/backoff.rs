//! Delays before the next attempt.

use crate::model::recovery::{BackOff, Defer};
use crate::random::Random;
use crate::time::Millis;

/// Computes the delay after `tries` tries: random in its range, else `delay * multiplier * tries` up to the cap, else
/// the fixed delay.
pub fn back_off_delay(back_off: &BackOff, tries: u32, random: &mut Random) -> Millis {
    let BackOff { delay, max_delay, multiplier, random: draw } = back_off;
    match (draw, multiplier) {
        (true, _) => {
            let high = max_delay.unwrap_or(*delay);
            Millis(random.between(delay.0, high.0.max(delay.0)))
        }
        (false, Some(multiplier)) => {
            let grown = delay.times(multiplier * f64::from(tries));
            max_delay.map_or(grown, |cap| grown.min(cap))
        }
        (false, None) => *delay,
    }
}

/// Computes the delay of a deferral after `before` earlier ones in its round: what the worker asked for, else growing
/// up to the cap; never more than the rest of the limit.
pub fn deferral_delay(defer: &Defer, before: u32, asked: Option<Millis>, left: Millis) -> Millis {
    let exponent = i32::try_from(before).unwrap_or(i32::MAX);
    let grown = defer.delay.times(defer.multiplier.powi(exponent)).min(defer.max_delay);
    asked.unwrap_or(grown).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_fixed_linear_capped_or_random() {
        let seconds = Millis::seconds;
        let base = BackOff::fixed(seconds(100));
        let linear = BackOff { multiplier: Some(2.0), ..base };
        let capped = BackOff { max_delay: Some(seconds(500)), ..linear };
        let cases = [
            (base, 1, seconds(100)),
            (base, 9, seconds(100)),
            (linear, 3, seconds(600)),
            (capped, 1, seconds(200)),
            (capped, 2, seconds(400)),
            (capped, 3, seconds(500)),
            (BackOff { delay: Millis(u64::MAX), ..linear }, u32::MAX, Millis(u64::MAX)),
        ];
        for (back_off, tries, expected) in cases {
            assert_eq!(
                back_off_delay(&back_off, tries, &mut Random::new(1)),
                expected,
                "{back_off:?} {tries}"
            );
        }
        let random = BackOff { max_delay: Some(seconds(120)), random: true, ..BackOff::fixed(seconds(60)) };
        let mut source = Random::new(1);
        for _ in 0..100 {
            let drawn = back_off_delay(&random, 1, &mut source);
            assert!((seconds(60)..=seconds(120)).contains(&drawn));
        }
    }

    #[test]
    fn deferrals_grow_to_their_cap_and_end_at_their_limit() {
        let (defer, far) = (Defer::default(), Millis::hours(24));
        let cases = [
            (0, None, far, Millis::seconds(30)),
            (1, None, far, Millis::seconds(60)),
            (5, None, far, Millis::minutes(10)),
            (u32::MAX, None, far, Millis::minutes(10)),
            (0, Some(Millis::hours(1)), far, Millis::hours(1)),
            (0, None, Millis::seconds(7), Millis::seconds(7)),
        ];
        for (before, asked, left, expected) in cases {
            assert_eq!(deferral_delay(&defer, before, asked, left), expected, "{before} {asked:?} {left}");
        }
    }
}
