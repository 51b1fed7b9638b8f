//! Many sequences in one step, and steps queued ahead, change no answer: on the processor backend.

use std::ops::ControlFlow;

use cajeta::engine::Sampling;
use cajeta_golden::batched::{PROMPTS, ahead_changes_nothing, ids, load, together_is_alone};

#[test]
fn together_is_alone_cpu() {
    together_is_alone("cpu", false);
    together_is_alone("cpu", true);
}

#[test]
fn ahead_changes_nothing_cpu() {
    ahead_changes_nothing("cpu");
}

#[test]
fn an_answer_ends_at_the_context_however_it_is_computed() {
    for pipelined in [true, false] {
        let mut engine = load("cpu", 1, Some(pipelined));
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
    let mut engine = load("cpu", 2, None);
    let prompt = ids(&engine, PROMPTS[0]);
    let asked = [prompt.as_slice(); 3];
    let error = engine.generate_together(&asked, 4, &Sampling::GREEDY).expect_err("three").to_string();
    assert!(error.contains('3') && error.contains("1 to 2"), "{error}");
    let error = engine.generate_together(&asked[..1], 500, &Sampling::GREEDY).expect_err("long").to_string();
    assert!(error.contains("200"), "{error}");
    assert_eq!(engine.generate_together(&[], 4, &Sampling::GREEDY).expect("none"), Vec::<Vec<u32>>::new());
}
