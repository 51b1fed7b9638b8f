//! What a launch of a kernel takes: the compiler's measurements and the launch's own request.

use cajeta_abi::{Geometry, Manifest};

/// Facts of one kernel at one launch shape. What nobody measured is absent.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct KernelFacts {
    /// Threads of a block.
    pub threads: u64,
    /// 32-bit registers of a thread.
    pub registers: Option<u64>,
    /// Bytes a thread spills.
    pub spill_bytes: Option<u64>,
    /// Shared bytes of a block: those fixed in the code and those asked for at launch.
    pub shared_bytes: u64,
    /// Blocks the compiler found resident on a multiprocessor.
    pub resident_groups: Option<u64>,
    /// Most threads the code may be launched with, by its own declaration.
    pub max_threads: Option<u64>,
    /// Most waves, likewise.
    pub max_waves: Option<u64>,
    /// Lanes of a wave the body assumes.
    pub wave_width: Option<u64>,
    /// The only block sizes that launch; empty for any.
    pub feasible_blocks: Vec<u32>,
    /// Hash of the code.
    pub code_hash: Option<[u8; 32]>,
}

impl KernelFacts {
    /// The facts of a row's code at a launch shape. Without a manifest only the launch's request is known.
    pub fn measured(manifest: Option<&Manifest>, geometry: &Geometry) -> KernelFacts {
        let threads = geometry.block.iter().map(|&side| u64::from(side)).fold(1, u64::saturating_mul);
        let launched = u64::from(geometry.static_shared);
        let mut facts = KernelFacts {
            threads,
            shared_bytes: launched + u64::from(geometry.dynamic_shared),
            ..KernelFacts::default()
        };
        let Some(manifest) = manifest else { return facts };
        let known = |bit: u64, value: u32| (manifest.present & bit != 0).then_some(u64::from(value));
        facts.registers = known(Manifest::REGISTERS, manifest.registers);
        facts.spill_bytes = known(Manifest::SPILL, manifest.spill_bytes);
        facts.resident_groups = known(Manifest::RESIDENT_GROUPS, manifest.resident_groups);
        facts.max_waves = known(Manifest::MAX_WAVES, manifest.max_waves);
        facts.wave_width = known(Manifest::WAVE_WIDTH, manifest.wave_width);
        // Code built for one block is not launched with a larger one; 0 stands for any.
        let pinned = known(Manifest::PINNED_BLOCK, manifest.pinned_block);
        let declared = known(Manifest::MAX_THREADS, manifest.max_threads);
        facts.max_threads = [pinned, declared].into_iter().flatten().filter(|&threads| threads != 0).min();
        facts.feasible_blocks = manifest.feasible_blocks.iter().copied().collect();
        facts.code_hash = (manifest.present & Manifest::CODE_HASH != 0).then_some(manifest.code_hash);
        // The compiler and the launch name the same static bytes; whoever names more is believed.
        let compiled = known(Manifest::STATIC_SHARED, manifest.static_shared).unwrap_or(0);
        facts.shared_bytes = compiled.max(launched) + u64::from(geometry.dynamic_shared);
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchs_own_request_is_added_to_the_code_objects() {
        let mut manifest = Manifest::none();
        manifest.present = Manifest::STATIC_SHARED | Manifest::REGISTERS;
        (manifest.static_shared, manifest.registers) = (1024, 255);
        let geometry = Geometry {
            block: [32, 8, 1],
            static_shared: 512,
            dynamic_shared: 97 * 1024,
            ..Geometry::default()
        };
        let facts = KernelFacts::measured(Some(&manifest), &geometry);
        assert_eq!((facts.threads, facts.shared_bytes, facts.registers), (256, 98 * 1024, Some(255)));
        assert_eq!((facts.spill_bytes, facts.code_hash), (None, None), "no bit, no fact");
        let bare = KernelFacts::measured(None, &geometry);
        assert_eq!((bare.threads, bare.shared_bytes, bare.registers), (256, 512 + 97 * 1024, None));
    }

    #[test]
    fn a_pinned_block_is_a_ceiling_and_zero_is_none() {
        let mut manifest = Manifest::none();
        manifest.present = Manifest::PINNED_BLOCK | Manifest::MAX_THREADS;
        (manifest.pinned_block, manifest.max_threads) = (0, 1024);
        let geometry = Geometry { block: [1; 3], ..Geometry::default() };
        assert_eq!(KernelFacts::measured(Some(&manifest), &geometry).max_threads, Some(1024));
        manifest.pinned_block = 256;
        assert_eq!(KernelFacts::measured(Some(&manifest), &geometry).max_threads, Some(256));
    }
}
