//! Families: the shapes of one kernel design that a question could be answered with.

use cajeta_abi::{Geometry, Manifest, Problem, Row};
use cajeta_plugin_host::Device;

use super::key;
use crate::filter::{Candidate, Grain, KernelFacts};

/// Where rows, their manifests and their launch shapes come from.
pub trait KernelSource {
    /// The backend's rows.
    fn rows(&self) -> &[Row];

    /// What the compiler measured about a row's code for this device, if there is such a thing.
    fn manifest(&self, row: usize) -> Option<Manifest>;

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
