//! Which events have been read: a bit for each, in chunks, so that a position that makes no sense costs little.

use rustc_hash::FxHashMap;

const BITS: u64 = 64;
const WORDS: u64 = 512;

/// A set of positions.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    chunks: FxHashMap<u64, Box<[u64]>>,
}

impl Positions {
    /// Adds a position; false if it was there.
    pub(crate) fn insert(&mut self, pos: u64) -> bool {
        let empty = || vec![0; 512].into_boxed_slice();
        let chunk = self.chunks.entry(pos / (BITS * WORDS)).or_insert_with(empty);
        let (word, bit) = place(pos);
        let is_new = chunk[word] & bit == 0;
        chunk[word] |= bit;
        is_new
    }

    pub(crate) fn contains(&self, pos: u64) -> bool {
        let (word, bit) = place(pos);
        self.chunks.get(&(pos / (BITS * WORDS))).is_some_and(|chunk| chunk[word] & bit != 0)
    }
}

/// The word in its chunk, and the bit in that.
fn place(pos: u64) -> (usize, u64) {
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
        for pos in [2, 62, 65, 32_766, 32_769, u64::MAX - 1] {
            assert!(!positions.contains(pos), "{pos}");
        }
    }
}
