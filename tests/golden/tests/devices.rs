//! Vendor backends against exact logits, on machines that have the device: the bounds of a correct route.
//!
//! They build only where their device code was made, so a test finds the plugin beside itself or says it skipped.

use cajeta::engine::LlmEngine;
use cajeta_golden::fidelity::{check, check_greedy, measure};
use cajeta_golden::place;
use cajeta_golden::reference::{Exact, Greedy, read};

/// Runs one model on one backend: batched and single bounds, and greedy text.
fn hold(name: &str, backend: &str) {
    let (Some(greedy), Some(exact), Some(model)) = (
        place::reference(&format!("{name}.greedy.json")),
        place::reference(&format!("{name}.exact.json")),
        place::model(name),
    ) else {
        println!(
            "skipped: no model or reference data of {name} (they are in the shared data folder, CAJETA_SHARED)"
        );
        return;
    };
    let (greedy, exact): (Greedy, Exact) = (read(&greedy), read(&exact));
    let mut options = place::options(&model, backend);
    options.ctx = Some(1024);
    let mut engine = match LlmEngine::load(&options, &mut |_, _| {}) {
        Ok(engine) => engine,
        // Asked for by name, so only a machine without the plugin or its device may decline.
        Err(error) if std::env::var_os("CAJETA_TEST_DEVICES").is_none() => {
            println!(
                "skipped: {backend} is not usable here ({error}); CAJETA_TEST_DEVICES=1 makes that a failure"
            );
            return;
        }
        Err(error) => panic!("{name} on {backend}: {error}"),
    };
    assert_eq!(engine.backend().id(), backend);
    for rows in [64, 1] {
        let distance = measure(&mut engine, &greedy, &exact, rows);
        check(&format!("{name} on {backend}, {rows} rows"), &distance, &exact);
    }
    for (path, exact) in greedy.greedy.iter().zip(&exact.greedy) {
        check_greedy(&format!("{name} on {backend}"), &mut engine, path, exact);
    }
}

macro_rules! models {
    ($($test:ident: $name:literal on $backend:literal;)*) => {$(
        #[test]
        fn $test() {
            hold($name, $backend);
        }
    )*};
}

models! {
    tales_f16_cuda: "tales-5m.F16" on "cuda";
    tales_q8_0_cuda: "tales-5m.Q8_0" on "cuda";
    tales_q4_1_cuda: "tales-5m.Q4_1" on "cuda";
    tales_q4_k_m_cuda: "tales-5m.Q4_K_M" on "cuda";
    tales_q6_k_cuda: "tales-5m.Q6_K" on "cuda";
}

/// The shapes of an 8B against a float64 forward pass: only where a device is promised, as the passes take a minute.
fn hold_full_size(backend: &str, hold: fn(&str)) {
    if std::env::var_os("CAJETA_TEST_DEVICES").is_none() {
        println!("skipped: CAJETA_TEST_DEVICES=1 holds the shapes of an 8B on {backend}");
        return;
    }
    hold(backend);
}

#[test]
fn layers_of_an_8b_cuda() {
    hold_full_size("cuda", cajeta_golden::full_size::hold_wide_layers);
}

#[test]
fn a_context_of_32k_cuda() {
    hold_full_size("cuda", cajeta_golden::full_size::hold_long_context);
}
