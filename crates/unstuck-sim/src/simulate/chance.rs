//! Chance for plans and for what happens by itself: each question has a stream of its own, named by what it is about.

use unstuck_core::random::Random;

/// A stream of choices.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Random);

impl Chance {
    /// The stream that a seed and these numbers name: whatever else is asked meanwhile, it is the same.
    pub(crate) fn of(seed: u64, about: &[u64]) -> Chance {
        let mix = |state: u64, number: &u64| {
            Random::new(state.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).draw()
        };
        Chance(Random::new(about.iter().fold(Random::new(seed).draw(), mix)))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.draw()
    }

    /// In `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.between(low, high)
    }

    /// So many times out of a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.0.between(1, 100) <= percent
    }

    /// One of these.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A place in something with so many, none of it empty.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.0.between(0, count.max(1) as u64 - 1)).unwrap_or(0)
    }

    /// One of these, by weight.
    pub(crate) fn weighed<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let sum: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.0.between(1, sum.max(1));
        for (weight, what) in of {
            if left <= *weight {
                return *what;
            }
            left -= weight;
        }
        of[0].1
    }
}
