//! `cajeta devices`: the devices of every usable backend, with what their drivers say of them.

use cajeta::engine::human_bytes;
use cajeta::route::usable::select_options;
use cajeta_plugin_host::{DeviceSummary, Outcome as Found, explain};
use clap::Args;
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::output;

const EXAMPLES: &str = "\
Examples:
  cajeta devices                            names, drivers, memory
  cajeta devices --json | jq .backends
  cajeta run model.gguf \"Hi\" --device 1    the second device of the backend that serves";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Print backends and devices as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    backends: Vec<Backend<'a>>,
}

#[derive(Serialize)]
struct Backend<'a> {
    backend: &'a str,
    version: &'a str,
    /// Whether a model would run on it now.
    chosen: bool,
    devices: &'a [DeviceSummary],
}

/// Prints the devices.
pub(crate) fn run(flags: Flags) -> Outcome {
    let explanation = explain(&select_options()?)?;
    let backends = explanation.candidates.iter().filter_map(|candidate| match &candidate.outcome {
        Found::Usable { devices, .. } => Some(Backend {
            backend: &candidate.id,
            version: &candidate.version,
            chosen: explanation.chosen.as_deref() == Some(&candidate.id),
            devices,
        }),
        _ => None,
    });
    let report = Report { backends: backends.collect() };
    if flags.json {
        output::json(&report)?;
    } else {
        output::text(&report.backends.iter().map(describe).collect::<String>())?;
    }
    if report.backends.is_empty() {
        return Err(Failure::work("no backend is usable here; `cajeta backends --explain` says why"));
    }
    Ok(())
}

fn describe(backend: &Backend<'_>) -> String {
    let chosen = if backend.chosen { ", models run on it" } else { "" };
    let mut out = format!("{} {}{chosen}\n", backend.backend, backend.version);
    for device in backend.devices {
        let software = if device.software { " (software)" } else { "" };
        out.push_str(&format!("  device {}: {}{software}\n", device.index, device.name));
        let texts = [
            ("target", &device.target),
            ("driver", &device.driver),
            ("uuid", &device.uuid),
            ("power mode", &device.power_mode),
        ];
        for (label, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
            out.push_str(&format!("    {label}: {text}\n"));
        }
        for (label, &value) in &device.facts {
            out.push_str(&format!("    {}: {}\n", label.replace('_', " "), number(label, value)));
        }
    }
    out
}

/// Bytes as people read them, the rest as it is.
fn number(label: &str, value: u64) -> String {
    let is_bytes = label.contains("bytes") && value >= 1024;
    if is_bytes { format!("{value} ({})", human_bytes(value)) } else { value.to_string() }
}
