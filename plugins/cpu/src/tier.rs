//! SIMD tiers: which this machine may use, and their capability numbers.

use cajeta_plugin_api::abi::abi_stable::std_types::RStr;
use cajeta_plugin_api::abi::{Capability, Need};

use crate::settings;

/// A set of vector instructions kernels are built for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Tier {
    /// Whatever the library was compiled for.
    Portable,
    /// AVX2, FMA, F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VL, DQ.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Tier {
    /// Every tier this build has code for, plainest first.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const ALL: &'static [Tier] = &[Tier::Portable, Tier::Avx2, Tier::Avx512];
    /// Every tier this build has code for, plainest first.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) const ALL: &'static [Tier] = &[Tier::Portable];

    /// The name in `CAJETA_CPU_SIMD`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => "avx512",
        }
    }

    /// Ends the names of this tier's rows.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Tier::Portable => "",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => "Avx2",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => "Avx512",
        }
    }

    /// The code target a device whose best tier this is reports.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Tier::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => "x86_64-avx2",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => "x86_64-avx512",
        }
    }

    /// f32 lanes of a register.
    pub(crate) fn lanes(self) -> u32 {
        match self {
            Tier::Portable => 8,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => 16,
        }
    }

    /// The multiply-add instruction the kernels lower to, and whether it is native.
    pub(crate) fn instruction(self) -> (&'static str, &'static str) {
        match self {
            Tier::Portable => ("multiply, then add", "software"),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => ("vfmadd231ps ymm", "native"),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => ("vfmadd231ps zmm", "native"),
        }
    }

    /// What a row of this tier needs of a device; `None` for the portable tier.
    pub(crate) fn need(self) -> Option<Need> {
        match self {
            Tier::Portable => None,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => Some(Need { capability: AVX2, name: RStr::from_str("avx2+fma+f16c") }),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => Some(Need { capability: AVX512, name: RStr::from_str("avx512f+bw+vl+dq") }),
        }
    }

    /// The tier behind a capability number.
    pub(crate) fn of_capability(capability: Capability) -> Option<Tier> {
        Tier::ALL.iter().copied().find(|tier| tier.need().is_some_and(|need| need.capability == capability))
    }

    /// Whether the CPU and the OS (which must save the registers) have it, and
    /// `CAJETA_CPU_SIMD` does not forbid it.
    pub(crate) fn supported(self) -> bool {
        self <= ceiling() && self.in_hardware()
    }

    fn in_hardware(self) -> bool {
        match self {
            Tier::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => avx2(),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            }
        }
    }

    /// The widest tier this machine may use.
    pub(crate) fn best() -> Tier {
        Tier::ALL.iter().copied().rev().find(|tier| tier.supported()).unwrap_or(Tier::Portable)
    }
}

#[cfg(target_arch = "x86_64")]
const AVX2: Capability = Capability(Capability::PRIVATE.0);
#[cfg(target_arch = "x86_64")]
const AVX512: Capability = Capability(Capability::PRIVATE.0 + 1);

#[cfg(target_arch = "x86_64")]
fn avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// The widest tier `CAJETA_CPU_SIMD` allows; a name nobody knows was refused when the backend was probed.
fn ceiling() -> Tier {
    let asked = settings::ceiling().ok().flatten();
    asked.unwrap_or_else(|| Tier::ALL.last().copied().unwrap_or(Tier::Portable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_lead_back_to_their_tier() {
        for &tier in Tier::ALL {
            if let Some(need) = tier.need() {
                assert_eq!(Tier::of_capability(need.capability), Some(tier));
                assert!(need.capability >= Capability::PRIVATE);
            }
        }
        assert_eq!(Tier::of_capability(Capability::IMPORT), None);
        assert!(Tier::best().supported());
    }
}
