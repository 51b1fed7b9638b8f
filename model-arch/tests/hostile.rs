//! Every hostile file of `tests/hostile`, read in the process as far as it can be.

use std::path::Path;

use cajeta_hostile::files::{Case, Finder, cases, scored, whole};
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::{ChatRender, ChatTemplate, Message};
use cajeta_model_arch::tokenizer::Tokenizer;

/// Who found what in these bytes; nothing when they are a model that can be computed with.
fn found(bytes: &[u8]) -> Option<(Finder, String)> {
    read(bytes).err().map(|(finder, error)| (finder, error.to_string()))
}

fn read(bytes: &[u8]) -> Result<(), (Finder, Box<dyn std::error::Error>)> {
    fn by<E: std::error::Error + 'static>(
        finder: Finder,
    ) -> impl Fn(E) -> (Finder, Box<dyn std::error::Error>) {
        move |error| (finder, Box::new(error))
    }
    let file = GgufFile::from_bytes(Path::new("a/model.gguf"), bytes).map_err(by(Finder::Open))?;
    let tokenizer = Tokenizer::from_gguf(file.metadata()).map_err(by(Finder::Tokenizer))?;
    let config = ModelConfig::from_gguf(&file).map_err(by(Finder::Model))?;
    Plan::build(&config, &file).map_err(by(Finder::Model))?;
    let template = ChatTemplate::from_gguf(file.metadata(), &tokenizer).map_err(by(Finder::Model))?;
    let messages = [Message::user("x")];
    let chat = ChatRender { messages: &messages, add_generation_prompt: true, ..ChatRender::default() };
    template.map(|template| template.render(&chat)).transpose().map_err(by(Finder::Chat))?;
    Ok(())
}

/// What is not as the case has it.
fn check(case: &Case) -> Result<(), String> {
    let name = &case.name;
    match found(&case.bytes) {
        Some((finder, sentence)) => {
            // A conversation is refused after the file was taken.
            let named = sentence.starts_with("a/model.gguf: ") || finder == Finder::Chat;
            let right = finder == case.finder && sentence.contains(&case.says);
            let wrong = !named || !right || sentence.contains('\n');
            if wrong { Err(format!("{name}: {finder:?} says {sentence:?}")) } else { Ok(()) }
        }
        None if case.finder == Finder::Step => Ok(()),
        None => Err(format!("{name}: taken for a model")),
    }
}

#[test]
fn each_is_refused_with_what_is_wrong() {
    let cases = cases();
    assert!(cases.len() > 300, "{}", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_they_were_made_of_is_whole() {
    assert_eq!(found(&whole().bytes()), None);
    assert_eq!(found(&scored().bytes()), None);
}
