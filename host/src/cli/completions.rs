//! `cajeta completions`: a script that teaches a shell the commands and their options.

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::failure::Outcome;
use super::output;

const EXAMPLES: &str = "\
Examples:
  cajeta completions bash > ~/.local/share/bash-completion/completions/cajeta
  cajeta completions zsh > ~/.zfunc/_cajeta
  cajeta completions fish > ~/.config/fish/completions/cajeta.fish
  source <(cajeta completions bash)";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The shell the script is for
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(flags: Flags) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut visible(&super::Flags::command()), "cajeta", &mut script);
    output::text(&String::from_utf8_lossy(&script))
}

/// A command without those under it that its help does not show: scripts would offer them.
fn visible(command: &Command) -> Command {
    // As long as the program, which ends with its script.
    let keep = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    let mut shown = Command::new(keep(command.get_name()))
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(visible));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    match command.get_version() {
        Some(version) => shown.version(keep(version)),
        None => shown,
    }
}
