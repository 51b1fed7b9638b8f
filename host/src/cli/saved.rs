//! Conversations in files: written by `/save`, read by `/load`, which believes nothing it has not checked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cajeta_model_arch::template::Message;
use cajeta_plugin_host::printable;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Outcome};

/// What the files say they are.
const FORMAT: &str = "cajeta-conversation";
/// The form written here, and the only one read.
const VERSION: u32 = 1;
/// Far above any context.
const MAX_BYTES: u64 = 16 << 20;

/// A file's content.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: String,
    version: u32,
    /// The model's name, for people.
    model: String,
    messages: Vec<Said>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    role: Role,
    content: String,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }

    fn of(message: &Message) -> Role {
        match message.role.as_str() {
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        }
    }
}

/// Where a name typed at the prompt, where no shell replaces `~`, leads.
pub(crate) fn named(name: &str) -> PathBuf {
    let home = name.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| PathBuf::from(name), |(rest, home)| PathBuf::from(home).join(rest))
}

/// Writes a conversation whole or not at all. Another conversation is replaced, any other file is not.
pub(crate) fn save(path: &Path, model: &str, messages: &[Message]) -> Outcome {
    let failed =
        |why: &dyn std::fmt::Display| Failure::work(format!("cannot save {}: {why}", path.display()));
    if path.symlink_metadata().is_ok() && load(path).is_err() {
        return Err(failed(&"it is there, and is no saved conversation; give another name"));
    }
    let said = |message: &Message| Said {
        role: Role::of(message),
        content: message.content.as_str().unwrap_or_default().to_owned(),
    };
    let messages = messages.iter().map(said).collect();
    let saved = Saved { format: FORMAT.into(), version: VERSION, model: model.into(), messages };
    let text = serde_json::to_string_pretty(&saved)? + "\n";
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = write_new(&partial, &text).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // There may be none; the first error is the one to tell.
        let _ = fs::remove_file(&partial);
        failed(&error)
    })
}

/// Writes a file that its owner alone reads: what was said is nobody else's.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads a conversation: instructions if any, then questions and answers in turn.
pub(crate) fn load(path: &Path) -> Outcome<Vec<Message>> {
    let text =
        read(path).map_err(|error| Failure::work(format!("cannot read {}: {error}", path.display())))?;
    let messages = parse(&text).map_err(|why| {
        let why = printable::line(&why, 200);
        Failure::work(format!("{} is no conversation that /save wrote: {why}", path.display()))
    })?;
    Ok(messages)
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe or a device may keep whoever opens it waiting for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Vec<Message>, String> {
    let saved: Saved = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if saved.format != FORMAT {
        return Err(format!("its format is {:?}, expected {FORMAT:?}", saved.format));
    }
    if saved.version != VERSION {
        return Err(format!("its version is {}, and this program reads version {VERSION}", saved.version));
    }
    let turns = saved.messages.iter().skip_while(|said| said.role == Role::System);
    let turns: Vec<Role> = turns.map(|said| said.role).collect();
    let systems = saved.messages.len() - turns.len();
    if systems > 1 {
        return Err(format!("it begins with {systems} system messages, expected at most one"));
    }
    for (index, &role) in turns.iter().enumerate() {
        let expected = if index % 2 == 0 { Role::User } else { Role::Assistant };
        if role != expected {
            let number = systems + index + 1;
            return Err(format!("message {number} is of {}, expected {}", role.name(), expected.name()));
        }
    }
    if turns.len() % 2 == 1 {
        return Err("its last message has no answer".into());
    }
    Ok(saved.messages.into_iter().map(|said| Message::new(said.role.name(), said.content)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn talk() -> Vec<Message> {
        vec![Message::system("be\u{1b} brief"), Message::user("hi\n\"there\""), Message::assistant("é")]
    }

    #[test]
    fn what_was_said_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("talk.json");
        for messages in [talk(), Vec::new(), talk()[1..].to_vec()] {
            save(&path, "m", &messages).expect("saved, also over another");
            assert_eq!(load(&path).expect("loaded"), messages);
        }
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing half-written is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn other_files_are_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.txt");
        fs::write(&path, "precious").expect("written");
        let Err(Failure::Work(sentence)) = save(&path, "m", &talk()) else { panic!("replaced") };
        assert!(sentence.contains("notes.txt") && sentence.contains("another name"), "{sentence}");
        assert_eq!(fs::read(&path).expect("still there"), b"precious");
        assert!(
            save(folder.path(), "m", &talk()).is_err() && save(Path::new("/dev/null"), "m", &[]).is_err()
        );
        assert!(save(&folder.path().join("no/where"), "m", &talk()).is_err());
    }

    #[test]
    fn what_is_not_a_conversation_is_told_why() {
        let with = |messages: &str| {
            format!("{{\"format\":\"{FORMAT}\",\"version\":1,\"model\":\"m\",\"messages\":[{messages}]}}")
        };
        let user = "{\"role\":\"user\",\"content\":\"x\"}";
        let system = "{\"role\":\"system\",\"content\":\"x\"}";
        let assistant = "{\"role\":\"assistant\",\"content\":\"x\"}";
        for (text, why) in [
            (String::new(), "EOF"),
            ("[1]".into(), "invalid"),
            ("{\"format\":\"x\",\"version\":1,\"model\":\"\",\"messages\":[]}".into(), "expected"),
            (with("").replace("\"version\":1", "\"version\":2"), "version is 2"),
            (with(user), "no answer"),
            (with(&format!("{user},{user}")), "message 2 is of user"),
            (with(assistant), "message 1 is of assistant"),
            (with(&format!("{system},{system}")), "2 system"),
            (with(&format!("{user},{assistant},{system},{user}")), "message 3 is of system"),
            (with("{\"role\":\"tool\",\"content\":\"x\"}"), "tool"),
            (with("{\"role\":\"user\",\"content\":[]}"), "invalid type"),
            (with("{\"role\":\"user\",\"content\":\"x\",\"more\":1}"), "more"),
            ("[".repeat(100_000), "invalid type"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.contains(why), "{why} is not in {error}");
        }
    }

    #[test]
    fn files_that_are_none_are_refused_without_waiting() {
        assert!(load(Path::new("/dev/zero")).is_err());
        assert!(load(Path::new("/nonexistent")).is_err());
        let folder = tempfile::tempdir().expect("a folder");
        assert!(load(folder.path()).is_err());
        let path = folder.path().join("long");
        fs::write(&path, " ".repeat(MAX_BYTES as usize + 1)).expect("written");
        let Err(Failure::Work(sentence)) = load(&path) else { panic!("taken") };
        assert!(sentence.contains("16 MiB"), "{sentence}");
        fs::write(&path, format!("{{\"\u{1b}[2J{}\":1}}", "x".repeat(9000))).expect("written");
        let Err(Failure::Work(sentence)) = load(&path) else { panic!("taken") };
        assert!(sentence.len() < 500 && !sentence.contains('\u{1b}'), "{sentence}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_conversation_or_refused(text in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            let _ = parse(&text);
        }
    }
}
