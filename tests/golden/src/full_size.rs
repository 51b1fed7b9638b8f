//! What no model at hand has: layers as wide as an 8B's, and heads of 128 shared by fours over a 32k context.

use std::ops::ControlFlow;

use cajeta::engine::Sampling;
use cajeta_model_arch::quant::Format;
use cajeta_model_arch::synth::{Mixture, Recipe, Shape};

use crate::random_model::{Apart, RandomModel};

/// A token that follows from its position alone, below `n_vocab`'s control tokens.
fn token(position: usize, n_vocab: u32) -> u32 {
    let mixed = (position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (mixed % u64::from(n_vocab - 8)) as u32
}

/// The dimensions of Llama 3.1 8B with few layers and words.
fn eight_b(n_layer: u32) -> Shape {
    let n_vocab = 512;
    Shape { n_vocab, n_layer, ..Shape::named("llama-3.1-8b").expect("a shape") }
}

/// Two layers of an 8B in the formats its files have, many rows at once and single ones.
///
/// # Panics
/// When logits are further from the exact ones than an f16 cache explains.
pub fn hold_wide_layers(backend: &str) {
    const TOKENS: usize = 24;
    let shape = eight_b(2);
    let model = RandomModel::write("llama", &shape, Recipe::Mixed(Mixture::Q4_K_M));
    let ids: Vec<u32> = (0..TOKENS).map(|position| token(position, shape.n_vocab)).collect();
    let positions: Vec<usize> = (0..TOKENS).collect();
    let exact = model.exact(128, &ids, &positions);
    let mut engine = model.engine(backend, 128);
    for rows in [TOKENS, 1] {
        let mut apart = Apart::default();
        let visit = &mut |position: usize, logits: &[f32]| apart.add(logits, &exact[position]);
        engine.visit_logits(&ids, rows, visit).expect("scores");
        assert_eq!(apart.seen, TOKENS * shape.n_vocab as usize, "every position is seen");
        apart.check(&format!("8B layers on {backend}, {rows} rows"), 2e-3, 0.02);
    }
}

/// A narrow layer with an 8B's heads over 32k positions: chunks of a prompt all the way, then single rows at the end.
///
/// # Panics
/// When logits are further from the exact ones than an f16 cache explains, or greedy tokens are not the
/// exact ones.
pub fn hold_long_context(backend: &str) {
    const CTX: usize = 32 * 1024;
    const SINGLE: usize = 12;
    let (n_embd, n_ff, n_head, n_head_kv) = (256, 256, 4, 1);
    let shape = Shape { n_embd, n_ff, n_head, n_head_kv, ..eight_b(1) };
    let model = RandomModel::write("llama", &shape, Recipe::Uniform(Format::F16));
    // Scores spread by four instead of one: a few of the 32k positions matter, so it matters which.
    model.scale("blk.0.attn_norm.weight", 2.0);
    let mut ids: Vec<u32> = (0..CTX - SINGLE).map(|position| token(position, shape.n_vocab)).collect();
    let last = ids.len() - 1;
    let mut engine = model.engine(backend, CTX as u32);

    let positions =
        [0, 1, 15, 63, 64, 1000, 4095, 4096, 9999, 16_383, 16_384, 25_000, last - 64, last - 1, last];
    let exact = model.exact(CTX as u32, &ids, &positions);
    let mut apart = Apart::default();
    let visit = &mut |position: usize, logits: &[f32]| {
        if let Some(index) = positions.iter().position(|&wanted| wanted == position) {
            apart.add(logits, &exact[index]);
        }
    };
    engine.visit_logits(&ids, 64, visit).expect("scores");
    assert_eq!(apart.seen, positions.len() * shape.n_vocab as usize, "every position is seen");
    apart.check(&format!("32k context on {backend}, chunks"), 4e-3, 0.05);

    // The prompt is in the cache: each token but the first is one row over all of it.
    let go = &mut |_| ControlFlow::Continue(());
    let made = engine.generate(&ids, Some(SINGLE), &Sampling::GREEDY, go).expect("generates").ids;
    ids.extend(&made);
    let positions: Vec<usize> = (0..made.len()).map(|index| last + index).collect();
    for (index, exact) in model.exact(CTX as u32, &ids, &positions).iter().enumerate() {
        let top = exact.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let gap = top - exact[made[index] as usize];
        assert!(gap < 0.05, "token {index} after 32k on {backend} is {gap} below the exact best");
    }
    println!("32k context on {backend}: {} greedy tokens are the exact ones", made.len());
    assert!(made.len() > SINGLE / 2, "only {} tokens were generated", made.len());
}
