//! The chat templates of two real models, from file to token ids.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::template::{ChatRender, ChatTemplate, Message};
use cajeta_model_arch::tokenizer::{Special, Tokenizer};
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn load(path: &Path) -> (Tokenizer, ChatTemplate) {
    let file = GgufFile::open(path).unwrap();
    let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
    let template = ChatTemplate::from_gguf(file.metadata(), &tokenizer).unwrap().unwrap();
    (tokenizer, template)
}

fn prompt(template: &ChatTemplate, messages: &[Message]) -> String {
    template.render(&ChatRender { messages, add_generation_prompt: true, ..ChatRender::default() }).unwrap()
}

#[test]
fn tales() {
    let (tokenizer, template) = load(&workspace().join("tests/data/tales-5m.Q4_K_M.gguf"));
    let messages = [Message::user("Hi"), Message::assistant("Once."), Message::user("More")];
    let text = prompt(&template, &messages);
    assert_eq!(text, "<|begin_of_text|><|user|>Hi<|assistant|>Once.<|end_of_text|><|user|>More<|assistant|>");
    // The template writes the begin token, and the prompt has it once.
    let ids = tokenizer.with_bos(tokenizer.encode(&text, Special::Parse));
    let control: Vec<u32> = ids.iter().copied().filter(|id| tokenizer.is_control(*id)).collect();
    assert_eq!(control, [4092, 4094, 4095, 4093, 4094, 4095]);
    assert_eq!(tokenizer.decode(&ids, false), "HiOnce.More");
}

#[test]
fn smollm2() {
    let usual = || workspace().join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = std::env::var_os("CAJETA_SMOLLM2").map_or_else(usual, PathBuf::from);
    if !path.exists() {
        eprintln!("skipped: no SmolLM2 at {} (set CAJETA_SMOLLM2 to the file)", path.display());
        return;
    }
    let (tokenizer, template) = load(&path);
    let text = prompt(&template, &[Message::system("Be brief."), Message::user("Hi")]);
    let turn = |role, text| format!("<|im_start|>{role}\n{text}<|im_end|>\n");
    assert_eq!(text, turn("system", "Be brief.") + &turn("user", "Hi") + "<|im_start|>assistant\n");
    let ids = tokenizer.encode(&text, Special::Parse);
    assert_eq!(ids.iter().filter(|id| tokenizer.is_control(**id)).count(), 5);
    assert_eq!(tokenizer.decode(&ids, true), text);
}
