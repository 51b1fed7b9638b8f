//! What the host tells a plugin, and what a device says of itself.

use abi_stable::StableAbi;
use abi_stable::std_types::RStr;

use crate::text::Text;

/// Given to `probe`. Everything here is for information; nothing grants rights.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HostInfo<'a> {
    /// Version of the host, for people.
    pub host_version: RStr<'a>,
    /// Folder this plugin's own files (kernels, records) sit in.
    pub plugin_dir: RStr<'a>,
    /// 1 in the short-lived probe process, 0 in a process that will run models.
    pub probing: u32,
}

/// Bytes of a device's memory now.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MemInfo {
    /// Installed bytes.
    pub total: u64,
    /// Bytes an allocation could still get.
    pub free: u64,
    /// Bytes the largest single allocation may have.
    pub largest_alloc: u64,
}

/// Index of a numeric fact in [`DeviceFacts::values`]. Units in each line.
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fact(pub u32);

macro_rules! facts {
    ($($(#[$meta:meta])* $name:ident = $number:expr, $label:literal;)*) => {
        impl Fact {
            $($(#[$meta])* pub const $name: Fact = Fact($number);)*

            /// Every fact this version names, with its label, in table order.
            pub const ALL: &'static [(Fact, &'static str)] = &[$((Fact::$name, $label)),*];
        }
    };
}

facts! {
    /// Multiprocessors, compute units or cores.
    MULTIPROCESSORS = 0, "multiprocessors";
    /// SIMD units per multiprocessor.
    SIMDS = 1, "simds_per_multiprocessor";
    /// Lanes that run in step (f32 lanes of a vector register on a CPU).
    WAVE = 2, "wave_size";
    /// 32-bit registers per multiprocessor.
    REGISTERS = 3, "registers_per_multiprocessor";
    /// Resident threads per multiprocessor.
    THREADS = 4, "threads_per_multiprocessor";
    /// Shared bytes a block may use without opting in.
    SHARED_BLOCK = 5, "shared_bytes_per_block";
    /// Shared bytes a block may use when it opts in.
    SHARED_BLOCK_OPT_IN = 6, "shared_bytes_per_block_opt_in";
    /// Shared bytes per multiprocessor.
    SHARED_MULTIPROCESSOR = 7, "shared_bytes_per_multiprocessor";
    /// Blocks that fill the device once.
    DISPATCH_BLOCKS = 8, "dispatch_blocks";
    /// Last-level cache in bytes.
    L2_BYTES = 9, "l2_bytes";
    /// Installed memory in bytes.
    MEMORY_TOTAL = 10, "memory_total_bytes";
    /// Free memory in bytes when the facts were read.
    MEMORY_FREE = 11, "memory_free_bytes";
    /// Datasheet bandwidth in bytes per second.
    BANDWIDTH = 12, "datasheet_bytes_per_second";
    /// 1 when the device shares the host's memory.
    INTEGRATED = 13, "integrated";
    /// Percent of the device other processes hold now.
    FOREIGN_LOAD = 14, "foreign_load_percent";
    /// Offsets of buffer arguments are multiples of this many bytes.
    BUFFER_ALIGNMENT = 15, "buffer_alignment";
    /// Bytes the largest buffer argument may span.
    LARGEST_BINDING = 16, "largest_binding_bytes";
    /// Bytes the largest allocation may have.
    LARGEST_ALLOCATION = 17, "largest_allocation_bytes";
    /// 1 when device memory can be mapped by the host.
    HOST_VISIBLE = 18, "host_visible";
    /// Threads the largest block may have.
    BLOCK_THREADS = 19, "threads_per_block";
    /// 1 when the device is a software rasteriser in disguise.
    SOFTWARE = 20, "software";
    /// Nominal clock in kilohertz.
    CLOCK = 21, "clock_khz";
}

/// Facts of one device, read from the driver. Absent is a value: a rule that
/// needs an absent fact prunes nothing.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct DeviceFacts {
    /// Bit `f` set: `values[f]` was answered by the driver.
    pub present: u64,
    /// Indexed by [`Fact`].
    pub values: [u64; 32],
    /// Marketing name.
    pub name: Text,
    /// Code target, for instance `sm_90` or `x86_64-avx512`.
    pub target: Text,
    /// Driver (or runtime) version; empty when there is none.
    pub driver: Text,
    /// Stable identity of the physical device; empty when there is none.
    pub uuid: Text,
    /// Power mode if the device has several; else empty.
    pub power_mode: Text,
}

impl DeviceFacts {
    /// No facts at all.
    pub const NONE: DeviceFacts = DeviceFacts {
        present: 0,
        values: [0; 32],
        name: Text::EMPTY,
        target: Text::EMPTY,
        driver: Text::EMPTY,
        uuid: Text::EMPTY,
        power_mode: Text::EMPTY,
    };

    /// The fact, if the driver answered it.
    pub fn get(&self, fact: Fact) -> Option<u64> {
        let known = fact.0 < 32 && self.present & (1 << fact.0) != 0;
        known.then(|| self.values[fact.0 as usize])
    }

    /// Records a fact. Numbers past the table are ignored.
    pub fn set(&mut self, fact: Fact, value: u64) {
        if let Some(slot) = self.values.get_mut(fact.0 as usize) {
            *slot = value;
            self.present |= 1 << fact.0;
        }
    }
}
