//! `cajeta calibrate`: measures what holds for the whole device, and keeps it.

use std::path::PathBuf;

use cajeta::tune::FOREIGN_PERCENT_MAX;
use cajeta::tune::calibration::{
    CalibrationFact, CalibrationKey, CalibrationRecord, CalibrationStore, Origin, calibrate,
};
use cajeta_plugin_host::{Device, activate};
use clap::Args;
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::model::BackendFlags;
use super::output;
use super::snapshot::Snapshot;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  cajeta calibrate                       measure the device models run on, and keep the result
  cajeta calibrate --show                what is known of it already, and from where
  cajeta calibrate --snapshot dev.json   write a list to ship with the plugin, for a fixed device

A snapshot is a JSON list of records; for several devices, join their lists. A plugin ships it as
cajeta-backend-NAME.calibration.json beside its library, and it comes before what was measured here. A record
holds for exactly its backend, device, driver, compiler and power mode. A file that others may write, of
another schema, or with a value no device can have is warned of and not believed.
Facts that the backend's kernels cannot measure are absent.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Measure nothing; print what is known
    #[arg(long, conflicts_with_all = ["snapshot", "busy"])]
    show: bool,
    /// Write the result to this file, as plugins ship it, and keep it nowhere else
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Keep the result although other processes use the device
    #[arg(long)]
    busy: bool,
    #[command(flatten)]
    backend: BackendFlags,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    record: CalibrationRecord,
    /// `measured`, `shipped` or `platform`.
    origin: &'static str,
    /// The file it came from or was written to.
    path: Option<PathBuf>,
    /// Why it was not kept.
    not_kept: Option<String>,
}

/// Measures, or shows.
pub(crate) fn run(flags: Flags) -> Outcome {
    let device = activate(&flags.backend.resolve()?)?.open()?;
    let store = CalibrationStore::of(device.backend());
    let report = if flags.show { known(&device, &store)? } else { measure(&flags, &device, &store)? };
    if flags.json {
        return output::json(&report);
    }
    output::text(&report.describe())
}

fn known(device: &Device, store: &CalibrationStore) -> Outcome<Report> {
    let key = CalibrationKey::of(device);
    let Some((record, origin)) = store.serve(&key) else {
        return Err(Failure::work(format!("nothing is known of {key}; run `cajeta calibrate`")));
    };
    let (origin, path) = match origin {
        Origin::Shipped(path) => ("shipped", path),
        Origin::Platform(path) => ("platform", path),
    };
    Ok(Report { record, origin, path: Some(path), not_kept: None })
}

fn measure(flags: &Flags, device: &Device, store: &CalibrationStore) -> Outcome<Report> {
    // It takes a while; that there is nowhere to write it is known before.
    let snapshot = flags.snapshot.as_deref().map(Snapshot::at).transpose()?;
    let record = calibrate(device, &mut |what| output::note(&format!("measuring {what}")))?;
    let mut report = Report { record, origin: "measured", path: None, not_kept: None };
    let held = report.record.foreign_load_percent.filter(|&percent| percent >= FOREIGN_PERCENT_MAX);
    let held = held.filter(|_| !flags.busy);
    if let (Some(snapshot), Some(path)) = (snapshot, &flags.snapshot) {
        // A plugin that ships it says it of every such device: better none than one of a busy machine.
        if let Some(percent) = held {
            return Err(Failure::work(format!(
                "the snapshot {} is not written: other processes held {percent} % of the device; measure it \
                 alone, or --busy writes it all the same",
                path.display()
            )));
        }
        // A list of one, to which records of other devices may be added by hand.
        snapshot.write(&(serde_json::to_string_pretty(&[&report.record])? + "\n"))?;
        report.path = Some(path.clone());
        return Ok(report);
    }
    match held {
        Some(percent) => {
            let why = format!("other processes held {percent} % of the device; --busy keeps it all the same");
            report.not_kept = Some(why);
        }
        None => match store.keep(&report.record) {
            Ok(path) => report.path = Some(path),
            Err(error) => report.not_kept = Some(error.to_string()),
        },
    }
    Ok(report)
}

impl Report {
    fn describe(&self) -> String {
        let mut out = format!("{}\n\n", self.record.key);
        let mut table = Table::new(&["fact", "value", "measured with"]);
        for &fact in CalibrationFact::ALL {
            let label = fact.label().to_owned();
            if let Some(measured) = self.record.facts.get(&fact) {
                table.row([label, number(measured.value), measured.by.clone()]);
            } else if let Some(why) = self.record.absent.get(&fact) {
                table.row([label, "absent".into(), why.clone()]);
            }
        }
        out.push_str(&table.to_string());
        let held = self.record.foreign_load_percent.filter(|&percent| percent >= FOREIGN_PERCENT_MAX);
        if let Some(percent) = held.filter(|_| self.not_kept.is_none()) {
            out.push_str(&format!("\nmeasured while other processes held {percent} % of the device\n"));
        }
        if let Some(path) = &self.path {
            let verb = if self.origin == "measured" { "written to" } else { "from" };
            out.push_str(&format!("\n{verb} {}\n", path.display()));
        }
        if let Some(why) = &self.not_kept {
            out.push_str(&format!("\nnot kept: {why}\n"));
        }
        out
    }
}

/// Four digits, with the prefix that makes them readable.
fn number(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match PREFIXES.iter().find(|(size, _)| value >= *size) {
        Some((size, prefix)) => format!("{:.2}{prefix}", value / size),
        None => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_measurement_says_so_wherever_it_is_shown() {
        let text = |backend: &str| backend.to_owned();
        let key = CalibrationKey {
            backend: text("b"),
            device: text("d"),
            driver: text(""),
            compiler: text(""),
            power_mode: text(""),
        };
        let mut record = CalibrationRecord::new(key, 7);
        record.foreign_load_percent = Some(50);
        let mut report = Report { record, origin: "platform", path: None, not_kept: None };
        assert!(report.describe().contains("while other processes held 50 %"), "{}", report.describe());
        report.record.foreign_load_percent = Some(0);
        assert!(!report.describe().contains("held"), "{}", report.describe());
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0.0, 999.0, 1500.0, 2.5e10, 4.81e12].map(number),
            ["0.00", "999.00", "1.50 k", "25.00 G", "4.81 T"]
        );
    }
}
