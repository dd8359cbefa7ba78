//! Sorts steps by their needs, finds cycles, and knows which steps are done before which.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use unstuck_core::model::flow::StepIndex;

/// Steps in an order in which each comes after the steps it needs.
#[derive(Debug)]
pub(crate) struct SortedSteps {
    /// For each place in the order, the place in the file.
    pub(crate) file_places: Vec<usize>,
    /// For each place in the file, the place in the order.
    pub(crate) places: Vec<StepIndex>,
}

/// For each step, all steps that are done before it, as a bit matrix.
#[derive(Debug)]
pub(crate) struct Ancestors {
    words_per_step: usize,
    bits: Vec<u64>,
}

/// Sorts steps topologically; `needs` lists for each step the indices in the file that it needs. Keeps the order of the
/// file where possible. Returns the cycles instead if there are any: each step in one needs the next.
pub(crate) fn sort_by_needs(needs: &[Vec<usize>]) -> Result<SortedSteps, Vec<Vec<usize>>> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut dependents = vec![Vec::new(); needs.len()];
    for (step, needed) in needs.iter().enumerate() {
        for before in needed {
            dependents[*before].push(step);
        }
    }
    let ready = open.iter().enumerate().filter(|(_, open)| **open == 0).map(|(step, _)| Reverse(step));
    let mut ready: BinaryHeap<Reverse<usize>> = ready.collect();
    let mut done = vec![false; needs.len()];
    let mut file_places = Vec::with_capacity(needs.len());
    let mut circles = Vec::new();
    while file_places.len() < needs.len() {
        let Some(Reverse(step)) = ready.pop() else {
            // Nobody can go first. One circle is taken as it is, to see whether there are others.
            let circle = find_cycle(needs, &done);
            ready.extend(circle.iter().map(|step| Reverse(*step)));
            circles.push(circle);
            continue;
        };
        if std::mem::replace(&mut done[step], true) {
            continue;
        }
        file_places.push(step);
        for dependent in &dependents[step] {
            open[*dependent] -= 1;
            if open[*dependent] == 0 {
                ready.push(Reverse(*dependent));
            }
        }
    }
    if circles.is_empty() { Ok(SortedSteps::from_file_places(file_places)) } else { Err(circles) }
}

impl SortedSteps {
    /// Returns the order of the file as it is.
    pub(crate) fn as_written(steps: usize) -> SortedSteps {
        SortedSteps::from_file_places((0..steps).collect())
    }

    /// Builds both directions of the mapping from the order of steps.
    fn from_file_places(file_places: Vec<usize>) -> SortedSteps {
        let mut places = vec![StepIndex(0); file_places.len()];
        for (place, file_place) in file_places.iter().enumerate() {
            places[*file_place] = StepIndex(u16::try_from(place).unwrap_or(u16::MAX));
        }
        SortedSteps { file_places, places }
    }
}

/// Finds one cycle among the steps that are not done: walking from any of them to what it needs must come back.
fn find_cycle(needs: &[Vec<usize>], done: &[bool]) -> Vec<usize> {
    let Some(mut step) = done.iter().position(|done| !done) else { return Vec::new() };
    let mut way = Vec::new();
    loop {
        if let Some(start) = way.iter().position(|seen| *seen == step) {
            return way.split_off(start);
        }
        way.push(step);
        match needs[step].iter().find(|needed| !done[**needed]) {
            Some(needed) => step = *needed,
            None => return way,
        }
    }
}

impl Ancestors {
    /// Computes the ancestors of all steps; each may need only earlier ones.
    pub(crate) fn new(needs: &[Vec<StepIndex>]) -> Ancestors {
        let words_per_step = needs.len().div_ceil(64);
        let mut ancestors = Ancestors { words_per_step, bits: vec![0; words_per_step * needs.len()] };
        for (step, needed) in needs.iter().enumerate() {
            for before in needed {
                ancestors.add_ancestors_of(step, usize::from(before.0));
            }
        }
        ancestors
    }

    /// Returns a matrix in which every step precedes every other: where the order is unknown, no read is refused.
    pub(crate) fn unknown(steps: usize) -> Ancestors {
        let words_per_step = steps.div_ceil(64);
        Ancestors { words_per_step, bits: vec![u64::MAX; words_per_step * steps] }
    }

    /// Returns whether `before` is done whenever `step` starts.
    pub(crate) fn contains(&self, step: StepIndex, before: StepIndex) -> bool {
        let word = usize::from(step.0) * self.words_per_step + usize::from(before.0) / 64;
        self.bits.get(word).is_some_and(|bits| bits >> (before.0 % 64) & 1 == 1)
    }

    /// Adds `before` and all its ancestors to the ancestors of `step`.
    fn add_ancestors_of(&mut self, step: usize, before: usize) {
        let width = self.words_per_step;
        for word in 0..width {
            self.bits[step * width + word] |= self.bits[before * width + word];
        }
        self.bits[step * width + before / 64] |= 1 << (before % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_file_is_kept_where_it_can_be() {
        let cases: [(&[&[usize]], &[usize]); 4] = [
            (&[&[], &[0], &[1]], &[0, 1, 2]),
            (&[&[], &[], &[]], &[0, 1, 2]),
            (&[&[2], &[], &[]], &[1, 2, 0]),
            (&[&[], &[3], &[0], &[]], &[0, 2, 3, 1]),
        ];
        for (needs, expected) in cases {
            let needs: Vec<Vec<usize>> = needs.iter().map(|needs| needs.to_vec()).collect();
            assert_eq!(sort_by_needs(&needs).expect("no circle").file_places, expected, "{needs:?}");
        }
    }

    #[test]
    fn a_circle_is_named_without_what_hangs_on_it() {
        let needs = [vec![], vec![0, 3], vec![1], vec![2], vec![3]];
        assert_eq!(sort_by_needs(&needs).map(|order| order.file_places), Err(vec![vec![1, 3, 2]]));
        assert_eq!(sort_by_needs(&[vec![0]]).map(|order| order.file_places), Err(vec![vec![0]]));
        let two = [vec![1], vec![0], vec![1], vec![4], vec![3]];
        assert_eq!(sort_by_needs(&two).map(|order| order.file_places), Err(vec![vec![0, 1], vec![3, 4]]));
    }

    #[test]
    fn ancestors_reach_all_the_way_back() {
        let ix = |n: u16| StepIndex(n);
        let mut needs = vec![vec![]; 200];
        for step in 1..200 {
            needs[usize::from(step)] = vec![ix(step - 1)];
        }
        needs[100] = vec![];
        let ancestors = Ancestors::new(&needs);
        assert!(ancestors.contains(ix(99), ix(0)));
        assert!(ancestors.contains(ix(199), ix(100)));
        assert!(!ancestors.contains(ix(199), ix(99)));
        assert!(!ancestors.contains(ix(5), ix(5)));
    }
}
