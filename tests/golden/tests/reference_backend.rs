//! The reference backend, every format, against exact logits: the oracles themselves, through the whole engine.

use cajeta_golden::fidelity::hold;

macro_rules! models {
    ($($test:ident: $name:literal, $paths:literal paths;)*) => {$(
        #[test]
        fn $test() {
            hold($name, "reference", $paths);
        }
    )*};
}

models! {
    tales_f16_reference: "tales-5m.F16", 2 paths;
    tales_q8_0_reference: "tales-5m.Q8_0", 2 paths;
    tales_q6_k_reference: "tales-5m.Q6_K", 2 paths;
    tales_q5_1_reference: "tales-5m.Q5_1", 2 paths;
    tales_q5_k_m_reference: "tales-5m.Q5_K_M", 2 paths;
    tales_q5_0_reference: "tales-5m.Q5_0", 2 paths;
    tales_q4_1_reference: "tales-5m.Q4_1", 2 paths;
    tales_q4_k_m_reference: "tales-5m.Q4_K_M", 2 paths;
    tales_q4_0_reference: "tales-5m.Q4_0", 2 paths;
    tales_iq4_xs_reference: "tales-5m.IQ4_XS", 2 paths;
    tales_q3_k_m_reference: "tales-5m.Q3_K_M", 2 paths;
    tales_q2_k_reference: "tales-5m.Q2_K", 2 paths;
}
