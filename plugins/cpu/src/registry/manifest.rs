//! Manifests: what the build says of each row's code.

use std::sync::OnceLock;

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{Manifest, NativeOp};
use cajeta_plugin_api::{Answer, Fault};
use sha2::{Digest, Sha256};

use super::{entry, rows, wiring};
use crate::tier::Tier;

/// The manifest of a row for a target.
pub(crate) fn manifest(row: usize, target: &str) -> Answer<Manifest> {
    static MANIFESTS: OnceLock<Vec<Manifest>> = OnceLock::new();
    let entry = entry(row).ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))?;
    // A target runs the code of every tier up to its own.
    let known = Tier::ALL.iter().find(|tier| tier.target() == target);
    if known.is_none_or(|tier| entry.tier > *tier) {
        return Err(Fault::unsupported(format!("no code of tier {} for target {target}", entry.tier.name())));
    }
    let manifests = MANIFESTS.get_or_init(|| (0..rows().len()).map(build).collect());
    manifests.get(row).copied().ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))
}

fn build(row: usize) -> Manifest {
    let Some((entry, spec)) = entry(row).zip(rows().get(row)) else { return Manifest::none() };
    let mut manifest = Manifest::none();
    manifest.target = RStr::from_str(entry.tier.target());
    manifest.compiler = RStr::from_str(env!("CAJETA_CPU_COMPILER"));
    manifest.wave_width = entry.tier.lanes();
    manifest.present |= Manifest::WAVE_WIDTH;
    if let Some(code) = code_digest() {
        manifest.code_hash =
            Sha256::new().chain_update(code).chain_update(spec.name.as_str()).finalize().into();
        manifest.present |= Manifest::CODE_HASH;
    }
    manifest.access = RSlice::from_slice(Vec::leak(wiring::access(spec)));
    let (instruction, tier) = entry.tier.instruction();
    let native = NativeOp {
        operation: RStr::from_str("fma"),
        instruction: RStr::from_str(instruction),
        tier: RStr::from_str(tier),
    };
    if spec.arith == cajeta_plugin_api::abi::Arith::F32 {
        manifest.native = RSlice::from_slice(Vec::leak(vec![native]));
    }
    manifest
}

/// SHA-256 of the file this code was loaded from, read once for all rows; `None` when the system does
/// not say which file that is.
fn code_digest() -> Option<[u8; 32]> {
    static DIGEST: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    *DIGEST.get_or_init(|| Some(Sha256::digest(std::fs::read(crate::sys::own_file()?).ok()?).into()))
}
