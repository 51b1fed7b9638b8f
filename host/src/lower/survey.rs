//! A model's own ops as the questions of an audit: no device, every regime it would be run in.

use std::collections::HashSet;

use cajeta_abi::{FormatId, Layout, Row};
use cajeta_model_arch::plan::Plan;

use super::question::{Packs, Questions};
use super::sequence::Sequence;
use super::{Segment, Sizes, regime};
use crate::route::rows::{QueryOperand, QueryStep, RouteTables};
use crate::route::survey::{Question, Shape};

/// Sequences of a batched decode step.
const TOGETHER: u32 = 4;

/// Every question of a plan to a plugin with these rows and layouts, each once however many layers ask it.
/// `sizes` are of a prefill chunk of one sequence.
pub fn questions(plan: &Plan, sizes: &Sizes, rows: &[Row], layouts: &[Layout]) -> Vec<Question> {
    let tables = RouteTables::new(rows, layouts);
    let longest = rows.iter().map(|row| row.steps.len()).max().unwrap_or(1);
    let one = Sizes { rows: 1, out_rows: 1, ..*sizes };
    let several = Sizes { rows: TOGETHER, out_rows: TOGETHER, seqs: TOGETHER, ..*sizes };
    let segments = [
        (Segment::Step, one),
        (Segment::Step, several),
        (Segment::Body, *sizes),
        (Segment::Tail, Sizes { out_rows: sizes.rows, ..*sizes }),
        (Segment::TailToken, Sizes { out_rows: 1, ..*sizes }),
    ];
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for (segment, sizes) in segments {
        let (sequence, regime) = (Sequence::new(plan, segment, &sizes), regime(segment, &sizes));
        let mut packs = Packs::new(&tables, layouts, regime, None);
        let questions = Questions::new(plan, &sequence, regime, &mut |value| packs.of(value));
        for start in 0..sequence.ops.len() {
            let steps = questions.at(start).steps();
            let steps = steps.get(..longest).unwrap_or(steps).to_vec();
            if known.insert(format!("{} {}", regime.0, alike(&steps))) {
                all.push(Question { regime, shape: Shape::Usual, steps });
            }
        }
    }
    all
}

/// What tells one question from another: everything but which tensor and which value.
fn alike(steps: &[QueryStep]) -> String {
    let operand = |operand: &QueryOperand| match operand {
        QueryOperand::Weight { format: FormatId(format), .. } => format!("w{format}"),
        QueryOperand::Value { layout, uses, .. } => format!("v{} {uses}", layout.0),
        QueryOperand::Fixed(_) => "f".into(),
        QueryOperand::Absent => "-".into(),
    };
    let step = |step: &QueryStep| {
        let operands: Vec<String> = step.operands.iter().map(operand).collect();
        let QueryStep { op, attrs, problem, scalars, apart, .. } = step;
        format!("{op:?} {attrs} {problem:?} {scalars:?} {apart} {}", operands.join(","))
    };
    steps.iter().map(step).collect()
}
