//! What a device says of itself, and what it can do.

use cajeta_plugin_api::Answer;
use cajeta_plugin_api::abi::{Capability, DeviceFacts, Fact, Text};
use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::driver::{Context, Driver, device_attribute, device_memory, device_name, device_uuid};

/// Facts of every device the driver shows.
pub(crate) fn all() -> Answer<Vec<DeviceFacts>> {
    let driver = Driver::get()?;
    (0..driver.count() as u32).map(of).collect()
}

/// The code target of a device: its own architecture, with the features only that one has.
pub(crate) fn target(index: u32) -> Answer<String> {
    let (major, minor) = compute_capability(index)?;
    let features = if major >= 9 { "a" } else { "" };
    Ok(format!("sm_{major}{minor}{features}"))
}

fn compute_capability(index: u32) -> Answer<(u64, u64)> {
    let device = Driver::get()?.device(index)?;
    let part = |attribute| device_attribute(device, attribute).unwrap_or(0);
    Ok((
        part(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        part(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    ))
}

fn of(index: u32) -> Answer<DeviceFacts> {
    let driver = Driver::get()?;
    let device = driver.device(index)?;
    let mut facts = DeviceFacts {
        name: Text::new(&device_name(device)),
        target: Text::new(&target(index)?),
        driver: Text::new(&format!("CUDA {}", driver.version())),
        uuid: Text::new(&device_uuid(device)),
        ..DeviceFacts::NONE
    };
    let answered = [
        (Fact::MULTIPROCESSORS, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        (Fact::WAVE, Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        (Fact::REGISTERS, Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
        (Fact::THREADS, Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        (Fact::SHARED_BLOCK, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        (Fact::SHARED_BLOCK_OPT_IN, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        (Fact::SHARED_MULTIPROCESSOR, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        (Fact::DISPATCH_BLOCKS, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        (Fact::L2_BYTES, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        (Fact::BLOCK_THREADS, Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        (Fact::CLOCK, Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        (Fact::INTEGRATED, Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED),
    ];
    for (fact, attribute) in answered {
        if let Some(value) = device_attribute(device, attribute) {
            facts.set(fact, value);
        }
    }
    let memory_khz = device_attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    let bus_bits = device_attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    if let (Some(khz), Some(bits)) = (memory_khz, bus_bits) {
        // Two transfers a clock on every kind of memory these devices have.
        facts.set(Fact::BANDWIDTH, khz.saturating_mul(1000).saturating_mul(2).saturating_mul(bits / 8));
    }
    if let Some(bytes) = device_memory(device) {
        facts.set(Fact::MEMORY_TOTAL, bytes);
        facts.set(Fact::LARGEST_ALLOCATION, bytes);
    }
    // Asking for free memory makes a context, which costs half a gigabyte on every device shown; it is asked only
    // where one is in use.
    if let Some(context) = Context::existing(index) {
        facts.set(Fact::MEMORY_FREE, context.memory()?.0);
    }
    facts.set(Fact::BUFFER_ALIGNMENT, 16);
    facts.set(Fact::HOST_VISIBLE, 0);
    facts.set(Fact::SOFTWARE, 0);
    Ok(facts)
}

/// Whether a device can do something.
pub(crate) fn supports(index: u32, capability: Capability) -> Answer<bool> {
    let (major, _) = compute_capability(index)?;
    Ok(match capability {
        Capability::EVENT_CLOCK | Capability::SPANS | Capability::ASYNC | Capability::F16 => true,
        Capability::INT8_DOT | Capability::MATRIX_F16 | Capability::MATRIX_INT8 => major >= 8,
        Capability::BULK_COPY => major >= 9,
        _ => false,
    })
}
