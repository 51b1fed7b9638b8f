//! The member of a family for a shape: filtered, then remembered or measured.

use cajeta_abi::{DeviceFacts, Problem, Regime, Row};

use super::declared::{is_alone, weight};
use super::error::TuneError;
use super::family::{KernelSource, TileFamily};
use super::key::{self, Heads};
use super::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::filter::{Fill, Padding, Pruned};
use crate::record::{Answered, Probe, Record, TileChoice};

/// Times a family's members.
pub trait FamilyProbe {
    /// Times rows at a problem against each other, in their order.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError>;
}

/// The member that serves a shape.
#[derive(Clone, PartialEq, Debug)]
pub struct ShapeAnswer {
    /// Its row.
    pub row: usize,
    /// How it was found.
    pub answered: Answered,
    /// How much of the device its grid fills, and the split that would.
    pub fill: Option<Fill>,
    /// What it wastes at the shape.
    pub padding: Option<Padding>,
}

/// Chooses members on one device.
#[derive(Clone, Copy)]
pub struct ShapeChoice<'a> {
    tuning: &'a Tuning,
    source: &'a dyn KernelSource,
    facts: &'a DeviceFacts,
}

impl<'a> ShapeChoice<'a> {
    /// Choices among a source's rows, on a device of these facts.
    pub fn new(tuning: &'a Tuning, source: &'a dyn KernelSource, facts: &'a DeviceFacts) -> ShapeChoice<'a> {
        ShapeChoice { tuning, source, facts }
    }

    /// The member for a shape. A family that multiplies one row (or one per sequence) is a mat-vec and is
    /// remembered as its variant; the others by their shape, with the margin beside it.
    ///
    /// # Errors
    /// When no member can be launched, naming each with the rule it fell to; when the device is lost.
    pub fn choose(
        &self,
        family: &TileFamily,
        problem: &Problem,
        scalars: &[u8],
        probe: &mut dyn FamilyProbe,
    ) -> Result<ShapeAnswer, TuneError> {
        let (filtered, refused) = family.filtered(self.source, self.facts, problem, scalars)?;
        let survivors = &filtered.survivors;
        let arms = survivors.iter().map(|survivor| ArmId {
            name: survivor.candidate.name.clone(),
            code: survivor.candidate.kernel.code_hash,
        });
        let first = survivors.first().and_then(|survivor| self.source.rows().get(survivor.candidate.row));
        let variant = first.and_then(|row| variant_key(row, problem));
        let question = Question {
            name: variant.clone().unwrap_or_else(|| {
                let heads = first.and_then(|row| Heads::of(row, scalars));
                key::shape(&family.label, problem, heads)
            }),
            scope: &family.label,
            arms: arms.collect(),
            keep: if variant.is_some() { Keep::Stored } else { Keep::WithMargin },
        };
        let rows: Vec<usize> = survivors.iter().map(|survivor| survivor.candidate.row).collect();
        let settled = self.tuning.settle(&question, &mut || probe.time(&rows, problem, scalars))?;
        let chosen = &survivors[settled.arm.min(survivors.len() - 1)];
        let record: Record = match variant {
            Some(probe) => Probe {
                probe,
                answer: chosen.candidate.name.clone(),
                answered: settled.answered,
                timings: settled.timings,
                launches: settled.launches,
                not_stored: settled.not_stored,
            }
            .into(),
            None => TileChoice {
                family: family.label.clone(),
                problem: [problem.m, problem.n, problem.k],
                chosen: chosen.candidate.name.clone(),
                answered: settled.answered,
                lead_percent: settled.lead_percent,
                tie: settled.tie,
                timings: settled.timings,
                not_stored: settled.not_stored,
                pruned: filtered.pruned.iter().map(Pruned::to_string).chain(refused).collect(),
            }
            .into(),
        };
        record.emit();
        Ok(ShapeAnswer {
            row: chosen.candidate.row,
            answered: settled.answered,
            fill: chosen.fill,
            padding: chosen.padding,
        })
    }
}

/// The name of the question which member of a row's family serves a problem.
pub(super) fn question_name(row: &Row, problem: &Problem, scalars: &[u8]) -> String {
    let shape = || key::shape(&key::family_label(row), problem, Heads::of(row, scalars));
    variant_key(row, problem).unwrap_or_else(shape)
}

/// The key of a mat-vec; `None` for rows that are none.
fn variant_key(row: &Row, problem: &Problem) -> Option<String> {
    let decode = [Regime::DECODE_ROW, Regime::DECODE_COLS].contains(&row.regime);
    // A fusion is a kernel of its own: its shape's key names the family.
    let product = is_alone(row, cajeta_catalog::op::Op::Matmul);
    let format = weight(row)?.format;
    (decode && product).then(|| key::mat_vec_variant(format, problem.n, problem.k, problem.m))
}
