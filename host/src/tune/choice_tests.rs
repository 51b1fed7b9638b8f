//! Families over rows that a test wrote: what is filtered, stored, timed and recorded.

use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{Access, ArgSpec, Arith, DtypeId, Fact, FormatId, Geometry, LayoutId, Manifest};
use cajeta_abi::{Problem, Regime, Row, Step, Wire};
use cajeta_catalog::op::Op;

use super::tuning::tests::{timed, tuning};
use super::*;
use crate::filter::Rule;
use crate::filter::recorded::{gfx1151, processor, rtx_4090};
use crate::record::Answered;
use crate::route::rows::RowRoute;

const PROBLEM: Problem = Problem { m: 512, n: 4096, k: 4096, batch: 1, aux: 0 };

pub(super) fn row(name: &'static str, family: &'static str, regime: Regime, priority: i32) -> Row {
    let arg = |dtype, format, layout| ArgSpec {
        layout,
        dtype,
        format,
        align: 1,
        padding: 0,
        access: Access::READ,
        alias: -1,
    };
    let args = vec![
        arg(DtypeId::F32, FormatId::NONE, LayoutId::PLAIN),
        arg(DtypeId::BYTES, FormatId(12), LayoutId::GGUF),
        arg(DtypeId::F32, FormatId(0), LayoutId::PLAIN),
    ];
    let steps = vec![Step { op: Op::Matmul.id(), attrs: 0, operands: RSlice::EMPTY }];
    Row {
        name: RStr::from_str(name),
        family: RStr::from_str(family),
        regime,
        arith: Arith::F16,
        priority,
        steps: RSlice::from_slice(Vec::leak(steps)),
        problem_step: 0,
        args: RSlice::from_slice(Vec::leak(args)),
        needs: RSlice::EMPTY,
        shape_gates: RSlice::EMPTY,
        ready_gates: RSlice::EMPTY,
    }
}

/// The row with other steps.
pub(super) fn steps(row: Row, ops: &[Op]) -> Row {
    let steps = ops.iter().map(|op| Step { op: op.id(), attrs: 0, operands: RSlice::EMPTY });
    Row { steps: RSlice::from_slice(Vec::leak(steps.collect())), ..row }
}

/// The row with something it needs of the device.
pub(super) fn needing(row: Row, capability: cajeta_abi::Capability) -> Row {
    let need = cajeta_abi::Need { capability, name: RStr::from_str("matrix") };
    Row { needs: RSlice::from_slice(Vec::leak(vec![need])), ..row }
}

/// The row with its one step reading and writing its arguments in their order.
fn wired(row: Row) -> Row {
    let operands: Vec<Wire> = (0..row.args.len() as u32).map(Wire).collect();
    let step = Step { operands: RSlice::from_slice(Vec::leak(operands)), ..row.steps[0] };
    Row { steps: RSlice::from_slice(Vec::leak(vec![step])), ..row }
}

/// Two tiles of one family, a loner, and two mat-vecs.
struct Source(Vec<Row>);

impl Source {
    fn new() -> Source {
        let batch = Regime::PREFILL_BATCH;
        Source(vec![
            row("q4kTcTile64", "tcTile", batch, 5),
            row("q4kTcTile128", "tcTile", batch, 9),
            row("q4kWmmaMw", "", batch, 1),
            row("q4kWaveMatVec", "waveMatVec", Regime::DECODE_ROW, 1),
            row("q4kWavePfMatVec", "waveMatVec", Regime::DECODE_ROW, 2),
        ])
    }
}

impl KernelSource for Source {
    fn rows(&self) -> &[Row] {
        &self.0
    }

    fn manifest(&self, row: usize) -> Option<Manifest> {
        let mut manifest = Manifest::none();
        manifest.present = Manifest::CODE_HASH;
        manifest.code_hash = [row as u8; 32];
        Some(manifest)
    }

    fn geometry(&self, row: usize, problem: &Problem, _scalars: &[u8]) -> Result<Geometry, String> {
        let (side, shared) = if row == 1 { (128, 96 << 10) } else { (64, 48 << 10) };
        if problem.k == 0 {
            return Err("no inputs".into());
        }
        Ok(Geometry {
            grid: [problem.m.div_ceil(side) as u32, problem.n.div_ceil(side) as u32, 1],
            block: [128, 1, 1],
            dynamic_shared: shared,
            split_max: 1,
            ..Geometry::default()
        })
    }
}

/// Answers these medians, and counts how often it is asked.
struct Watch {
    medians: Vec<f64>,
    asked: Vec<Vec<usize>>,
}

impl FamilyProbe for Watch {
    fn time(&mut self, rows: &[usize], _problem: &Problem, _scalars: &[u8]) -> Result<Timed, TuneError> {
        self.asked.push(rows.to_vec());
        Ok(timed(&self.medians))
    }
}

fn watch(medians: &[f64]) -> Watch {
    Watch { medians: medians.to_vec(), asked: Vec::new() }
}

fn family(source: &Source, admissible: &[usize]) -> TileFamily {
    TileFamily::among(source.rows(), admissible).expect("rows")
}

#[test]
fn a_family_is_its_design_and_nothing_else() {
    let source = Source::new();
    let tiles = family(&source, &[0, 1, 2, 3, 99]);
    assert_eq!((tiles.label.as_str(), tiles.members.as_slice()), ("q4kTcTile", &[1, 0][..]));
    let loner = family(&source, &[2]);
    assert_eq!((loner.label.as_str(), loner.members.as_slice()), ("q4kWmmaMw", &[2][..]));
    assert_eq!(TileFamily::among(source.rows(), &[]), None);
}

#[test]
fn two_survivors_are_timed_once_and_remembered_with_their_margin() {
    let (source, facts) = (Source::new(), rtx_4090());
    let folder = tempfile::tempdir().expect("a folder");
    let tiles = family(&source, &[0, 1]);
    let mut probe = watch(&[120.0, 100.0]);
    for answered in [Answered::Measured, Answered::Stored] {
        let tuning = tuning(Some(folder.path()), Some(0));
        let choice = ShapeChoice::new(&tuning, &source, &facts);
        let answer = choice.choose(&tiles, &PROBLEM, &[], &mut probe).expect("chosen");
        assert_eq!((answer.row, answer.answered), (0, answered));
        assert_eq!(answer.fill.map(|fill| fill.blocks), Some(8 * 64));
        let stored = tuning.store().recall("shape.q4kTcTile.512x4096x4096").expect("kept");
        assert_eq!((stored.value.as_str(), stored.timings.len()), ("q4kTcTile64", 2));
        let margin = tuning.store().recall("shape.q4kTcTile.512x4096x4096.margin").expect("kept");
        assert_eq!(margin.value, "20.00");
    }
    assert_eq!(probe.asked, [vec![1, 0]], "survivors by priority, once");
}

#[test]
fn the_only_survivor_serves_outright() {
    let (source, facts) = (Source::new(), gfx1151());
    let tuning = tuning(None, None);
    let mut probe = watch(&[]);
    let choice = ShapeChoice::new(&tuning, &source, &facts);
    let tiles = family(&source, &[0, 1]);
    let answer = choice.choose(&tiles, &PROBLEM, &[], &mut probe).expect("chosen");
    assert_eq!((answer.row, answer.answered), (0, Answered::Outright));
    assert!(probe.asked.is_empty());

    // Declared order has the other first, and routing hears that it is not to serve.
    let (filtered, refused) = tiles.filtered(&source, &facts, &PROBLEM, &[]).expect("one is left");
    assert_eq!((filtered.survivors[0].candidate.row, filtered.pruned[0].row, refused.len()), (0, 1, 0));
    let lead = wired(source.rows()[1]);
    let (_, route) = RowRoute::new(1, &lead, &[]).expect("a route");
    let mut answers = Answers::default();
    answers.put_member(&route, &PROBLEM, &[], "q4kTcTile128", Answered::Outright);
    assert!(answers.is_empty(), "declared order says the same");
    answers.put_member(&route, &PROBLEM, &[], "q4kTcTile64", Answered::Outright);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers.questions(&route, &PROBLEM, &[]), ["shape.q4kTcTile.512x4096x4096"]);
}

#[test]
fn none_left_is_an_error_that_names_every_member() {
    let source = Source::new();
    let tuning = tuning(None, None);
    let tiles = family(&source, &[0, 1]);
    let choose = |facts: &cajeta_abi::DeviceFacts, problem: &Problem| {
        let choice = ShapeChoice::new(&tuning, &source, facts);
        match choice.choose(&tiles, problem, &[], &mut watch(&[])) {
            Err(TuneError::Launch(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let mut small = processor();
    small.set(Fact::SHARED_BLOCK, 16 << 10);
    let pruned = choose(&small, &PROBLEM);
    assert!(pruned.pruned.iter().all(|pruned| pruned.rule == Rule::R3) && pruned.pruned.len() == 2);
    let refused = choose(&rtx_4090(), &Problem { k: 0, ..PROBLEM });
    let sentence = refused.to_string();
    assert!(sentence.contains("q4kTcTile128: no launch shape: no inputs"), "{sentence}");
    assert!(sentence.contains("q4kTcTile64"), "{sentence}");
}

#[test]
fn a_mat_vec_is_remembered_as_its_variant() {
    let (source, facts) = (Source::new(), rtx_4090());
    let tuning = tuning(None, None);
    let choice = ShapeChoice::new(&tuning, &source, &facts);
    let one = Problem { m: 1, n: 14336, k: 4096, ..PROBLEM };
    let answer = choice.choose(&family(&source, &[3, 4]), &one, &[], &mut watch(&[2.0, 1.0]));
    assert_eq!(answer.expect("chosen").row, 3);
    let stored = tuning.store().recall("mvVariant-q4k-14336x4096-c1").expect("remembered");
    assert_eq!(stored.value, "q4kWaveMatVec");
    assert!(tuning.store().recall("mvVariant-q4k-14336x4096-c1.margin").is_none());
}
