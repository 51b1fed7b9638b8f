//! What must come out of a case, and how far off each element may be.
//!
//! Every output element has a unit: the size against which rounding of the
//! row's arithmetic class is measured. For a product it is the norm of the
//! weight row times the root mean square of the activations, plus the result
//! itself, so that one that cancels is not held to its own small size. Units travel through the
//! steps of a fusion as errors would. An element may be off by its unit times
//! the class's [`share`], plus a fixed part where the contract itself rounds.

use cajeta_abi::{Access, Arith};
use cajeta_catalog::contract::operands;
use cajeta_catalog::kv;
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::oracle::compose::{Place, StepCall};
use cajeta_catalog::oracle::{Composition, OracleBuf};
use cajeta_catalog::scalars::{AttentionScalars, MatmulScalars, RopeAppendScalars};
use half::f16;

use crate::case::{Case, Kind, Slot};
use crate::weights::decoded;

/// How off an output may be.
#[derive(Clone, Default, Debug)]
pub(crate) struct Unit {
    /// Per element, in parts of the class's share.
    pub(crate) scaled: Vec<f32>,
    /// Per element, whatever the class.
    pub(crate) fixed: Vec<f32>,
}

/// The oracle's memory after the last step.
pub(crate) struct Expected {
    pub(crate) slots: Vec<Slot>,
    /// Per slot; `None` for what no step writes.
    pub(crate) units: Vec<Option<Unit>>,
}

/// The part of its unit an element may be off by.
pub(crate) fn share(arith: Arith) -> f64 {
    match arith {
        Arith::F16 => 4e-3,
        Arith::BF16 => 3e-2,
        Arith::INT8 => 6e-2,
        _ => 3e-5,
    }
}

/// The coarser of two classes.
pub(crate) fn coarser(a: Arith, b: Arith) -> Arith {
    if share(b) > share(a) { b } else { a }
}

/// Runs the oracle of a case step by step.
///
/// # Errors
/// What an oracle refuses, as a sentence.
pub(crate) fn expect(case: &Case) -> Result<Expected, String> {
    let mut slots = case.slots.clone();
    let mut units: Vec<Option<Unit>> = vec![None; slots.len()];
    for step in &case.steps {
        run_step(step, &mut slots)?;
        for (position, (place, operand)) in step.operands.iter().zip(operands(step.op)).enumerate() {
            if let (Place::Arg(slot), true) = (place, operand.access != Access::READ) {
                let unit = unit(step, position, &slots, &units);
                units[*slot] = Some(unit);
            }
        }
    }
    Ok(Expected { slots, units })
}

fn run_step(step: &StepCall, slots: &mut [Slot]) -> Result<(), String> {
    let written = |slot: usize| {
        step.operands
            .iter()
            .zip(operands(step.op))
            .any(|(place, operand)| *place == Place::Arg(slot) && operand.access != Access::READ)
    };
    let mut buffers: Vec<OracleBuf<'_>> = slots
        .iter_mut()
        .enumerate()
        .map(|(index, slot)| match slot.kind {
            _ if written(index) => OracleBuf::Out(&mut slot.bytes),
            Kind::Plain => OracleBuf::Plain(&slot.bytes),
            Kind::Weight(format) => OracleBuf::Weight(format, &slot.bytes),
        })
        .collect();
    let one = Composition { steps: vec![step.clone()], internals: Vec::new() };
    one.run(&mut buffers).map_err(|error| error.to_string())
}

/// The f32 of a slot.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

struct Operands<'a> {
    step: &'a StepCall,
    slots: &'a [Slot],
    units: &'a [Option<Unit>],
}

impl Operands<'_> {
    fn slot(&self, position: usize) -> Option<usize> {
        match self.step.operands.get(position) {
            Some(Place::Arg(slot)) => Some(*slot),
            _ => None,
        }
    }

    fn values(&self, position: usize) -> Vec<f32> {
        self.slot(position)
            .and_then(|slot| self.slots.get(slot))
            .map(|slot| floats(&slot.bytes))
            .unwrap_or_default()
    }

    /// What an input carries along, 0 for an argument.
    fn carried(&self, position: usize, count: usize) -> Vec<f32> {
        let unit = self.slot(position).and_then(|slot| self.units.get(slot)).and_then(Option::as_ref);
        unit.map_or_else(|| vec![0.0; count], |unit| unit.scaled.clone())
    }
}

fn rms(values: &[f32]) -> f32 {
    let squares: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    (squares / values.len().max(1) as f64).sqrt() as f32
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0f32, |largest, v| largest.max(v.abs()))
}

fn unit(step: &StepCall, position: usize, slots: &[Slot], units: &[Option<Unit>]) -> Unit {
    let of = Operands { step, slots, units };
    let out = of.values(position);
    let count = out.len();
    let zeros = || vec![0f32; count];
    match step.op {
        // Decoding multiplies once or twice; a copy keeps its bits.
        Op::Embed => Unit { scaled: out.iter().map(|v| v.abs() * 0.05).collect(), fixed: zeros() },
        Op::Copy | Op::Pack => Unit { scaled: of.carried(0, count), fixed: zeros() },
        Op::Norm => norm_unit(&of, &out),
        Op::Add => {
            let (a, b) = (of.carried(0, count), of.carried(1, count));
            let scaled = out.iter().zip(a.iter().zip(&b)).map(|(v, (a, b))| v.abs() * 0.02 + a + b).collect();
            Unit { scaled, fixed: zeros() }
        }
        Op::Glu => {
            let (gate, up) = (of.values(0), of.values(1));
            let (carried_gate, carried_up) = (of.carried(0, count), of.carried(1, count));
            let scaled = (0..count)
                .map(|i| {
                    let at = |values: &[f32]| values.get(i).copied().unwrap_or(0.0).abs();
                    // The product of both bounds the cancellation in an activation's tail.
                    at(&out)
                        + 0.02 * at(&gate) * at(&up)
                        + 1.2 * at(&carried_gate) * at(&up)
                        + at(&gate) * at(&carried_up)
                })
                .collect();
            Unit { scaled, fixed: zeros() }
        }
        Op::Matmul => matmul_unit(&of, &out),
        Op::RopeAppend => rope_unit(&of, position),
        Op::Attention => attention_unit(&of, &out),
        // Integers: the comparison looks at the operands itself.
        Op::Argmax | Op::Sample | Op::Advance | Op::Relayout => Unit { scaled: zeros(), fixed: zeros() },
    }
}

fn norm_unit(of: &Operands<'_>, out: &[f32]) -> Unit {
    let width = of.step.problem.k.max(1) as usize;
    let (x, weight) = (of.values(0), of.values(1));
    let carried = of.carried(0, out.len());
    let heaviest = largest(&weight) + 1.0;
    let mut scaled = Vec::with_capacity(out.len());
    for ((x, out), carried) in x.chunks(width).zip(out.chunks(width)).zip(carried.chunks(width)) {
        let carry = largest(carried) / rms(x).max(1e-6) * heaviest;
        scaled.extend(out.iter().map(|v| v.abs() + carry));
    }
    Unit { fixed: vec![0.0; scaled.len()], scaled }
}

fn matmul_unit(of: &Operands<'_>, out: &[f32]) -> Unit {
    let (width, outputs) = (of.step.problem.k.max(1) as usize, of.step.problem.n.max(1) as usize);
    let x = of.values(0);
    let carried = of.carried(0, x.len());
    let weight = match of.slot(1).and_then(|slot| of.slots.get(slot)) {
        Some(Slot { kind: Kind::Weight(format), bytes }) => decoded(*format, bytes, width as u64),
        _ => Vec::new(),
    };
    let norms: Vec<f32> = weight.chunks(width).map(|row| rms(row) * (width as f32).sqrt()).collect();
    let bias = of.values(2);
    // A tanh made of exponentials is off by a part of one, so by a part of the cap.
    let cap = match bytemuck::try_pod_read_unaligned::<MatmulScalars>(&of.step.scalars) {
        Ok(block) if of.step.attrs & attr::SOFTCAP != 0 => block.softcap * 0.01,
        _ => 0.0,
    };
    let mut scaled = Vec::with_capacity(out.len());
    for ((x, carried), out) in x.chunks(width).zip(carried.chunks(width)).zip(out.chunks(outputs)) {
        let size = rms(x) + rms(carried);
        scaled.extend(out.iter().enumerate().map(|(n, out)| {
            let norm = norms.get(n).copied().unwrap_or(0.0);
            size * norm + out.abs() + bias.get(n).copied().unwrap_or(0.0).abs() + cap
        }));
    }
    Unit { fixed: vec![0.0; scaled.len()], scaled }
}

/// Angles grow with the position, and so does what is lost of them in f32.
fn rope_unit(of: &Operands<'_>, position: usize) -> Unit {
    let Ok(block) = bytemuck::try_pod_read_unaligned::<RopeAppendScalars>(&of.step.scalars) else {
        return Unit::default();
    };
    let dim = block.head_dim.max(1) as usize;
    let words = |position: usize| -> Vec<u32> { of.values(position).iter().map(|v| v.to_bits()).collect() };
    let (positions, row_seq, tables) = (words(3), words(4), words(5));
    let slack = |position: u32| 1.0 + 0.05 * position as f32;
    let turned = |values: &[f32], width: usize| -> Vec<f32> {
        let rows = values.chunks(width.max(1)).zip(&positions);
        rows.flat_map(|(row, &at)| {
            row.chunks(dim).flat_map(move |head| {
                vec![largest(head) * block.attn_factor.max(1.0) * slack(at); head.len()]
            })
        })
        .collect()
    };
    if position == 0 {
        let scaled = turned(&of.values(0), of.step.problem.n as usize);
        return Unit { fixed: vec![0.0; scaled.len()], scaled };
    }
    // A plane: what was appended may be rounded either way, the rest is kept.
    let source = if position == 7 { 1 } else { 2 };
    let width = of.step.problem.k as usize;
    let values = of.values(source);
    let units = if position == 7 { turned(&values, width) } else { vec![0.0; values.len()] };
    let elements =
        of.slot(position).and_then(|slot| of.slots.get(slot)).map_or(0, |slot| slot.bytes.len() / 2);
    let mut unit = Unit { scaled: vec![0.0; elements], fixed: vec![0.0; elements] };
    for ((row, units), (&at, &seq)) in
        values.chunks(width.max(1)).zip(units.chunks(width.max(1))).zip(positions.iter().zip(&row_seq))
    {
        let entry = seq as usize * block.max_blocks as usize + (at / kv::BLOCK_POSITIONS) as usize;
        let Some(&page) = tables.get(entry) else { continue };
        for (head, (row, units)) in (0..).zip(row.chunks(dim).zip(units.chunks(dim))) {
            let first =
                kv::element(page, head, at % kv::BLOCK_POSITIONS, block.n_head_kv, block.head_dim) as usize;
            let size = largest(row) * block.attn_factor.max(1.0);
            for (i, &scaled) in units.iter().enumerate() {
                if let (Some(s), Some(f)) = (unit.scaled.get_mut(first + i), unit.fixed.get_mut(first + i)) {
                    *s = scaled;
                    *f = size / 1024.0;
                }
            }
        }
    }
    unit
}

/// An average of values is off in proportion to the largest of them.
fn attention_unit(of: &Operands<'_>, out: &[f32]) -> Unit {
    let Ok(block) = bytemuck::try_pod_read_unaligned::<AttentionScalars>(&of.step.scalars) else {
        return Unit::default();
    };
    let plane = of.slot(2).and_then(|slot| of.slots.get(slot)).map_or(&[][..], |slot| &slot.bytes);
    let size = plane.as_chunks::<2>().0.iter().map(|&word| f16::from_le_bytes(word).to_f32());
    let size = size.filter(|value| value.is_finite()).fold(0f32, |largest, v| largest.max(v.abs()));
    let queries = of.values(0);
    // Scores are sums over a head: long heads and large queries lose more.
    let stretch = 1.0 + largest(&queries) * block.scale * (block.head_dim as f32).sqrt() * 0.2;
    let carried = of.carried(0, queries.len());
    let carry = largest(&carried) * size;
    Unit { scaled: vec![size * stretch + carry; out.len()], fixed: vec![0.0; out.len()] }
}

/// The units of a case again, with `unit` carried in by argument `arg`.
pub(crate) fn carried_through(
    case: &Case,
    expected: &Expected,
    arg: usize,
    unit: &Unit,
) -> Vec<(usize, Unit)> {
    let mut units = vec![None; expected.slots.len()];
    units[arg] = Some(unit.clone());
    let mut found = Vec::new();
    for step in &case.steps {
        for (position, (place, operand)) in step.operands.iter().zip(operands(step.op)).enumerate() {
            if let (Place::Arg(slot), true) = (place, operand.access != Access::READ) {
                let unit = self::unit(step, position, &expected.slots, &units);
                units[*slot] = Some(unit.clone());
                found.push((*slot, unit));
            }
        }
    }
    found
}
