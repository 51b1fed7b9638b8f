//! What the device says of itself.

use cajeta_plugin_api::abi::{Capability, DeviceFacts, Fact, Text};

use crate::settings::Settings;

/// The code target of every row.
pub const TARGET: &str = "reference";

/// The facts of the one device. What a processor does not have stays absent.
pub fn of(settings: &Settings) -> DeviceFacts {
    let mut facts = DeviceFacts {
        name: Text::new("reference device"),
        target: Text::new(TARGET),
        driver: Text::new(env!("CARGO_PKG_VERSION")),
        uuid: Text::new("reference-0"),
        ..DeviceFacts::NONE
    };
    facts.set(Fact::MULTIPROCESSORS, 1);
    facts.set(Fact::DISPATCH_BLOCKS, 1);
    facts.set(Fact::MEMORY_TOTAL, settings.memory);
    facts.set(Fact::MEMORY_FREE, settings.memory);
    facts.set(Fact::LARGEST_ALLOCATION, settings.largest_allocation.unwrap_or(settings.memory));
    facts.set(Fact::BUFFER_ALIGNMENT, u64::from(settings.alignment));
    facts.set(Fact::HOST_VISIBLE, u64::from(settings.map));
    facts.set(Fact::FOREIGN_LOAD, 0);
    if let Some(bytes) = settings.largest_binding {
        facts.set(Fact::LARGEST_BINDING, bytes);
    }
    facts
}

/// Whether the device can do something.
pub fn supports(settings: &Settings, capability: Capability) -> bool {
    match capability {
        Capability::ASYNC | Capability::EVENT_CLOCK | Capability::SPANS | Capability::F16 => true,
        Capability::HOST_VISIBLE => settings.map,
        Capability::IMPORT => settings.import,
        _ => false,
    }
}
