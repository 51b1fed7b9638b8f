//! Synthetic files read back: accepted as models, equal by seed, with the recipe's formats.

use super::*;
use crate::config::ModelConfig;
use crate::gguf::GgufFile;

const Q4_K_M: Recipe = Recipe::Mixed(Mixture::Q4_K_M);

fn options(shape: Shape, recipe: Recipe, seed: u64, threads: usize) -> SynthOptions {
    let threads = NonZeroUsize::new(threads);
    SynthOptions { architecture: "llama".into(), shape, recipe, seed, context: None, threads }
}

fn tiny() -> Shape {
    Shape::named("tiny").unwrap()
}

#[test]
fn the_result_is_a_model_of_that_shape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let shape = Shape { rope_factors: Shape::named("llama-3.1-8b").unwrap().rope_factors, ..tiny() };
    let mut heard = Vec::new();
    let mut made = options(shape, Q4_K_M, 1, 2);
    made.context = Some(77);
    let summary = write(&made, &path, &mut |done, total| heard.push((done, total))).unwrap();
    assert!(heard.is_sorted() && heard.last() == Some(&(summary.tensor_bytes, summary.tensor_bytes)));
    assert_eq!(summary.fallbacks, []);
    let file = GgufFile::open(&path).unwrap();
    assert_eq!(file.tensors().iter().map(|tensor| tensor.n_values()).sum::<u64>(), summary.parameters);
    let config = ModelConfig::from_gguf(&file).unwrap();
    assert_eq!((config.n_vocab, config.n_ctx_train, config.n_embd, config.n_layer), (1024, 77, 256, 2));
    assert_eq!((config.head_dim_k, config.n_head, config.n_head_kv, config.n_ff), (64, 4, 2, 512));
    let format = |name: &str| file.tensor(name).unwrap().format;
    // Two layers: no first eighth, and the last one starts at layer 1.
    assert_eq!(
        (format("blk.0.attn_v.weight"), format("blk.1.ffn_down.weight")),
        (Format::Q4_K, Format::Q6_K)
    );
    assert_eq!((format("output.weight"), format("token_embd.weight")), (Format::Q6_K, Format::Q4_K));
    assert_eq!((format("blk.0.attn_norm.weight"), format("rope_freqs.weight")), (Format::F32, Format::F32));
    assert_eq!(file.tensor("rope_freqs.weight").unwrap().dims, [32]);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["tiny.gguf"]);
}

#[test]
fn equal_seeds_give_equal_files_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let made = |seed, threads| {
        let path = folder.path().join(format!("{seed}-{threads}.gguf"));
        write(&options(tiny(), Q4_K_M, seed, threads), &path, &mut |_, _| {}).unwrap();
        std::fs::read(path).unwrap()
    };
    let first = made(5, 1);
    assert!(first == made(5, 3));
    assert!(first != made(6, 1));
}

#[test]
fn every_recipe_writes_every_matrix_and_says_its_fallbacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for name in Recipe::NAMES {
        let recipe = Recipe::named(name).unwrap();
        // 288 is whole blocks of 32 but not of 256.
        let shape = Shape { n_embd: 288, tied: true, n_vocab: 300, ..tiny() };
        let summary = write(&options(shape.clone(), recipe, 1, 2), &path, &mut |_, _| {}).unwrap();
        let file = GgufFile::open(&path).unwrap();
        assert!(file.tensor("output.weight").is_none());
        let narrow = file.tensor("blk.0.attn_q.weight").unwrap().format;
        let wide = file.tensor("blk.0.ffn_gate.weight").unwrap();
        assert_eq!((narrow, wide.row_len()), (wide.format, 288), "{name}");
        assert!(narrow.block_len() <= 32, "{name}");
        // The down projection's rows are 512: its format is the recipe's own.
        let down = file.tensor("blk.0.ffn_down.weight").unwrap().format;
        assert_eq!(down, recipe.format(mixture::Role::Down { layer: 0 }, &shape), "{name}");
        let wanted = recipe.format(mixture::Role::Other, &shape);
        let fell = summary.fallbacks.iter().any(|fallback| {
            fallback.tensor == "blk.0.attn_q.weight" && (fallback.wanted, fallback.got) == (wanted, narrow)
        });
        assert_eq!(fell, wanted.block_len() == 256, "{name}");
        assert_eq!(fell, wanted != narrow, "{name}");
    }
}

#[test]
fn what_cannot_be_a_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let refused =
        |shape: Shape| write(&options(shape, Q4_K_M, 1, 1), &path, &mut |_, _| {}).unwrap_err().to_string();
    assert!(refused(Shape { n_layer: 0, ..tiny() }).contains("the layer count is 0; expected 1 to 4096"));
    assert!(refused(Shape { n_head_kv: 3, ..tiny() }).contains("4 heads cannot share 3"));
    assert!(refused(Shape { n_vocab: 200, ..tiny() }).contains("needs 260 tokens"));
    assert!(refused(Shape { head_dim: 7, ..tiny() }).contains("is odd"));
    assert!(refused(Shape { rope_base: f32::NAN, ..tiny() }).contains("above 0"));
    assert!(Shape::named("gpt-5").unwrap_err().to_string().contains("known: llama-3.1-8b"));
    let mut unknown = options(tiny(), Q4_K_M, 1, 1);
    unknown.architecture = "mamba".into();
    assert!(write(&unknown, &path, &mut |_, _| {}).unwrap_err().to_string().contains("\"mamba\""));
    let nowhere = folder.path().join("no/such/folder/model.gguf");
    let message = write(&options(tiny(), Q4_K_M, 1, 1), &nowhere, &mut |_, _| {}).unwrap_err().to_string();
    assert!(message.starts_with(&nowhere.display().to_string()), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
