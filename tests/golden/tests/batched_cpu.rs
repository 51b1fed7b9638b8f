//! Many sequences in one step, and steps queued ahead, change no answer: on the processor backend.

use std::ops::ControlFlow;

use cajeta::engine::{LlmEngine, Sampling};
use cajeta_golden::batched::{
    COUNTS, PROMPTS, TALES, TOKENS, ahead_changes_nothing, ids, load, together_is_alone,
};
use cajeta_golden::place;

#[test]
fn together_is_alone_cpu() {
    together_is_alone("cpu", TALES, TOKENS, &COUNTS, false);
    together_is_alone("cpu", TALES, TOKENS, &COUNTS, true);
}

#[test]
fn together_is_alone_smollm2_cpu() {
    together_is_alone("cpu", "smollm2-135m-q4_1", 8, &[3], false);
}

#[test]
fn together_is_alone_gemma3_cpu() {
    together_is_alone("cpu", "gemma3-270m-q4_k_m", 6, &[3], false);
}

/// The small model for up to `max_seqs` sequences.
fn small(max_seqs: u32, pipelined: Option<bool>) -> LlmEngine {
    load(&place::model(TALES).expect("the model is in the repository"), "cpu", max_seqs, pipelined)
}

#[test]
fn ahead_changes_nothing_cpu() {
    ahead_changes_nothing("cpu");
}

#[test]
fn an_answer_ends_at_the_context_however_it_is_computed() {
    for pipelined in [true, false] {
        let mut engine = small(1, Some(pipelined));
        let prompt = ids(&engine, PROMPTS[0]);
        let go = &mut |_| ControlFlow::Continue(());
        let all = engine.generate(
            &prompt,
            None,
            &Sampling { temperature: 3.0, top_k: 0, ..Sampling::default() },
            go,
        );
        let all = all.expect("generates").ids;
        let ended = all.last().is_some_and(|&id| engine.tokenizer().is_end(id));
        assert!(ended || all.len() == 200 - prompt.len() + 1, "{}", all.len());
    }
}

#[test]
fn more_prompts_than_slots_are_refused() {
    let mut engine = small(2, None);
    let prompt = ids(&engine, PROMPTS[0]);
    let asked = [prompt.as_slice(); 3];
    let error = engine.generate_together(&asked, 4, &Sampling::GREEDY).expect_err("three").to_string();
    assert!(error.contains('3') && error.contains("1 to 2"), "{error}");
    let error = engine.generate_together(&asked[..1], 500, &Sampling::GREEDY).expect_err("long").to_string();
    assert!(error.contains("200"), "{error}");
    assert_eq!(engine.generate_together(&[], 4, &Sampling::GREEDY).expect("none"), Vec::<Vec<u32>>::new());
}
