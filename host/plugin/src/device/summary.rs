//! A device's facts in a form that prints and stores.

use std::collections::BTreeMap;

use cajeta_abi::{DeviceFacts, Fact};
use serde::{Deserialize, Serialize};

use crate::printable;

/// Facts of one device by name. A fact the driver did not answer is absent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Position in the backend's list; what `open` takes.
    pub index: u32,
    /// Marketing name.
    pub name: String,
    /// Code target.
    pub target: String,
    /// Driver version; empty when there is none.
    pub driver: String,
    /// Stable identity of the physical device; empty when there is none.
    pub uuid: String,
    /// Power mode; empty when there is one only.
    pub power_mode: String,
    /// Whether it is a software rasteriser, a CPU in disguise.
    pub software: bool,
    /// Numbers by the labels of the ABI.
    pub facts: BTreeMap<String, u64>,
}

impl DeviceSummary {
    /// The summary of the device at `index` of a backend's list.
    pub fn new(index: u32, facts: &DeviceFacts) -> DeviceSummary {
        let text = |text: &cajeta_abi::Text| printable::line(text.as_str(), 124);
        let known = Fact::ALL.iter().filter_map(|&(fact, label)| Some((label.to_owned(), facts.get(fact)?)));
        DeviceSummary {
            index,
            name: text(&facts.name),
            target: text(&facts.target),
            driver: text(&facts.driver),
            uuid: text(&facts.uuid),
            power_mode: text(&facts.power_mode),
            software: facts.get(Fact::SOFTWARE) == Some(1),
            facts: known.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::Text;

    #[test]
    fn absent_facts_stay_absent_and_text_is_cleaned() {
        let mut facts = DeviceFacts { name: Text::new("card\u{1b}[2J"), ..DeviceFacts::NONE };
        facts.set(Fact::WAVE, 32);
        let summary = DeviceSummary::new(1, &facts);
        assert_eq!(summary.name, "card [2J");
        assert_eq!(summary.facts, BTreeMap::from([("wave_size".to_owned(), 32)]));
        assert!(!summary.software);
    }
}
