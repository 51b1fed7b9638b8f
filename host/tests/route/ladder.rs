//! A model's projection on a plugin's arms: what serves, what is said of the arms that do not, and why a
//! projection is not batched.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use cajeta::lower::{Segment, Sizes, WeightKey, announce, batch_refusal, explain, lower, questions};
use cajeta::route::rows::{RowCall, RowPreference};
use cajeta::route::{Origin, Preference, Preferred, Registry};
use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    Access, Arith, Capability, FormatId, Geometry, Layout, LayoutId, Problem, Regime, Row, Shape, Step, Wire,
};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::MatmulScalars;
use cajeta_catalog::state::StepLayout;
use cajeta_model_arch::plan::{
    Plan, PlanOp, PlanOperand, PlanTensor, Rows, Scalars, TensorId, Value, ValueId,
};

use crate::plugin_rows::{CORES, PACKED, TILED, arg, keep, layouts, rows};

struct Plugin {
    rows: Vec<Row>,
    layouts: Vec<Layout>,
    can: Vec<Capability>,
    preferred: Option<Member>,
    /// Whether measurements hold every batch arm back.
    held: bool,
}

/// Every arm is slower than something that is not there.
struct Held;

impl Preference<RowCall<'_>> for Held {
    fn held_back<'s>(&'s self, row: &str, _call: &RowCall<'_>) -> Option<&'s str> {
        row.starts_with("q4k").then_some("measured slower")
    }
}

/// A measured member of whatever family is asked about.
struct Member(&'static str);

impl Preference<RowCall<'_>> for Member {
    fn prefer<'s>(&'s self, _family: &str, _call: &RowCall<'_>) -> Option<Preferred<'s>> {
        Some(Preferred { row: self.0, origin: Origin::Stored })
    }
}

impl Registry for Plugin {
    fn rows(&self) -> &[Row] {
        &self.rows
    }
    fn layouts(&self) -> &[Layout] {
        &self.layouts
    }
    fn supports(&self, capability: Capability) -> bool {
        self.can.contains(&capability)
    }
    fn preference(&self) -> &RowPreference<'_> {
        match &self.preferred {
            _ if self.held => &Held,
            Some(member) => member,
            None => &cajeta::route::Declared,
        }
    }
    fn geometry(&self, _row: usize, _problem: &Problem, _scalars: &[u8]) -> Result<Geometry, String> {
        Ok(Geometry { grid: [1; 3], block: [1; 3], ..Geometry::default() })
    }
    fn layout_bytes(&self, _layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        Ok(shapes.iter().map(|shape| shape.rows * shape.width).sum())
    }
}

/// The arms and what packs activations for them.
fn plugin(can: &[Capability]) -> Plugin {
    let pack = |name, regime| Row {
        name: RStr::from_str(name),
        family: RStr::from_str(""),
        regime,
        arith: Arith::NONE,
        priority: 0,
        steps: keep(vec![Step {
            op: Op::Pack.id(),
            attrs: 0,
            operands: keep(vec![Wire::arg(0), Wire::arg(1)]),
        }]),
        problem_step: 0,
        args: keep(vec![
            arg(LayoutId::PLAIN, FormatId::NONE, Access::READ),
            arg(PACKED, FormatId::NONE, Access::WRITE),
        ]),
        needs: RSlice::EMPTY,
        shape_gates: RSlice::EMPTY,
        ready_gates: RSlice::EMPTY,
    };
    let mut all = rows();
    all.push(pack("packQ8", Regime::DECODE_ROW));
    all.push(pack("packQ8Batch", Regime::PREFILL_BATCH));
    Plugin { rows: all, layouts: layouts(), can: can.to_vec(), preferred: None, held: false }
}

/// out = x W, once.
fn plan(format: Format) -> Plan {
    let value = |name: &str| Value { name: name.into(), rows: Rows::Step, width: 256 };
    Plan {
        values: vec![value("x"), value("blk.0.out")],
        tensors: vec![PlanTensor {
            name: "w".into(),
            format,
            rows: 256,
            width: 256,
            offset: 0,
            bytes: 256 * 144,
        }],
        ops: vec![PlanOp {
            op: Op::Matmul,
            attrs: 0,
            layer: Some(0),
            rows: Rows::Step,
            per_row: 1,
            n: 256,
            k: 256,
            scalars: Scalars::Matmul(MatmulScalars { softcap: 0.0, reserved: 0 }),
            operands: vec![
                PlanOperand::Value(ValueId(0)),
                PlanOperand::Tensor(TensorId(0)),
                PlanOperand::Absent,
                PlanOperand::Value(ValueId(1)),
            ],
        }],
        tail: 1,
        hidden: ValueId(1),
        logits: ValueId(1),
        kv: Vec::new(),
    }
}

fn sizes(rows: u32) -> Sizes {
    let state = StepLayout { max_rows: rows, max_seqs: 1, max_blocks: 1 };
    Sizes { rows, out_rows: 1, seqs: 1, context: 16, state }
}

fn not_tiled(key: &WeightKey) -> bool {
    key.layout != TILED
}

#[test]
fn a_choice_is_explained_with_the_arms_beside_it() {
    let plugin = plugin(&CORES);
    let launches =
        explain(&plugin, &plan(Format::Q4_K), Segment::Body, &sizes(512), &not_tiled).expect("lowers");
    let names: Vec<&str> = launches.iter().map(|launch| plugin.rows[launch.row].name.as_str()).collect();
    assert_eq!(names, ["packQ8Batch", "q4kWmmaMw"]);
    let gemm = &launches[1];
    assert_eq!((gemm.what.as_str(), gemm.origin), ("matmul blk.0.out", Origin::Declared));
    let arms: Vec<(&str, bool, bool)> = gemm
        .arms
        .iter()
        .map(|arm| (plugin.rows[arm.row].name.as_str(), arm.ahead, arm.refusal.is_none()))
        .collect();
    let expected = [
        ("q4kTcTile128", true, false),
        ("q4kInt8Widen", false, true),
        ("q4kCoopF16", false, true),
        ("q4kMmqTile", false, true),
        ("q4kDotFloor", false, true),
    ];
    assert_eq!(arms, expected, "rows that read plain activations stand behind, although they were packed");
    assert_eq!(gemm.arms[0].refusal.as_ref().expect("refused").gate, "tiled");
}

#[test]
fn measurement_reaches_the_choice_through_the_registry() {
    let mut plugin = plugin(&CORES);
    for row in &mut plugin.rows {
        row.family = RStr::from_str("q4kGemm");
    }
    plugin.preferred = Some(Member("q4kMmqTile"));
    let plan = plan(Format::Q4_K);
    let launches = explain(&plugin, &plan, Segment::Body, &sizes(512), &not_tiled).expect("lowers");
    let gemm = launches.last().expect("a projection");
    assert_eq!((plugin.rows[gemm.row].name.as_str(), gemm.origin), ("q4kMmqTile", Origin::Stored));
    let program = lower(&plugin, &plan, Segment::Body, &sizes(512), &not_tiled).expect("lowers");
    assert_eq!(program.launches.last().map(|launch| launch.row), Some(gemm.row), "both resolve alike");
}

#[test]
fn arms_that_are_all_held_back_serve_in_their_order_and_the_record_says_so() {
    let plan = plan(Format::Q4_K);
    let of = |held| {
        let plugin = Plugin { held, ..plugin(&CORES) };
        let launches = explain(&plugin, &plan, Segment::Body, &sizes(512), &not_tiled).expect("lowers");
        let program = lower(&plugin, &plan, Segment::Body, &sizes(512), &not_tiled).expect("lowers");
        let gemm = launches.last().expect("a projection").clone();
        assert_eq!(program.launches.last().map(|launch| launch.row), Some(gemm.row), "both resolve alike");
        assert_eq!(batch_refusal(&plugin, &plan, Segment::Body, &sizes(512), &not_tiled), None);
        gemm
    };
    let (free, held) = (of(false), of(true));
    assert_eq!((free.row, free.despite.as_deref()), (held.row, None));
    assert_eq!(held.despite.as_deref(), Some("measured slower"));
    let refusals =
        |gemm: &cajeta::lower::Explained| gemm.arms.iter().map(|arm| arm.refusal.clone()).collect::<Vec<_>>();
    assert_eq!(refusals(&free), refusals(&held), "the others stand behind as ever");

    let said = Said::default();
    let writer = said.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let plugin = Plugin { held: true, ..plugin(&CORES) };
        let mut elsewhere = plan.clone();
        elsewhere.values[1].name = "blk.0.held".into();
        announce(&plugin, &elsewhere, Segment::Body, &sizes(512), &not_tiled);
    });
    let text = String::from_utf8(said.0.lock().expect("lock").clone()).expect("text");
    assert!(text.contains("as nothing else is admitted, in spite of: measured slower)"), "{text}");
}

#[test]
fn a_projection_that_is_not_batched_says_at_which_gate() {
    let why = |plugin: &Plugin, format| {
        let plan = plan(format);
        batch_refusal(plugin, &plan, Segment::Body, &sizes(512), &not_tiled).map(|why| why.to_string())
    };
    assert_eq!(why(&plugin(&[]), Format::Q4_K), None, "the floor serves");
    assert_eq!(
        why(&plugin(&[]), Format::Q6_K).as_deref(),
        Some("matmul blk.0.out: format admitted: no batch kernel reads Q6_K")
    );
    let mut floorless = plugin(&[]);
    floorless.rows.retain(|row| row.name.as_str() != "q4kDotFloor" && row.name.as_str() != "q4kInt8Widen");
    assert_eq!(
        why(&floorless, Format::Q4_K).as_deref(),
        Some("matmul blk.0.out: q4kTcTile128: unsupported: int8 matrix cores")
    );
    floorless.rows.retain(|row| row.regime == Regime::DECODE_ROW);
    assert!(why(&floorless, Format::Q4_K).expect("refused").contains("batch kernel: the backend has none"));
}

#[test]
fn a_refusal_names_what_is_near_and_the_debug_log_every_row() {
    let said = Said::default();
    let writer = said.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone());
    let plugin = plugin(&CORES);
    let error = tracing::subscriber::with_default(subscriber.finish(), || {
        lower(&plugin, &plan(Format::Q5_0), Segment::Body, &sizes(512), &not_tiled)
            .expect_err("none reads it")
    });
    let short = error.to_string();
    assert!(short.starts_with("no kernel serves matmul blk.0.out") && short.lines().count() == 2, "{short}");
    let log = String::from_utf8(said.0.lock().expect("lock").clone()).expect("text");
    let products = plugin.rows.iter().filter(|row| row.steps.iter().any(|step| step.op == Op::Matmul.id()));
    for row in products {
        assert!(log.contains(&format!("\n  {}: format: serves ", row.name)), "{} in {log}", row.name);
        assert!(!short.contains(row.name.as_str()), "{short}");
    }
}

#[test]
fn a_models_questions_are_asked_in_every_regime_it_runs_in() {
    let plugin = plugin(&[]);
    let asked = questions(&plan(Format::Q4_K), &sizes(512), &plugin.rows, &plugin.layouts);
    let regimes: Vec<Regime> = asked
        .iter()
        .filter(|question| question.op() == Some(Op::Matmul))
        .map(|question| question.regime)
        .collect();
    assert_eq!(regimes, [Regime::DECODE_ROW, Regime::DECODE_COLS, Regime::PREFILL_BATCH]);
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_route_and_its_refused_arms_are_said_once() {
    let said = Said::default();
    let writer = said.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..3 {
            let plan = plan(Format::Q4_K);
            announce(&plugin(&CORES), &plan, Segment::Body, &sizes(48), &not_tiled);
        }
    });
    let text = String::from_utf8(said.0.lock().expect("lock").clone()).expect("text");
    let count = |words: &str| text.matches(words).count();
    assert_eq!(count("matmul blk.*.out runs on q4kWmmaMw (prefill-batch, Q4_K, 48x256x256)"), 1, "{text}");
    let refused = "q4kTcTile128 refused by shape: M >= 64 (int8 matrix cores: yes, usable: yes, \
                   K % 256: K=256, M >= 64: M=48 (refuses), tiled: no (refuses)";
    assert_eq!(count(refused), 1, "{text}");
}
