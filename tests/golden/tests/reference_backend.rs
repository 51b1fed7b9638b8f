//! The reference backend against exact logits: the oracles themselves, through the whole engine.

use cajeta_golden::fidelity::hold;

#[test]
fn tales_q4_k_m() {
    hold("tales-5m.Q4_K_M", "reference", 2);
}
