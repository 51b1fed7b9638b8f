//! The draw against hand-computed distributions, and over many counters.

use super::*;
use proptest::prelude::*;

const PLAIN: SampleParams = SampleParams { temperature: 1.0, seed_lo: 7, ..SampleParams::GREEDY };

/// Logits of probabilities 1/2, 1/4, 1/8, 1/8, out of order.
fn logits() -> Vec<f32> {
    [0.125f32, 0.5, 0.125, 0.25].iter().map(|p| p.ln()).collect()
}

fn tokens(params: &SampleParams) -> Vec<u32> {
    candidates(&logits(), params).iter().map(|candidate| candidate.token).collect()
}

#[test]
fn filters_keep_what_they_should() {
    assert_eq!(tokens(&PLAIN), [1, 3, 0, 2]);
    assert_eq!(tokens(&SampleParams { top_k: 2, ..PLAIN }), [1, 3]);
    assert_eq!(tokens(&SampleParams { top_p: 0.4, ..PLAIN }), [1]);
    assert_eq!(tokens(&SampleParams { top_p: 0.6, ..PLAIN }), [1, 3]);
    assert_eq!(tokens(&SampleParams { top_p: 0.8, ..PLAIN }), [1, 3, 0]);
    assert_eq!(tokens(&SampleParams { top_p: 0.0, ..PLAIN }), [1]);
    assert_eq!(tokens(&SampleParams { min_p: 0.4, ..PLAIN }), [1, 3]);
    assert_eq!(tokens(&SampleParams { min_p: 2.0, ..PLAIN }), [1]);
    assert_eq!(tokens(&SampleParams { temperature: 0.0, ..PLAIN }), [1]);
    // top_p looks at untempered probabilities: a high temperature keeps no more.
    assert_eq!(tokens(&SampleParams { top_p: 0.6, temperature: 9.0, ..PLAIN }), [1, 3]);
}

#[test]
fn temperature_shapes_the_draw() {
    let cold = candidates(&logits(), &SampleParams { temperature: 0.5, top_k: 2, ..PLAIN });
    // Squared: 1/4 against 1/16.
    assert!((cold[0].probability - 0.8).abs() < 1e-6);
    let hot = candidates(&logits(), &SampleParams { temperature: f32::INFINITY, ..PLAIN });
    assert!(hot.iter().all(|candidate| candidate.probability == 0.25));
}

#[test]
fn draws_follow_the_distribution_and_the_seed() {
    let mut counts = [0u32; 4];
    for counter in 0..8000 {
        counts[choose(&logits(), &SampleParams { counter, ..PLAIN }) as usize] += 1;
    }
    for (count, expected) in counts.into_iter().zip([1000u32, 4000, 1000, 2000]) {
        assert!(count.abs_diff(expected) < 150, "{counts:?}");
    }
    let draw = |seed_hi| -> Vec<u32> {
        (0..32).map(|counter| choose(&logits(), &SampleParams { counter, seed_hi, ..PLAIN })).collect()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn odd_logits_have_answers() {
    let nan = f32::NAN;
    assert_eq!(choose(&[nan, nan], &PLAIN), u32::MAX);
    assert_eq!(choose(&[nan, nan], &SampleParams::GREEDY), u32::MAX);
    assert_eq!(choose(&[nan, -3.0], &PLAIN), 1);
    assert_eq!(choose(&[1.0, f32::INFINITY], &PLAIN), 1);
    assert!(choose(&[f32::NEG_INFINITY; 2], &PLAIN) < 2);
    assert_eq!(choose(&[1.0, 2.0], &SampleParams { temperature: nan, ..PLAIN }), 1);
    assert_eq!(candidates(&[1.0, 1.0], &SampleParams { top_p: nan, min_p: nan, ..PLAIN }).len(), 2);
}

#[test]
fn at_most_256_candidates() {
    let many = vec![0.5f32; 1000];
    for top_k in [0, 256, 999] {
        let kept = candidates(&many, &SampleParams { top_k, ..PLAIN });
        assert_eq!(kept.len(), 256);
        assert_eq!(kept.last().map(|last| last.token), Some(255), "ties go to the lower index");
    }
}

proptest! {
    /// Whatever the parameters, the token drawn is a candidate and probabilities sum to one.
    #[test]
    fn the_choice_is_a_candidate(
        logits in prop::collection::vec(prop_oneof![9 => -30f32..30.0, 1 => any::<f32>()], 1..600),
        temperature in prop_oneof![0f32..3.0, any::<f32>()],
        top_p in prop_oneof![0f32..1.0, any::<f32>()],
        min_p in prop_oneof![0f32..1.0, any::<f32>()],
        top_k in 0u32..300,
        seed in any::<u64>(),
        counter in any::<u32>(),
    ) {
        let params = SampleParams {
            temperature, top_p, min_p, top_k, seed_lo: seed as u32, seed_hi: (seed >> 32) as u32, counter, reserved: 0,
        };
        let kept = candidates(&logits, &params);
        let chosen = choose(&logits, &params);
        if logits.iter().all(|logit| logit.is_nan()) {
            prop_assert_eq!(chosen, u32::MAX);
        } else {
            prop_assert!(kept.iter().any(|candidate| candidate.token == chosen));
            let total: f64 = kept.iter().map(|candidate| candidate.probability).sum();
            prop_assert!((total - 1.0).abs() < 1e-9, "{}", total);
        }
    }
}
