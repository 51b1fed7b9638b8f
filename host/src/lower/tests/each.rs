//! A step of several sequences where a launch for each was measured to be faster: whose rows serve, and
//! which part of every value each launch is given.

use super::*;
use crate::route::Origin;
use crate::route::rows::RowPreference;
use crate::tune::Answers;

/// Sequences of the step.
const SEQS: u64 = 4;
/// Bytes of a row of a value.
const ROW: u64 = 256 * 4;

/// A registry of which something was found.
struct Found(Toy, Answers);

impl Found {
    /// That one launch over the sequences of the step does not pay.
    fn slower(toy: Toy) -> Found {
        let mut answers = Answers::default();
        answers.put_cols(FormatId(Format::Q4_K.id()), SEQS, false, Origin::Measured);
        Found(toy, answers)
    }

    /// That the row over several sequences answers wrong. `left` is whether another row over several
    /// sequences is.
    fn wrong(toy: Toy, left: bool) -> Found {
        let mut answers = Answers::default();
        answers.put_wrong("matmulCols");
        if !left {
            answers.put_each_only(FormatId(Format::Q4_K.id()));
        }
        Found(toy, answers)
    }
}

impl Registry for Found {
    fn rows(&self) -> &[Row] {
        self.0.rows()
    }
    fn layouts(&self) -> &[Layout] {
        self.0.layouts()
    }
    fn supports(&self, capability: Capability) -> bool {
        self.0.supports(capability)
    }
    fn preference(&self) -> &RowPreference<'_> {
        &self.1
    }
    fn launch_each(&self, format: FormatId, sequences: u64) -> Option<Origin> {
        self.1.launch_each(format, sequences)
    }
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String> {
        self.0.geometry(row, problem, scalars)
    }
    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        self.0.layout_bytes(layout, shapes)
    }
}

fn step() -> Sizes {
    let n = SEQS as u32;
    let state = StepLayout { max_rows: n, max_seqs: n, max_blocks: 1 };
    Sizes { rows: n, out_rows: n, seqs: n, context: 16, state }
}

fn of(regime: Regime, row: Row) -> Row {
    Row { regime, ..row }
}

/// Rows over several sequences for every op, and over one for products.
fn rows(alone: Row) -> Vec<Row> {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let (cols, tail) = (Regime::DECODE_COLS, Regime::FUSED_TAIL);
    vec![
        of(cols, plain("norm", 0, Op::Norm, vec![read, read, write])),
        of(cols, plain("matmulCols", 0, Op::Matmul, vec![read, weight(), write])),
        of(cols, plain("add", 0, Op::Add, vec![read, read, write])),
        of(tail, plain("sample", 0, Op::Sample, vec![read, read, write])),
        of(tail, plain("advance", 0, Op::Advance, vec![arg(Access::READ_WRITE)])),
        alone,
    ]
}

fn alone() -> Row {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    plain("matmulOne", 0, Op::Matmul, vec![read, weight(), write])
}

/// The product of one row and the sum with what was there.
fn with_sum() -> Row {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let steps = vec![
        (Op::Matmul, vec![Wire::arg(0), Wire::arg(1), Wire::ABSENT, Wire::internal(0)]),
        (Op::Add, vec![Wire::arg(2), Wire::internal(0), Wire::arg(3)]),
    ];
    row("matmulAddOne", 1, steps, vec![read, weight(), read, write])
}

fn toy(rows: Vec<Row>) -> Toy {
    Toy { rows, layouts: Vec::new() }
}

fn lowered(registry: &dyn Registry) -> Program {
    lower(registry, &plan(), Segment::Step, &step(), &|_| true).expect("lowers")
}

fn names<'r>(registry: &'r dyn Registry, program: &Program) -> Vec<&'r str> {
    program.launches.iter().map(|launch| registry.rows()[launch.row].name.as_str()).collect()
}

#[test]
fn one_launch_serves_all_sequences_unless_it_was_measured_not_to_pay() {
    let toy = toy(rows(alone()));
    let program = lowered(&toy);
    assert_eq!(names(&toy, &program), ["norm", "matmulCols", "matmulCols", "add", "sample", "advance"]);
    assert_eq!(program.launches[1].problem.m, SEQS);
}

#[test]
fn each_sequence_has_a_launch_over_its_own_rows() {
    let mut all = rows(alone());
    all.push(with_sum());
    let registry = Found::slower(toy(all));
    let program = lowered(&registry);
    let one = ["matmulOne"; SEQS as usize];
    let sum = ["matmulAddOne"; SEQS as usize];
    assert_eq!(names(&registry, &program), [&["norm"], &one[..], &sum[..], &["sample", "advance"]].concat());

    let arena = |place: &Place| match place {
        Place::Arena(range) => range.clone(),
        other => panic!("{other:?} is not in the arena"),
    };
    let norm = arena(&program.launches[0].args[2]);
    assert_eq!(norm.end - norm.start, SEQS * ROW);
    let products = &program.launches[1..=SEQS as usize];
    let gate = arena(&products[0].args[2]).start;
    assert!(gate + SEQS * ROW <= norm.start || norm.end <= gate, "{norm:?} and {gate}");
    for (at, (product, sum)) in (0u64..).zip(products.iter().zip(&program.launches[1 + SEQS as usize..])) {
        let row = |start: u64| start + at * ROW..start + (at + 1) * ROW;
        assert_eq!((product.problem.m, product.problem.n, product.problem.k), (1, 256, 256));
        assert_eq!(arena(&product.args[0]), row(norm.start), "{at}");
        assert_eq!(product.args[1], Place::Weight(WeightKey::new(LayoutId::GGUF, [TensorId(1)])));
        assert_eq!(arena(&product.args[2]), row(gate), "{at}");
        assert_eq!(arena(&sum.args[2]), row(gate), "what is added is the sequence's own");
        assert_eq!(sum.args[3], Place::Hidden(row(0)), "{at}");
    }
}

/// Rows of which the one for single sequences reads or writes what cannot be cut into rows.
fn uncut() -> [Toy; 2] {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let packed = ArgSpec { layout: OWN, dtype: DtypeId::BYTES, ..read };
    let aligned = ArgSpec { align: 2 * ROW as u32, ..write };
    let own = Layout {
        name: RStr::from_str("q8"),
        kind: LayoutKind::ACTIVATION,
        sources: 1,
        formats: RSlice::EMPTY,
        align: 1,
    };
    [vec![packed, weight(), write], vec![read, weight(), aligned]].map(|args| {
        let mut all = rows(plain("matmulOne", 5, Op::Matmul, args));
        let pack = vec![read, ArgSpec { access: Access::WRITE, ..packed }];
        let pack = plain("pack", 0, Op::Pack, pack);
        all.extend([pack, of(Regime::DECODE_COLS, pack)]);
        // A row that could be cut stands behind, and is not what was measured.
        all.push(alone());
        Toy { rows: all, layouts: vec![own] }
    })
}

#[test]
fn what_is_slower_and_cannot_be_cut_into_rows_is_launched_once() {
    for toy in uncut() {
        let registry = Found::slower(toy);
        let program = lowered(&registry);
        let names = names(&registry, &program);
        assert_eq!(names, ["norm", "matmulCols", "matmulCols", "add", "sample", "advance"]);
    }
}

#[test]
fn what_is_wrong_is_launched_by_another_row_or_for_each_sequence_alone() {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let mut all = rows(alone());
    all.push(of(Regime::DECODE_COLS, plain("matmulColsNext", -1, Op::Matmul, vec![read, weight(), write])));
    let registry = Found::wrong(toy(all), true);
    let next = "matmulColsNext";
    assert_eq!(names(&registry, &lowered(&registry)), ["norm", next, next, "add", "sample", "advance"]);

    let registry = Found::wrong(toy(rows(alone())), false);
    let one = ["matmulOne"; SEQS as usize];
    let program = lowered(&registry);
    assert_eq!(
        names(&registry, &program),
        [&["norm"], &one[..], &one[..], &["add", "sample", "advance"]].concat()
    );
    let explained = explain(&registry, &plan(), Segment::Step, &step(), &|_| true).expect("lowers");
    let gate = explained.iter().find(|line| line.what == "matmul gate").expect("a product");
    let refusal = gate.arms[0].refusal.as_ref().expect("refused");
    assert_eq!(
        (refusal.row.as_str(), refusal.gate.as_str()),
        ("matmulCols", "differs from the host's mat-vec")
    );
}

#[test]
fn what_is_wrong_and_cannot_be_cut_into_rows_is_not_launched_at_all() {
    for toy in uncut() {
        let registry = Found::wrong(toy, false);
        let refused =
            lower(&registry, &plan(), Segment::Step, &step(), &|_| true).expect_err("nothing serves");
        let said = refused.to_string();
        assert!(said.contains("matmulCols") && said.contains("differs from the host's mat-vec"), "{said}");
    }
}

#[test]
fn a_chunk_of_one_sequence_is_never_taken_apart() {
    let all = rows(alone()).into_iter().map(|row| {
        let cols = row.regime == Regime::DECODE_COLS;
        of(if cols { Regime::PREFILL_BATCH } else { row.regime }, row)
    });
    let registry = Found::slower(toy(all.collect()));
    let program = lower(&registry, &plan(), Segment::Body, &step(), &|_| true).expect("lowers");
    assert_eq!(names(&registry, &program), ["norm", "matmulCols", "matmulCols", "add"]);
}

#[test]
fn it_is_one_line_with_its_origin_and_the_row_that_was_slower() {
    let registry = Found::slower(toy(rows(alone())));
    let explained = explain(&registry, &plan(), Segment::Step, &step(), &|_| true).expect("lowers");
    let program = lowered(&registry);
    assert_eq!(explained.iter().map(|line| line.launches).sum::<u64>(), program.launches.len() as u64);
    let gate = explained.iter().find(|line| line.what == "matmul gate").expect("a product");
    assert_eq!((gate.launches, gate.origin, gate.problem.m), (SEQS, Origin::Measured, 1));
    assert_eq!((gate.regime, gate.row), (Regime::DECODE_ROW, 5));
    let slower = &gate.arms[0];
    let refusal = slower.refusal.as_ref().expect("refused");
    assert_eq!((slower.row, slower.ahead), (1, true));
    assert_eq!(refusal.gate, "colsPays: measured slower than single rows");

    let refused = |registry: &dyn Registry| {
        batch_refusal(registry, &plan(), Segment::Step, &step(), &|_| true).map(|refusal| refusal.to_string())
    };
    let said = "matmul gate: colsPays: measured slower than single rows";
    assert_eq!(refused(&registry).as_deref(), Some(said));
    assert_eq!(refused(&registry.0), None);
}
