//! `chat` with a person at a terminal: a prompt, lines that go on, Ctrl-C, Ctrl-D, history.

use std::path::Path;
use std::process::Command;

use crate::program::{model, on_reference, with_plugins};
use crate::terminal::Terminal;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";

fn chat(state: &Path, args: &[&str]) -> Command {
    let model = model();
    let mut command = with_plugins(&[&["chat", &model, "--temp", "0"], args].concat());
    command.env("XDG_STATE_HOME", state).env("NO_COLOR", "1");
    command
}

/// Waits until the program asks for words. The mode in which pasted text is marked begins once a
/// prompt; the prompt itself is drawn again at every key.
fn at_prompt(terminal: &mut Terminal) {
    terminal.wait_for("\u{1b}[?2004h");
    terminal.wait_for("> ");
}

#[test]
fn ctrl_d_leaves_and_what_was_typed_is_remembered() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::start(&chat(state.path(), &["-n", "4"]));
    terminal.wait_for("Ctrl-D leaves");
    at_prompt(&mut terminal);
    terminal.press("Hello\r");
    terminal.wait_for("Hello! Would");
    at_prompt(&mut terminal);
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, Some(0));
    let history = state.path().join("cajeta/chat_history");
    assert!(std::fs::read_to_string(&history).expect("kept").lines().any(|line| line == "Hello"));

    let mut terminal = Terminal::start(&chat(state.path(), &["-n", "4"]));
    at_prompt(&mut terminal);
    terminal.press(UP);
    terminal.wait_for("Hello");
    terminal.press("\r");
    terminal.wait_for("Hello! Would");
    at_prompt(&mut terminal);
    terminal.press("/exit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_line_that_goes_on_is_one_input() {
    let state = tempfile::tempdir().expect("a folder");
    let file = state.path().join("talk.json");
    let mut terminal = Terminal::start(&chat(state.path(), &["-n", "1"]));
    at_prompt(&mut terminal);
    for line in ["one\\", "two"] {
        terminal.press(&format!("{line}\r"));
    }
    at_prompt(&mut terminal);
    for line in ["\"\"\"", "/three", "\"\"\""] {
        terminal.press(&format!("{line}\r"));
    }
    at_prompt(&mut terminal);
    // A word of a command is enough when it is the only one.
    terminal.press(&format!("/sa\t{}\r", file.display()));
    terminal.wait_for("4 messages saved");
    at_prompt(&mut terminal);
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, Some(0));
    let saved = std::fs::read_to_string(file).expect("saved");
    assert!(saved.contains("\"one\\ntwo\"") && saved.contains("\"/three\""), "{saved}");
}

#[test]
fn ctrl_c_drops_an_input_and_stops_an_answer_but_not_the_program() {
    let state = tempfile::tempdir().expect("a folder");
    let model = model();
    // Every step takes so long that the answer cannot be over when it is interrupted.
    let slow = [("CAJETA_REFERENCE_LATENCY_US", "20000")];
    let mut command = on_reference(&["chat", &model, "--temp", "0"], &slow);
    command.env("XDG_STATE_HOME", state.path()).env("NO_COLOR", "1");
    let mut terminal = Terminal::start(&command);
    at_prompt(&mut terminal);
    terminal.press(&format!("never said{CTRL_C}"));
    at_prompt(&mut terminal);
    terminal.press("Hello\r");
    terminal.wait_for("Hello!");
    terminal.press(CTRL_C);
    terminal.wait_for("(stopped)");
    at_prompt(&mut terminal);
    terminal.press("/stats\r");
    terminal.wait_for("1 turn, ");
    at_prompt(&mut terminal);
    terminal.press(CTRL_D);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("to hear a story"), "{shown}");
}

#[test]
fn what_does_not_fit_or_load_is_told_and_the_talk_goes_on() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::start(&chat(state.path(), &["-n", "4", "--ctx", "24"]));
    at_prompt(&mut terminal);
    terminal.press(&format!("{}\r", "word ".repeat(40)));
    terminal.wait_for("the context holds 24");
    at_prompt(&mut terminal);
    terminal.press("/load /dev/zero\r");
    terminal.wait_for("/dev/zero: it is not a file");
    at_prompt(&mut terminal);
    terminal.press("/load\r");
    terminal.wait_for("give a file");
    at_prompt(&mut terminal);
    terminal.press("Hello\r");
    terminal.wait_for("Hello! Would");
    at_prompt(&mut terminal);
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn the_prompt_is_coloured_unless_asked_not_to() {
    let state = tempfile::tempdir().expect("a folder");
    for (name, value, coloured) in
        [("TERM", "xterm", true), ("NO_COLOR", "1", false), ("CLICOLOR", "0", false)]
    {
        let mut command = chat(state.path(), &["-n", "1"]);
        command.env_remove("NO_COLOR").env(name, value);
        let mut terminal = Terminal::start(&command);
        at_prompt(&mut terminal);
        terminal.press(CTRL_D);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0));
        assert_eq!(shown.contains("\u{1b}[1m\u{1b}[32m"), coloured, "{name}={value}: {shown:?}");
    }
}

#[test]
fn pasted_lines_are_one_input() {
    let state = tempfile::tempdir().expect("a folder");
    let file = state.path().join("talk.json");
    let mut terminal = Terminal::start(&chat(state.path(), &["-n", "1"]));
    at_prompt(&mut terminal);
    terminal.press("\u{1b}[200~one\rtwo\u{1b}[201~\r");
    at_prompt(&mut terminal);
    terminal.press(&format!("/save {}\r", file.display()));
    terminal.wait_for("2 messages saved");
    at_prompt(&mut terminal);
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, Some(0));
    let saved = std::fs::read_to_string(file).expect("saved");
    assert!(saved.contains("\"one\\ntwo\""), "{saved}");
}

#[test]
fn a_signal_at_the_prompt_gives_the_terminal_back() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::start(&chat(state.path(), &[]));
    at_prompt(&mut terminal);
    assert!(!terminal.is_plain(), "the editor gathers keys");
    terminal.signal("TERM");
    terminal.wait_for("\u{1b}[?2004l");
    assert!(terminal.is_plain());
    assert_eq!(terminal.end().0, Some(130));
}
