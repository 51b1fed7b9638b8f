//! The merge loop shared by tokenizers that build tokens by joining neighbours, best pair first.
//!
//! Symbols form a doubly linked list; candidate pairs wait in a heap ordered by rank and then position. Each merge
//! adds at most two candidates, so n symbols take O(n log n) whatever the text is.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Marks the end of the list, in either direction.
const NONE: usize = usize::MAX;

/// One symbol of the word being merged, at the index of its first part.
#[derive(Clone, Copy)]
struct Node {
    id: u32,
    prev: usize,
    next: usize,
    /// False once this symbol was joined into the one before it.
    alive: bool,
}

/// A pair that can be joined, unless one of its halves has changed since.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<R> {
    rank: R,
    left: usize,
    right: usize,
    left_id: u32,
    right_id: u32,
    joined: u32,
}

/// Storage of the merge loop, kept between words.
pub(crate) struct Merger<R> {
    nodes: Vec<Node>,
    heap: BinaryHeap<Reverse<Candidate<R>>>,
}

impl<R: Ord> Merger<R> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), heap: BinaryHeap::new() }
    }

    /// Joins neighbours among `symbols` while `join(left, right)` gives a rank and a joined id for some pair, lowest
    /// rank first and, among equals, leftmost first; passes what remains to `emit` in order.
    pub(crate) fn run(
        &mut self,
        symbols: impl Iterator<Item = u32>,
        join: impl Fn(u32, u32) -> Option<(R, u32)>,
        mut emit: impl FnMut(u32),
    ) {
        self.nodes.clear();
        self.heap.clear();
        for (index, id) in symbols.enumerate() {
            let prev = index.checked_sub(1).unwrap_or(NONE);
            self.nodes.push(Node { id, prev, next: index + 1, alive: true });
        }
        let Some(last) = self.nodes.last_mut() else { return };
        last.next = NONE;
        for right in 1..self.nodes.len() {
            self.consider(right - 1, right, &join);
        }
        while let Some(Reverse(best)) = self.heap.pop() {
            let (left, right) = (self.nodes[best.left], self.nodes[best.right]);
            if !(left.alive && right.alive && left.id == best.left_id && right.id == best.right_id) {
                continue;
            }
            self.nodes[best.right].alive = false;
            self.nodes[best.left].id = best.joined;
            self.nodes[best.left].next = right.next;
            if right.next != NONE {
                self.nodes[right.next].prev = best.left;
                self.consider(best.left, right.next, &join);
            }
            if left.prev != NONE {
                self.consider(left.prev, best.left, &join);
            }
        }
        // The first symbol is never joined into another, so the list starts at index 0.
        let mut at = 0;
        while at != NONE {
            emit(self.nodes[at].id);
            at = self.nodes[at].next;
        }
    }

    /// `left` and `right` are neighbours: indices of live nodes.
    fn consider(&mut self, left: usize, right: usize, join: &impl Fn(u32, u32) -> Option<(R, u32)>) {
        let (left_id, right_id) = (self.nodes[left].id, self.nodes[right].id);
        if let Some((rank, joined)) = join(left_id, right_id) {
            self.heap.push(Reverse(Candidate { rank, left, right, left_id, right_id, joined }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    type Rules = HashMap<(u32, u32), (u32, u32)>;

    fn fast(symbols: &[u32], rules: &Rules) -> Vec<u32> {
        let mut out = Vec::new();
        Merger::new().run(symbols.iter().copied(), |l, r| rules.get(&(l, r)).copied(), |id| out.push(id));
        out
    }

    /// The definition: find the lowest-ranked leftmost pair, join it, start again.
    fn by_definition(symbols: &[u32], rules: &Rules) -> Vec<u32> {
        let mut list = symbols.to_vec();
        loop {
            let best = list
                .windows(2)
                .enumerate()
                .filter_map(|(i, w)| Some((*rules.get(&(w[0], w[1]))?, i)))
                .min_by_key(|((rank, _), i)| (*rank, *i));
            let Some(((_, joined), at)) = best else { return list };
            list.splice(at..at + 2, [joined]);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            symbols in prop::collection::vec(0u32..4, 0..40),
            pairs in prop::collection::vec((0u32..10, 0u32..10), 0..12),
        ) {
            // As in a real vocabulary, each rule makes a new symbol, with its rank in the order of the rules.
            let rules: Rules = pairs.iter().enumerate().rev().map(|(i, p)| (*p, (i as u32, 4 + i as u32))).collect();
            prop_assert_eq!(fast(&symbols, &rules), by_definition(&symbols, &rules));
        }
    }

    #[test]
    fn equal_ranks_go_left_to_right() {
        let rules = HashMap::from([((1, 1), (0, 2))]);
        assert_eq!(fast(&[1, 1, 1], &rules), [2, 1]);
    }
}
