//! What routing asks of a backend's device: its rows, and pure answers about them.

use cajeta_abi::{Capability, Geometry, Layout, LayoutId, Problem, Row, Shape};

use super::preference::Declared;
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

    /// What was measured about the rows on the device; the declared order where nothing was.
    fn preference(&self) -> &RowPreference<'_> {
        &Declared
    }

    /// The launch shape of a row with a launch's scalars, or the backend's sentence why there is none.
    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String>;

    /// Bytes of an own layout for the given sources, or the backend's sentence why not.
    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String>;
}
