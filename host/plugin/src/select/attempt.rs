//! One candidate on its way: probe, choice of a device, opening in this process.

use super::restriction::Restriction;
use crate::candidate::{Candidate, Outcome, Refusal, Stage};
use crate::device::Backend;
use crate::probe::{self, ProbeOptions};

/// Probes a candidate that passed the stages which open nothing.
pub(super) fn probe(candidate: &mut Candidate, options: &ProbeOptions) {
    let (Outcome::NotTried { .. }, Some(manifest), Some(library)) =
        (&candidate.outcome, &candidate.checked, &candidate.library)
    else {
        return;
    };
    candidate.outcome = match probe::probe(library, Some(manifest), options) {
        Ok(success) => Outcome::Usable {
            devices: success.devices,
            kernel: success.kernel,
            cached: success.cached,
            probe_ms: u64::try_from(success.took.as_millis()).unwrap_or(u64::MAX),
        },
        Err(refusal) => Outcome::Refused(refusal),
    };
}

/// The device of a usable candidate that may be taken. When there is none the candidate is refused:
/// a software device is a CPU in disguise, and taken only when its backend is named.
pub(super) fn choose_device(
    candidate: &mut Candidate,
    restriction: &Restriction,
    asked: Option<u32>,
) -> Option<u32> {
    let Outcome::Usable { devices, .. } = &candidate.outcome else { return None };
    let named = restriction.names(&candidate.id);
    let refusal = match asked {
        Some(asked) => match devices.iter().find(|device| device.index == asked) {
            Some(device) if named || !device.software => return Some(asked),
            Some(device) => software(&candidate.id, &device.name),
            None => Refusal::new(
                Stage::Device,
                format!("device {asked} was asked for; it lists {}", devices.len()),
                "`cajeta devices` lists them",
            ),
        },
        None => {
            let hardware = devices.iter().find(|device| !device.software);
            match (hardware, devices.first()) {
                (Some(device), _) => return Some(device.index),
                (None, Some(device)) if named => return Some(device.index),
                (None, Some(device)) => software(&candidate.id, &device.name),
                (None, None) => Refusal::new(Stage::Device, "it lists no device", ""),
            }
        }
    };
    candidate.outcome = Outcome::Refused(refusal);
    None
}

fn software(id: &str, name: &str) -> Refusal {
    Refusal::new(
        Stage::Policy,
        format!("{name} is a software device, taken only when named"),
        format!("set {}={id} to take it", super::BACKEND_VARIABLE),
    )
}

/// Opens the candidate in this process and reads its devices again. A failure here refuses it.
pub(super) fn open(candidate: &mut Candidate, device: u32) -> Option<Backend> {
    let opened = try_open(candidate, device);
    opened.map_err(|refusal| candidate.outcome = Outcome::Refused(refusal)).ok()
}

fn try_open(candidate: &Candidate, device: u32) -> Result<Backend, Refusal> {
    let (Some(manifest), Some(library)) = (&candidate.checked, &candidate.library) else {
        return Err(Refusal::new(Stage::Manifest, "its manifest did not read", "reinstall the plugin"));
    };
    let backend = Backend::load(library, Some(manifest), &mut |_| {})?;
    backend.probe(false).map_err(|error| probe::unavailable(Stage::Probe, &error, Some(manifest)))?;
    let devices =
        backend.devices().map_err(|error| probe::unavailable(Stage::Device, &error, Some(manifest)))?;
    if device as usize >= devices.len() {
        return Err(Refusal::new(
            Stage::Device,
            format!("the probe saw device {device}; now it lists {}", devices.len()),
            "check that the device is still there",
        ));
    }
    Ok(backend)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::device::DeviceSummary;
    use crate::search::Source;

    fn candidate(software: &[bool]) -> Candidate {
        let device = |(index, &software): (u32, &bool)| DeviceSummary {
            index,
            name: format!("device {index}"),
            target: String::new(),
            driver: String::new(),
            uuid: String::new(),
            power_mode: String::new(),
            software,
            facts: BTreeMap::new(),
        };
        Candidate {
            id: "cpu".into(),
            version: String::new(),
            manifest: "m".into(),
            library: None,
            source: Source::System,
            outcome: Outcome::Usable {
                devices: (0u32..).zip(software).map(device).collect(),
                kernel: String::new(),
                cached: false,
                probe_ms: 0,
            },
            policy: String::new(),
            checked: None,
        }
    }

    fn choice(software: &[bool], restriction: &Restriction, asked: Option<u32>) -> Result<u32, Refusal> {
        let mut candidate = candidate(software);
        match (choose_device(&mut candidate, restriction, asked), candidate.outcome) {
            (Some(device), Outcome::Usable { .. }) => Ok(device),
            (None, Outcome::Refused(refusal)) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_software_device_is_taken_only_when_named() {
        let named = Restriction::Force("cpu".into());
        assert_eq!(choice(&[true, false], &Restriction::None, None), Ok(1));
        assert_eq!(choice(&[true], &named, None), Ok(0));
        assert_eq!(choice(&[true, false], &named, None), Ok(1));
        assert_eq!(choice(&[true, false], &named, Some(0)), Ok(0));
        for asked in [None, Some(0)] {
            let refusal = choice(&[true], &Restriction::None, asked).unwrap_err();
            assert_eq!(refusal.stage, Stage::Policy);
            assert!(refusal.remedy.contains("CAJETA_XPU_BACKEND=cpu"));
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_refused() {
        let refusal = choice(&[false], &Restriction::None, Some(3)).unwrap_err();
        assert_eq!(refusal.stage, Stage::Device);
    }
}
