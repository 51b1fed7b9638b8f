//! Random models of every architecture, each with what only it has, against the forward pass of [`crate::forward`].

use cajeta_model_arch::config::RopeScaling;
use cajeta_model_arch::config::rope::Yarn;
use cajeta_model_arch::quant::Format;
use cajeta_model_arch::synth::{Recipe, RopeFactors, Shape};

use crate::random_model::{Apart, RandomModel};

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

/// Writes a random model and holds a backend, many rows at once and single ones, against its exact logits.
fn hold_case(name: &str, backend: &str, case: Case) {
    let Case { architecture, shape, ctx } = case;
    let model = RandomModel::write(architecture, &shape, Recipe::Uniform(Format::F32));
    let ids: Vec<u32> = (0..TOKENS as u32).map(|i| (i * i * 31 + 17 * i + 5) % (shape.n_vocab - 8)).collect();
    let exact = model.exact(ctx, &ids, &(0..TOKENS).collect::<Vec<_>>());
    let mut engine = model.engine(backend, ctx);
    for rows in [TOKENS, 1] {
        let mut apart = Apart::default();
        let visit = &mut |position: usize, logits: &[f32]| apart.add(logits, &exact[position]);
        engine.visit_logits(&ids, rows, visit).expect("scores");
        assert_eq!(apart.seen, TOKENS * shape.n_vocab as usize, "every position is seen");
        // Keys and values are kept as f16; logits spread by 3.
        apart.check(&format!("{name} on {backend}, {rows} rows"), 2e-3, 0.03);
    }
}
