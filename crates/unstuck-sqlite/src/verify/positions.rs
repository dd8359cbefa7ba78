//! Which events have been read: a bit for each, in chunks, so that a position that makes no sense costs little.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

const BITS: u64 = 64;
const WORDS: u64 = 512;

/// A set of positions.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    chunks: FxHashMap<u64, Box<[u64]>>,
}

impl Positions {
    /// Adds a position; false if it was there already.
    pub(crate) fn insert(&mut self, pos: u64) -> bool {
        let empty = || vec![0; 512].into_boxed_slice();
        let chunk = self.chunks.entry(pos / (BITS * WORDS)).or_insert_with(empty);
        let (word, bit) = locate_bit(pos);
        let is_new = chunk[word] & bit == 0;
        chunk[word] |= bit;
        is_new
    }

    /// Adds all of another set.
    pub(crate) fn add(&mut self, other: Positions) {
        for (place, words) in other.chunks {
            match self.chunks.entry(place) {
                Entry::Vacant(vacant) => {
                    vacant.insert(words);
                }
                Entry::Occupied(mut known) => {
                    known.get_mut().iter_mut().zip(&words).for_each(|(known, word)| *known |= word);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.chunks.values().flatten().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(crate) fn contains(&self, pos: u64) -> bool {
        let (word, bit) = locate_bit(pos);
        self.chunks.get(&(pos / (BITS * WORDS))).is_some_and(|chunk| chunk[word] & bit != 0)
    }
}

/// Returns the index of a position's word within its chunk, and the bit in that word.
fn locate_bit(pos: u64) -> (usize, u64) {
    let word = usize::try_from((pos / BITS) % WORDS).unwrap_or(0);
    (word, 1 << (pos % BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_nothing_else() {
        let mut positions = Positions::default();
        let added = [0, 1, 63, 64, 32_767, 32_768, 1_000_000, u64::MAX];
        for pos in added {
            assert!(!positions.contains(pos) && positions.insert(pos) && !positions.insert(pos), "{pos}");
        }
        let mut both = Positions::default();
        for pos in [1, 2_000_000, 5_000_000] {
            both.insert(pos);
        }
        assert_eq!((positions.len(), both.len()), (8, 3));
        both.add(positions);
        assert!(added.iter().chain(&[2_000_000, 5_000_000]).all(|pos| both.contains(*pos)));
        assert_eq!(both.len(), 10);
        let positions = both;
        for pos in [2, 62, 65, 32_766, 32_769, u64::MAX - 1] {
            assert!(!positions.contains(pos), "{pos}");
        }
    }
}
