//! Pre-tokenization: cutting text into the words that merging never crosses.
//!
//! Pre-tokenizers are data. A row is a list of steps, each applied to the pieces of the one before; a step is an
//! ordered list of alternatives, and whatever no alternative matches stays a piece of its own. The behaviour is that
//! of llama.cpp's `src/llama-vocab.cpp` (read at commit 00ad355e); names and patterns are facts about the models.
//!
//! The published patterns end in `\s+(?!\S)|\s+`. Look-ahead needs a backtracking engine, which gives up after some
//! number of steps and then cuts elsewhere: measured with `tokenizers` 0.22, 1.5 million spaces before a word changed
//! that word's tokens. So rows say [`SPACE_RUN`] instead, which this module carries out itself, and the rest runs on
//! automata in linear time.

use super::error::TokenizerError;
use regex_automata::{Input, PatternID, meta::Regex};

/// Whitespace up to, and without, the last character before something else: `\s+(?!\S)|\s+`.
const SPACE_RUN: &str = r"\s+";

/// One character of any number category, alone.
const EACH_NUMBER: &[&str] = &[r"\p{N}"];

/// The pattern of GPT-2.
const GPT2: &[&str] =
    &[r"'s|'t|'re|'ve|'m|'ll|'d", r" ?\p{L}+", r" ?\p{N}+", r" ?[^\s\p{L}\p{N}]+", SPACE_RUN];

/// The pattern of Llama 3. The contractions are spelled out because a case-insensitive `s` would also match `ſ`.
const LLAMA3: &[&str] = &[
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE_RUN,
];

/// One known pre-tokenizer.
struct Row {
    /// The names that `tokenizer.ggml.pre` may give it; the first is the usual one.
    names: &'static [&'static str],
    steps: &'static [&'static [&'static str]],
    /// A word that is itself a token is that token, whatever the merges would make of it.
    ignore_merges: bool,
    /// What `add_bos_token` is when the file does not say.
    add_bos: bool,
}

const ROWS: &[Row] = &[
    Row {
        names: &["default"],
        steps: &[&[r"[\p{P}$+<=>^~|]+"], GPT2, &[r"\p{N}+"], &["[0-9][0-9][0-9]"]],
        ignore_merges: false,
        add_bos: false,
    },
    Row { names: &["gpt-2", "gpt2"], steps: &[GPT2], ignore_merges: false, add_bos: false },
    Row { names: &["llama-bpe", "llama3", "llama-v3"], steps: &[LLAMA3], ignore_merges: true, add_bos: true },
    Row { names: &["smollm"], steps: &[EACH_NUMBER, GPT2], ignore_merges: false, add_bos: false },
];

/// The names that are understood, for an error message.
pub(crate) fn known_names() -> String {
    ROWS.iter().flat_map(|row| row.names).copied().collect::<Vec<_>>().join(", ")
}

/// A compiled pre-tokenizer.
pub(crate) struct Pretokenizer {
    steps: Vec<Step>,
    pub(crate) ignore_merges: bool,
    pub(crate) add_bos: bool,
}

struct Step {
    alternatives: Regex,
    /// Which alternative is [`SPACE_RUN`].
    space_run: Option<PatternID>,
}

impl Pretokenizer {
    /// The pre-tokenizer of that name. An unknown name is refused: with another one the model would read wrong tokens.
    pub(crate) fn named(name: &str) -> Result<Self, TokenizerError> {
        let row = ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(|| {
            TokenizerError::UnknownPretokenizer { name: name.to_owned(), known: known_names() }
        })?;
        let steps = row
            .steps
            .iter()
            .map(|alternatives| Step::compile(name, alternatives))
            .collect::<Result<_, _>>()?;
        Ok(Self { steps, ignore_merges: row.ignore_merges, add_bos: row.add_bos })
    }

    /// Calls `word` on each word of `text`, in order. The words are not empty, and joined they are `text`.
    pub(crate) fn split<'t>(&self, text: &'t str, word: &mut dyn FnMut(&'t str)) {
        run(&self.steps, text, word);
    }
}

fn run<'t>(steps: &[Step], text: &'t str, word: &mut dyn FnMut(&'t str)) {
    match steps.split_first() {
        None if text.is_empty() => {}
        None => word(text),
        Some((step, rest)) => step.split(text, &mut |piece| run(rest, piece, word)),
    }
}

impl Step {
    fn compile(name: &str, alternatives: &[&str]) -> Result<Self, TokenizerError> {
        let regex = Regex::new_many(alternatives).map_err(|e| TokenizerError::Automaton {
            what: format!("pre-tokenizer `{name}`"),
            detail: e.to_string(),
        })?;
        let space_run = alternatives.iter().position(|a| *a == SPACE_RUN).map(PatternID::must);
        Ok(Self { alternatives: regex, space_run })
    }

    /// Calls `piece` on each match and on each stretch between matches.
    fn split<'t>(&self, text: &'t str, piece: &mut dyn FnMut(&'t str)) {
        let mut done = 0;
        while let Some(found) = self.alternatives.search(&Input::new(text).range(done..)) {
            let (start, mut end) = (found.start(), found.end());
            if Some(found.pattern()) == self.space_run && end < text.len() {
                // The character that stands before something else goes with that, unless it is all there is.
                let last = text[start..end].chars().next_back().map_or(0, char::len_utf8);
                if end - start > last {
                    end -= last;
                }
            }
            if end == start {
                break; // No alternative matches nothing; this keeps the loop finite if one ever does.
            }
            if start > done {
                piece(&text[done..start]);
            }
            piece(&text[start..end]);
            done = end;
        }
        if done < text.len() {
            piece(&text[done..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(name: &str, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        Pretokenizer::named(name).unwrap().split(text, &mut |w| out.push(w.to_owned()));
        out
    }

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[&str]) {
        assert_eq!(words(name, text), expected, "{name} on {text:?}");
    }

    #[test]
    fn gpt2_keeps_the_space_with_the_word_and_knows_lower_case_contractions() {
        check("gpt-2", "it's  a CAN'T 12x!?", &["it", "'s", " ", " a", " CAN", "'", "T", " 12", "x", "!?"]);
        check("gpt2", "x\n \ny", &["x", "\n ", "\n", "y"]);
        check("gpt-2", "end  ", &["end", "  "]);
        check("gpt-2", "a\u{a0}\u{2003}b", &["a", "\u{a0}", "\u{2003}", "b"]);
    }

    #[test]
    fn llama3_groups_three_digits_and_takes_line_ends() {
        check("llama-bpe", "it'S 12345", &["it", "'S", " ", "123", "45"]);
        check("llama3", "a(b\n\nc !\r\n  d", &["a", "(b", "\n\n", "c", " !\r\n", " ", " d"]);
        check("llama-v3", "\tx  \n y   ", &["\tx", "  \n", " y", "   "]);
        check("llama-bpe", "\u{17f}'\u{17f}", &["\u{17f}", "'\u{17f}"]);
    }

    #[test]
    fn smollm_isolates_each_number_before_anything_else() {
        check("smollm", "a 12½  3", &["a", " ", "1", "2", "½", "  ", "3"]);
    }

    #[test]
    fn default_isolates_punctuation_and_then_digits_by_threes() {
        check("default", "a, b$$12345", &["a", ",", " b", "$$", "123", "45"]);
        check("default", " ١٢٣٤", &[" ", "١٢٣٤"]);
        check("default", " 1234", &[" ", "123", "4"]);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let message = Pretokenizer::named("mystery").err().unwrap().to_string();
        assert!(
            message.contains("`mystery`") && message.contains("llama3") && message.contains("smollm)"),
            "{message}"
        );
    }

    #[test]
    fn no_alternative_matches_the_empty_string() {
        for row in ROWS {
            for step in &Pretokenizer::named(row.names[0]).unwrap().steps {
                assert!(step.alternatives.search(&Input::new("")).is_none(), "{}", row.names[0]);
            }
        }
    }

    #[test]
    fn long_runs_are_linear_and_exact() {
        let text = format!("{}word's", " ".repeat(3_000_000));
        let pieces = words("llama-bpe", &text);
        assert_eq!(pieces.len(), 3);
        assert_eq!((pieces[0].len(), pieces[1].as_str(), pieces[2].as_str()), (2_999_999, " word", "'s"));
    }

    proptest! {
        #[test]
        fn words_join_to_the_text(text in "[ a-cé\\n\\r\\t'0-9½中!?\u{a0}]{0,40}|\\PC{0,40}") {
            for row in ROWS {
                let pieces = words(row.names[0], &text);
                prop_assert!(pieces.iter().all(|p| !p.is_empty()));
                prop_assert_eq!(pieces.concat(), text.as_str());
            }
        }
    }
}
