//! The facts of the one device: this machine's processor.

use cajeta_plugin_api::abi::{DeviceFacts, Fact, Text};

use crate::machine;
use crate::tier::Tier;

/// The CPU's facts now.
pub(crate) fn facts() -> DeviceFacts {
    let mut facts = DeviceFacts::NONE;
    let tier = Tier::best();
    let threads = machine::threads() as u64;
    facts.name = Text::new(&machine::processor_name());
    facts.target = Text::new(tier.target());
    facts.set(Fact::MULTIPROCESSORS, threads);
    facts.set(Fact::SIMDS, 1);
    facts.set(Fact::WAVE, u64::from(tier.lanes()));
    facts.set(Fact::THREADS, 1);
    facts.set(Fact::BLOCK_THREADS, 1);
    facts.set(Fact::DISPATCH_BLOCKS, threads);
    let memory = machine::memory();
    facts.set(Fact::MEMORY_TOTAL, memory.total);
    facts.set(Fact::MEMORY_FREE, memory.free);
    facts.set(Fact::LARGEST_ALLOCATION, memory.free);
    facts.set(Fact::INTEGRATED, 1);
    facts.set(Fact::HOST_VISIBLE, 1);
    facts.set(Fact::SOFTWARE, 0);
    // Kernels load at any address, so a weight is used where the file has it.
    facts.set(Fact::BUFFER_ALIGNMENT, 1);
    if let Some(bytes) = machine::last_cache_bytes() {
        facts.set(Fact::L2_BYTES, bytes);
    }
    if let Some(khz) = machine::clock_khz() {
        facts.set(Fact::CLOCK, khz);
    }
    if let Some(percent) = machine::foreign_load_percent() {
        facts.set(Fact::FOREIGN_LOAD, percent);
    }
    facts
}
