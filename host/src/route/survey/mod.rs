//! Questions to hold a plugin's rows against without any model: the catalog's ops in every format.
//!
//! Each op is asked in the regimes it is run in, in every format a file may hold its weight in, plain and
//! with each attribute, at shapes that should be taken and at one that should not. Patterns of fusions
//! are asked as their rows declare them, since nothing else says which ops somebody fuses.

mod question;
mod shapes;
mod pattern;

use cajeta_abi::{Access, FormatId, Layout, LayoutId, LayoutKind, Regime, Row};
use cajeta_catalog::contract::{self, Role};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::quant::Format;

pub use question::{Question, Shape};
use shapes::{problem, scalars};

use crate::route::rows::{QueryOperand, QueryStep};
use cajeta_model_arch::plan::TensorId;

/// Every question about a plugin with these rows and layouts.
pub fn questions(rows: &[Row], layouts: &[Layout]) -> Vec<Question> {
    let mut all = Vec::new();
    let packable = own(layouts, LayoutKind::ACTIVATION).map(|(id, _)| id).collect();
    let packable: std::rc::Rc<[LayoutId]> = packable;
    for op in Op::ALL {
        match op {
            Op::Pack => all.extend(packs(rows, layouts)),
            Op::Relayout => all.extend(relayouts(layouts)),
            _ => all.extend(plain(op, &packable)),
        }
    }
    all.extend(rows.iter().filter(|row| row.steps.len() > 1).flat_map(pattern::of));
    all
}

/// The regimes an op is run in.
fn regimes(op: Op) -> &'static [Regime] {
    match op {
        Op::Argmax | Op::Sample | Op::Advance => &[Regime::FUSED_TAIL],
        Op::Relayout => &[Regime::BIND],
        _ => &[Regime::DECODE_ROW, Regime::DECODE_COLS, Regime::PREFILL_BATCH],
    }
}

/// Attributes an op may carry, plain first. Those a row must agree on both ways are asked as any other.
fn attributes(op: Op) -> &'static [u64] {
    match op {
        Op::Embed => &[0, attr::SCALE],
        Op::Norm => &[0, attr::NORM_OFFSET],
        Op::Matmul => &[0, attr::BIAS, attr::SOFTCAP],
        Op::RopeAppend => &[0, attr::ROPE_PAIRS, attr::ROPE_FACTORS, attr::ROPE_YARN],
        Op::Attention => &[0, attr::SOFTCAP, attr::WINDOW, attr::SINKS],
        Op::Glu => &[0, attr::GLU_GELU],
        Op::Copy => &[0, attr::INDEXED],
        _ => &[0],
    }
}

/// Formats an op's weight may be stored in. Vectors are f32 in every file.
fn formats(op: Op) -> Vec<FormatId> {
    match op {
        Op::Embed | Op::Matmul => {
            let decodable = Format::ALL.iter().filter(|format| format.is_decodable());
            decodable.map(|format| FormatId(format.id())).collect()
        }
        Op::Norm => vec![FormatId(Format::F32.id())],
        _ => vec![FormatId::NONE],
    }
}

fn plain(op: Op, packable: &std::rc::Rc<[LayoutId]>) -> Vec<Question> {
    let mut all = Vec::new();
    for &regime in regimes(op) {
        for format in formats(op) {
            for &attrs in attributes(op) {
                for shape in Shape::ALL {
                    let operand = |(at, operand): (usize, &contract::Operand)| match operand.role {
                        _ if operand.attr & attrs != operand.attr => QueryOperand::Absent,
                        Role::Weight => {
                            let f32 = FormatId(Format::F32.id());
                            let format = if operand.attr == 0 { format } else { f32 };
                            QueryOperand::Weight { tensor: TensorId(at as u32), format }
                        }
                        Role::Activation => {
                            let packable = match operand.access {
                                Access::READ => packable.clone(),
                                _ => [].into(),
                            };
                            QueryOperand::Value { value: at, layout: LayoutId::PLAIN, packable, uses: 1 }
                        }
                        Role::State | Role::Plane => QueryOperand::Fixed(at as u64),
                    };
                    let operands = contract::operands(op).iter().enumerate().map(operand);
                    let step = QueryStep {
                        op,
                        attrs,
                        problem: problem(op, regime, format, shape),
                        scalars: scalars(op, shape),
                        operands: operands.collect(),
                        apart: false,
                    };
                    all.push(Question { regime, shape, steps: vec![step] });
                }
            }
        }
    }
    all
}

fn own(layouts: &[Layout], kind: LayoutKind) -> impl Iterator<Item = (LayoutId, &Layout)> {
    let ids = (LayoutId::OWN.0..).map(LayoutId).zip(layouts);
    ids.filter(move |(_, layout)| layout.kind == kind)
}

/// Packs into each activation layout, in the regimes whose rows read it.
fn packs(rows: &[Row], layouts: &[Layout]) -> Vec<Question> {
    let mut all = Vec::new();
    for (layout, _) in own(layouts, LayoutKind::ACTIVATION) {
        for &regime in regimes(Op::Pack) {
            let reads = |row: &Row| {
                let mut args = row.args.iter();
                row.regime == regime && args.any(|arg| arg.layout == layout && arg.access == Access::READ)
            };
            if rows.iter().any(reads) {
                all.extend([Shape::Usual, Shape::Odd].map(|shape| pack(layout, regime, shape)));
            }
        }
    }
    all
}

fn pack(layout: LayoutId, regime: Regime, shape: Shape) -> Question {
    let value = |value, layout| QueryOperand::Value { value, layout, packable: [].into(), uses: 1 };
    let step = QueryStep {
        op: Op::Pack,
        attrs: 0,
        problem: problem(Op::Pack, regime, FormatId::NONE, shape),
        scalars: Vec::new(),
        operands: vec![value(0, LayoutId::PLAIN), value(1, layout)],
        apart: false,
    };
    Question { regime, shape, steps: vec![step] }
}

/// Relayouts into each weight layout, from each format it says it can be made from.
fn relayouts(layouts: &[Layout]) -> Vec<Question> {
    let mut all = Vec::new();
    for (id, layout) in own(layouts, LayoutKind::WEIGHT) {
        for &format in layout.formats.iter() {
            let source = |at: u32| match at < layout.sources {
                true => QueryOperand::Weight { tensor: TensorId(at), format },
                false => QueryOperand::Absent,
            };
            let out = QueryOperand::Value { value: 0, layout: id, packable: [].into(), uses: 1 };
            let mut problem = problem(Op::Relayout, Regime::BIND, format, Shape::Usual);
            problem.m = if layout.sources > 1 { problem.n } else { 0 };
            problem.aux = if layout.sources > 2 { problem.n } else { 0 };
            let step = QueryStep {
                op: Op::Relayout,
                attrs: 0,
                problem,
                scalars: Vec::new(),
                operands: (0..3).map(source).chain([out]).collect(),
                apart: false,
            };
            all.push(Question { regime: Regime::BIND, shape: Shape::Usual, steps: vec![step] });
        }
    }
    all
}
