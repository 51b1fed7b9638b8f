//! `chat` without a terminal: one input a turn, nothing but answers on standard output.

use serde_json::Value;

use crate::program::{feed, model, with_plugins};

fn prefilled(line: &str) -> usize {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "prefill").expect("a count");
    words[at + 1].parse().expect("a number")
}

#[test]
fn lines_are_turns_and_only_the_new_part_is_computed() {
    let model = model();
    let command = with_plugins(&["chat", &model, "-n", "8", "--temp", "0"]);
    let run = feed(command, b"Hello\n/stats\n\nTell me a story about a fox.\n/stats\n/exit\nnever said\n");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    let stats: Vec<usize> = run.err.lines().filter(|line| line.starts_with("last:")).map(prefilled).collect();
    let [first, second] = stats[..] else { panic!("{run:?}") };
    // The second prompt holds the first, its answer and a longer line.
    assert!(second < first + 8 + 12, "{first} then {second}");
    assert!(run.err.contains("2 turns"), "{run:?}");
}

#[test]
fn commands_answer_on_standard_error() {
    let model = model();
    let run = feed(with_plugins(&["chat", &model]), b"/help\n/nonsense\n/reset\n/system\n");
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""));
    for part in ["/reset", "/save FILE", "no command is called /nonsense", "forgotten", "no instructions"] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
}

#[test]
fn what_cannot_be_said_ends_a_pipe_with_a_sentence() {
    let model = model();
    feed(with_plugins(&["chat", &model]), b"\xff\xfe\n").failure(1, &["not UTF-8"]);
    let long = "word ".repeat(3000);
    feed(with_plugins(&["chat", &model]), long.as_bytes()).failure(1, &["tokens", "1024"]);
    feed(with_plugins(&["chat", &model]), b"\"\"\"\nnever closed\n").failure(1, &["standard input ends"]);
}

#[test]
fn an_input_can_have_several_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("talk.json").display().to_string();
    let model = model();
    let talk = format!("one\\\ntwo\n\"\"\"\n/three\n\n four\\\n\"\"\"\n/save {file}\n");
    let run = feed(with_plugins(&["chat", &model, "-n", "1", "--temp", "0"]), talk.as_bytes());
    assert_eq!(run.code, Some(0), "{run:?}");
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).expect("saved")).expect("JSON");
    assert_eq!(saved["messages"][0]["content"], "one\ntwo");
    assert_eq!(saved["messages"][2]["content"], "/three\n\n four\\");
}

#[test]
fn a_saved_conversation_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("talk.json").display().to_string();
    let model = model();
    let args = ["chat", &model, "--temp", "0", "-n", "12"];
    let whole =
        feed(with_plugins(&args), b"/system \"\"\"Be\nbrief.\"\"\"\nHello\nTell me a story.\n").success();
    let first = format!("/system \"\"\"Be\nbrief.\"\"\"\nHello\n/save {file}\n");
    let run = feed(with_plugins(&args), first.as_bytes());
    assert!(run.err.contains("3 messages saved"), "{run:?}");
    let first = run.success();
    let second = format!("Bye\n/load {file}\n/system\n/reset\n/load {file}\nTell me a story.\n");
    let run = feed(with_plugins(&args), second.as_bytes());
    assert!(run.err.contains("3 messages loaded") && run.err.contains("Be\nbrief."), "{run:?}");
    let second = run.success();
    let last = second.split_once('\n').expect("two answers").1;
    assert_eq!(format!("{first}{last}"), whole);
}

#[test]
fn what_cannot_be_saved_or_loaded_ends_a_pipe_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.json");
    let name = file.display().to_string();
    let model = model();
    let chat = |input: String| feed(with_plugins(&["chat", &model, "-n", "1"]), input.as_bytes());
    chat(format!("/load {name}\n")).failure(1, &[&name, "cannot read"]);
    let message = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}");
    let with = |messages: &[String]| {
        let messages = messages.join(",");
        format!(
            "{{\"format\":\"cajeta-conversation\",\"version\":1,\"model\":\"\",\"messages\":[{messages}]}}"
        )
    };
    let long = message("user", &"word ".repeat(3000));
    for (content, why) in [
        ("{\"messages\":[".to_owned(), "no conversation"),
        ("\u{0}".to_owned(), "no conversation"),
        (with(&[message("user", "x")]), "no answer"),
        (with(&[message("tool", "\\u001b[2J")]), "tool"),
        (with(&[long, message("assistant", "x")]), "the context holds 1024"),
    ] {
        std::fs::write(&file, &content).expect("written");
        chat(format!("/load {name}\n")).failure(1, &[why]);
        assert_eq!(std::fs::read_to_string(&file).expect("there"), content);
    }
    std::fs::write(&file, "precious").expect("written");
    chat(format!("/save {name}\n")).failure(1, &[&name, "another name"]);
    assert_eq!(std::fs::read(&file).expect("there"), b"precious");
}
