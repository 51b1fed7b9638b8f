//! Probes: comparisons of whole forms, not of members of a family.
//!
//! A probe decides which rows take part ([`cols::pair`], [`fused::parts`]), asks [`super::Tuning`] to
//! settle its question, and says what came of it. What is launched is behind a trait, so that the
//! decision is tested without a device.

mod host_check;
pub mod cols;
pub mod fused;
pub mod once;
pub mod part_wgs;

use cajeta_abi::Row;

/// The row of highest priority that serves; among equals the first by name.
fn first(rows: &[Row], serves: &dyn Fn(&Row) -> bool) -> Option<usize> {
    let found = (0..rows.len()).filter(|&row| serves(&rows[row]));
    found.max_by(|&a, &b| {
        let (a, b) = (&rows[a], &rows[b]);
        a.priority.cmp(&b.priority).then_with(|| b.name.as_str().cmp(a.name.as_str()))
    })
}
