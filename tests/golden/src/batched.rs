//! Holds answers generated together, and with steps queued ahead, against those of one plain engine.

use std::ops::ControlFlow;
use std::path::Path;

use cajeta::engine::{LlmEngine, Sampling};
use cajeta_model_arch::tokenizer::Special;

use crate::place;

/// A model that is in the repository.
pub const TALES: &str = "tales-5m.Q4_K_M";
/// Prompts of different lengths, one of them across several blocks of the cache.
pub const PROMPTS: [&str; 5] = [
    "Once upon a time, there was a brave mouse named Nora.",
    "One day, a little girl went to the park with her dog. The dog was very happy and ran fast. They saw a big tree and a small bird that sang a song",
    "Hello",
    "The old man had a",
    "Ben and Lily were playing in the garden when it began to",
];
/// Tokens of an answer of the small model: enough for some to end by themselves.
pub const TOKENS: usize = 40;
/// Fewer sequences than an engine has slots, all of them, and again over what was left behind.
pub const COUNTS: [usize; 4] = [2, PROMPTS.len(), 1, 3];
/// Kernels for one row and for many round differently; only logits this close may change places.
const TIE: f32 = 0.02;

/// An engine of 200 positions a sequence.
pub fn load(model: &Path, backend: &str, max_seqs: u32, pipelined: Option<bool>) -> LlmEngine {
    let mut options = place::options(model, backend);
    options.ctx = Some(200);
    // Most prompts take several.
    options.chunk = 7;
    options.max_seqs = max_seqs;
    options.pipelined = pipelined;
    LlmEngine::load(&options, &mut |_, _| {}).unwrap_or_else(|error| panic!("{backend}: {error}"))
}

/// A prompt as tokens.
pub fn ids(engine: &LlmEngine, prompt: &str) -> Vec<u32> {
    let tokenizer = engine.tokenizer();
    tokenizer.with_bos(tokenizer.encode(prompt, Special::Plain))
}

fn generate(engine: &mut LlmEngine, prompt: &[u32], tokens: usize, sampling: &Sampling) -> Vec<u32> {
    let go = &mut |_| ControlFlow::Continue(());
    engine.generate(prompt, Some(tokens), sampling, go).expect("generates").ids
}

/// Panics unless the answers are equal up to the first token that nearly tied with another.
fn same(what: &str, engine: &mut LlmEngine, prompt: &[u32], together: &[u32], alone: &[u32]) {
    let Some(index) = together.iter().zip(alone).position(|(a, b)| a != b) else {
        assert_eq!(together.len(), alone.len(), "{what}");
        return;
    };
    let ids = [prompt, &alone[..index]].concat();
    let scored = engine.score(&ids, 2, 1).expect("scores");
    let top = &scored.steps.last().expect("a step").top;
    assert!(
        top[0].1 - top[1].1 < TIE,
        "{what}: token {index} is {} together and {} alone, of {top:?}",
        together[index],
        alone[index]
    );
}

/// Panics unless prompts generated together have the answers each has alone: of `tokens` tokens, for
/// each of `counts` prompts at once. Prints that it skipped where the model is missing.
pub fn together_is_alone(backend: &str, model: &str, tokens: usize, counts: &[usize], pipelined: bool) {
    let Some(path) = place::model(model) else {
        println!("skipped: no model {model} (`cargo xtask test` fetches SmolLM2 and Gemma 3)");
        return;
    };
    let most = counts.iter().copied().max().unwrap_or(1);
    let mut many = load(&path, backend, most as u32, Some(pipelined));
    let mut one = load(&path, backend, 1, Some(false));
    let prompts: Vec<Vec<u32>> = PROMPTS[..most].iter().map(|prompt| ids(&one, prompt)).collect();
    let alone: Vec<Vec<u32>> =
        prompts.iter().map(|prompt| generate(&mut one, prompt, tokens, &Sampling::GREEDY)).collect();
    for &count in counts {
        let asked: Vec<&[u32]> = prompts[..count].iter().map(Vec::as_slice).collect();
        let answers = many.generate_together(&asked, tokens, &Sampling::GREEDY).expect("generates");
        assert_eq!(answers.len(), count);
        for (index, (answer, alone)) in answers.iter().zip(&alone).enumerate() {
            let what = format!("{model} on {backend}, prompt {index} of {count}, pipelined {pipelined}");
            same(&what, &mut one, &prompts[index], answer, alone);
        }
    }
}

/// Panics unless steps queued ahead give the answers of steps waited for.
pub fn ahead_changes_nothing(backend: &str) {
    let model = place::model(TALES).expect("the model is in the repository");
    let [mut ahead, mut waiting] = [true, false].map(|ahead| load(&model, backend, 1, Some(ahead)));
    let drawn = Sampling { temperature: 1.2, top_k: 0, seed: 11, ..Sampling::default() };
    let mut stopped = 0;
    // One engine for all: an answer that ends leaves a step under way for the next to find.
    for prompt in PROMPTS {
        let prompt = ids(&waiting, prompt);
        for sampling in [Sampling::GREEDY, drawn] {
            let expected = generate(&mut waiting, &prompt, TOKENS, &sampling);
            assert_eq!(generate(&mut ahead, &prompt, TOKENS, &sampling), expected, "{backend}: {prompt:?}");
            stopped += usize::from(expected.len() < TOKENS);
        }
        // One more turn of the same conversation, over what is cached.
        let longer = [&prompt[..], &generate(&mut waiting, &prompt, TOKENS, &Sampling::GREEDY)].concat();
        generate(&mut ahead, &prompt, TOKENS, &Sampling::GREEDY);
        let expected = generate(&mut waiting, &longer, TOKENS, &Sampling::GREEDY);
        assert_eq!(
            generate(&mut ahead, &longer, TOKENS, &Sampling::GREEDY),
            expected,
            "{backend}: second turn"
        );
    }
    println!("{backend}: {stopped} answers ended before their limit");
}
