//! Running other programs: shown before it starts, and an error that names it when it fails.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Outcome};

/// The command line as a person would type it, without its environment.
pub(crate) fn spell(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    let mut line = program.into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        let plain =
            !argument.is_empty() && !argument.contains(|c: char| c.is_whitespace() || "\"'$`".contains(c));
        line.push(' ');
        line.push_str(&if plain { argument.into_owned() } else { format!("{argument:?}") });
    }
    line
}

/// Runs a command to its end with our own terminal; an unsuccessful exit is a failure.
pub(crate) fn run(mut command: Command) -> Outcome<()> {
    let line = spell(&command);
    eprintln!("$ {line}");
    let status = command.status().map_err(|error| cannot_start(&line, &error))?;
    if status.success() { Ok(()) } else { Err(Failure::work(format!("`{line}` ended with {status}"))) }
}

/// What a command writes to its standard output; an unsuccessful exit is a failure.
pub(crate) fn output(mut command: Command) -> Outcome<Vec<u8>> {
    let line = spell(&command);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(&line, &error))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Failure::work(format!("`{line}` ended with {}", output.status)))
    }
}

/// Runs a command, handing each line of its standard output to `each_line` as it comes.
/// Returns whether it succeeded; standard error goes straight to the terminal.
pub(crate) fn run_reading(mut command: Command, mut each_line: impl FnMut(&str)) -> Outcome<bool> {
    let line = spell(&command);
    eprintln!("$ {line}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(&line, &error))?;
    if let Some(output) = child.stdout.take() {
        let mut reader = BufReader::new(output);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader
                .read_until(b'\n', &mut bytes)
                .map_err(|error| Failure::work(format!("cannot read the output of `{line}`: {error}")))?;
            if read == 0 {
                break;
            }
            each_line(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
        }
    }
    let status = child.wait().map_err(|error| cannot_start(&line, &error))?;
    Ok(status.success())
}

/// Whether a command runs and succeeds at all, its output thrown away: "is this tool installed?"
pub(crate) fn answers(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn cannot_start(line: &str, error: &std::io::Error) -> Failure {
    Failure::work(format!("cannot start `{line}`: {error}; is the program installed?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_spelled_so_that_it_can_be_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["test", "-p", "a b", ""]);
        assert_eq!(spell(&command), "cargo test -p \"a b\" \"\"");
    }

    #[test]
    fn lines_arrive_without_their_ends_and_success_is_reported() {
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'one\\ntwo'; exit 3"]);
        let mut lines = Vec::new();
        let succeeded = run_reading(command, |line| lines.push(line.to_owned())).expect("sh starts");
        assert_eq!(lines, ["one", "two"]);
        assert!(!succeeded);
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = run(Command::new("no-such-program-here")).expect_err("cannot start");
        assert!(failure.to_string().contains("no-such-program-here"), "{failure}");
    }
}
