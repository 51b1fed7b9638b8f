//! The decoders against a real model: every tensor of the quantised test models, written by the
//! established tools, must lie within quantisation error of the same tensor in F16.

use super::{Format, decode_row, reference_matvec};
use crate::config::{ModelConfig, RopeScaling};
use crate::gguf::GgufFile;
use std::path::{Path, PathBuf};

/// The test model in `recipe`, or `None` (said on stdout) when the shared folder is not there.
fn tales(recipe: &str) -> Option<GgufFile> {
    let shared = std::env::var_os("CAJETA_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let path = shared.join(format!("models/tales-5m.{recipe}.gguf"));
    if !path.exists() {
        println!(
            "skipped: {} is not here (set CAJETA_SHARED to the folder that has models/)",
            path.display()
        );
        return None;
    }
    Some(GgufFile::open(&path).unwrap())
}

fn decoded(file: &GgufFile, tensor: &str) -> (Format, Vec<f32>) {
    let info = file.tensor(tensor).unwrap();
    let mut values = vec![0.0; info.n_values() as usize];
    decode_row(info.format, file.data(info), &mut values).unwrap();
    (info.format, values)
}

/// Root-mean-square error over root-mean-square value that a format's established quantiser stays
/// under on trained weights; a misread scale, sign or position gives about 1.
fn tolerance(format: Format) -> f64 {
    match format {
        Format::F32 | Format::F16 => 0.0,
        Format::Q8_0 => 0.007,
        Format::Q6_K => 0.025,
        Format::Q5_0 | Format::Q5_1 | Format::Q5_K => 0.06,
        Format::Q4_0 | Format::Q4_1 | Format::Q4_K | Format::IQ4_XS => 0.12,
        Format::Q3_K => 0.19,
        _ => 0.33,
    }
}

#[test]
fn quantised_tensors_are_near_the_half_precision_ones() {
    let recipes =
        ["Q8_0", "Q6_K", "Q4_0", "Q4_1", "Q4_K_M", "Q5_0", "Q5_1", "Q5_K_M", "Q3_K_M", "Q2_K", "IQ4_XS"];
    for recipe in recipes {
        let (Some(exact), Some(file)) = (tales("F16"), tales(recipe)) else { return };
        assert_eq!(file.tensors().len(), exact.tensors().len());
        let mut seen = Vec::new();
        for tensor in file.tensors() {
            let (format, values) = decoded(&file, &tensor.name);
            let (_, exact) = decoded(&exact, &tensor.name);
            let square =
                |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>();
            let error = square(&mut values.iter().zip(&exact).map(|(a, b)| a - b));
            let relative = (error / square(&mut exact.iter().copied())).sqrt();
            assert!(relative <= tolerance(format), "{recipe} {} {format}: {relative:.4}", tensor.name);
            // Above zero too: identical values would mean that the comparison reads the wrong file.
            assert!(relative > 0.0 || tolerance(format) == 0.0, "{recipe} {}", tensor.name);
            if !seen.contains(&format) {
                seen.push(format);
            }
        }
        assert!(seen.len() >= 2, "{recipe} holds only {seen:?}");
    }
}

#[test]
fn a_mat_vec_over_quantised_weights_is_near_the_half_precision_one() {
    let (Some(exact), Some(file)) = (tales("F16"), tales("Q6_K")) else { return };
    let x: Vec<f32> = (0..256).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let product = |file: &GgufFile| {
        let info = file.tensor("blk.0.ffn_up.weight").unwrap();
        let mut out = vec![0.0; info.n_rows() as usize];
        reference_matvec(info.format, file.data(info), out.len(), 256, &x, &mut out).unwrap();
        out
    };
    let (exact, near) = (product(&exact), product(&file));
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut exact.iter().zip(&near).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied());
    assert!(error > 0.0 && error < 0.03, "{error}");
}

#[test]
fn the_configuration_of_the_test_model() {
    let Some(file) = tales("Q4_K_M") else { return };
    let config = ModelConfig::from_gguf(&file).unwrap();
    assert_eq!((config.architecture.as_str(), config.name.as_deref()), ("llama", Some("tales-5m")));
    assert_eq!((config.n_vocab, config.n_ctx_train, config.n_embd, config.n_layer), (4096, 1024, 256, 4));
    assert_eq!((config.n_ff, config.n_head, config.n_head_kv, config.group_size()), (768, 4, 2, 2));
    assert_eq!((config.head_dim_k, config.head_dim_v, config.rope.dim), (64, 64, 64));
    assert_eq!(
        (config.rope.base, &config.rope.scaling, config.norm_eps),
        (10_000.0, &RopeScaling::None, 1e-5)
    );
}
