//! One case of a row: a drawn launch, its operands' bytes, the steps of its oracle.
//!
//! Slots are the oracle's memory: first one per argument of the row, then the
//! sources of packed weights, then the values inside the fusion. Everything the
//! oracle reads or writes is in a slot, so that the suite can look at each step.

use cajeta_abi::layout::LayoutKind;
use cajeta_abi::{Access, Layout, LayoutId, Row};
use cajeta_catalog::contract::operands;
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::compose::{Place, StepCall};
use cajeta_catalog::oracle::{Composition, operand_bytes};
use cajeta_catalog::quant::Format;

use crate::data::{self, Filling};
use crate::draw::Drawn;
use crate::random::Random;

/// What a slot's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Plain elements, or a plane.
    Plain,
    /// Rows of a weight.
    Weight(Format),
}

/// A piece of the oracle's memory.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

/// What an argument is on the device.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Arg {
    /// An optional operand this case leaves out.
    Absent,
    /// The slot's bytes as they are.
    Direct,
    /// A weight in a layout of the plugin, made from these slots.
    OwnWeight { layout: LayoutId, sources: Vec<usize>, rows: Vec<u64>, width: u64 },
    /// Activations in a layout of the plugin.
    OwnActivation { layout: LayoutId, rows: u64, width: u64 },
}

/// A case, ready to be expected and run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) row: usize,
    pub(crate) drawn: Drawn,
    pub(crate) args: Vec<Arg>,
    pub(crate) steps: Vec<StepCall>,
    pub(crate) slots: Vec<Slot>,
}

/// Why no case could be made, as a clause.
pub(crate) type Why = String;

impl Case {
    /// Fills the operands of a drawn launch. `given` are bytes of arguments that
    /// are not to be drawn.
    pub(crate) fn new(
        index: usize,
        row: &Row,
        layouts: &[Layout],
        drawn: Drawn,
        given: &[(usize, Vec<u8>)],
        random: &mut Random,
    ) -> Result<Case, Why> {
        let present = |arg: usize| is_present(row, &drawn, arg);
        let composition = Composition::of(row, &drawn.problem, &drawn.scalars, Some(&drawn.attrs), &present)
            .map_err(|error| error.to_string())?;
        let count = row.args.len();
        let mut args = vec![Arg::Absent; count];
        let mut slots = vec![Slot { kind: Kind::Plain, bytes: Vec::new() }; count];
        let mut steps = composition.steps;
        let mut filling = Filling::new(random);
        let mut filled = vec![false; count];

        for step in &mut steps {
            let contract = operands(step.op);
            for (position, operand) in contract.iter().enumerate() {
                let Some(Place::Arg(arg)) = step.operands.get(position).copied() else { continue };
                let Some(spec) = row.args.get(arg) else {
                    return Err(format!("argument {arg} does not exist"));
                };
                let format = Format::from_id(spec.format.0);
                let own = own_layout(layouts, spec.layout);
                if own.is_some_and(|layout| layout.kind == LayoutKind::WEIGHT) {
                    let format = format.ok_or("a weight in a plugin's layout has no known format")?;
                    let bytes = filling.operand(step, position, Some(format))?;
                    let (rows, width) = weight_shape(step);
                    slots.push(Slot { kind: Kind::Weight(format), bytes });
                    step.operands[position] = Place::Arg(slots.len() - 1);
                    match &mut args[arg] {
                        Arg::OwnWeight { sources, rows: all, .. } => {
                            sources.push(slots.len() - 1);
                            all.push(rows);
                        }
                        other => {
                            let (sources, rows) = (vec![slots.len() - 1], vec![rows]);
                            *other = Arg::OwnWeight { layout: spec.layout, sources, rows, width };
                        }
                    }
                    continue;
                }
                if std::mem::replace(&mut filled[arg], true) {
                    continue;
                }
                args[arg] = match own {
                    Some(layout) if layout.kind == LayoutKind::ACTIVATION => Arg::OwnActivation {
                        layout: spec.layout,
                        rows: step.problem.m,
                        width: width_of(step, position),
                    },
                    Some(layout) => {
                        return Err(format!("layout `{}` is of a kind this suite cannot fill", layout.name));
                    }
                    None => Arg::Direct,
                };
                let format = format.filter(|_| spec.layout == LayoutId::GGUF);
                slots[arg] = Slot {
                    kind: format.map_or(Kind::Plain, Kind::Weight),
                    bytes: match given.iter().find(|(of, _)| *of == arg) {
                        Some((_, bytes)) => bytes.clone(),
                        None if operand.access == Access::WRITE => {
                            vec![0xFF; operand_len(step, position, format)?]
                        }
                        None => filling.operand(step, position, format)?,
                    },
                };
            }
        }
        // Values inside the fusion become slots too.
        let first = slots.len();
        for &bytes in &composition.internals {
            slots.push(Slot { kind: Kind::Plain, bytes: vec![0xFF; bytes as usize] });
        }
        for place in steps.iter_mut().flat_map(|step| &mut step.operands) {
            if let Place::Internal(value) = *place {
                *place = Place::Arg(first + value);
            }
        }
        Ok(Case { row: index, drawn, args, steps, slots })
    }

    /// The step and operand that last writes a slot.
    pub(crate) fn writer(&self, slot: usize) -> Option<(&StepCall, usize)> {
        self.steps.iter().rev().find_map(|step| {
            let position =
                step.operands.iter().zip(operands(step.op)).position(|(place, operand)| {
                    *place == Place::Arg(slot) && operand.access != Access::READ
                })?;
            Some((step, position))
        })
    }
}

/// Rows and width of a step's weight.
fn weight_shape(step: &StepCall) -> (u64, u64) {
    (step.problem.n, step.problem.k)
}

/// The width of an activation operand in a plugin's layout.
fn width_of(step: &StepCall, position: usize) -> u64 {
    let out = operands(step.op).get(position).is_some_and(|operand| operand.name == "out");
    if out && step.op == Op::Matmul || step.op == Op::Attention { step.problem.n } else { step.problem.k }
}

/// The plugin's own layout behind an id.
pub(crate) fn own_layout(layouts: &[Layout], id: LayoutId) -> Option<&Layout> {
    id.0.checked_sub(LayoutId::OWN.0).and_then(|index| layouts.get(index as usize))
}

fn operand_len(step: &StepCall, position: usize, format: Option<Format>) -> Result<usize, Why> {
    let bytes = operand_bytes(step.op, &step.problem, &step.scalars, format, position)
        .map_err(|error| error.to_string())?;
    // What `pack` writes is the plugin's to arrange; the values are M x K f32.
    let bytes = bytes.unwrap_or(step.problem.m.saturating_mul(step.problem.k).saturating_mul(4));
    usize::try_from(bytes).map_err(|_| format!("an operand of {bytes} bytes"))
}

/// An argument is left out when every operand it serves is optional and not asked for.
fn is_present(row: &Row, drawn: &Drawn, arg: usize) -> bool {
    row.steps.iter().zip(&drawn.ops).zip(&drawn.attrs).any(|((step, &op), attrs)| {
        step.operands.iter().zip(operands(op)).any(|(wire, operand)| {
            wire.as_arg() == Some(arg as u32) && (operand.attr == 0 || attrs & operand.attr != 0)
        })
    })
}

pub(crate) use data::refill;
