//! Colours, for people at terminals who have not asked for none.

use std::io::{IsTerminal, stderr, stdout};

use clap::builder::styling::{AnsiColor, Style, Styles};

/// How help is coloured where it is.
pub(crate) const HELP: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// The word a failure begins with.
pub(crate) const FAILURE: Style = AnsiColor::Red.on_default().bold();

/// What asks for words.
pub(crate) const PROMPT: Style = AnsiColor::Green.on_default().bold();

/// Whether standard output may be coloured.
pub(crate) fn on_stdout() -> bool {
    stdout().is_terminal() && wanted(|name| std::env::var(name).ok())
}

/// Whether standard error may be coloured.
pub(crate) fn on_stderr() -> bool {
    stderr().is_terminal() && wanted(|name| std::env::var(name).ok())
}

/// Text in a style, or as it is.
pub(crate) fn painted(text: &str, style: Style, coloured: bool) -> String {
    if coloured { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Whether the environment leaves colours to the terminal: `NO_COLOR` (anything), `CLICOLOR=0` and
/// `TERM=dumb` do not.
fn wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set == value);
    let none = variable("NO_COLOR").is_some_and(|set| !set.is_empty());
    !(none || is("CLICOLOR", "0") || is("TERM", "dumb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_can_ask_for_none() {
        let with = |set: &'static str, value: &'static str| {
            wanted(move |name| (name == set).then(|| value.to_owned()))
        };
        assert!(with("TERM", "xterm") && with("NO_COLOR", "") && with("CLICOLOR", "1"));
        assert!(!with("TERM", "dumb") && !with("NO_COLOR", "1") && !with("CLICOLOR", "0"));
    }

    #[test]
    fn paint_is_taken_off_again() {
        assert_eq!(painted("x", FAILURE, false), "x");
        let red = painted("x", FAILURE, true);
        assert!(red.starts_with("\u{1b}[") && red.ends_with("x\u{1b}[0m"), "{red:?}");
    }
}
