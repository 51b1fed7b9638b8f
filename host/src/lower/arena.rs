//! Places the values of a program in one arena: a value holds its bytes from the launch that writes it
//! to the last that reads it, so that peak memory is one layer's at any depth.

use std::collections::BTreeMap;

/// Alignment of every value.
pub(super) const VALUE_ALIGN: u64 = 256;

/// A value's life in launches, and its size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Life {
    /// The launch that writes it first.
    pub first: usize,
    /// The last launch that names it.
    pub last: usize,
    /// Bytes, padding included.
    pub bytes: u64,
    /// An index whose place this value takes over, because the launch computes in place.
    pub in_place_of: Option<usize>,
}

/// Offsets for every life, and the bytes of the whole arena. First fit, in order of birth.
pub(super) fn place(lives: &[Life]) -> (Vec<u64>, u64) {
    let mut offsets = vec![0; lives.len()];
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&index| (lives[index].first, index));
    // What is taken now: start -> (end, last launch).
    let mut taken: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut total = 0;
    for index in order {
        let life = &lives[index];
        let bytes = life.bytes.max(1).next_multiple_of(VALUE_ALIGN);
        if let Some(source) = life.in_place_of {
            let start = offsets[source];
            offsets[index] = start;
            let end = start + bytes;
            taken.insert(start, (end, life.last));
            total = total.max(end);
            continue;
        }
        taken.retain(|_, (_, last)| *last >= life.first);
        let mut start = 0;
        for (&begin, &(end, _)) in &taken {
            if begin >= start + bytes {
                break;
            }
            start = start.max(end);
        }
        offsets[index] = start;
        taken.insert(start, (start + bytes, life.last));
        total = total.max(start + bytes);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    /// Whether two values that live at once share bytes; tells a wrong placement apart from a right one.
    fn overlap(a: (&Life, u64), b: (&Life, u64)) -> bool {
        let bytes = |(life, offset): (&Life, u64)| -> Range<u64> { offset..offset + life.bytes };
        let (left, right) = (bytes(a), bytes(b));
        let together = a.0.first <= b.0.last && b.0.first <= a.0.last;
        together && left.start < right.end && right.start < left.end
    }

    fn life(first: usize, last: usize, bytes: u64) -> Life {
        Life { first, last, bytes, in_place_of: None }
    }

    #[test]
    fn a_dead_value_gives_its_place_away() {
        let (offsets, total) = place(&[life(0, 1, 256), life(1, 2, 256), life(2, 3, 256)]);
        assert_eq!((offsets, total), (vec![0, 256, 0], 512));
    }

    #[test]
    fn a_value_computed_in_place_keeps_the_offset() {
        let over = Life { first: 1, last: 4, bytes: 100, in_place_of: Some(0) };
        let (offsets, total) = place(&[life(0, 1, 100), over, life(2, 3, 100)]);
        assert_eq!((offsets, total), (vec![0, 0, 256], 512));
    }

    proptest! {
        #[test]
        fn live_values_never_overlap(
            raw in prop::collection::vec((0usize..30, 0usize..8, 1u64..2000), 1..40)
        ) {
            let lives: Vec<Life> = raw.iter().map(|&(first, len, bytes)| life(first, first + len, bytes)).collect();
            let (offsets, total) = place(&lives);
            for i in 0..lives.len() {
                prop_assert!(offsets[i] % VALUE_ALIGN == 0 && offsets[i] + lives[i].bytes <= total);
                for j in 0..i {
                    prop_assert!(!overlap((&lives[i], offsets[i]), (&lives[j], offsets[j])));
                }
            }
        }
    }
}
