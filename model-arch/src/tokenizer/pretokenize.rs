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

/// The pattern of Qwen 2: that of Llama 3 with every number character alone.
const QWEN2: &[&str] = &[
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE_RUN,
];

/// The pattern of GPT-4o: words end where an upper-case letter follows lower-case ones, and keep a contraction.
const GPT4O: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    SPACE_RUN,
];

/// The pattern of Mistral's Tekken: as GPT-4o's without contractions, every number character alone.
const TEKKEN: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"\p{N}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    SPACE_RUN,
];

/// The last step of DeepSeek V3.
const DEEPSEEK_V3: &[&str] = &[
    r"[!-/:-@\[-`{-~][A-Za-z]+",
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
    r" ?[\p{P}\p{S}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE_RUN,
];

/// The letters that DeepSeek LLM keeps together: those with a case, as its list has them.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}",
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}",
    r"\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}",
    r"\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}",
    r"\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}",
    r"\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}",
    r"\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}",
    r"\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}",
    r"\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}",
    r"\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}",
    r"\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}",
    r"\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}",
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}",
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
);

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
    Row {
        names: &["gpt-2", "gpt2", "phi-2", "mpt", "olmo", "exaone4", "modern-bert"],
        steps: &[GPT2],
        ignore_merges: false,
        add_bos: false,
    },
    Row {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"],
        steps: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
    },
    Row {
        names: &["smollm", "command-r", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"],
        steps: &[EACH_NUMBER, GPT2],
        ignore_merges: false,
        add_bos: false,
    },
    Row {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"],
        steps: &[QWEN2],
        ignore_merges: false,
        add_bos: false,
    },
    Row {
        names: &["deepseek-llm"],
        steps: &[
            &[r"[\r\n]"],
            &[DEEPSEEK_LETTERS],
            &[r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"],
            &[r"\s+$"],
            &[r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"],
            &[r"\p{N}+"],
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Row {
        names: &["deepseek-v3"],
        steps: &[&[r"\p{N}{1,3}"], &[r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"], DEEPSEEK_V3],
        ignore_merges: false,
        add_bos: false,
    },
    Row {
        names: &["falcon"],
        steps: &[&[r"[\p{P}$+<=>^~|`]+"], GPT2, &["[0-9][0-9][0-9]"]],
        ignore_merges: false,
        add_bos: false,
    },
    Row { names: &["gpt-4o", "llama4"], steps: &[GPT4O], ignore_merges: false, add_bos: false },
    Row { names: &["tekken"], steps: &[TEKKEN], ignore_merges: true, add_bos: true },
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
            message.contains("`mystery`") && message.contains("llama3") && message.contains("tekken)"),
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
