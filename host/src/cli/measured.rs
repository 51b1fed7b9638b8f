//! What `bench` measured: the lines of its table, and the same as data.

use cajeta::tune::calibration::{CalibrationFact, CalibrationKey, CalibrationStore};
use cajeta_abi::Fact;
use cajeta_plugin_host::Device;
use serde::Serialize;

use super::launches::Launches;

/// What a test times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Prefill,
    Decode,
}

/// Everything `bench` says.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) backend: String,
    pub(crate) device: String,
    pub(crate) load_ms: f64,
    /// What the device's memory can do; absent where neither driver nor calibration says.
    pub(crate) bandwidth: Option<Bandwidth>,
    pub(crate) tests: Vec<Measured>,
}

/// Bytes per second, and who says so.
#[derive(Serialize, Clone, Copy)]
pub(crate) struct Bandwidth {
    pub(crate) bytes_per_second: f64,
    /// `datasheet` or `calibration`.
    pub(crate) origin: &'static str,
}

impl Bandwidth {
    /// From the datasheet if the driver knows it, else as it was measured here or by the plugin's author.
    pub(crate) fn of(device: &Device) -> Option<Bandwidth> {
        if let Some(bytes) = device.facts().get(Fact::BANDWIDTH) {
            return Some(Bandwidth { bytes_per_second: bytes as f64, origin: "datasheet" });
        }
        let (record, _) = CalibrationStore::of(device.backend()).serve(&CalibrationKey::of(device))?;
        let bytes_per_second = record.get(CalibrationFact::BandwidthIdle)?;
        Some(Bandwidth { bytes_per_second, origin: "calibration" })
    }
}

/// One test.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) test: String,
    pub(crate) kind: Kind,
    pub(crate) n: u32,
    pub(crate) batch: u32,
    pub(crate) depth: u32,
    /// What the cache held below the depth.
    pub(crate) fill: Option<&'static str>,
    /// Tokens of all sequences per second: the median, the extremes, and every repetition.
    pub(crate) tokens_per_second: f64,
    pub(crate) slowest: f64,
    pub(crate) fastest: f64,
    pub(crate) repetitions: Vec<f64>,
    /// The rest is of decode steps only, by the median repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<StepFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spans: Option<Launches>,
}

/// One decode step.
#[derive(Serialize)]
pub(crate) struct StepFacts {
    pub(crate) wall_ms: f64,
    /// By the device's clock; absent where it has none, or nothing was queued ahead.
    pub(crate) device_ms: Option<f64>,
    pub(crate) host_submit_us: f64,
    pub(crate) weight_bytes: u64,
    /// Keys and values, at the middle of the test.
    pub(crate) cache_bytes: u64,
    pub(crate) bytes_per_second: f64,
    /// Of the device's bandwidth.
    pub(crate) bandwidth_share: Option<f64>,
}

impl Report {
    /// What is above the table, and its first line.
    pub(crate) fn heading(&self) -> String {
        let bandwidth = self.bandwidth.map(|Bandwidth { bytes_per_second, origin }| {
            format!(", {:.0} GB/s by its {origin}", bytes_per_second / 1e9)
        });
        format!(
            "{} on {}: {}{}, loaded in {:.2} s\n{}\n",
            self.model,
            self.backend,
            self.device,
            bandwidth.unwrap_or_default(),
            self.load_ms / 1000.0,
            line([
                "test",
                "tok/s",
                "from",
                "to",
                "ms/step",
                "device ms",
                "host us",
                "GB/step",
                "GB/s",
                "share"
            ])
        )
    }
}

impl Measured {
    /// Its line of the table, and its kernels.
    pub(crate) fn lines(&self) -> String {
        let mut test = self.test.clone();
        if self.fill == Some("noise") {
            test.push_str(" (noise)");
        }
        let [rate, from, to] =
            [self.tokens_per_second, self.slowest, self.fastest].map(|rate| format!("{rate:.1}"));
        let absent = || "-".to_owned();
        let step = match &self.step {
            None => [(); 6].map(|()| absent()),
            Some(step) => [
                format!("{:.3}", step.wall_ms),
                step.device_ms.map_or_else(absent, |ms| format!("{ms:.3}")),
                format!("{:.1}", step.host_submit_us),
                format!("{:.3}", (step.weight_bytes + step.cache_bytes) as f64 / 1e9),
                format!("{:.0}", step.bytes_per_second / 1e9),
                step.bandwidth_share.map_or_else(absent, |share| format!("{:.1} %", 100.0 * share)),
            ],
        };
        let [wall, device, host, bytes, speed, share] = &step;
        let mut out = line([&test, &rate, &from, &to, wall, device, host, bytes, speed, share]);
        out.push('\n');
        if let Some(spans) = &self.spans {
            out.push_str(&format!("{spans}\n"));
        }
        out
    }
}

/// A line of the table. Lines are printed as their tests end, so widths are fixed.
fn line(cells: [&str; 10]) -> String {
    let [test, rest @ ..] = cells;
    let rest: String = rest.iter().map(|cell| format!(" {cell:>9}")).collect();
    format!("{test:<26}{rest}")
}
