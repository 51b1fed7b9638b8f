//! Which code was measured where: an answer holds for exactly one build id.

use std::fmt;

use cajeta_abi::DeviceFacts;
use sha2::{Digest, Sha256};

/// What a build id is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildParts {
    /// Stable identity of the physical device; its name and target where it has none.
    pub device: String,
    /// Driver version.
    pub driver: String,
    /// Version of the plugin, for rows whose code has no hash.
    pub plugin: String,
}

impl BuildParts {
    /// The parts of a device and the plugin that runs it.
    pub fn new(plugin_version: &str, facts: &DeviceFacts) -> BuildParts {
        let device = match facts.uuid.as_str() {
            "" => format!("{} {}", facts.name, facts.target),
            uuid => uuid.to_owned(),
        };
        BuildParts { device, driver: facts.driver.to_string(), plugin: plugin_version.to_owned() }
    }
}

/// A build id: device, driver, and the code of everything that was compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildId(String);

impl BuildId {
    /// The id over named pieces of code. The order of the pieces does not matter: the same candidates
    /// give the same id however they were found.
    pub fn new<'a>(
        parts: &BuildParts,
        code: impl IntoIterator<Item = (&'a str, Option<[u8; 32]>)>,
    ) -> BuildId {
        let mut digest = Sha256::new();
        // Lengths before texts, so that no two lists of texts run into the same bytes.
        let mut add = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        [&parts.device, &parts.driver, &parts.plugin].into_iter().for_each(|text| add(text.as_bytes()));
        let mut code: Vec<_> = code.into_iter().collect();
        code.sort_unstable();
        for (name, hash) in code {
            add(name.as_bytes());
            add(hash.as_ref().map_or(&[], |hash| hash.as_slice()));
        }
        BuildId(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// The id as it stands in a file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_the_answer_changes_the_id() {
        let parts = BuildParts { device: "uuid".into(), driver: "1.2".into(), plugin: "0.1".into() };
        let code = [("a", Some([1; 32])), ("b", None)];
        let id = BuildId::new(&parts, code);
        assert_eq!(id, BuildId::new(&parts, [code[1], code[0]]), "order does not matter");
        let others = [
            BuildId::new(&BuildParts { device: "other".into(), ..parts.clone() }, code),
            BuildId::new(&BuildParts { driver: "1.3".into(), ..parts.clone() }, code),
            BuildId::new(&BuildParts { plugin: "0.2".into(), ..parts.clone() }, code),
            BuildId::new(&parts, [code[0]]),
            BuildId::new(&parts, [("a", Some([2; 32])), code[1]]),
            BuildId::new(&parts, [("a", None), code[1]]),
        ];
        for other in others {
            assert_ne!(id, other);
        }
    }

    #[test]
    fn a_device_without_identity_goes_by_its_name() {
        let facts = crate::filter::recorded::processor();
        assert_eq!(BuildParts::new("0.1", &facts).device, "processor x86_64-avx512");
    }
}
