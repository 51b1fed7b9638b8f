//! The dimensions of a synthetic model: those of published models by name, or any that fit together.

use super::{SynthError, vocabulary};
use crate::config::RopeScaling;

/// Every dimension of a dense decoder.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of `ModelConfig`")]
pub struct Shape {
    pub name: String,
    pub n_vocab: u32,
    pub n_ctx_train: u32,
    pub n_embd: u32,
    pub n_layer: u32,
    pub n_ff: u32,
    pub n_head: u32,
    pub n_head_kv: u32,
    pub head_dim: u32,
    pub rope_base: f32,
    /// Per-dimension frequency factors, written as `rope_freqs.weight`.
    pub rope_factors: Option<RopeFactors>,
    /// Scaling written into the metadata.
    pub rope_scaling: RopeScaling,
    /// Positions that layers with a window see; the architecture decides which layers those are.
    pub sliding_window: Option<u32>,
    pub norm_eps: f32,
    /// Whether the embedding table is also the output head.
    pub tied: bool,
}

/// How Llama 3.1 and later stretch their context: wavelengths beyond `original_ctx / low` are divided
/// by `factor`, those under `original_ctx / high` kept, the rest blended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "explained together above")]
pub struct RopeFactors {
    pub factor: f32,
    pub low: f32,
    pub high: f32,
    pub original_ctx: u32,
}

impl Shape {
    /// The names that [`Shape::named`] knows.
    pub const NAMES: [&'static str; 4] = ["llama-3.1-8b", "llama-3.2-1b", "smollm2-135m", "tiny"];

    /// The dimensions of a published model, or of `tiny`, which suits tests.
    ///
    /// # Errors
    /// When the name is not one of [`Shape::NAMES`].
    pub fn named(name: &str) -> Result<Shape, SynthError> {
        let llama3 = |factor| Some(RopeFactors { factor, low: 1.0, high: 4.0, original_ctx: 8192 });
        let tiny = Shape {
            name: name.into(),
            n_vocab: 1024,
            n_ctx_train: 512,
            n_embd: 256,
            n_layer: 2,
            n_ff: 512,
            n_head: 4,
            n_head_kv: 2,
            head_dim: 64,
            rope_base: 10_000.0,
            rope_factors: None,
            rope_scaling: RopeScaling::None,
            sliding_window: None,
            norm_eps: 1e-5,
            tied: false,
        };
        match name {
            "tiny" => Ok(tiny),
            "llama-3.1-8b" => Ok(Shape {
                n_vocab: 128_256,
                n_ctx_train: 131_072,
                n_embd: 4096,
                n_layer: 32,
                n_ff: 14_336,
                n_head: 32,
                n_head_kv: 8,
                head_dim: 128,
                rope_base: 500_000.0,
                rope_factors: llama3(8.0),
                ..tiny
            }),
            "llama-3.2-1b" => Ok(Shape {
                n_vocab: 128_256,
                n_ctx_train: 131_072,
                n_embd: 2048,
                n_layer: 16,
                n_ff: 8192,
                n_head: 32,
                n_head_kv: 8,
                head_dim: 64,
                rope_base: 500_000.0,
                rope_factors: llama3(32.0),
                tied: true,
                ..tiny
            }),
            "smollm2-135m" => Ok(Shape {
                n_vocab: 49_152,
                n_ctx_train: 8192,
                n_embd: 576,
                n_layer: 30,
                n_ff: 1536,
                n_head: 9,
                n_head_kv: 3,
                head_dim: 64,
                rope_base: 100_000.0,
                tied: true,
                ..tiny
            }),
            _ => Err(SynthError::Shape(format!(
                "no shape is called {name:?}; known: {}",
                Shape::NAMES.join(", ")
            ))),
        }
    }

    /// Whether the dimensions fit together and a reader would take the result.
    pub(super) fn check(&self) -> Result<(), SynthError> {
        let refuse = |why: String| Err(SynthError::Shape(why));
        for (what, value, cap) in [
            ("vocabulary", self.n_vocab, 16 << 20),
            ("context length", self.n_ctx_train, 1 << 30),
            ("width", self.n_embd, 1 << 20),
            ("layer count", self.n_layer, 4096),
            ("feed-forward width", self.n_ff, 1 << 22),
            ("head count", self.n_head, 1 << 14),
            ("key/value head count", self.n_head_kv, 1 << 14),
            ("head size", self.head_dim, 1 << 13),
        ] {
            if value == 0 || value > cap {
                return refuse(format!("the {what} is {value}; expected 1 to {cap}"));
            }
        }
        if self.n_vocab < vocabulary::SMALLEST {
            return refuse(format!(
                "the vocabulary is {}; a byte-level one needs {} tokens",
                self.n_vocab,
                vocabulary::SMALLEST
            ));
        }
        if !self.n_head.is_multiple_of(self.n_head_kv) {
            return refuse(format!("{} heads cannot share {} key/value heads", self.n_head, self.n_head_kv));
        }
        if !self.head_dim.is_multiple_of(2) {
            return refuse(format!("the head size {} is odd; rotary embedding turns pairs", self.head_dim));
        }
        let positive = |number: f32| number > 0.0 && number.is_finite();
        if !positive(self.rope_base) || !positive(self.norm_eps) || self.norm_eps > 1.0 {
            return refuse("the rope base and the norm epsilon (at most 1) must be above 0".into());
        }
        if let Some(RopeFactors { factor, low, high, original_ctx }) = self.rope_factors
            && !(positive(factor) && positive(low) && positive(high) && low < high && original_ctx > 0)
        {
            return refuse("rope factors must be above 0, and low under high".into());
        }
        Ok(())
    }
}
