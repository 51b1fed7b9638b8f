//! What there is to say: one struct a kind of record, with its numbers as numbers.
//!
//! Times are milliseconds or nanoseconds as the field's name says. A field that was not measured is
//! absent, never zero.

use serde::{Deserialize, Serialize};

macro_rules! records {
    ($($(#[$meta:meta])* $body:ident = $kind:literal, $level:ident;)*) => {
        /// One record.
        #[derive(Clone, PartialEq, Debug, Serialize)]
        #[serde(tag = "record")]
        pub enum Record {
            $($(#[$meta])* #[serde(rename = $kind)] $body($body),)*
        }

        $(impl From<$body> for Record {
            fn from(body: $body) -> Record {
                Record::$body(body)
            }
        })*

        impl Record {
            /// Every kind there is, as `CAJETA_LOG=cajeta::KIND=info` names it.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of its kind.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Record::$body(_) => $kind,)*
                }
            }

            /// Sends it to whoever listens. Costs a comparison when nobody does.
            pub fn emit(self) {
                match &self {
                    $(Record::$body(body) => {
                        const TARGET: &str = concat!("cajeta::", $kind);
                        if tracing::enabled!(target: TARGET, tracing::Level::$level) {
                            let json = serde_json::to_string(&self).unwrap_or_default();
                            tracing::event!(
                                target: TARGET,
                                tracing::Level::$level,
                                record = json.as_str(),
                                "{body}"
                            );
                        }
                    })*
                }
            }
        }
    };
}

records! {
    /// A route serves a projection for the first time.
    BatchRoute = "batch-route", INFO;
    /// No row serves, or an arm that comes first was refused.
    RouteRefused = "route-refused", INFO;
    /// A family's member was settled for a shape.
    TileChoice = "tile-choice", INFO;
    /// A probe answered.
    Probe = "probe", INFO;
    /// Answers cannot be kept between runs.
    TuneStore = "tune-store", WARN;
    /// An entry of the tune store is of another build, or no entry.
    TuneDropped = "tune-dropped", INFO;
    /// The device's clock was held against the host's.
    EventClock = "event-clock", INFO;
    /// A device-wide fact was measured.
    Calibration = "calibration", INFO;
    /// A load is done.
    LoadPhase = "load-phase", INFO;
    /// Widened copies of weights were wanted.
    WidenBudget = "widen-budget", INFO;
    /// How sequences are decoded.
    DecodeMode = "decode-mode", INFO;
    /// Batched decode is refused.
    DecodeBatch = "decode-batch", INFO;
    /// Prompts are computed one by one.
    PrefillBatchRefused = "prefill-batch-refused", INFO;
    /// How large the cache can grow.
    KvCeiling = "kv-ceiling", INFO;
    /// Where a scheduler's step spent its time.
    SchedPhase = "sched-phase", DEBUG;
    /// Where a batched decode step spent its time.
    DecodeBatchPhase = "decode-batch-phase", DEBUG;
}

/// Which row serves a projection, said once per route.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct BatchRoute {
    /// What it computes: `matmul blk.*.attn_q`.
    pub site: String,
    /// The row.
    pub row: String,
    /// The regime asked for.
    pub regime: String,
    /// Format of the weight, if there is one.
    pub format: Option<String>,
    /// Rows, outputs, inputs.
    pub problem: [u64; 3],
    /// How that came about: `declared`, `measured`, `stored` or `overridden`.
    pub chosen: String,
    /// The row that would serve if nobody had measured or fixed anything, where it is admitted and another.
    pub instead_of: Option<String>,
    /// Why the row was to step back, where it serves because no other is admitted.
    pub despite: Option<String>,
    /// Launches it takes: one, or one for each sequence of a step.
    pub launches: u64,
}

/// Why a row, or every row, did not serve.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct RouteRefused {
    /// What was asked for.
    pub asked: String,
    /// The row that got furthest.
    pub row: String,
    /// The clause that refused it.
    pub clause: String,
    /// The row's own name for the constraint, with the value it saw.
    pub gate: String,
}

/// One measured arm.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArmTiming {
    /// The row, or the form, that was timed.
    pub arm: String,
    /// Median nanoseconds of one launch.
    pub median_ns: f64,
    /// Nanoseconds of one launch in each round, in order.
    pub rounds_ns: Vec<f64>,
}

/// How an answer came about.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answered {
    /// There was nothing to choose between.
    #[default]
    Outright,
    /// The store had it.
    Stored,
    /// It was measured now.
    Measured,
    /// Somebody fixed it.
    Overridden,
    /// Timing was held; the first by priority serves meanwhile.
    Held,
}

/// A family's member, settled for a shape.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct TileChoice {
    /// The family: `q4kTcTile`.
    pub family: String,
    /// Rows, outputs, inputs.
    pub problem: [u64; 3],
    /// The member that serves.
    pub chosen: String,
    /// How that came about.
    pub answered: Answered,
    /// Percent by which it leads, where two were timed.
    pub lead_percent: Option<f64>,
    /// Whether the lead is too small to mean anything.
    pub tie: bool,
    /// What was timed.
    pub timings: Vec<ArmTiming>,
    /// Why the answer is used now and not kept.
    pub not_stored: Option<String>,
    /// Members the device cannot run, with rule, need and limit.
    pub pruned: Vec<String>,
}

/// What a probe found.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Probe {
    /// The key of its answer.
    pub probe: String,
    /// Its answer.
    pub answer: String,
    /// How that came about.
    pub answered: Answered,
    /// What was timed.
    pub timings: Vec<ArmTiming>,
    /// Launches it cost.
    pub launches: u64,
    /// Why the answer is used now and not kept.
    pub not_stored: Option<String>,
}

/// Answers cannot be kept.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct TuneStore {
    /// The device's folder.
    pub folder: String,
    /// What happened, and what it means for the run.
    pub event: String,
}

/// An entry of the tune store that does not serve.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct TuneDropped {
    /// Its name.
    pub entry: String,
    /// Why not.
    pub why: String,
}

/// The device's clock against the host's.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct EventClock {
    /// Host nanoseconds per nanosecond of the device.
    pub scale: Option<f64>,
    /// Why it is not used, where it is not.
    pub refused: Option<String>,
}

/// A device-wide fact that was measured.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Calibration {
    /// Its name.
    pub fact: String,
    /// Its value, in the unit the name says.
    pub value: Option<f64>,
    /// The row it was measured with, or why it could not be.
    pub by: String,
}

/// A load, broken into its parts.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct LoadPhase {
    /// The model's file.
    pub model: String,
    /// The backend.
    pub backend: String,
    /// The device.
    pub device: String,
    /// Header, configuration, tokenizer, plan.
    pub read_ms: f64,
    /// Finding, probing and opening the backend.
    pub device_ms: f64,
    /// Making weights resident.
    pub weights_ms: f64,
    /// Settling shapes and running probes.
    pub prewarm_ms: f64,
    /// The throwaway prefill and decode step.
    pub warm_up_ms: f64,
    /// Everything.
    pub total_ms: f64,
    /// Bytes used where the file's pages are.
    pub mapped_bytes: u64,
    /// Bytes copied to the device.
    pub uploaded_bytes: u64,
    /// Bytes rearranged into a layout of the backend.
    pub packed_bytes: u64,
    /// Tensors rearranged.
    pub packs: u64,
    /// Launches of probes whose answers are stored.
    pub stored_probe_launches: u64,
    /// Launches of probes whose answers are kept in memory only.
    pub memory_probe_launches: u64,
}

/// Which widened copies of weights were made.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct WidenBudget {
    /// Bytes they might take.
    pub budget_bytes: u64,
    /// `auto` or `given`.
    pub policy: String,
    /// Copies that are made.
    pub copies: u64,
    /// What they take.
    pub copied_bytes: u64,
    /// Copies that are not made.
    pub declined: u64,
    /// What they would take.
    pub declined_bytes: u64,
    /// The tensors of the first of those.
    pub first_declined: Option<String>,
}

/// How sequences are decoded.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct DecodeMode {
    /// `single`, `pipelined` or `batched`.
    pub mode: String,
    /// Why.
    pub why: String,
}

/// Why sequences are decoded one by one.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct DecodeBatch {
    /// Why batched decode was refused.
    pub refused: String,
}

/// Why prompts are computed one by one.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct PrefillBatchRefused {
    /// Why.
    pub why: String,
}

/// How large the cache can grow.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct KvCeiling {
    /// Blocks it has.
    pub blocks: u64,
    /// Blocks it may grow to.
    pub most_blocks: u64,
    /// Bytes of one block over all layers.
    pub block_bytes: u64,
    /// What limits it.
    pub limited_by: String,
}

/// Where a scheduler's step spent its time.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct SchedPhase {
    /// Rows of the step.
    pub rows: u64,
    /// Admitting sequences.
    pub admission_ns: u64,
    /// Reserving blocks of the cache.
    pub kv_reserve_ns: u64,
    /// Running the model.
    pub model_ns: u64,
    /// Everything.
    pub total_ns: u64,
}

/// Where a batched decode step spent its time.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct DecodeBatchPhase {
    /// Sequences.
    pub sequences: u64,
    /// Embedding on the host.
    pub embed_ns: u64,
    /// Copying to the device.
    pub upload_ns: u64,
    /// Issuing launches.
    pub issue_ns: u64,
    /// Waiting for the device's tail.
    pub tail_ns: u64,
}
