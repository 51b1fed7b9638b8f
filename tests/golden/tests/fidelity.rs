//! Every backend, format and path against exact logits: the bounds of a correct route.

use cajeta::engine::LlmEngine;
use cajeta_golden::fidelity::{check, check_greedy, measure};
use cajeta_golden::place;
use cajeta_golden::reference::{Exact, Greedy, read};

/// Runs one model on one backend: batched and single bounds, and greedy text.
fn hold(name: &str, backend: &str, greedy_paths: usize) {
    let (Some(greedy), Some(exact)) =
        (place::reference(&format!("{name}.greedy.json")), place::reference(&format!("{name}.exact.json")))
    else {
        println!("skipped: no reference data of {name} (it is in the shared data folder, CAJETA_SHARED)");
        return;
    };
    let Some(model) = place::model(name) else {
        println!("skipped: no model {name} (`cargo xtask test` fetches SmolLM2; the tales are in CAJETA_SHARED)");
        return;
    };
    let (greedy, exact): (Greedy, Exact) = (read(&greedy), read(&exact));
    let mut options = place::options(&model, backend);
    options.ctx = Some(1024);
    let mut engine = LlmEngine::load(&options, &mut |_, _| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(engine.backend().id(), backend);
    for rows in [64, 1] {
        let distance = measure(&mut engine, &greedy, &exact, rows);
        check(&format!("{name} on {backend}, {rows} rows"), &distance, &exact);
    }
    for (path, exact) in greedy.greedy.iter().zip(&exact.greedy).take(greedy_paths) {
        check_greedy(&format!("{name} on {backend}"), &mut engine, path, exact);
    }
}

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
    tales_f16_cpu: "tales-5m.F16" on "cpu", 99 paths;
    tales_q8_0_cpu: "tales-5m.Q8_0" on "cpu", 99 paths;
    tales_q4_1_cpu: "tales-5m.Q4_1" on "cpu", 99 paths;
    tales_q4_k_m_cpu: "tales-5m.Q4_K_M" on "cpu", 99 paths;
    tales_q6_k_cpu: "tales-5m.Q6_K" on "cpu", 99 paths;
    tales_q4_k_m_reference: "tales-5m.Q4_K_M" on "reference", 2 paths;
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
    println!("mean nll {:.5}, theirs {:.5} over {} tokens", scored.mean_nll, greedy.perplexity.mean_nll, ids.len());
    assert_eq!(ids.len(), greedy.perplexity.n_tokens);
    assert!((scored.mean_nll - greedy.perplexity.mean_nll).abs() < 0.01);
}
