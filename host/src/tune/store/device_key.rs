//! Whose answers they are: the backend and the geometry that changes the right answer.

use std::fmt;

use cajeta_abi::{DeviceFacts, Fact};

/// The key of a device. Two devices with one key may use each other's answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeviceKey(Option<String>);

/// The geometry an answer depends on, with its short names.
const GEOMETRY: [(Fact, &str); 6] = [
    (Fact::MULTIPROCESSORS, "mp"),
    (Fact::SIMDS, "simd"),
    (Fact::WAVE, "wave"),
    (Fact::REGISTERS, "reg"),
    (Fact::SHARED_BLOCK_OPT_IN, "shared"),
    (Fact::THREADS, "threads"),
];

impl DeviceKey {
    /// The key of a device of a backend. Without any geometry it is unknown and shares nothing.
    pub fn new(backend: &str, facts: &DeviceFacts) -> DeviceKey {
        let value = |fact| match (facts.get(fact), fact) {
            // Where nothing can be opted into, the plain limit is the limit.
            (None, Fact::SHARED_BLOCK_OPT_IN) => facts.get(Fact::SHARED_BLOCK),
            (value, _) => value,
        };
        if GEOMETRY.iter().all(|&(fact, _)| value(fact).is_none()) {
            return DeviceKey(None);
        }
        let mut key = backend.to_owned();
        for (fact, name) in GEOMETRY {
            match value(fact) {
                Some(value) => key.push_str(&format!("-{name}{value}")),
                None => key.push_str(&format!("-{name}_")),
            }
        }
        DeviceKey(Some(key))
    }

    /// The key that a text spells; `None` for any other text.
    pub fn parse(text: &str) -> Option<DeviceKey> {
        let mut rest = text;
        for (_, name) in GEOMETRY.iter().rev() {
            let (before, part) = rest.rsplit_once('-')?;
            let value = part.strip_prefix(name)?;
            if value != "_" && value.parse::<u64>().ok()?.to_string() != value {
                return None;
            }
            rest = before;
        }
        (!rest.is_empty()).then(|| DeviceKey(Some(text.to_owned())))
    }

    /// The key of a device that says nothing about itself.
    pub fn unknown() -> DeviceKey {
        DeviceKey(None)
    }

    /// The folder's name, before escaping; `None` for an unknown device.
    pub fn known(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.known().unwrap_or("unknown"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::recorded::{gfx1151, h200, processor, rtx_4090};

    #[test]
    fn geometry_makes_the_key_and_names_do_not() {
        let key = DeviceKey::new("first", &rtx_4090());
        assert_eq!(key.known(), Some("first-mp128-simd4-wave32-reg65536-shared101376-threads1536"));
        let renamed = DeviceFacts { name: cajeta_abi::Text::new("another"), ..rtx_4090() };
        assert_eq!(DeviceKey::new("first", &renamed), key);
        for other in [gfx1151(), h200(), processor()] {
            assert_ne!(DeviceKey::new("first", &other), key);
        }
        assert_ne!(DeviceKey::new("second", &rtx_4090()), key);
    }

    #[test]
    fn a_key_is_known_from_other_names() {
        for facts in [rtx_4090(), gfx1151(), h200(), processor()] {
            let key = DeviceKey::new("any-one", &facts);
            assert_eq!(key.known().and_then(DeviceKey::parse), Some(key));
        }
        let known = "cpu-mp16-simd_-wave1-reg_-shared_-threads_";
        assert!(DeviceKey::parse(known).is_some());
        for other in ["", "src", ".git", "-mp_-simd_-wave_-reg_-shared_-threads_", &known[..40], "cpu-mp16"] {
            assert_eq!(DeviceKey::parse(other), None, "{other}");
        }
        for (from, to) in [("mp16", "mp016"), ("mp16", "mp+1"), ("mp16", "mp"), ("simd", "sind"), ("_", "-")]
        {
            assert_eq!(DeviceKey::parse(&known.replacen(from, to, 1)), None, "{to}");
        }
    }

    #[test]
    fn a_part_without_geometry_is_unknown() {
        let key = DeviceKey::new("first", &DeviceFacts::NONE);
        assert_eq!((key.known(), key.to_string().as_str()), (None, "unknown"));
        let known = DeviceKey::new("first", &gfx1151());
        assert_eq!(known.known(), Some("first-mp_-simd_-wave32-reg_-shared65536-threads_"));
    }
}
