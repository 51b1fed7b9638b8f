//! The rules over recorded devices.

use cajeta_abi::{DeviceFacts, Fact, Problem};

use super::recorded::{gfx1151, h200, processor, rtx_4090, tile};
use super::{Candidate, Fill, Filtered, Rule, ShapeFilter, XpuLaunchError};

const PROBLEM: Problem = Problem { m: 512, n: 4096, k: 4096, batch: 1, aux: 0 };

fn apply(facts: &DeviceFacts, candidates: Vec<Candidate>) -> Result<Filtered, XpuLaunchError> {
    ShapeFilter::new(facts, PROBLEM).apply("q4kTcTile", candidates)
}

fn tiles() -> Vec<Candidate> {
    vec![tile(7, 128, PROBLEM.m, PROBLEM.n), tile(9, 64, PROBLEM.m, PROBLEM.n)]
}

fn names(filtered: &Filtered) -> Vec<&str> {
    filtered.survivors.iter().map(|survivor| survivor.candidate.name.as_str()).collect()
}

#[test]
fn the_large_tile_opts_into_what_the_first_device_has_and_falls_to_r3_on_the_second() {
    let wide = apply(&rtx_4090(), tiles()).expect("both fit");
    assert_eq!(names(&wide), ["q4kTcTile128", "q4kTcTile64"]);
    assert!(wide.pruned.is_empty());

    let narrow = apply(&gfx1151(), tiles()).expect("one fits");
    assert_eq!(names(&narrow), ["q4kTcTile64"]);
    let [pruned] = narrow.pruned.as_slice() else { panic!("{:?}", narrow.pruned) };
    assert_eq!((pruned.row, pruned.rule, pruned.need, pruned.limit), (7, Rule::R3, 98304, 65536));
    assert_eq!(pruned.to_string(), "q4kTcTile128: R3: 98304 shared bytes of a block, at most 65536");

    assert_eq!(names(&apply(&h200(), tiles()).expect("both fit")).len(), 2);
}

#[test]
fn absent_facts_prune_nothing() {
    assert_eq!(names(&apply(&DeviceFacts::NONE, tiles()).expect("nothing is known")).len(), 2);
    let mut unmeasured = tile(0, 128, 512, 4096);
    unmeasured.kernel = Default::default();
    unmeasured.kernel.threads = 1;
    assert_eq!(names(&apply(&processor(), vec![unmeasured]).expect("fits")).len(), 1);
}

#[test]
fn every_rule_prunes_what_it_is_for() {
    let device = rtx_4090();
    let pruned = |change: &dyn Fn(&mut Candidate)| {
        let mut candidate = tile(3, 64, PROBLEM.m, PROBLEM.n);
        change(&mut candidate);
        let error = apply(&device, vec![candidate]).expect_err("pruned");
        let pruned = error.pruned[0].clone();
        (pruned.rule, pruned.need, pruned.limit)
    };
    assert_eq!(pruned(&|c| c.kernel.spill_bytes = Some(16)), (Rule::R1, 16, 0));
    let registers = 1024 * 168;
    assert_eq!(pruned(&|c| c.kernel.threads = 1024), (Rule::R2, registers, 65536));
    // Whole waves hold registers: 33 threads are two waves.
    let two_waves = |c: &mut Candidate| (c.kernel.threads, c.kernel.registers) = (33, Some(2000));
    assert_eq!(pruned(&two_waves), (Rule::R2, 128_000, 65536));
    assert_eq!(pruned(&|c| c.kernel.shared_bytes = 100 << 10), (Rule::R3, 100 << 10, 99 << 10));
    let none = |c: &mut Candidate| c.kernel.registers = None;
    assert_eq!(pruned(&|c| (none(c), c.kernel.threads = 2048).1), (Rule::R4, 2048, 1024));
    assert_eq!(pruned(&|c| c.kernel.max_threads = Some(64)), (Rule::R4, 128, 64));
    assert_eq!(pruned(&|c| c.kernel.max_waves = Some(2)), (Rule::R4, 128, 64));
    assert_eq!(pruned(&|c| c.kernel.feasible_blocks = vec![64, 256]), (Rule::R4, 128, 127));
    assert_eq!(pruned(&|c| c.kernel.resident_groups = Some(0)), (Rule::R4, 1, 0));
    // 8 x 64 blocks at 2 a multiprocessor do not fit 128 of them at once.
    let resident = 128 * 2;
    assert_eq!(pruned(&|c| c.geometry.coresident = 1), (Rule::R4, 512, resident));
}

#[test]
fn an_empty_set_names_every_candidate() {
    let mut small = gfx1151();
    small.set(Fact::SHARED_BLOCK, 32 << 10);
    let error = apply(&small, tiles()).expect_err("none fits");
    assert_eq!(error.pruned.len(), 2);
    let sentence = error.to_string();
    for part in ["q4kTcTile", "512x4096x4096", "8060S", "q4kTcTile128: R3: 98304", "q4kTcTile64: R3: 49152"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    let nothing = apply(&small, Vec::new()).expect_err("no member");
    assert!(nothing.to_string().contains("no member"), "{nothing}");
}

#[test]
fn the_grid_that_does_not_fill_the_device_records_the_split_that_would() {
    let fill = |m, n, split_max| {
        let mut candidate = tile(0, 128, m, n);
        candidate.geometry.split_max = split_max;
        let problem = Problem { m, n, ..PROBLEM };
        let device = rtx_4090();
        let filtered = ShapeFilter::new(&device, problem).apply("f", vec![candidate]).expect("fits");
        filtered.survivors[0].fill.expect("known")
    };
    // One block of this member is resident on each of 128 multiprocessors.
    assert_eq!(fill(512, 4096, 8), Fill { blocks: 128, to_fill: 128, split: Some(1) });
    let small = fill(128, 4096, 8);
    assert_eq!(small, Fill { blocks: 32, to_fill: 128, split: Some(4) });
    assert!(!small.fills());
    assert_eq!(fill(128, 4096, 2).split, None, "the row does not split so far");
}

#[test]
fn padding_is_recorded_and_never_prunes() {
    let padding = |side, m| {
        let problem = Problem { m, ..PROBLEM };
        let device = rtx_4090();
        let tile = tile(0, side, m, PROBLEM.n);
        let filtered = ShapeFilter::new(&device, problem).apply("f", vec![tile]).expect("fits");
        filtered.survivors[0].padding.expect("known")
    };
    assert_eq!((padding(128, 512).wasted_percent, padding(64, 64).wasted_percent), (0.0, 0.0));
    let wasteful = padding(128, 1);
    assert_eq!((wasteful.m, wasteful.n), (128, 4096));
    assert!((wasteful.wasted_percent - 100.0 * 127.0 / 128.0).abs() < 1e-9);
}
