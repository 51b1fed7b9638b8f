//! Property: no answer depends on the order in which rows were registered.

use cajeta::route::{Declared, Route, RouteTable};
use cajeta_abi::{FormatId, Regime};
use proptest::prelude::*;

use crate::histogram::*;

/// Rows with small numbers, so that ties are common; names differ.
fn rows() -> impl Strategy<Value = Vec<Variant>> {
    let row = (0..3i32, 0..2u32, 0..2u32, 0..3u64, 0..2u64, 0..3usize);
    prop::collection::vec(row, 1..9).prop_map(|rows| {
        let of = |(index, (priority, regime, format, bins, slots, needs)): (usize, _)| Variant {
            regime: Regime(BUILD.0 + regime),
            format: FormatId(U8.0 + format),
            max_bins: bins * 8,
            slots,
            needs: [need(SHARED_ATOMICS, "shared atomics"), need(WIDE_ATOMICS, "wide atomics")][..needs]
                .to_vec(),
            ..variant(&format!("row{index}"), priority)
        };
        rows.into_iter().enumerate().map(of).collect()
    })
}

fn questions() -> Vec<Binning> {
    let mut all = Vec::new();
    for regime in [BUILD, SUBTRACT] {
        for format in [U8, U16] {
            all.extend([4, 12, 20].map(|bins| Binning { regime, format, bins, features: 1 }));
        }
    }
    all
}

/// Everything a table answers, by name.
fn answers(table: &RouteTable<Histogram<'_>>, device: &Can) -> Vec<String> {
    let mut all = Vec::new();
    let mut candidates = Vec::new();
    for query in questions() {
        for slab_slots in [0, 1] {
            let call = Build { query, data: &[], slab_slots };
            let picked = table.pick(&call, device, &Declared).map(|picked| picked.route.name().to_owned());
            let why = table.why_not_picked(&call, device, &Declared);
            assert_eq!(picked.is_none(), why.is_some());
            all.push(format!("{picked:?} {why:?}"));
        }
        let admissible = table.admissible(&query, device).map(Route::name);
        table.candidates(&query, device, &mut candidates);
        let names: Vec<&str> = candidates.iter().map(|route| route.name()).collect();
        assert_eq!(names.first().copied(), admissible);
        all.push(format!("{names:?} {:?}", table.why_not_admissible(&query, device)));
    }
    all.push(format!("{:?}", table.audit(&questions())));
    all
}

proptest! {
    #[test]
    fn answers_do_not_depend_on_registration(
        (rows, shuffled) in rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        able in any::<[bool; 2]>(),
    ) {
        let able = [SHARED_ATOMICS, WIDE_ATOMICS].into_iter().zip(able).filter(|(_, able)| *able);
        let device = Can(able.map(|(capability, _)| capability).collect());
        let mut registered = RouteTable::new("histogram");
        for row in shuffled {
            registered.register(Histogram::of(row)).expect("distinct names");
        }
        prop_assert_eq!(answers(&table(rows), &device), answers(&registered, &device));
    }
}
