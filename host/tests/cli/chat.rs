//! `chat` without a terminal: one line a turn, nothing but answers on standard output.

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
    for part in ["/reset", "no command is called /nonsense", "forgotten", "no instructions"] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
}

#[test]
fn what_cannot_be_said_ends_a_pipe_with_a_sentence() {
    let model = model();
    feed(with_plugins(&["chat", &model]), b"\xff\xfe\n").failure(1, &["not UTF-8"]);
    let long = "word ".repeat(3000);
    feed(with_plugins(&["chat", &model]), long.as_bytes()).failure(1, &["tokens", "1024"]);
}
