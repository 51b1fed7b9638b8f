//! Families: the shapes of one kernel design that a question could be answered with.

use cajeta_abi::{DeviceFacts, Geometry, Manifest, Problem, Row, Test};
use cajeta_catalog::contract;
use cajeta_catalog::oracle::shapes::{row_ops, step_problems};
use cajeta_catalog::scalars::scalar_bytes;
use cajeta_plugin_host::Device;

use super::key;
use crate::filter::{Candidate, Filtered, Grain, KernelFacts, ShapeFilter, XpuLaunchError};

/// Where rows, their manifests and their launch shapes come from.
pub trait KernelSource {
    /// The backend's rows.
    fn rows(&self) -> &[Row];

    /// What the compiler measured about a row's code for this device, if there is such a thing.
    fn manifest(&self, row: usize) -> Option<Manifest>;

    /// Hash of a row's code, if there is one.
    fn code_hash(&self, row: usize) -> Option<[u8; 32]> {
        let manifest = self.manifest(row)?;
        (manifest.present & Manifest::CODE_HASH != 0).then_some(manifest.code_hash)
    }

    /// A row's launch shape, or the backend's sentence why it has none.
    ///
    /// # Errors
    /// The sentence.
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String>;
}

impl KernelSource for Device {
    fn rows(&self) -> &[Row] {
        self.backend().rows()
    }

    fn manifest(&self, row: usize) -> Option<Manifest> {
        // A manifest that cannot be read is an absent one: it prunes nothing.
        self.backend().manifest(row, self.facts().target.as_str()).ok().flatten()
    }

    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String> {
        self.backend().geometry(row, self.facts(), problem, scalars).map_err(|error| error.to_string())
    }
}

/// Whether a row's kernel runs on the device at all: its capabilities are there and nothing speaks
/// against it.
pub type Usable<'a> = dyn Fn(&Row) -> bool + 'a;

/// A family: its label and its members by priority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TileFamily {
    /// `q4kTcTile`.
    pub label: String,
    /// Indices of rows, highest priority first, equals by name.
    pub members: Vec<usize>,
}

impl TileFamily {
    /// The family of the first of some rows that may serve a question, and those of them that are its
    /// members: shapes of one design that take the same arguments, so that any may take another's place.
    /// `None` when there are no rows.
    pub fn among(rows: &[Row], admissible: &[usize]) -> Option<TileFamily> {
        let mut admissible: Vec<usize> = admissible.iter().copied().filter(|&row| row < rows.len()).collect();
        admissible.sort_by(|&a, &b| {
            let (a, b) = (&rows[a], &rows[b]);
            b.priority.cmp(&a.priority).then_with(|| a.name.as_str().cmp(b.name.as_str()))
        });
        let first = *admissible.first()?;
        let lead = &rows[first];
        let members = admissible.into_iter().filter(|&row| row == first || are_shapes(lead, &rows[row]));
        Some(TileFamily { label: key::family_label(lead), members: members.collect() })
    }

    /// The family of a row: itself, and the shapes of its design that `admits` lets through.
    pub fn of_row(rows: &[Row], row: usize, admits: &dyn Fn(&Row) -> bool) -> TileFamily {
        let is_member = |index: usize| {
            let others = rows.get(row).zip(rows.get(index));
            index == row || others.is_some_and(|(lead, other)| are_shapes(lead, other) && admits(other))
        };
        let members: Vec<usize> = (0..rows.len()).filter(|&index| is_member(index)).collect();
        let lead = members.iter().find(|&&index| index == row).and_then(|&index| rows.get(index));
        let label = lead.map(key::family_label).unwrap_or_default();
        // Sorted by priority, the declared order.
        match TileFamily::among(rows, &members) {
            Some(family) => TileFamily { label, ..family },
            None => TileFamily { label, members },
        }
    }

    /// The members that a device can run at a problem and those it cannot, and beside them members without
    /// a launch shape there, each with the backend's reason.
    ///
    /// # Errors
    /// When it can run none, naming each with the rule it fell to.
    pub fn filtered(
        &self,
        source: &dyn KernelSource,
        facts: &DeviceFacts,
        problem: &Problem,
        scalars: &[u8],
    ) -> Result<(Filtered, Vec<String>), XpuLaunchError> {
        let (candidates, refused) = self.candidates(source, problem, scalars);
        match ShapeFilter::new(facts, *problem).apply(&self.label, candidates) {
            Ok(filtered) => Ok((filtered, refused)),
            Err(error) => Err(XpuLaunchError { refused, ..error }),
        }
    }

    /// The members at a problem, and those without a launch shape there with the backend's reason.
    pub fn candidates(
        &self,
        source: &dyn KernelSource,
        problem: &Problem,
        scalars: &[u8],
    ) -> (Vec<Candidate>, Vec<String>) {
        let (mut candidates, mut refused) = (Vec::new(), Vec::new());
        for &row in &self.members {
            let Some(name) = source.rows().get(row).map(|row| row.name.to_string()) else { continue };
            match source.geometry(row, problem, scalars) {
                Err(reason) => refused.push(format!("{name}: no launch shape: {reason}")),
                Ok(geometry) => candidates.push(Candidate {
                    row,
                    name,
                    kernel: KernelFacts::measured(source.manifest(row).as_ref(), &geometry),
                    geometry,
                    grain: Grain::of(problem, &|problem| source.geometry(row, problem, scalars).ok()),
                }),
            }
        }
        (candidates, refused)
    }
}

/// Whether the shape gates of a row hold at a problem, for each of its steps with the step's own scalars.
pub fn gates_hold(row: &Row, problem: &Problem, scalars: &[u8]) -> bool {
    let (Ok(ops), Ok(problems)) = (row_ops(row), step_problems(row, problem, scalars)) else { return false };
    let main = row.problem_step as usize;
    let mut at = 0;
    let mut steps = Vec::with_capacity(ops.len());
    for (op, problem) in ops.into_iter().zip(problems) {
        let end = (at + scalar_bytes(op)).min(scalars.len());
        steps.push((op, problem, scalars.get(at..end).unwrap_or(&[])));
        at = end;
    }
    let order = || std::iter::once(main).chain((0..steps.len()).filter(|&step| step != main));
    row.shape_gates.iter().all(|gate| {
        let subject =
            |(op, problem, scalars): &(_, _, &[u8])| contract::subject(*op, problem, scalars, gate.subject);
        let value = order().filter_map(|step| steps.get(step)).find_map(subject);
        match (value, gate.test, gate.values.first().copied()) {
            (Some(value), Test::MULTIPLE_OF, Some(of)) => of != 0 && value % of == 0,
            (Some(value), Test::AT_MOST, Some(limit)) => value <= limit,
            (Some(value), Test::AT_LEAST, Some(limit)) => value >= limit,
            (Some(value), Test::ONE_OF, _) => gate.values.contains(&value),
            _ => false,
        }
    })
}

/// Whether two rows are shapes of one design.
fn are_shapes(a: &Row, b: &Row) -> bool {
    let argument = |row: &Row, index: usize| {
        row.args.get(index).map(|spec| (spec.layout, spec.dtype, spec.format, spec.access))
    };
    let steps = |row: &Row| -> Vec<_> { row.steps.iter().map(|step| (step.op, step.attrs)).collect() };
    !a.family.is_empty()
        && a.family == b.family
        && a.regime == b.regime
        && a.arith == b.arith
        && a.args.len() == b.args.len()
        && (0..a.args.len()).all(|index| argument(a, index) == argument(b, index))
        && steps(a) == steps(b)
}
