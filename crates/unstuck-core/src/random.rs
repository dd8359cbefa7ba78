//! Random numbers as an argument: a stream that its seed determines.

/// `SplitMix64`: small, fast, and good enough for delays and odds.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws the next 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws uniformly from `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws uniformly from `low..=high`; returns `low` if the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low) {
            0 => low,
            u64::MAX => self.draw(),
            width => low + self.draw() % (width + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_their_range() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        for _ in 0..1_000 {
            let n = a.between(60, 120);
            assert_eq!(n, b.between(60, 120));
            assert!((60..=120).contains(&n));
            assert!((0.0..1.0).contains(&a.unit()));
            b.unit();
        }
        assert_eq!(a.between(5, 1), 5);
    }
}
