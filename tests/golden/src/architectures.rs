//! Random models of every architecture, each with what only it has, against the forward pass of [`crate::forward`].

use cajeta::engine::LlmEngine;
use cajeta_model_arch::config::RopeScaling;
use cajeta_model_arch::config::rope::Yarn;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::quant::Format;
use cajeta_model_arch::synth::{self, Recipe, RopeFactors, Shape, SynthOptions};

use crate::forward::Forward;
use crate::place;

/// Tokens of a text: several windows and several blocks of the cache.
const TOKENS: usize = 70;
/// Layers: a whole group of Gemma 3 and the first layer of the next.
const LAYERS: u32 = 7;

/// A small shape whose numbers are all different.
fn shape() -> Shape {
    let (n_embd, n_ff, n_head, n_head_kv, head_dim) = (96, 160, 6, 2, 32);
    let tiny = Shape::named("tiny").expect("a shape");
    Shape { n_embd, n_ff, n_head, n_head_kv, head_dim, n_layer: LAYERS, rope_base: 5e4, ..tiny }
}

/// A model to be made and the context to run it with.
struct Case {
    architecture: &'static str,
    ctx: u32,
    shape: Shape,
}

/// Every case with its name.
fn cases() -> Vec<(&'static str, Case)> {
    let long = || RopeScaling::LongRope { original_ctx: 96, attn_factor: 1.2 };
    let yarn = || RopeScaling::Yarn(Yarn::usual(4.0, 128));
    let llama3 = || Some(RopeFactors { factor: 8.0, low: 1.0, high: 4.0, original_ctx: 64 });
    let linear = |factor| RopeScaling::Linear { factor };
    let window = |positions| Shape { sliding_window: Some(positions), ..shape() };
    let tied = |shape| Shape { tied: true, ..shape };
    let scaled = |rope_scaling, shape| Shape { rope_scaling, ..shape };
    let case = |name, architecture, ctx, shape| (name, Case { architecture, ctx, shape });
    vec![
        case("llama", "llama", 128, shape()),
        case("llama, tied", "llama", 128, tied(shape())),
        case("mistral with a window", "llama", 128, window(9)),
        case("llama 3 factors", "llama", 128, Shape { rope_factors: llama3(), ..shape() }),
        case("llama, linear", "llama", 128, scaled(linear(4.0), shape())),
        case("llama, yarn", "llama", 512, scaled(yarn(), shape())),
        case("qwen2", "qwen2", 128, shape()),
        case("qwen2, yarn", "qwen2", 512, scaled(yarn(), shape())),
        case("qwen3", "qwen3", 128, tied(shape())),
        case("gemma2", "gemma2", 128, tied(window(9))),
        case("gemma3", "gemma3", 128, tied(window(9))),
        case("gemma3, stretched", "gemma3", 128, scaled(linear(8.0), tied(window(20)))),
        case("phi3", "phi3", 128, shape()),
        case("phi3 with a window", "phi3", 128, window(9)),
        case("phi3, short context", "phi3", 96, scaled(long(), shape())),
        case("phi3, long context", "phi3", 128, scaled(long(), shape())),
    ]
}

/// Holds a backend on every architecture.
///
/// # Panics
/// When logits are further from the exact ones than an f16 cache explains.
pub fn hold(backend: &str) {
    for (name, case) in cases() {
        hold_case(name, backend, case);
    }
}

/// Writes a random model and holds a backend, many rows at once and single ones, against [`Forward`].
fn hold_case(name: &str, backend: &str, case: Case) {
    let Case { architecture, shape, ctx } = case;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let recipe = Recipe::Uniform(Format::F32);
    let options = SynthOptions {
        architecture: architecture.into(),
        shape: shape.clone(),
        recipe,
        seed: 7,
        context: None,
        threads: None,
    };
    synth::write(&options, &path, &mut |_, _| {}).expect("written");
    let file = GgufFile::open(&path).expect("opens");
    let ids: Vec<u32> = (0..TOKENS as u32).map(|i| (i * i * 31 + 17 * i + 5) % (shape.n_vocab - 8)).collect();
    let exact = Forward { file: &file, architecture, shape: &shape, ctx }.logits(&ids);
    let mut options = place::options(&path, backend);
    options.ctx = Some(ctx);
    let mut engine = LlmEngine::load(&options, &mut |_, _| {}).expect("loads");
    for rows in [TOKENS, 1] {
        let (mut worst, mut sum, mut seen) = (0f64, 0f64, 0usize);
        let mut visit = |position: usize, logits: &[f32]| {
            for (got, exact) in logits.iter().zip(&exact[position]) {
                let off = (f64::from(*got) - exact).abs();
                worst = worst.max(if off.is_nan() { f64::INFINITY } else { off });
                sum += off;
                seen += 1;
            }
        };
        engine.visit_logits(&ids, rows, &mut visit).expect("scores");
        let mean = sum / seen.max(1) as f64;
        println!("{name} on {backend}, {rows} rows: mean {mean:.6}, worst {worst:.5}");
        assert_eq!(seen, TOKENS * shape.n_vocab as usize, "every position is seen");
        // Keys and values are kept as f16; logits spread by 3.
        assert!(mean < 2e-3 && worst < 0.03, "{name} on {backend}, {rows} rows: {mean} {worst}");
    }
}
