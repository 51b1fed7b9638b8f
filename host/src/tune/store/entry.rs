//! An answer as a file: a line a fact, the timings behind it, and a last line that says it is whole.

use super::file_name::{escape, unescape};
use crate::record::ArmTiming;

/// Most bytes of a file that are read.
pub(super) const BYTES_MAX: u64 = 64 * 1024;
/// First line of every file.
const HEAD: &str = "cajeta-tune 1";
/// What the first line of any version begins with.
const HEAD_OF_ANY: &[u8] = b"cajeta-tune ";
/// Last line of a whole file: a cut one lacks it.
const END: &str = "end";

/// What was found out, and from what.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Answer {
    /// The answer.
    pub value: String,
    /// A remark, such as that it was a tie.
    pub note: Option<String>,
    /// Every timing it rests on.
    pub timings: Vec<ArmTiming>,
}

impl From<&str> for Answer {
    fn from(value: &str) -> Answer {
        Answer { value: value.to_owned(), ..Answer::default() }
    }
}

/// An answer with its name and the build it holds for.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Entry {
    /// Its name: `shape.q4kTcTile.512x4096x4096`.
    pub name: String,
    /// The build it holds for; `None` for any.
    pub build: Option<String>,
    /// The answer.
    pub answer: Answer,
}

/// Whether a file with this content was written by a store, of this version or another, whole or not.
pub(super) fn is_of_a_store(content: &[u8]) -> bool {
    content.starts_with(HEAD_OF_ANY)
}

impl Entry {
    /// The file's content.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![HEAD.to_owned(), format!("name {}", escape(&self.name))];
        lines.extend(self.build.iter().map(|build| format!("build {}", escape(build))));
        lines.push(format!("value {}", escape(&self.answer.value)));
        lines.extend(self.answer.note.iter().map(|note| format!("note {}", escape(note))));
        for timing in &self.answer.timings {
            let mut line = format!("timing {} {:.1}", escape(&timing.arm), timing.median_ns);
            timing.rounds_ns.iter().for_each(|round| line.push_str(&format!(" {round:.1}")));
            lines.push(line);
        }
        lines.push(END.to_owned());
        lines.join("\n") + "\n"
    }

    /// The entries in a file's content, one a build, the newest first. What is no whole entry is passed
    /// over.
    pub(super) fn all_from_text(text: &str) -> Vec<Entry> {
        let starts = text.match_indices(HEAD).map(|(at, _)| at);
        let starts: Vec<usize> = starts.filter(|&at| at == 0 || text[..at].ends_with('\n')).collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).filter_map(|(&start, end)| Entry::from_text(text.get(start..end)?)).collect()
    }

    /// The entry in one piece of a file's content; `None` for anything [`Entry::to_text`] does not write,
    /// but lines of words it does not know, which a later version may add.
    fn from_text(text: &str) -> Option<Entry> {
        let mut lines = text.strip_suffix('\n')?.lines();
        if lines.next()? != HEAD || lines.next_back()? != END {
            return None;
        }
        let (mut entry, mut name, mut value) = (Entry::default(), None, None);
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "name" => name = Some(unescape(rest)?),
                "build" => entry.build = Some(unescape(rest)?),
                "value" => value = Some(unescape(rest)?),
                "note" => entry.answer.note = Some(unescape(rest)?),
                "timing" => entry.answer.timings.push(timing(rest)?),
                _ => {}
            }
        }
        (entry.name, entry.answer.value) = (name?, value?);
        Some(entry)
    }
}

fn timing(text: &str) -> Option<ArmTiming> {
    let mut words = text.split(' ');
    let arm = unescape(words.next()?)?;
    let number = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
    let median_ns = number(words.next()?)?;
    let rounds_ns = words.map(number).collect::<Option<Vec<f64>>>()?;
    Some(ArmTiming { arm, median_ns, rounds_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_comes_back_whatever_its_texts(
            name in any::<String>(), value in any::<String>(), note in any::<Option<String>>(),
            build in any::<Option<String>>(), arm in any::<String>(), rounds in prop::collection::vec(0u32..1 << 30, 0..6),
        ) {
            let rounds_ns: Vec<f64> = rounds.into_iter().map(f64::from).collect();
            let timings = vec![ArmTiming { arm, median_ns: 7.5, rounds_ns }];
            let entry = Entry { name, build, answer: Answer { value, note, timings } };
            prop_assert_eq!(Entry::from_text(&entry.to_text()), Some(entry));
        }

        #[test]
        fn a_cut_file_is_none(cut in 0usize..100) {
            let entry = Entry { name: "colsPays-q4k-b4".into(), build: None, answer: "1".into() };
            let text = entry.to_text();
            let cut = cut.min(text.len() - 1);
            prop_assert_eq!(Entry::from_text(&text[..cut]), None);
        }

        #[test]
        fn garbage_is_none_and_breaks_nothing(text in any::<String>()) {
            prop_assert_eq!(Entry::from_text(&text), None);
            let _ = Entry::all_from_text(&format!("{HEAD}\n{text}\n{END}\n"));
        }
    }

    #[test]
    fn a_file_holds_several_builds_and_a_broken_one_hides_no_other() {
        let entry = |build: &str| Entry { name: "a".into(), build: Some(build.into()), answer: build.into() };
        let text = entry("2").to_text() + &format!("{HEAD}\nname a\n") + &entry("1").to_text();
        assert_eq!(Entry::all_from_text(&text), [entry("2"), entry("1")]);
        assert!(Entry::all_from_text("").is_empty());
    }

    #[test]
    fn a_stores_files_are_known_by_their_first_line() {
        let text = Entry { name: "a".into(), build: None, answer: "1".into() }.to_text();
        assert!(is_of_a_store(text.as_bytes()) && is_of_a_store(&text.as_bytes()[..14]));
        assert!(is_of_a_store(b"cajeta-tune 2\n\xff"));
        for other in ["", "cajeta", "fn main() {}", " cajeta-tune 1", "cajeta-tuned 1"] {
            assert!(!is_of_a_store(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_later_versions_lines_are_passed_over() {
        let text = format!("{HEAD}\nname a\nvalue 1\nmood sunny\n{END}\n");
        assert_eq!(Entry::from_text(&text).map(|entry| entry.answer.value), Some("1".into()));
    }
}
