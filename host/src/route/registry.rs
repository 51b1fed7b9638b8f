//! What routing asks of a backend's device: its rows, and pure answers about them.

use cajeta_abi::{Capability, FormatId, Geometry, Layout, LayoutId, Problem, Row, Shape};

use super::preference::{Declared, Origin};
use super::rows::RowPreference;

/// The kernel registry of an opened device. Implemented by the device face and by tests.
pub trait Registry {
    /// The backend's rows; a launch names one by its index.
    fn rows(&self) -> &[Row];

    /// The layouts the backend owns; layout `256 + i` is `layouts()[i]`.
    fn layouts(&self) -> &[Layout];

    /// Whether the device can do something.
    fn supports(&self, capability: Capability) -> bool;

    /// Why a row's kernel cannot be used on the device though its capabilities are there.
    fn unusable(&self, row: &str) -> Option<&str> {
        let _ = row;
        None
    }

    /// Whether a row's kernel runs on the device at all.
    fn can_run(&self, row: &Row) -> bool {
        let has = row.needs.iter().all(|need| self.supports(need.capability));
        has && self.unusable(row.name.as_str()).is_none()
    }

    /// What was measured about the rows on the device; the declared order where nothing was.
    fn preference(&self) -> &RowPreference<'_> {
        &Declared
    }

    /// Whether somebody fixed another row of this one's family.
    fn overridden(&self, row: &str) -> bool {
        let _ = row;
        false
    }

    /// How it was found that a launch for each of `sequences` beats one launch over all of them, at
    /// weights of a format. Nothing where one launch pays, as it does unless measured otherwise.
    fn launch_each(&self, format: FormatId, sequences: u64) -> Option<Origin> {
        let _ = (format, sequences);
        None
    }

    /// In how many parts an attention of this launch shape is computed: in the fewest, unless measured
    /// otherwise.
    fn attention_parts(&self, geometry: &Geometry) -> u32 {
        geometry.split_min.max(1)
    }

    /// The launch shape of a row with a launch's scalars, or the backend's sentence why there is none.
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String>;

    /// Bytes of an own layout for the given sources, or the backend's sentence why not.
    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String>;
}
