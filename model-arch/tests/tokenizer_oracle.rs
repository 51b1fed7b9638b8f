//! Differential tests: random texts through this tokenizer and through the `tokenizers` crate give the same ids.
//!
//! The crate is not used at run time because its pattern engine gives up on long runs and then cuts the text
//! elsewhere, without saying so; on short texts it is an independent implementation of the same rules.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::tokenizer::{Special, Tokenizer, TokenizerSource};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer as Oracle};

const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Both tokenizers over the vocabulary of one model, with the patterns of a pre-tokenizer as published;
/// `pre` is its name where it is not the model's own.
fn pair(path: &Path, pre: Option<&str>, patterns: &[&str], ignore_merges: bool) -> (Tokenizer, Oracle) {
    let file = GgufFile::open(path).unwrap();
    let metadata = file.metadata();
    let tokens = metadata.require_strings("tokenizer.ggml.tokens").unwrap();
    let vocabulary: Vec<(String, u32)> = tokens.iter().map(str::to_owned).zip(0..).collect();
    let rules = metadata.require_strings("tokenizer.ggml.merges").unwrap();
    let merges =
        rules.iter().map(|rule| rule.split_once(' ').unwrap()).map(|(l, r)| (l.to_owned(), r.to_owned()));
    let bpe = BPE::builder()
        .vocab_and_merges(vocabulary.into_iter().collect::<Vocab>(), merges.collect())
        .ignore_merges(ignore_merges)
        .build()
        .unwrap();
    let mut oracle = Oracle::new(bpe);
    let isolate = |pattern: &&str| {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        PreTokenizerWrapper::from(Split::new(pattern, SplitDelimiterBehavior::Isolated, false).unwrap())
    };
    let mut steps: Vec<PreTokenizerWrapper> = patterns.iter().map(isolate).collect();
    steps.push(ByteLevel::new(false, true, false).into());
    oracle.with_pre_tokenizer(Some(Sequence::new(steps)));
    let mut source = TokenizerSource::from_metadata(metadata).unwrap();
    source.pre = pre.map(str::to_owned).or(source.pre);
    (Tokenizer::new(source).unwrap(), oracle)
}

fn texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "the",
        " The",
        "don't",
        "CAN'T",
        "'ll",
        "'",
        "\"",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u{a0}",
        "\u{2003}",
        "1",
        "23",
        "½",
        "٣",
        "é",
        "e\u{301}",
        "中文",
        "한국",
        "👍🏽",
        "ſ",
        "_",
        "--",
        "...",
        "(",
        ")",
        "<|",
        "|>",
        "\u{200b}",
        "ǅ",
        "𝒜",
        "straße",
        " naïve",
        "foo_bar",
        "0xFF",
        "🇩🇪",
        "हिन्दी",
    ]);
    let sentence = prop::collection::vec(words, 0..24).prop_map(|words| words.concat());
    prop_oneof![4 => sentence, 1 => "\\PC{0,40}", 1 => "[ -~\\n]{0,80}"]
}

fn compare(path: &Path, pre: Option<&str>, patterns: &[&str], ignore_merges: bool) {
    let (tokenizer, oracle) = pair(path, pre, patterns, ignore_merges);
    let missing = tokenizer.missing_bytes();
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(config).run(&texts(), |text| {
        // What happens to a byte without a token is not a rule of BPE.
        prop_assume!(!text.bytes().any(|byte| missing.contains(&byte)));
        let expected = oracle.encode_fast(text.as_str(), false).unwrap();
        prop_assert_eq!(tokenizer.encode(&text, Special::Plain), expected.get_ids());
        Ok(())
    });
    outcome.unwrap();
}

fn tales() -> PathBuf {
    workspace().join("tests/data/tales-5m.Q4_K_M.gguf")
}

#[test]
fn llama_bpe() {
    compare(&tales(), None, &[LLAMA3], true);
}

#[test]
fn smollm() {
    let usual = || workspace().join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = std::env::var_os("CAJETA_SMOLLM2").map_or_else(usual, PathBuf::from);
    if !path.exists() {
        eprintln!("skipped: no SmolLM2 at {} (set CAJETA_SMOLLM2 to the file)", path.display());
        return;
    }
    compare(&path, None, &[r"\p{N}", GPT2], false);
}

/// The other pre-tokenizers over the vocabulary of the tiny model; the patterns are those of the models' own
/// `tokenizer.json`, contractions spelled out.
macro_rules! pre_tokenizers {
    ($($test:ident: $pre:literal, $patterns:expr, $whole_words:literal;)*) => {$(
        #[test]
        fn $test() {
            compare(&tales(), Some($pre), $patterns, $whole_words);
        }
    )*};
}

const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

pre_tokenizers! {
    gpt2: "gpt-2", &[GPT2], false;
    qwen2: "qwen2", &[QWEN2], false;
    command_r: "command-r", &[r"\p{N}", GPT2], false;
    starcoder: "starcoder", &[r"\p{N}", GPT2], false;
    gpt_4o: "gpt-4o", &[GPT4O], false;
    tekken: "tekken", &[TEKKEN], true;
    falcon: "falcon", &[r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"], false;
    deepseek_v3: "deepseek-v3", &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3], false;
}
