//! `cajeta completions`: a script that teaches a shell the commands and their options.

use clap::{Args, CommandFactory};
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
    clap_complete::generate(flags.shell, &mut super::Flags::command(), "cajeta", &mut script);
    output::text(&String::from_utf8_lossy(&script))
}
