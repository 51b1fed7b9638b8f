//! Files whose tokenizer or chat template is wrong.

use super::case::{Case, Finder};
use super::draft::{Draft, value};
use super::whole::{scored, whole};

/// Vocabularies that contradict themselves, and templates that do not end.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vocabularies();
    cases.extend(scores());
    cases.extend(templates());
    cases
}

fn vocabularies() -> Vec<Case> {
    let with = |name: &str, key: &str, value: Vec<u8>, says: &str| {
        Case::of(name, whole(), |draft| draft.set(key, value), (Finder::Tokenizer, says))
    };
    let token = |key: &str| format!("tokenizer.ggml.{key}");
    let tokens = |name: &str, strings: &[&str], says: &str| {
        with(name, &token("tokens"), value::strings(strings), says)
    };
    let merges = |name: &str, rule: &str, says: &str| {
        with(name, &token("merges"), value::strings(&["a b", rule]), says)
    };
    vec![
        with("model-unknown", &token("model"), value::string("rwkv"), "`rwkv`, which is not supported"),
        with("pre-unknown", &token("pre"), value::string("qwen99"), "pre-tokenizer `qwen99`"),
        with("pre-empty", &token("pre"), value::string(""), "pre-tokenizer ``"),
        tokens("tokens-none", &[], "the list is empty"),
        tokens("tokens-twice", &["a", "b", "a"], "3 tokens"),
        with("types-too-few", &token("token_type"), value::i32s(&[1; 3]), "3 entries for 259 tokens"),
        merges("merge-of-one", "ab", "merge 1 (\"ab\")"),
        merges("merge-of-strangers", "zz yy", "needs the token \"zz\""),
        merges("merge-into-nothing", "a c", "needs the token \"ac\""),
        with("begin-outside", &token("bos_token_id"), value::u32(259), "bos_token_id` is 259"),
        with("end-outside", &token("eos_token_id"), value::u32(u32::MAX), "eos_token_id` is 4294967295"),
        with("end-negative", &token("eos_token_id"), value::i32(-1), "got -1"),
        with("ends-outside", &token("eos_token_ids"), value::i32s(&[2, -7]), "eos_token_ids` is -7"),
    ]
}

fn scores() -> Vec<Case> {
    let with = |name: &str, value: Vec<u8>, says: &str| {
        let change = |draft: &mut Draft| draft.set("tokenizer.ggml.scores", value);
        Case::of(name, scored(), change, (Finder::Tokenizer, says))
    };
    let mut odd = vec![0.0; 259];
    odd[100] = f32::NAN;
    let mut cases = vec![
        with("scores-not-numbers", value::f32s(&odd), "the score of token 100"),
        with("scores-too-few", value::f32s(&[0.0; 7]), "7 entries for 259 tokens"),
        with("scores-of-text", value::strings(&["1"]), "tokenizer.ggml.scores"),
    ];
    let change = |draft: &mut Draft| {
        let tokens: Vec<String> = (0..259).map(|n| format!("{n}{}", "<".repeat(1 << 15))).collect();
        draft.set("tokenizer.ggml.tokens", value::strings(&tokens));
        draft.set("tokenizer.ggml.token_type", value::i32s(&[3; 259]));
    };
    let says = "the list of special tokens cannot be compiled: their texts take";
    cases.push(Case::of("special-tokens-of-megabytes", scored(), change, (Finder::Tokenizer, says)));
    let change = |draft: &mut Draft| draft.remove("tokenizer.ggml.scores");
    cases.push(Case::of("scores-missing", scored(), change, (Finder::Tokenizer, "tokenizer.ggml.scores")));
    cases
}

fn templates() -> Vec<Case> {
    let with = |name: &str, source: &str, found: (Finder, &str)| {
        Case::of(name, whole(), |draft| draft.set("tokenizer.chat_template", value::string(source)), found)
    };
    let unfinished = "line 2\n{% for m in messages %}";
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000));
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let grows = "{% set n = namespace(s='x') %}{% for a in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
    vec![
        with("template-unfinished", unfinished, (Finder::Model, "chat template: line 2")),
        with("template-unknown-filter", "{{ messages | frobnicate }}", (Finder::Chat, "chat template: ")),
        with("template-deep", &deep, (Finder::Model, "chat template: ")),
        with("template-large", &" ".repeat(300_000), (Finder::Model, "300000 bytes are more than")),
        with("template-includes", "{% include '/etc/passwd' %}", (Finder::Chat, "chat template: ")),
        with("template-loops", loops, (Finder::Chat, "chat template: stopped")),
        with("template-grows", grows, (Finder::Chat, "chat template: stopped")),
        with("template-refuses", "{{ raise_exception('not you') }}", (Finder::Chat, "not you")),
        with("template-fails", "{{ messages[0].content.x.y }}", (Finder::Chat, "chat template: line 1")),
    ]
}
