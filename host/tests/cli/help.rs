//! Help, manual pages and completions: the same commands in every form, coloured for people alone.

use std::process::Command;

use crate::program::{bare, finish};
use crate::terminal::Terminal;

/// The commands that help lists.
fn commands() -> Vec<String> {
    let help = finish(bare(&["--help"])).success();
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn options_have_headings_and_the_names_of_llama_cpp() {
    let help = finish(bare(&["help", "run"])).success();
    for heading in ["Placement:", "Prompt:", "Answer:", "Sampling:", "Examples:", "Exit status:"] {
        assert!(help.lines().any(|line| line.starts_with(heading)), "{heading} is not in\n{help}");
    }
    let placement =
        help.split("Placement:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a part");
    assert!(!placement.contains("--prompt"), "{placement}");
    for name in ["-c,", "--ctx-size", "--n-predict", "--predict", "--temperature", "-s,", "--ubatch-size"] {
        assert!(help.contains(name), "{name} is not in\n{help}");
    }
    for default in ["default: 0.8", "default: 40", "0.95]", "0.05]"] {
        assert!(help.contains(default), "{default} is not in\n{help}");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man/man1");
    let written = finish(bare(&["man", &pages.display().to_string()])).success();
    for command in commands() {
        let page = std::fs::read_to_string(pages.join(format!("cajeta-{command}.1"))).expect(&command);
        assert!(page.contains(&format!(".TH CAJETA-{}", command.to_uppercase())), "{page}");
        assert!(written.contains(&format!("cajeta-{command}.1")), "{written}");
    }
    let page = std::fs::read_to_string(pages.join("cajeta.1")).expect("the program's own");
    for part in ["SH EXAMPLES", "SH ENVIRONMENT", "CAJETA_XPU_BACKEND", "SH FILES", "EXIT STATUS"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let page = std::fs::read_to_string(pages.join("cajeta-run.1")).expect("a page");
    assert!(page.contains("SAMPLING") && page.contains("temperature"), "{page}");
    finish(bare(&["man", "/proc/nowhere"])).failure(1, &["manual page", "/proc/nowhere"]);
}

#[test]
fn completions_are_for_shells_there_are() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = finish(bare(&["completions", shell])).success();
        for command in commands() {
            assert!(script.contains(&command), "{command} is not in {shell}'s");
        }
        for hidden in ["check-worker", "check__worker", "The process of a check"] {
            assert!(!script.contains(hidden), "{hidden} is in {shell}'s");
        }
    }
    finish(bare(&["completions", "nonsense"])).failure(2, &["nonsense", "bash"]);
}

#[test]
fn bash_completes_commands_and_options() {
    let script = "source <(\"$0\" completions bash)
        complete_at() { COMP_WORDS=(cajeta \"$@\"); COMP_CWORD=$#; _cajeta cajeta \"${!#}\" x; echo \"${COMPREPLY[@]}\"; }
        complete_at insp; complete_at run --min; complete_at chat m --see";
    let output =
        Command::new("bash").args(["-c", script, crate::program::CAJETA]).output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["inspect", "--min-p", "--seed"], "{output:?}");
}

#[test]
fn help_is_coloured_at_a_terminal_alone_and_never_against_ones_will() {
    let plain = finish(bare(&["help", "run"])).success();
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let shown = |name: &str, value: &str| {
        let mut command = bare(&["help", "run"]);
        command.env(name, value);
        let (code, shown) = Terminal::start(&command).end();
        assert_eq!(code, Some(0));
        assert!(shown.contains("--min-p"), "{shown}");
        shown
    };
    assert!(shown("TERM", "xterm").contains("\u{1b}["));
    for (name, value) in [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
        assert!(!shown(name, value).contains('\u{1b}'), "{name}={value}");
    }
}

#[test]
fn a_failure_is_marked_at_a_terminal() {
    let (code, shown) = Terminal::start(&bare(&["inspect", "/nonexistent.gguf"])).end();
    assert_eq!(code, Some(1));
    assert!(shown.contains("\u{1b}[") && shown.contains("/nonexistent.gguf"), "{shown:?}");
}
