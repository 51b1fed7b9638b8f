//! Text and token ids given on the command line, in a file, or on standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Outcome};

/// Most bytes taken from a file or standard input: far above any context, far below memory.
const MAX_BYTES: u64 = 256 << 20;

/// Where an input comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The command line itself.
    Argument(String),
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// An argument that may be `-`, or absent; then it is standard input, unless a person sits there
    /// who would wait for an answer without knowing that a question was asked.
    pub(crate) fn argument(argument: Option<String>, wanted: &str) -> Outcome<Source> {
        match argument {
            Some(dash) if dash == "-" => Ok(Source::Stdin),
            Some(text) => Ok(Source::Argument(text)),
            None if io::stdin().is_terminal() => Err(Failure::usage(wanted)),
            None => Ok(Source::Stdin),
        }
    }

    /// A file that may be `-`.
    pub(crate) fn file(path: PathBuf) -> Source {
        if path.as_os_str() == "-" { Source::Stdin } else { Source::File(path) }
    }

    /// For messages.
    fn name(&self) -> String {
        match self {
            Source::Argument(_) => "the argument".into(),
            Source::File(path) => path.display().to_string(),
            Source::Stdin => "standard input".into(),
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Outcome<Vec<u8>> {
        let read = match self {
            Source::Argument(text) => return Ok(text.clone().into_bytes()),
            Source::File(path) => open(path).and_then(bounded),
            Source::Stdin => bounded(io::stdin().lock()),
        };
        let bytes = read.map_err(|error| Failure::work(format!("cannot read {}: {error}", self.name())))?;
        if bytes.len() as u64 > MAX_BYTES {
            let limit = MAX_BYTES >> 20;
            return Err(Failure::work(format!("{} holds more than {limit} MiB; give less", self.name())));
        }
        Ok(bytes)
    }

    /// The bytes as text.
    pub(crate) fn text(&self) -> Outcome<String> {
        String::from_utf8(self.bytes()?).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            let byte = error.as_bytes().get(offset).copied().unwrap_or_default();
            Failure::work(format!(
                "{} is not UTF-8: byte {byte:#04x} at offset {offset} starts no character; convert it to UTF-8 first",
                self.name()
            ))
        })
    }

    /// The text without the newline that ends a file or an `echo`; an argument stays as it is.
    pub(crate) fn prompt(&self) -> Outcome<String> {
        let mut text = self.text()?;
        if !matches!(self, Source::Argument(_)) && text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }

    /// Token ids: a JSON list, or numbers with white space or commas between.
    pub(crate) fn ids(&self) -> Outcome<Vec<u32>> {
        parse_ids(&self.text()?).map_err(|why| {
            Failure::work(format!("{}: expected token ids as a JSON list or numbers: {why}", self.name()))
        })
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    Ok(file)
}

fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse_ids(text: &str) -> Result<Vec<u32>, String> {
    let text = text.trim();
    if text.starts_with('[') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let numbers = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().map_err(|error| format!("{number:?}: {error}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_every_form() {
        let check =
            |text: &str, expected: &[u32]| assert_eq!(parse_ids(text).as_deref(), Ok(expected), "{text}");
        check("[1, 2,\n3]", &[1, 2, 3]);
        check(" 1 2\t3\n", &[1, 2, 3]);
        check("1,2, 3,", &[1, 2, 3]);
        check("", &[]);
        check("[]", &[]);
    }

    #[test]
    fn what_is_no_id_is_named() {
        for bad in ["[1,", "[1.5]", "[-1]", "[\"1\"]", "1 x", "-1", "4294967296", "[4294967296]", "{}"] {
            assert!(parse_ids(bad).is_err(), "{bad}");
        }
        assert!(parse_ids("1 x2 3").is_err_and(|why| why.contains("\"x2\"")));
    }

    #[test]
    fn only_the_last_newline_of_a_file_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prompt");
        for (content, prompt) in [("a\n\n", "a\n"), ("a\r\n", "a"), ("a", "a"), ("\n", "")] {
            std::fs::write(&path, content).expect("written");
            assert_eq!(Source::File(path.clone()).prompt().expect("text"), prompt);
        }
        assert_eq!(Source::Argument("a\n".into()).prompt().expect("text"), "a\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_located() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prompt");
        std::fs::write(&path, b"ab\xffcd").expect("written");
        let Err(Failure::Work(sentence)) = Source::File(path).text() else { panic!("taken") };
        assert!(sentence.contains("byte 0xff at offset 2"), "{sentence}");
    }
}
