//! The distance of an engine from exact logits, and the bounds a correct route keeps.
//!
//! Teacher-forced on the recorded paths: (1) the mean |difference of log-probability| over the exact
//! top 8 is at most max(0.01, the established engine's); (2) the best token differs from the exact one
//! only at near-ties; (3) at most one percent more often than the established engine's.

use std::ops::ControlFlow;

use cajeta::engine::{LlmEngine, Sampling};

use crate::place;
use crate::reference::{Exact, ExactPath, Greedy, GreedyPath, read};

/// Exact gaps below this are near-ties.
pub const NEAR_TIE: f64 = 0.7;

/// What was measured over all paths.
#[derive(Clone, Copy, Default, Debug)]
pub struct Distance {
    /// Steps compared.
    pub steps: usize,
    /// Mean |difference of log-probability| over the exact top 8.
    pub mean_dlogprob: f64,
    /// Share of steps where the best token is the exact one.
    pub agreement: f64,
    /// The largest exact gap at which the best token differed; 0 if none did.
    pub worst_gap: f64,
}

/// Measures an engine along the paths, computing `rows` tokens at once.
pub fn measure(engine: &mut LlmEngine, greedy: &Greedy, exact: &Exact, rows: usize) -> Distance {
    let mut total = Distance::default();
    let (mut sum, mut compared, mut agreed) = (0.0, 0usize, 0usize);
    for (path, exact) in greedy.greedy.iter().zip(&exact.greedy) {
        assert_eq!(path.prompt, exact.prompt, "the reference files list the same paths");
        let ids: Vec<u32> =
            path.prompt_ids.iter().chain(&path.generated).copied().take(path.prompt_ids.len() + 47).collect();
        let visit = |position: usize, logits: &[f32]| {
            let Some(step) =
                (position + 1).checked_sub(path.prompt_ids.len()).and_then(|index| exact.steps.get(index))
            else {
                return;
            };
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let lse = f64::from(max)
                + logits.iter().map(|&x| (f64::from(x) - f64::from(max)).exp()).sum::<f64>().ln();
            for (&id, &logit) in step.ids.iter().zip(&step.logits) {
                sum += ((f64::from(logits[id as usize]) - lse) - (logit - step.lse)).abs();
                compared += 1;
            }
            let best = logits.iter().position(|&x| x == max).unwrap_or(usize::MAX) as u32;
            if best == step.ids[0] {
                agreed += 1;
            } else {
                total.worst_gap = total.worst_gap.max(gap(exact, position + 1 - path.prompt_ids.len(), best));
            }
            total.steps += 1;
        };
        let mut visit = visit;
        engine.visit_logits(&ids, rows, &mut visit).expect("the engine scores");
    }
    total.mean_dlogprob = sum / compared.max(1) as f64;
    total.agreement = agreed as f64 / total.steps.max(1) as f64;
    total
}

/// How far below the exact best a token is; infinite when it is not among the recorded ones.
fn gap(path: &ExactPath, index: usize, id: u32) -> f64 {
    let step = &path.steps[index];
    let found = step.ids.iter().position(|&known| known == id);
    found.map_or(f64::INFINITY, |found| step.logits[0] - step.logits[found])
}

/// Panics unless the three bounds hold.
pub fn check(what: &str, distance: &Distance, exact: &Exact) {
    let bound = exact.summary.reference_engine_mean_abs_dlogprob_top8.max(0.01);
    println!(
        "{what}: {} steps, mean |dlogprob| {:.5} (bound {bound:.5}), agreement {:.4} (theirs {:.4}), worst gap {:.3}",
        distance.steps,
        distance.mean_dlogprob,
        distance.agreement,
        exact.summary.reference_engine_argmax_agreement,
        distance.worst_gap
    );
    assert!(distance.steps > 0, "{what}: nothing was compared");
    assert!(distance.mean_dlogprob <= bound, "{what}: mean |dlogprob| {} > {bound}", distance.mean_dlogprob);
    assert!(
        distance.worst_gap < NEAR_TIE,
        "{what}: best token differs at an exact gap of {}",
        distance.worst_gap
    );
    let least = exact.summary.reference_engine_argmax_agreement - 0.01;
    assert!(distance.agreement >= least, "{what}: agreement {} < {least}", distance.agreement);
}

/// Panics unless greedy generation equals the recorded path up to the first exact near-tie.
pub fn check_greedy(what: &str, engine: &mut LlmEngine, greedy: &GreedyPath, exact: &ExactPath) {
    let n = greedy.generated.len();
    let go = &mut |_| ControlFlow::Continue(());
    let made =
        engine.generate(&greedy.prompt_ids, Some(n), &Sampling::GREEDY, go).expect("the engine generates");
    let differs = made.ids.iter().zip(&greedy.generated).position(|(ours, theirs)| ours != theirs);
    if let Some(index) = differs {
        let step = &exact.steps[index];
        let near = step.logits[0] - step.logits[1] < NEAR_TIE;
        // The recorded engine may itself have left the exact path here.
        let ours_exact = step.ids[0] == made.ids[index];
        assert!(
            near || ours_exact,
            "{what}: `{}` step {index}: {} instead of {}, exact best is {} by {}",
            greedy.prompt,
            made.ids[index],
            greedy.generated[index],
            step.ids[0],
            step.logits[0] - step.logits[1]
        );
    } else {
        // An end-of-generation token ends ours; the recorded path went on.
        let ended = made.ids.len() == n || made.ids.last().is_some_and(|&id| engine.tokenizer().is_end(id));
        assert!(ended, "{what}: `{}` stopped after {} tokens", greedy.prompt, made.ids.len());
    }
}

/// Holds one model on one backend: the bounds batched and single, and the text of the first
/// `greedy_paths` paths. Prints `skipped: why` where data or model is missing.
///
/// # Panics
/// When a bound is broken.
pub fn hold(name: &str, backend: &str, greedy_paths: usize) {
    let (Some(greedy), Some(exact)) =
        (place::reference(&format!("{name}.greedy.json")), place::reference(&format!("{name}.exact.json")))
    else {
        println!("skipped: no reference data of {name} (it is in the shared data folder, CAJETA_SHARED)");
        return;
    };
    let Some(model) = place::model(name) else {
        println!(
            "skipped: no model {name} (`cargo xtask test` fetches SmolLM2 and Gemma 3; the tales are in CAJETA_SHARED)"
        );
        return;
    };
    let (greedy, exact): (Greedy, Exact) = (read(&greedy), read(&exact));
    let mut options = place::options(&model, backend);
    options.ctx = Some(1024);
    let mut engine =
        LlmEngine::load(&options, &mut |_, _| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(engine.backend().id(), backend);
    for rows in [64, 1] {
        let distance = measure(&mut engine, &greedy, &exact, rows);
        check(&format!("{name} on {backend}, {rows} rows"), &distance, &exact);
    }
    for (path, exact) in greedy.greedy.iter().zip(&exact.greedy).take(greedy_paths) {
        check_greedy(&format!("{name} on {backend}"), &mut engine, path, exact);
    }
}
