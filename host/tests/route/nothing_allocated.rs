//! Resolving allocates nothing; saying why not may.

use cajeta::route::{Declared, Route};

use crate::counting::allocations;
use crate::histogram::*;

#[test]
fn the_counter_counts() {
    let (kept, count) = allocations(|| vec![1u8, 2, 3]);
    assert_eq!((kept.len(), count), (3, 1));
}

#[test]
fn resolving_a_histogram_allocates_nothing() {
    let table = table(variants());
    let device = Can(vec![SHARED_ATOMICS]);
    for (bins, format) in [(8, U8), (128, U8), (300, U8), (8, U16)] {
        let query = Binning { format, ..binning(bins, 8) };
        let call = Build { query, data: &[], slab_slots: 0 };
        let (picked, count) = allocations(|| table.pick(&call, &device, &Declared));
        assert_eq!(count, 0, "{:?}", picked.map(|picked| picked.route.name().to_owned()));
        let (_, count) = allocations(|| table.admissible(&query, &device).map(Route::name));
        assert_eq!(count, 0);
    }
    let refused = Build { query: binning(300, 8), data: &[], slab_slots: 0 };
    let (why, count) = allocations(|| table.why_not_picked(&refused, &device, &Declared));
    assert!(why.is_some() && count > 0, "the refusal is what is built");
}
