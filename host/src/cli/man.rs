//! `cajeta man`: a manual page for the program and for each of its commands, from the same text as
//! the help. For those who make packages; users have `cajeta help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::failure::{Failure, Outcome};
use super::output;

/// What was typed.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The folder that the pages are written to; it is made if there is none
    folder: PathBuf,
}

/// Writes the pages, and says which.
pub(crate) fn run(flags: Flags) -> Outcome {
    let written = |error: io::Error, path: &Path| {
        Failure::work(format!("writing the manual page {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&flags.folder).map_err(|error| written(error, &flags.folder))?;
    // Built, so that each command knows its full name and the options it shares.
    let mut program = super::Flags::command().disable_help_subcommand(true);
    program.build();
    for (name, command) in pages("cajeta", &program) {
        let path = flags.folder.join(format!("{name}.1"));
        let page = page(&name, command).map_err(|error| written(error, &path))?;
        std::fs::write(&path, page).map_err(|error| written(error, &path))?;
        output::line(&path.display().to_string())?;
    }
    Ok(())
}

/// A command and those under it, each with the name of its page.
fn pages<'a>(name: &str, command: &'a Command) -> Vec<(String, &'a Command)> {
    let inner = visible(command).flat_map(|inner| pages(&format!("{name}-{}", inner.get_name()), inner));
    std::iter::once((name.to_owned(), command)).chain(inner).collect()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// One page in the language of `man`.
fn page(name: &str, command: &Command) -> io::Result<String> {
    let teaching = command.get_after_help().map(|text| sections(&text.to_string())).unwrap_or_default();
    let command = command.clone().after_help(None::<&str>).display_name(name.to_owned());
    let command = command.subcommand_value_name("COMMAND").mut_args(with_aliases);
    let source = concat!("cajeta ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name.to_uppercase()).source(source).manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut rest = Roff::new();
    if visible(&command).next().is_some() {
        rest.control("SH", ["COMMANDS"]);
    }
    for inner in visible(&command) {
        rest.control("TP", []);
        rest.text([bold(format!("{} {}", command.get_name(), inner.get_name()))]);
        rest.text([roman(inner.get_about().map(ToString::to_string).unwrap_or_default())]);
    }
    for Section { title, body } in &teaching {
        rest.control("SH", [title.to_uppercase().as_str()]);
        body.iter().for_each(|part| part.write(&mut rest));
    }
    rest.control("SH", ["SEE ALSO"]);
    let see = if name == "cajeta" { "cajeta help COMMAND" } else { "cajeta(1)" };
    rest.text([bold(see)]);
    rest.to_writer(&mut page)?;
    Ok(portable(&String::from_utf8_lossy(&page)))
}

/// An option whose help names its other spellings, which a page leaves out otherwise.
fn with_aliases(option: Arg) -> Arg {
    let Some(aliases) = option.get_visible_aliases() else { return option };
    let also: Vec<String> = aliases.iter().map(|alias| format!("--{alias}")).collect();
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    if also.is_empty() { option } else { option.help(format!("{help} (also {})", also.join(", "))) }
}

/// Text in ASCII, other characters by their number: formatters disagree about encodings.
fn portable(page: &str) -> String {
    let spelled = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    page.chars().map(spelled).collect()
}

/// A titled part of the text under a command's options.
#[derive(PartialEq, Debug)]
struct Section {
    title: String,
    body: Vec<Part>,
}

#[derive(PartialEq, Debug)]
enum Part {
    /// An indented line, to be shown as it is.
    Exact(String),
    /// A line of prose.
    Prose(String),
}

impl Part {
    fn write(&self, roff: &mut Roff) {
        match self {
            Part::Exact(line) => {
                roff.control("nf", []).text([roman(line.as_str())]).control("fi", []);
            }
            Part::Prose(line) => {
                roff.text([roman(line.as_str())]);
            }
        }
    }
}

/// Splits the text under a command's options: a line that ends in a colon titles the indented lines
/// under it, `Exit status: …` titles itself, and prose that has no title is a note.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut notes = Section { title: "Notes".into(), body: Vec::new() };
    for line in text.lines() {
        if let Some(exact) = line.strip_prefix("  ") {
            let part = Part::Exact(exact.to_owned());
            sections.last_mut().unwrap_or(&mut notes).body.push(part);
        } else if let Some(codes) = line.strip_prefix("Exit status: ") {
            let body = vec![Part::Prose(codes.to_owned())];
            sections.push(Section { title: "Exit status".into(), body });
        } else if let Some(title) = line.strip_suffix(':') {
            sections.push(Section { title: title.to_owned(), body: Vec::new() });
        } else if !line.is_empty() {
            notes.body.push(Part::Prose(line.to_owned()));
        }
    }
    if !notes.body.is_empty() {
        sections.push(notes);
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_under_the_options_has_titles() {
        let exact = |line: &str| Part::Exact(line.into());
        let prose = |line: &str| Part::Prose(line.into());
        let section = |title: &str, body| Section { title: title.into(), body };
        assert_eq!(
            sections("Examples:\n  a\n  b\n\nExit status: 0 fine.\nMore."),
            [
                section("Examples", vec![exact("a"), exact("b")]),
                section("Exit status", vec![prose("0 fine.")]),
                section("Notes", vec![prose("More.")]),
            ]
        );
        assert_eq!(sections(""), []);
    }

    #[test]
    fn other_spellings_and_other_characters_are_kept() {
        let option = with_aliases(Arg::new("temp").long("temp").visible_alias("temperature").help("Heat"));
        assert_eq!(option.get_help().map(ToString::to_string).as_deref(), Some("Heat (also --temperature)"));
        assert_eq!(portable("a…"), "a\\[u2026]");
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let mut program = super::super::Flags::command();
        program.build();
        let pages = pages("cajeta", &program);
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"cajeta-backends-check") && !names.contains(&"cajeta-man"), "{names:?}");
        for (name, command) in pages {
            let page = page(&name, command).expect("writes to memory");
            assert!(page.contains(".SH SYNOPSIS") && page.contains("SEE ALSO") && page.is_ascii(), "{page}");
        }
    }
}
