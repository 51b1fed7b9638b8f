//! The facts, with the units their names say.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

macro_rules! facts {
    ($($(#[$meta:meta])* $name:ident = $label:literal;)*) => {
        /// A device-wide fact.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum CalibrationFact {
            $($(#[$meta])* #[serde(rename = $label)] $name,)*
        }

        impl CalibrationFact {
            /// Every fact, in the order it is measured.
            pub const ALL: &'static [CalibrationFact] = &[$(CalibrationFact::$name),*];

            /// Its name, which ends in its unit.
            pub const fn label(self) -> &'static str {
                match self {
                    $(CalibrationFact::$name => $label,)*
                }
            }
        }
    };
}

facts! {
    /// Host nanoseconds per nanosecond of the device's clock.
    EventClockScale = "event_clock_scale";
    /// Bytes per second that launches read and write while the host is idle.
    BandwidthIdle = "bandwidth_idle_bytes_per_s";
    /// The same while every second core of the host streams through its own memory.
    BandwidthLoaded = "bandwidth_under_host_load_bytes_per_s";
    /// Bytes one launch must move to reach nine tenths of the idle bandwidth.
    BytesInFlight = "bytes_in_flight";
    /// Operations per second of products in f32.
    PeakF32 = "peak_f32_flops";
    /// Operations per second of products in f16.
    PeakF16 = "peak_f16_flops";
    /// Operations per second of products in bf16.
    PeakBf16 = "peak_bf16_flops";
    /// Operations per second of products in int8.
    PeakInt8 = "peak_int8_ops";
    /// Operations per byte at which f32 products stop waiting for memory.
    RidgeF32 = "ridge_f32_flops_per_byte";
    /// Likewise, f16.
    RidgeF16 = "ridge_f16_flops_per_byte";
    /// Likewise, bf16.
    RidgeBf16 = "ridge_bf16_flops_per_byte";
    /// Likewise, int8.
    RidgeInt8 = "ridge_int8_ops_per_byte";
    /// Nanoseconds of one more launch in a list.
    Launch = "launch_ns";
    /// Nanoseconds from handing over a list of one small launch to knowing that it is done.
    RoundTrip = "round_trip_ns";
    /// Nanoseconds of one more mark on a queue's timeline.
    Event = "event_ns";
    /// Nanoseconds that passing from one queue to another costs beyond staying on one.
    InterQueue = "inter_queue_ns";
}

impl CalibrationFact {
    /// The values a device can have, generously. Whatever is outside is a mistake of a measurement, or of
    /// whoever wrote the file, and not believed.
    pub const fn plausible(self) -> RangeInclusive<f64> {
        use CalibrationFact::*;
        match self {
            EventClockScale => 0.5..=2.0,
            BandwidthIdle | BandwidthLoaded => 1e3..=1e16,
            BytesInFlight => 1.0..=1e13,
            PeakF32 | PeakF16 | PeakBf16 | PeakInt8 => 1e3..=1e20,
            RidgeF32 | RidgeF16 | RidgeBf16 | RidgeInt8 => 1e-9..=1e12,
            // Up to a minute. A difference below what the host's clock can tell apart is none.
            Launch | Event | InterQueue => 0.0..=6e10,
            RoundTrip => 1.0..=6e10,
        }
    }
}

impl fmt::Display for CalibrationFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
