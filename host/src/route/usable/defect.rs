//! One defect record: which row goes wrong, on which device and drivers, and how.

use std::fmt;
use std::path::PathBuf;

use cajeta_abi::DeviceFacts;
use cajeta_plugin_host::manifest::is_backend_id;
use cajeta_plugin_host::printable;
use cajeta_plugin_host::probe::{Avoided, driver_version};
use serde::Deserialize;

/// Characters of a reason that are kept.
const REASON_MAX: usize = 300;
/// Most bytes of what a record names.
const NAME_MAX: usize = 300;

/// One record.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    /// The row's name, or its beginning and `*`.
    pub row: String,
    /// The backend; any if absent.
    pub backend: Option<String>,
    /// The code target; any if absent.
    pub target: Option<String>,
    /// A part of the device's name; any if absent.
    pub device: Option<String>,
    /// First driver version with the defect.
    pub driver_from: Option<String>,
    /// First driver version without it.
    pub driver_below: Option<String>,
    /// What goes wrong.
    pub reason: String,
    /// The file it stands in.
    #[serde(skip)]
    pub file: PathBuf,
}

impl Defect {
    /// Makes its texts fit to be printed, or says what is wrong with it.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let versions = [&self.driver_from, &self.driver_below];
        if let Some(bad) = versions.into_iter().flatten().find(|text| driver_version(text).is_empty()) {
            return Err(format!("`{bad}` is no driver version: expected numbers with dots"));
        }
        if let [Some(from), Some(below)] = versions
            && driver_version(from) >= driver_version(below)
        {
            return Err(format!("no driver is from {from} and below {below}"));
        }
        // A reason may be of several lines; refusals print it on one.
        self.reason = printable::line(&self.reason, REASON_MAX);
        let beginning = self.row.strip_suffix('*').unwrap_or(&self.row);
        if beginning.is_empty() || self.reason.is_empty() {
            return Err("a record needs a row's name and a reason".into());
        }
        if beginning.contains('*') {
            return Err(format!("`{}`: `*` stands for the rest of a name, at its end", self.row));
        }
        let names = [Some(&self.row), self.device.as_ref(), self.target.as_ref()];
        let names = names.into_iter().chain(versions.map(Option::as_ref)).flatten();
        if let Some(bad) = names.clone().find(|text| !printable::is_printable(text)) {
            return Err(format!("`{bad}` has a character that steers a terminal"));
        }
        if names.into_iter().any(|text| text.len() > NAME_MAX) {
            return Err(format!("a name has more than {NAME_MAX} bytes"));
        }
        if let Some(bad) = self.backend.as_ref().filter(|backend| !is_backend_id(backend)) {
            return Err(format!("`{bad}` is no backend; one for any names none"));
        }
        Ok(())
    }

    /// What a probe of the plugin must not run.
    pub(super) fn avoided(&self) -> Avoided {
        Avoided {
            row: self.row.clone(),
            target: self.target.clone(),
            device: self.device.clone(),
            driver_from: self.driver_from.clone(),
            driver_below: self.driver_below.clone(),
        }
    }

    /// Whether its name or beginning is this row's.
    pub(super) fn names(&self, row: &str) -> bool {
        self.avoided().names(row)
    }

    /// Whether it holds for a row on a device.
    pub(super) fn holds(&self, row: &str, facts: &DeviceFacts) -> bool {
        self.avoided().holds(row, facts)
    }
}

/// What it holds for, and what goes wrong: `the context is lost (q6kWmmaMw* on Model X, driver 580.65 to below
/// 590, by cajeta-defects-example.toml)`.
impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.reason, self.row)?;
        let on = [("on", &self.device), ("for", &self.target)];
        for (word, of) in on {
            of.iter().try_for_each(|of| write!(f, " {word} {of}"))?;
        }
        match (&self.driver_from, &self.driver_below) {
            (Some(from), Some(below)) => write!(f, ", driver {from} to below {below}")?,
            (Some(from), None) => write!(f, ", driver {from} and later")?,
            (None, Some(below)) => write!(f, ", driver below {below}")?,
            (None, None) => {}
        }
        if let Some(name) = self.file.file_name() {
            write!(f, ", by {}", printable::line(&name.to_string_lossy(), 100))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Defects;
    use super::super::defects::tests::facts;

    #[test]
    fn a_record_holds_for_its_rows_device_and_drivers() {
        let defects = Defects::parse(
            "schema = 1\n[[defect]]\nrow = 'q6kTile*'\ntarget = 't1'\ndevice = 'Model X'\n\
             driver_from = '580.65'\ndriver_below = '590'\nreason = 'lost'\n",
        )
        .expect("reads");
        let holds = |row, name, target, driver| defects.of(row, &facts(name, target, driver)).is_some();
        assert!(holds("q6kTile128", "The Model X 9", "t1", "580.65.06"));
        assert!(holds("q6kTile", "Model X", "t1", "589.99"));
        assert!(holds("q6kTile", "Model X", "t1", ""), "a driver that says nothing may have it");
        for (row, name, target, driver) in [
            ("q4kTile", "Model X", "t1", "580.65"),
            ("q6kTile", "Model Y", "t1", "580.65"),
            ("q6kTile", "Model X", "t2", "580.65"),
            ("q6kTile", "Model X", "t1", "580.9"),
            ("q6kTile", "Model X", "t1", "driver 590.1"),
        ] {
            assert!(!holds(row, name, target, driver), "{row} {name} {target} {driver}");
        }
    }

    #[test]
    fn each_part_of_a_range_is_optional_and_is_said() {
        let parse = |fields: &str| {
            let text = format!("schema = 1\n[[defect]]\nrow = 'a*'\nreason = \"it\\nhangs\"\n{fields}");
            Defects::parse(&text).expect(fields)
        };
        for (fields, said, drivers, not) in [
            ("", "it hangs (a*)", "1 9 580", ""),
            ("driver_from = '2.5'", "it hangs (a*, driver 2.5 and later)", "2.5 2.5.1 2.10 3", "2.4.9 1 2"),
            ("driver_below = '2.5'", "it hangs (a*, driver below 2.5)", "2.4.9 1 2", "2.5 2.5.1 2.10 3"),
            (
                "driver_from = '2'\ndriver_below = '2.5'\ndevice = 'X'\ntarget = 't'",
                "it hangs (a* on X for t, driver 2 to below 2.5)",
                "2 2.4.9 2.4.99",
                "1.9 2.5 20",
            ),
        ] {
            let defects = parse(fields);
            let holds = |driver: &str| defects.of("ab", &facts("X", "t", driver));
            for driver in drivers.split(' ') {
                assert_eq!(holds(driver).map(ToString::to_string).as_deref(), Some(said), "{driver}");
            }
            for driver in not.split(' ').filter(|driver| !driver.is_empty()) {
                assert_eq!(holds(driver), None, "{fields} {driver}");
            }
            assert!(holds("").is_some() && defects.of("b", &facts("X", "t", "")).is_none());
        }
    }
}
