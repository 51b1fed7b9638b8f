//! The `CAJETA_REFERENCE_*` variables: how awkward this device is.

use std::time::Duration;

use cajeta_plugin_api::{Answer, Fault};

/// Whether the rows with layouts of their own and the fusions come before the
/// plain rows or after them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// `plain`: plain rows first.
    Plain,
    /// `all`: the host takes own layouts, packs and fusions wherever it can.
    Own,
}

/// A deliberate defect, for tests of whoever should notice it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// `off_by_one`: products land one place beside.
    OffByOne,
    /// `writes_past_end`: the word after each output is overwritten.
    WritesPastEnd,
    /// `writes_input`: the first byte of each input is changed.
    WritesInput,
    /// `ignores_poison`: fresh memory is zero, whatever was asked.
    IgnoresPoison,
    /// `leaves_unwritten`: an element of each output is left as it was.
    LeavesUnwritten,
    /// `skips_resubmission`: a list runs only the first time.
    SkipsResubmission,
    /// `trusts_sizes`: arguments too short for the problem are taken.
    TrustsSizes,
    /// `forgets_attributes`: what is asked for beside an op's operands is not done.
    ForgetsAttributes,
}

const DEFECTS: [(&str, Defect); 8] = [
    ("off_by_one", Defect::OffByOne),
    ("writes_past_end", Defect::WritesPastEnd),
    ("writes_input", Defect::WritesInput),
    ("ignores_poison", Defect::IgnoresPoison),
    ("leaves_unwritten", Defect::LeavesUnwritten),
    ("skips_resubmission", Defect::SkipsResubmission),
    ("trusts_sizes", Defect::TrustsSizes),
    ("forgets_attributes", Defect::ForgetsAttributes),
];

/// What the variables say. Read when a device is probed, listed or opened; the
/// rows, which never change within a process, keep what was read first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `CAJETA_REFERENCE_MEMORY_MB`: device memory; 4096 by default.
    pub memory: u64,
    /// `CAJETA_REFERENCE_ALIGNMENT`: offsets of buffer arguments; 256 by default.
    pub alignment: u32,
    /// `CAJETA_REFERENCE_LARGEST_BINDING`: bytes a buffer argument may span; no limit by default.
    pub largest_binding: Option<u64>,
    /// `CAJETA_REFERENCE_LARGEST_ALLOCATION`: bytes of one allocation; no limit by default.
    pub largest_allocation: Option<u64>,
    /// `CAJETA_REFERENCE_LATENCY_US`: how much later each ticket completes; 0 by default.
    pub latency: Duration,
    /// `CAJETA_REFERENCE_LOSE_AFTER`: list submissions that still run; then the device is lost.
    pub lose_after: Option<u64>,
    /// `CAJETA_REFERENCE_MAP`: 1 lets the host address device memory; 0 by default.
    pub map: bool,
    /// `CAJETA_REFERENCE_IMPORT`: 1 lets the host import pages; 0 by default.
    pub import: bool,
    /// `CAJETA_REFERENCE_ROWS`: `plain` (default) or `all`.
    pub prefer: Prefer,
    /// `CAJETA_REFERENCE_FAULT`: a deliberate defect; none by default.
    pub defect: Option<Defect>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory: 4096 << 20,
            alignment: 256,
            largest_binding: None,
            largest_allocation: None,
            latency: Duration::ZERO,
            lose_after: None,
            map: false,
            import: false,
            prefer: Prefer::Plain,
            defect: None,
        }
    }
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// A variable with a value that means nothing, by name.
    pub fn read() -> Answer<Settings> {
        Settings::from(|name| std::env::var(format!("CAJETA_REFERENCE_{name}")).ok())
    }

    /// Reads variables by the name after `CAJETA_REFERENCE_`.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Answer<Settings> {
        let number = |name: &str| -> Answer<Option<u64>> {
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { return Ok(None) };
            text.parse().map(Some).map_err(|_| bad(name, &text, "a number"))
        };
        let switch = |name: &str| match number(name)? {
            None | Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(bad(name, &other.to_string(), "0 or 1")),
        };
        let word = |name: &str| variable(name).filter(|text| !text.is_empty());
        let plain = Settings::default();
        let alignment = number("ALIGNMENT")?.unwrap_or(u64::from(plain.alignment));
        let alignment = u32::try_from(alignment)
            .ok()
            .filter(|alignment| alignment.is_power_of_two() && *alignment <= 256)
            .ok_or_else(|| {
                bad(
                    "ALIGNMENT",
                    &alignment.to_string(),
                    "a power of two up to 256, which is how sections of the step state are aligned",
                )
            })?;
        let memory = match number("MEMORY_MB")? {
            None => plain.memory,
            Some(megabytes) => megabytes
                .checked_mul(1 << 20)
                .filter(|&bytes| bytes > 0)
                .ok_or_else(|| bad("MEMORY_MB", &megabytes.to_string(), "at least 1"))?,
        };
        let prefer = match word("ROWS").as_deref() {
            None | Some("plain") => Prefer::Plain,
            Some("all") => Prefer::Own,
            Some(other) => return Err(bad("ROWS", other, "plain or all")),
        };
        let defect = match word("FAULT") {
            None => None,
            Some(text) => {
                let found = DEFECTS.iter().find(|(name, _)| *name == text);
                let names: Vec<&str> = DEFECTS.iter().map(|(name, _)| *name).collect();
                Some(found.ok_or_else(|| bad("FAULT", &text, &names.join(", ")))?.1)
            }
        };
        Ok(Settings {
            memory,
            alignment,
            largest_binding: number("LARGEST_BINDING")?,
            largest_allocation: number("LARGEST_ALLOCATION")?,
            latency: Duration::from_micros(number("LATENCY_US")?.unwrap_or(0)),
            lose_after: number("LOSE_AFTER")?,
            map: switch("MAP")?,
            import: switch("IMPORT")?,
            prefer,
            defect,
        })
    }
}

fn bad(name: &str, got: &str, expected: &str) -> Fault {
    Fault::unavailable(format!(
        "CAJETA_REFERENCE_{name} is `{got}`, expected {expected}; change it or remove it from the environment"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Answer<Settings> {
        Settings::from(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(Settings::from(|_| None), Ok(Settings::default()));
        assert_eq!(Settings::from(|_| Some(String::new())), Ok(Settings::default()));
    }

    #[test]
    fn each_variable_is_taken() {
        assert_eq!(with("MEMORY_MB", "64").unwrap().memory, 64 << 20);
        assert_eq!(with("LATENCY_US", "250").unwrap().latency, Duration::from_micros(250));
        assert_eq!(with("LOSE_AFTER", "3").unwrap().lose_after, Some(3));
        assert_eq!(with("ROWS", "all").unwrap().prefer, Prefer::Own);
        assert_eq!(with("FAULT", "trusts_sizes").unwrap().defect, Some(Defect::TrustsSizes));
        assert!(with("MAP", "1").unwrap().map);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (name, value) in [
            ("ALIGNMENT", "3"),
            ("MEMORY_MB", "0"),
            ("ROWS", "some"),
            ("FAULT", "x"),
            ("MAP", "2"),
            ("LATENCY_US", "-1"),
        ] {
            let fault = with(name, value).unwrap_err();
            assert!(fault.text.contains(name) && fault.text.contains(value), "{fault}");
        }
    }
}
