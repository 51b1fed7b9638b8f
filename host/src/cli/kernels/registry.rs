//! Every row of a backend.

use cajeta::tune::key::family_label;
use cajeta_plugin_host::Device;
use serde::Serialize;

use crate::cli::facts::RowFacts;
use crate::cli::failure::Outcome;
use crate::cli::output;
use crate::cli::table::Table;

#[derive(Serialize)]
struct Rows<'a> {
    backend: &'a str,
    rows: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    row: RowFacts,
    /// What `--prefer` knows its family by.
    label: String,
}

/// Prints them.
pub(super) fn print(device: &Device, json: bool) -> Outcome {
    let backend = device.backend();
    let rows = backend.rows().iter();
    let rows =
        rows.map(|row| Listed { row: RowFacts::new(row, backend.layouts()), label: family_label(row) });
    let registry = Rows { backend: backend.id(), rows: rows.collect() };
    if json {
        return output::json(&registry);
    }
    let mut table = Table::new(&[
        "row", "family", "ops", "regime", "formats", "arith", "prio", "needs", "gates", "layouts",
    ]);
    for Listed { row, label } in registry.rows {
        let ops = row.ops.join(" > ");
        let [formats, needs, gates, layouts] =
            [row.formats, row.needs, row.gates, row.layouts].map(|list| list.join(", "));
        let priority = row.priority.to_string();
        table.row([row.name, label, ops, row.regime, formats, row.arith, priority, needs, gates, layouts]);
    }
    output::text(&table.to_string())
}
