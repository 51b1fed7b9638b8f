//! Rows that somebody knows to go wrong: the probing process runs none of them.
//!
//! Which they are is the host's to say ([`AvoidedRows`]), and hangs on the device, which only the probing process
//! opens: so it is handed the rows with what each goes wrong on ([`Avoided`]).

use std::fmt;
use std::path::Path;

use cajeta_abi::DeviceFacts;
use serde::{Deserialize, Serialize};

/// A row, or several, and the devices and drivers it goes wrong on.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Avoided {
    /// The row's name, or its beginning and `*`.
    pub row: String,
    /// The code target; any if absent.
    pub target: Option<String>,
    /// A part of the device's name; any if absent.
    pub device: Option<String>,
    /// First driver version on which it goes wrong.
    pub driver_from: Option<String>,
    /// First driver version on which it does not.
    pub driver_below: Option<String>,
}

impl Avoided {
    /// Whether its name or beginning is this row's.
    pub fn names(&self, row: &str) -> bool {
        match self.row.strip_suffix('*') {
            Some(beginning) => row.starts_with(beginning),
            None => row == self.row,
        }
    }

    /// Whether it holds for a row on a device.
    pub fn holds(&self, row: &str, facts: &DeviceFacts) -> bool {
        let target = self.target.as_deref().is_none_or(|target| target == facts.target.as_str());
        let device = self.device.as_deref().is_none_or(|part| facts.name.as_str().contains(part));
        self.names(row) && target && device && self.in_range(facts.driver.as_str())
    }

    /// A driver that does not say its version cannot be told apart from one with the defect.
    fn in_range(&self, driver: &str) -> bool {
        let driver = driver_version(driver);
        let from = self.driver_from.as_deref().map(driver_version);
        let below = self.driver_below.as_deref().map(driver_version);
        driver.is_empty()
            || (from.is_none_or(|from| driver >= from) && below.is_none_or(|below| driver < below))
    }
}

/// The numbers of the first word that begins with one: `580.65.06` is 580, 65, 6.
pub fn driver_version(text: &str) -> Vec<u64> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == ',');
    let word = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or("");
    word.split('.').map_while(|number| number.parse().ok()).collect()
}

/// Says which rows of a plugin are avoided: by its backend id, and its library.
#[derive(Clone, Copy)]
pub struct AvoidedRows(pub fn(&str, &Path) -> Vec<Avoided>);

impl PartialEq for AvoidedRows {
    fn eq(&self, other: &AvoidedRows) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for AvoidedRows {}

impl fmt::Debug for AvoidedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AvoidedRows")
    }
}

#[cfg(test)]
mod tests {
    use cajeta_abi::Text;

    use super::*;

    #[test]
    fn a_row_is_avoided_where_it_goes_wrong_and_nowhere_else() {
        let avoided = Avoided {
            row: "add*".into(),
            device: Some("Model X".into()),
            driver_below: Some("2.5".into()),
            ..Avoided::default()
        };
        let facts = |name: &str, driver: &str| {
            let [name, driver] = [name, driver].map(Text::new);
            DeviceFacts { name, driver, ..DeviceFacts::NONE }
        };
        assert!(avoided.holds("addWide", &facts("A Model X", "2.4.9")));
        assert!(avoided.holds("add", &facts("A Model X", "")), "a driver that says nothing may have it");
        for (row, name, driver) in
            [("copy", "Model X", "1"), ("add", "Model Y", "1"), ("add", "Model X", "2.5")]
        {
            assert!(!avoided.holds(row, &facts(name, driver)), "{row} {name} {driver}");
        }
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(driver_version("driver 580.65.06, of May"), [580, 65, 6]);
        assert_eq!(driver_version("none"), [0u64; 0]);
    }
}
