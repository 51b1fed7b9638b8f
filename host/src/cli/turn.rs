//! What was typed at the chat's prompt: words for the model or a command, on one line or several.
//!
//! A line that ends in a backslash goes on in the next; `"""` begins a block that the next `"""` at
//! the end of a line closes, and what stands between is taken as it is.

/// Begins and ends a block.
const FENCE: &str = "\"\"\"";

/// What an input asks for.
#[derive(PartialEq, Debug)]
pub(crate) enum Turn {
    /// Nothing at all.
    Nothing,
    /// To end the conversation.
    Leave,
    /// To say this to the model.
    Say(String),
    /// To do something else: a command without its slash, and what follows it.
    Command(String, String),
}

impl Turn {
    /// Reads an input that is not [open](is_open).
    pub(crate) fn read(input: &str) -> Turn {
        let Some(command) = input.trim_start().strip_prefix('/') else {
            let words = words(input);
            return if words.is_empty() { Turn::Nothing } else { Turn::Say(words) };
        };
        if command.starts_with('/') {
            return Turn::Say(words(command));
        }
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match name {
            "exit" | "quit" | "bye" => Turn::Leave,
            _ => Turn::Command(name.to_owned(), words(argument)),
        }
    }
}

/// Whether an input, without the newline that ended it, goes on: its block is not closed, or its last line ends in a backslash. Looks at
/// the input's first words and last line alone, so that asking after every line stays cheap.
pub(crate) fn is_open(input: &str) -> bool {
    let body = body(input);
    match body.strip_prefix(FENCE) {
        Some(block) => !last_line(block).trim_end().ends_with(FENCE),
        None => goes_on(last_line(body)).is_some(),
    }
}

/// The words of an input without its fences and backslashes.
fn words(text: &str) -> String {
    let text = text.trim_start();
    if let Some(block) = text.strip_prefix(FENCE) {
        let block = block.trim_end();
        let block = block.strip_suffix(FENCE).unwrap_or(block);
        let block = block.strip_prefix('\r').unwrap_or(block);
        return block.strip_prefix('\n').unwrap_or(block).trim_end_matches(['\r', '\n']).to_owned();
    }
    let lines = text.trim_end().split('\n').map(|line| goes_on(line).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Where words begin: after the name of a command, if that is what the input is.
fn body(input: &str) -> &str {
    let input = input.trim_start();
    match input.strip_prefix('/') {
        Some(command) if !command.starts_with('/') => {
            command.split_once(char::is_whitespace).map_or(input, |(_, argument)| argument.trim_start())
        }
        _ => input,
    }
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}

/// A line without the backslash by which it goes on.
fn goes_on(line: &str) -> Option<&str> {
    line.strip_suffix('\r').unwrap_or(line).strip_suffix('\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn say(text: &str) -> Turn {
        Turn::Say(text.into())
    }

    fn command(name: &str, argument: &str) -> Turn {
        Turn::Command(name.into(), argument.into())
    }

    #[test]
    fn lines_are_words_or_commands() {
        for (input, turn) in [
            ("  hi there \n", say("hi there")),
            ("   ", Turn::Nothing),
            ("/exit", Turn::Leave),
            ("/system  be brief ", command("system", "be brief")),
            ("//etc is a folder", say("/etc is a folder")),
            ("/", command("", "")),
            ("pasted\nlines", say("pasted\nlines")),
        ] {
            assert!(!is_open(input), "{input:?}");
            assert_eq!(Turn::read(input), turn, "{input:?}");
        }
    }

    #[test]
    fn words_can_take_several_lines() {
        for (open, closed, turn) in [
            ("one\\", "one\\\ntwo", say("one\ntwo")),
            ("one\\\r", "one\\\r\ntwo\r\n", say("one\ntwo")),
            ("\"\"\"one", "\"\"\"one\n two \"\"\"", say("one\n two ")),
            ("\"\"\"\n", "\"\"\"\n  a\n/b\\\n\n\"\"\" ", say("  a\n/b\\")),
            ("\"\"\"one", "\"\"\"one\"\"\"", say("one")),
            ("\"\"\"", "\"\"\"\"\"\"", Turn::Nothing),
            ("/system \"\"\"a\n", "/system \"\"\"a\nb\"\"\"", command("system", "a\nb")),
            ("one\\", "one\\\n", say("one")),
            ("/system a\\", "/system a\\\nb", command("system", "a\nb")),
        ] {
            assert!(is_open(open), "{open:?}");
            assert!(!is_open(closed), "{closed:?}");
            assert_eq!(Turn::read(closed), turn, "{closed:?}");
        }
    }

    proptest! {
        #[test]
        fn what_a_block_holds_is_taken_as_it_is(text in "[a-z/\\\\ ]{1,9}(\n[a-z/\\\\ ]{1,9}){0,3}[a-z]") {
            let block = format!("\"\"\"\n{text}\n\"\"\"");
            prop_assert!(!is_open(&block));
            prop_assert_eq!(Turn::read(&block), Turn::Say(text));
        }

        #[test]
        fn any_input_means_something(text in "[\"/\\\\a\n\r ]{0,30}") {
            let _ = (is_open(&text), Turn::read(&text));
        }
    }
}
