//! Golden tests: tokenization of two real models, against what an established engine makes of the same texts.
//!
//! The reference lists and the tiny model are in `tests/data`; the larger model is looked for in `CAJETA_SMOLLM2` and
//! in `target/models`, and its test says that it was skipped when it is not there.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::tokenizer::{Special, Tokenizer, TokenizerSource};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Reference {
    tokenization: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    /// Special tokens not parsed.
    ids: Vec<u32>,
    /// Special tokens parsed.
    ids_special: Vec<u32>,
    /// The text of `ids`.
    detok: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// `name` in `tests/data`, else in the shared folder.
fn data(name: &str, shared: &str) -> PathBuf {
    let here = workspace().join("tests/data").join(name);
    let folder =
        std::env::var_os("CAJETA_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    if here.exists() { here } else { folder.join(shared) }
}

fn cases(model: &str) -> Vec<Case> {
    let name = format!("reference/{model}.tokenization.json");
    let json = std::fs::read_to_string(data(&name, &name)).unwrap();
    serde_json::from_str::<Reference>(&json).unwrap().tokenization
}

fn tokenizer(path: &Path) -> Tokenizer {
    Tokenizer::from_gguf(GgufFile::open(path).unwrap().metadata()).unwrap()
}

fn check(tokenizer: &Tokenizer, model: &str) {
    let cases = cases(model);
    assert!(cases.len() > 60, "{model} has only {} cases", cases.len());
    for case in cases {
        assert_eq!(tokenizer.encode(&case.text, Special::Plain), case.ids, "{model}: {:?}", case.text);
        assert_eq!(
            tokenizer.encode(&case.text, Special::Parse),
            case.ids_special,
            "{model}: {:?}",
            case.text
        );
        // The list was made with a short buffer for each token's text: where a token was longer it says nothing.
        let too_long =
            case.ids.iter().any(|id| tokenizer.token_bytes(*id).is_some_and(|bytes| bytes.len() >= 64));
        let expected = if too_long && case.detok.is_empty() { &case.text } else { &case.detok };
        assert_eq!(&tokenizer.decode(&case.ids, true), expected, "{model}: {:?}", case.text);
    }
}

#[test]
fn tales() {
    let tokenizer = tokenizer(&data("tales-5m.Q4_K_M.gguf", "models/tales-5m.Q4_K_M.gguf"));
    check(&tokenizer, "tales-5m.Q4_K_M");
    assert_eq!((tokenizer.n_vocab(), tokenizer.bos(), tokenizer.eos()), (4096, Some(4092), Some(4093)));
    assert!(tokenizer.add_bos() && !tokenizer.add_eos());
    assert_eq!(tokenizer.end_ids(), [4093]);
}

#[test]
fn smollm2() {
    let usual = || workspace().join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = std::env::var_os("CAJETA_SMOLLM2").map_or_else(usual, PathBuf::from);
    if !path.exists() {
        eprintln!("skipped: no SmolLM2 at {} (set CAJETA_SMOLLM2 to the file)", path.display());
        return;
    }
    let tokenizer = tokenizer(&path);
    check(&tokenizer, "smollm2-135m-q4_1");
    assert_eq!((tokenizer.n_vocab(), tokenizer.bos(), tokenizer.eos()), (49152, Some(1), Some(2)));
    assert!(!tokenizer.add_bos());
    // `<|endoftext|>`, `<|im_end|>` and the marker after which code completion leaves the repository.
    assert_eq!(tokenizer.end_ids(), [0, 2, 4]);
}

#[test]
fn gemma3() {
    let usual = || workspace().join("target/models/gemma3-270m-q4_k_m.gguf");
    let path = std::env::var_os("CAJETA_GEMMA3").map_or_else(usual, PathBuf::from);
    let list = data(
        "reference/gemma3-270m-q4_k_m.tokenization.json",
        "reference/gemma3-270m-q4_k_m.tokenization.json",
    );
    if !path.exists() || !list.exists() {
        println!(
            "skipped: no Gemma 3 at {} (set CAJETA_GEMMA3 to the file) or no list of cases",
            path.display()
        );
        return;
    }
    let tokenizer = tokenizer(&path);
    check(&tokenizer, "gemma3-270m-q4_k_m");
    assert_eq!((tokenizer.n_vocab(), tokenizer.bos(), tokenizer.eos()), (262_144, Some(2), Some(1)));
    assert!(tokenizer.add_bos() && tokenizer.is_end(106), "<end_of_turn> ends an answer");
}

/// Every pre-tokenizer over the vocabulary of the tiny model, as the established engine cuts the same texts.
#[test]
fn pre_tokenizers() {
    #[derive(Deserialize)]
    struct Recorded {
        texts: Vec<String>,
        ids: BTreeMap<String, Vec<Vec<u32>>>,
    }
    let json = std::fs::read_to_string(workspace().join("tests/data/reference/pretokenizers.json")).unwrap();
    let recorded: Recorded = serde_json::from_str(&json).unwrap();
    let file = GgufFile::open(&data("tales-5m.Q4_K_M.gguf", "models/tales-5m.Q4_K_M.gguf")).unwrap();
    assert_eq!(recorded.ids.len(), 12);
    for (pre, lists) in recorded.ids {
        let mut source = TokenizerSource::from_metadata(file.metadata()).unwrap();
        source.pre = Some(pre.clone());
        let tokenizer = Tokenizer::new(source).unwrap();
        assert_eq!(lists.len(), recorded.texts.len());
        for (text, ids) in recorded.texts.iter().zip(lists) {
            assert_eq!(tokenizer.encode(text, Special::Plain), ids, "{pre}: {text:?}");
        }
    }
}
