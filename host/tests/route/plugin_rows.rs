//! Rows of a plugin as routes: a ladder of arms, what a refused one says, and nothing allocated.

use std::cell::Cell;

use cajeta::record::Answered;
use cajeta::route::rows::{QueryOperand, QueryStep, ReadyState, RouteTables, RowCall, RowQuery, RowRoute};
use cajeta::route::{Capabilities, Clause, Declared, Origin, Route};
use cajeta::tune::Answers;
use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    Access, ArgSpec, Arith, Capability, DtypeId, FormatId, Layout, LayoutId, LayoutKind, Need, Problem,
    ReadyGate, ReadyKind, Regime, Row, ShapeGate, Step, Subject, Test, Wire,
};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::quant::Format;
use cajeta_model_arch::plan::TensorId;

use crate::counting::allocations;

pub(crate) const Q4_K: FormatId = FormatId(Format::Q4_K.id());
/// Int8 activations of the plugin's own.
pub(crate) const PACKED: LayoutId = LayoutId::OWN;
/// Weights arranged for tiles.
pub(crate) const TILED: LayoutId = LayoutId(LayoutId::OWN.0 + 1);

pub(crate) fn keep<T>(values: Vec<T>) -> RSlice<'static, T> {
    RSlice::from_slice(Vec::leak(values))
}

pub(crate) fn arg(layout: LayoutId, format: FormatId, access: Access) -> ArgSpec {
    let dtype = if layout == LayoutId::PLAIN { DtypeId::F32 } else { DtypeId::BYTES };
    ArgSpec { layout, dtype, format, align: 1, padding: 0, access, alias: -1 }
}

/// A projection: activations in `x`, the weight in `weight`.
fn projection(name: &'static str, regime: Regime, priority: i32, x: LayoutId, weight: LayoutId) -> Row {
    let args = vec![
        arg(x, FormatId::NONE, Access::READ),
        arg(weight, Q4_K, Access::READ),
        arg(LayoutId::PLAIN, FormatId::NONE, Access::WRITE),
    ];
    let wires = vec![Wire::arg(0), Wire::arg(1), Wire::ABSENT, Wire::arg(2)];
    Row {
        name: RStr::from_str(name),
        family: RStr::from_str(""),
        regime,
        arith: Arith::F32,
        priority,
        steps: keep(vec![Step { op: Op::Matmul.id(), attrs: attr::SOFTCAP, operands: keep(wires) }]),
        problem_step: 0,
        args: keep(args),
        needs: RSlice::EMPTY,
        shape_gates: RSlice::EMPTY,
        ready_gates: RSlice::EMPTY,
    }
}

fn gate(name: &'static str, subject: Subject, test: Test, value: u64) -> ShapeGate {
    ShapeGate { name: RStr::from_str(name), subject, test, values: keep(vec![value]) }
}

fn ready(name: &'static str, kind: ReadyKind) -> ReadyGate {
    ReadyGate { name: RStr::from_str(name), kind }
}

fn needing(row: Row, capability: Capability, name: &'static str) -> Row {
    Row { needs: keep(vec![Need { capability, name: RStr::from_str(name) }]), ..row }
}

/// The arms of a quantised projection, by priority, and those of decode.
pub(crate) fn rows() -> Vec<Row> {
    let prefill = |name, priority, x, weight| projection(name, Regime::PREFILL_BATCH, priority, x, weight);
    let decode = |name, priority, x| projection(name, Regime::DECODE_ROW, priority, x, LayoutId::GGUF);
    let tile = Row {
        shape_gates: keep(vec![
            gate("K % 256", Subject::K, Test::MULTIPLE_OF, 256),
            gate("M >= 64", Subject::M, Test::AT_LEAST, 64),
        ]),
        ready_gates: keep(vec![ready("tiled", ReadyKind::LAYOUT_RESIDENT)]),
        ..prefill("q4kTcTile128", 60, PACKED, TILED)
    };
    let widen = Row {
        ready_gates: keep(vec![ready("no wide copy", ReadyKind::WIDEN_DECLINED)]),
        ..prefill("q4kInt8Widen", 40, PACKED, LayoutId::GGUF)
    };
    let wave = Row {
        shape_gates: keep(vec![gate("K % 256", Subject::K, Test::MULTIPLE_OF, 256)]),
        ..decode("q4kQ8WaveMatVec", 30, PACKED)
    };
    vec![
        needing(tile, Capability::MATRIX_INT8, "int8 matrix cores"),
        needing(prefill("q4kWmmaMw", 50, PACKED, LayoutId::GGUF), Capability::MATRIX_INT8, "wmma"),
        widen,
        needing(
            prefill("q4kCoopF16", 30, LayoutId::PLAIN, LayoutId::GGUF),
            Capability::MATRIX_F16,
            "f16 cores",
        ),
        needing(prefill("q4kMmqTile", 20, PACKED, LayoutId::GGUF), Capability::INT8_DOT, "int8 dot"),
        prefill("q4kDotFloor", 0, LayoutId::PLAIN, LayoutId::GGUF),
        wave,
        decode("q4kWaveMatVecF32", 20, LayoutId::PLAIN),
        decode("q4kScalarMatVec", 0, LayoutId::PLAIN),
    ]
}

pub(crate) fn layouts() -> Vec<Layout> {
    let layout = |name, kind| Layout {
        name: RStr::from_str(name),
        kind,
        sources: 1,
        formats: RSlice::EMPTY,
        align: 1,
    };
    vec![layout("q8", LayoutKind::ACTIVATION), layout("tiled", LayoutKind::WEIGHT)]
}

/// A projection of `m` rows whose activations can be packed or not.
fn step(m: u64, k: u64, packable: bool) -> QueryStep {
    let value = |value, packable: &[LayoutId]| QueryOperand::Value {
        value,
        layout: LayoutId::PLAIN,
        packable: packable.into(),
        uses: 1,
    };
    let packs = if packable { &[PACKED][..] } else { &[] };
    QueryStep {
        op: Op::Matmul,
        attrs: 0,
        problem: Problem { m, n: 4096, k, ..Problem::default() },
        scalars: vec![0; 8],
        operands: vec![
            value(0, packs),
            QueryOperand::Weight { tensor: TensorId(7), format: Q4_K },
            QueryOperand::Absent,
            value(1, &[]),
        ],
        apart: false,
    }
}

struct Device(Vec<Capability>);

impl Capabilities for Device {
    fn supports(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

/// What is resident, and whether somebody widened.
struct Moment {
    tiled: bool,
    widened: Cell<bool>,
}

impl ReadyState for Moment {
    fn resident(&self, layout: LayoutId, tensors: &[TensorId]) -> bool {
        assert_eq!(tensors, [TensorId(7)]);
        layout != TILED || self.tiled
    }
    fn widen_declined(&self, _tensors: &[TensorId]) -> bool {
        !self.widened.get()
    }
}

pub(crate) const CORES: [Capability; 3] =
    [Capability::MATRIX_INT8, Capability::MATRIX_F16, Capability::INT8_DOT];

#[test]
fn a_prefill_projection_takes_the_first_arm_that_is_admitted() {
    let (rows, layouts) = (rows(), layouts());
    let tables = RouteTables::new(&rows, &layouts);
    let table = tables.table(Op::Matmul);
    let arm = |device: &[Capability], tiled, widened, step: QueryStep| {
        let moment = Moment { tiled, widened: Cell::new(widened) };
        let query = RowQuery::new(Regime::PREFILL_BATCH, std::slice::from_ref(&step));
        let call = RowCall { query, ready: &moment };
        let device = Device(device.to_vec());
        let picked = table.pick(&call, &device, &Declared).expect("the floor always serves");
        rows[picked.route.dispatch(&call)].name.as_str()
    };
    assert_eq!(arm(&CORES, true, false, step(512, 4096, true)), "q4kTcTile128");
    assert_eq!(arm(&CORES, false, false, step(512, 4096, true)), "q4kWmmaMw");
    assert_eq!(arm(&CORES, true, false, step(16, 4096, true)), "q4kWmmaMw", "too few rows for a tile");
    assert_eq!(arm(&CORES[1..], true, false, step(512, 4096, true)), "q4kInt8Widen");
    assert_eq!(arm(&CORES[1..], true, true, step(512, 4096, true)), "q4kCoopF16");
    assert_eq!(arm(&CORES[2..], true, true, step(512, 4096, true)), "q4kMmqTile");
    assert_eq!(arm(&CORES[2..], true, true, step(512, 4096, false)), "q4kDotFloor", "nothing packs");
    assert_eq!(arm(&[], true, true, step(512, 4096, true)), "q4kDotFloor");
}

#[test]
fn decode_takes_the_wave_then_the_f32_wave_then_the_scalar_kernel() {
    let (mut rows, layouts) = (rows(), layouts());
    let moment = Moment { tiled: false, widened: Cell::new(false) };
    let device = Device(Vec::new());
    let mut arms = Vec::new();
    while !rows.is_empty() {
        let tables = RouteTables::new(&rows, &layouts);
        let step = step(1, 4096, true);
        let query = RowQuery::new(Regime::DECODE_ROW, std::slice::from_ref(&step));
        let call = RowCall { query, ready: &moment };
        let Some(picked) = tables.table(Op::Matmul).pick(&call, &device, &Declared) else { break };
        let index = picked.route.index();
        arms.push(rows[index].name.to_string());
        rows.remove(index);
    }
    assert_eq!(arms, ["q4kQ8WaveMatVec", "q4kWaveMatVecF32", "q4kScalarMatVec"]);
}

#[test]
fn a_refused_arm_tells_every_gate_with_what_it_saw() {
    let (rows, layouts) = (rows(), layouts());
    let tables = RouteTables::new(&rows, &layouts);
    let table = tables.table(Op::Matmul);
    let step = step(16, 4096, true);
    let moment = Moment { tiled: false, widened: Cell::new(false) };
    let query = RowQuery::new(Regime::PREFILL_BATCH, std::slice::from_ref(&step));
    let call = RowCall { query, ready: &moment };
    let device = Device(vec![]);
    let tile = &table.routes()[0];
    let refusal = table.refusal(tile, &call, &device, &Declared).expect("refused");
    assert_eq!((refusal.row.as_str(), refusal.clause), ("q4kTcTile128", Clause::Shape));
    assert_eq!(refusal.gate, "M >= 64");
    let values: Vec<String> =
        table.gate_values(tile, &call, &device).iter().map(ToString::to_string).collect();
    assert_eq!(
        values,
        [
            "int8 matrix cores: no (refuses)",
            "usable: yes",
            "K % 256: K=4096",
            "M >= 64: M=16 (refuses)",
            "tiled: no (refuses)",
            "residence of argument 1: no (refuses)",
        ]
    );
}

#[test]
fn other_formats_attributes_and_layouts_are_refused_by_name() {
    let (rows, layouts) = (rows(), layouts());
    let tables = RouteTables::new(&rows, &layouts);
    let table = tables.table(Op::Matmul);
    let moment = Moment { tiled: true, widened: Cell::new(false) };
    let device = Device(CORES.to_vec());
    let why = |step: QueryStep| {
        let query = RowQuery::new(Regime::DECODE_ROW, std::slice::from_ref(&step));
        let call = RowCall { query, ready: &moment };
        let refusal = table.why_not_picked(&call, &device, &Declared).expect("nothing serves");
        format!("{}: {}: {}", refusal.row, refusal.clause.name(), refusal.gate)
    };
    let mut q6 = step(1, 4096, true);
    q6.operands[1] = QueryOperand::Weight { tensor: TensorId(7), format: FormatId(Format::Q6_K.id()) };
    assert_eq!(why(q6), "q4kTcTile128: format: serves Q4_K");
    let mut biased = step(1, 4096, true);
    biased.attrs = attr::BIAS;
    assert_eq!(why(biased), "q4kTcTile128: format: bias");
    let mut strange = step(1, 4096, true);
    strange.operands[0] =
        QueryOperand::Value { value: 0, layout: LayoutId(300), packable: [].into(), uses: 1 };
    assert_eq!(why(strange), "q4kQ8WaveMatVec: shape: layout of argument 0");
}

#[test]
fn resolving_by_measured_answers_allocates_nothing() {
    let (mut rows, layouts) = (rows(), layouts());
    rows.iter_mut().for_each(|row| row.family = RStr::from_str("q4kGemm"));
    let tables = RouteTables::new(&rows, &layouts);
    let table = tables.table(Op::Matmul);
    let floor = table.routes().iter().find(|route| route.name() == "q4kMmqTile").expect("an arm");
    let step = step(512, 4096, true);
    let mut answers = Answers::default();
    answers.put_member(floor, &step.problem, &[], "q4kMmqTile", Answered::Stored);
    let moment = Moment { tiled: false, widened: Cell::new(false) };
    let device = Device(CORES.to_vec());
    let query = RowQuery::new(Regime::PREFILL_BATCH, std::slice::from_ref(&step));
    let call = RowCall { query, ready: &moment };
    let (picked, count) = allocations(|| table.pick(&call, &device, &answers));
    let picked = picked.expect("one serves");
    assert_eq!((picked.route.name(), picked.origin, count), ("q4kMmqTile", Origin::Stored, 0));
}

#[test]
fn what_somebody_chose_serves_whether_anybody_asked_about_it() {
    let mut rows = rows();
    rows.iter_mut().for_each(|row| row.family = RStr::from_str("q4kGemm"));
    let (rows, layouts): (&'static [Row], &'static [Layout]) = (rows.leak(), layouts().leak());
    let tables = RouteTables::new(rows, layouts);
    let table = tables.table(Op::Matmul);
    let route = |name: &str| {
        let index = rows.iter().position(|row| row.name.as_str() == name).expect("a row");
        RowRoute::new(index, &rows[index], layouts).expect("a route").1
    };
    let (moment, device) = (Moment { tiled: false, widened: Cell::new(false) }, Device(CORES.to_vec()));
    let picked = |answers: &Answers, k: u64| {
        let step = step(512, k, true);
        let query = RowQuery::new(Regime::PREFILL_BATCH, std::slice::from_ref(&step));
        let call = RowCall { query, ready: &moment };
        table.pick(&call, &device, answers).map(|picked| (picked.route.name().to_owned(), picked.origin))
    };
    let mut answers = Answers::default();
    let declared = picked(&answers, 4096).expect("one serves");
    answers.put_chosen(route("q4kMmqTile"));
    assert_ne!(declared.0, "q4kMmqTile");
    assert_eq!(picked(&answers, 4096), Some(("q4kMmqTile".to_owned(), Origin::Overridden)));
    // One that is not admitted leaves the declared order as it is.
    let mut answers = Answers::default();
    answers.put_chosen(route("q4kTcTile128"));
    assert_eq!(picked(&answers, 4096), Some(declared));
}

#[test]
fn resolving_a_plugins_rows_allocates_nothing() {
    let (rows, layouts) = (rows(), layouts());
    let tables = RouteTables::new(&rows, &layouts);
    let table = tables.table(Op::Matmul);
    let moment = Moment { tiled: false, widened: Cell::new(true) };
    for device in [Device(CORES.to_vec()), Device(vec![])] {
        for (regime, m, k) in
            [(Regime::PREFILL_BATCH, 512, 4096), (Regime::DECODE_ROW, 1, 100), (Regime::BIND, 1, 1)]
        {
            let step = step(m, k, true);
            let query = RowQuery::new(regime, std::slice::from_ref(&step));
            let call = RowCall { query, ready: &moment };
            let (picked, count) = allocations(|| table.pick(&call, &device, &Declared).is_some());
            assert_eq!((picked, count), (regime != Regime::BIND, 0));
            let (_, count) = allocations(|| table.admissible(&query, &device).is_some());
            assert_eq!(count, 0);
        }
    }
}
