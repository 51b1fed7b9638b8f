//! Histogram kernels chosen by bin count and feature count: a table with its own query and call.

use cajeta::route::{Capabilities, GateValue, Route, RouteCall, RouteQuery, RouteTable};
use cajeta_abi::abi_stable::std_types::RStr;
use cajeta_abi::{Capability, FormatId, Need, Regime};

/// Bins of bytes.
pub(crate) const U8: FormatId = FormatId(7001);
/// Bins of 16-bit words.
pub(crate) const U16: FormatId = FormatId(7002);
/// Once over all rows.
pub(crate) const BUILD: Regime = Regime(900);
/// The sibling from its parent.
pub(crate) const SUBTRACT: Regime = Regime(901);
/// Atomic adds in shared memory.
pub(crate) const SHARED_ATOMICS: Capability = Capability(Capability::PRIVATE.0 + 1);
/// Atomic adds of 64 bits.
pub(crate) const WIDE_ATOMICS: Capability = Capability(Capability::PRIVATE.0 + 2);

/// What is asked: how many bins, over how many features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binning {
    pub(crate) regime: Regime,
    pub(crate) format: FormatId,
    pub(crate) bins: u64,
    pub(crate) features: u64,
}

impl RouteQuery for Binning {
    fn regime(&self) -> Regime {
        self.regime
    }
    fn format(&self) -> FormatId {
        self.format
    }
    fn describe(&self) -> String {
        format!("{} bins of {} features", self.bins, self.features)
    }
}

/// A histogram about to be built: the data, and the slab that partial counts lie in.
pub(crate) struct Build<'a> {
    pub(crate) query: Binning,
    pub(crate) data: &'a [u8],
    pub(crate) slab_slots: u64,
}

impl RouteCall for Build<'_> {
    type Query = Binning;
    type Launch = Vec<u32>;

    fn query(&self) -> &Binning {
        &self.query
    }
}

/// One variant.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) family: &'static str,
    pub(crate) regime: Regime,
    pub(crate) format: FormatId,
    pub(crate) priority: i32,
    pub(crate) needs: Vec<Need>,
    pub(crate) max_bins: u64,
    pub(crate) feature_step: u64,
    pub(crate) slots: u64,
    /// Counts kept in parts and merged.
    pub(crate) parts: usize,
}

pub(crate) fn need(capability: Capability, name: &'static str) -> Need {
    Need { capability, name: RStr::from_str(name) }
}

pub(crate) fn variant(name: &str, priority: i32) -> Variant {
    Variant {
        name: name.to_owned(),
        family: "",
        regime: BUILD,
        format: U8,
        priority,
        needs: Vec::new(),
        max_bins: 256,
        feature_step: 1,
        slots: 0,
        parts: 1,
    }
}

/// The same for any lifetime of a call.
pub(crate) struct Histogram<'a>(pub(crate) Variant, std::marker::PhantomData<&'a ()>);

impl Histogram<'_> {
    pub(crate) fn of<'a>(variant: Variant) -> Histogram<'a> {
        Histogram(variant, std::marker::PhantomData)
    }
}

impl<'a> Route for Histogram<'a> {
    type Call = Build<'a>;

    fn name(&self) -> &str {
        &self.0.name
    }
    fn family(&self) -> &str {
        self.0.family
    }
    fn regime(&self) -> Regime {
        self.0.regime
    }
    fn format(&self) -> FormatId {
        self.0.format
    }
    fn needs(&self) -> &[Need] {
        &self.0.needs
    }
    fn priority(&self) -> i32 {
        self.0.priority
    }
    fn shape_refusal(&self, query: &Binning) -> Option<&str> {
        if query.bins > self.0.max_bins {
            return Some("bins fit");
        }
        (!query.features.is_multiple_of(self.0.feature_step)).then_some("features aligned")
    }
    fn ready_refusal(&self, call: &Build<'a>) -> Option<&str> {
        (call.slab_slots < self.0.slots).then_some("slab bound")
    }
    fn dispatch(&self, call: &Build<'a>) -> Vec<u32> {
        let mut parts = vec![vec![0u32; call.query.bins as usize]; self.0.parts];
        for (index, &value) in call.data.iter().enumerate() {
            parts[index % self.0.parts][usize::from(value)] += 1;
        }
        let sum = |bin: usize| parts.iter().map(|part| part[bin]).sum();
        (0..call.query.bins as usize).map(sum).collect()
    }
    fn gates(&self, call: &Build<'a>) -> Vec<GateValue> {
        let bins = call.query.bins;
        vec![GateValue { gate: "bins fit".into(), value: bins.to_string(), holds: bins <= self.0.max_bins }]
    }
}

/// A device that can do these things.
pub(crate) struct Can(pub(crate) Vec<Capability>);

impl Capabilities for Can {
    fn supports(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
    fn unusable(&self, row: &str) -> Option<&str> {
        (row == "defective").then_some("a recorded defect")
    }
}

/// The package's table: a fast variant that needs much, one that needs a slab, and one that always goes.
pub(crate) fn variants() -> Vec<Variant> {
    vec![
        Variant {
            needs: vec![need(SHARED_ATOMICS, "shared atomics"), need(WIDE_ATOMICS, "wide atomics")],
            max_bins: 64,
            feature_step: 4,
            ..variant("histShared", 20)
        },
        Variant { slots: 4, parts: 4, ..variant("histSlab", 10) },
        variant("histGlobal", 0),
        Variant { format: U16, max_bins: 65536, ..variant("histGlobalU16", 0) },
        Variant { regime: SUBTRACT, ..variant("histSubtract", 0) },
    ]
}

pub(crate) fn table<'a>(variants: Vec<Variant>) -> RouteTable<Histogram<'a>> {
    RouteTable::of("histogram", variants.into_iter().map(Histogram::of).collect()).expect("distinct names")
}

pub(crate) fn binning(bins: u64, features: u64) -> Binning {
    Binning { regime: BUILD, format: U8, bins, features }
}
