//! The CPU backend, every format and path, against exact logits: the bounds of a correct route.

use cajeta::engine::LlmEngine;
use cajeta_golden::fidelity::hold;
use cajeta_golden::place;
use cajeta_golden::reference::{Greedy, read};

macro_rules! models {
    ($($test:ident: $name:literal on $backend:literal, $paths:literal paths;)*) => {$(
        #[test]
        fn $test() {
            hold($name, $backend, $paths);
        }
    )*};
}

models! {
    smollm2_cpu: "smollm2-135m-q4_1" on "cpu", 99 paths;
    gemma3_cpu: "gemma3-270m-q4_k_m" on "cpu", 4 paths;
    tales_f16_cpu: "tales-5m.F16" on "cpu", 99 paths;
    tales_q8_0_cpu: "tales-5m.Q8_0" on "cpu", 99 paths;
    tales_q6_k_cpu: "tales-5m.Q6_K" on "cpu", 99 paths;
    tales_q5_1_cpu: "tales-5m.Q5_1" on "cpu", 99 paths;
    tales_q5_k_m_cpu: "tales-5m.Q5_K_M" on "cpu", 99 paths;
    tales_q5_0_cpu: "tales-5m.Q5_0" on "cpu", 99 paths;
    tales_q4_1_cpu: "tales-5m.Q4_1" on "cpu", 99 paths;
    tales_q4_k_m_cpu: "tales-5m.Q4_K_M" on "cpu", 99 paths;
    tales_q4_0_cpu: "tales-5m.Q4_0" on "cpu", 99 paths;
    tales_iq4_xs_cpu: "tales-5m.IQ4_XS" on "cpu", 99 paths;
    tales_q3_k_m_cpu: "tales-5m.Q3_K_M" on "cpu", 99 paths;
    tales_q2_k_cpu: "tales-5m.Q2_K" on "cpu", 99 paths;
}

/// Perplexity of a longer text, as close to the established engine's as its own distance explains.
#[test]
fn perplexity_of_a_text() {
    let name = "tales-5m.Q4_K_M";
    let (Some(text), Some(greedy), Some(model)) = (
        place::reference("tales-perplexity.txt"),
        place::reference(&format!("{name}.greedy.json")),
        place::model(name),
    ) else {
        println!("skipped: the perplexity text, its reference or the model is missing");
        return;
    };
    let greedy: Greedy = read(&greedy);
    let text = std::fs::read_to_string(text).expect("the text reads");
    let mut engine = LlmEngine::load(&place::options(&model, "cpu"), &mut |_, _| {}).expect("loads");
    let tokenizer = engine.tokenizer();
    let ids = tokenizer.with_bos(tokenizer.encode(&text, cajeta_model_arch::tokenizer::Special::Plain));
    let ids = &ids[..ids.len().min(greedy.perplexity.n_tokens)];
    let scored = engine.score(ids, 1, 64).expect("scores");
    println!(
        "mean nll {:.5}, theirs {:.5} over {} tokens",
        scored.mean_nll,
        greedy.perplexity.mean_nll,
        ids.len()
    );
    assert_eq!(ids.len(), greedy.perplexity.n_tokens);
    assert!((scored.mean_nll - greedy.perplexity.mean_nll).abs() < 0.01);
}
