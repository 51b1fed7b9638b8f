//! Which records are shown: what the filter may say.

use tracing_subscriber::EnvFilter;

/// Words that stand for a level, as `tracing` knows them.
const LEVELS: [&str; 12] = ["off", "error", "warn", "info", "debug", "trace", "0", "1", "2", "3", "4", "5"];

/// The filter that a text spells.
///
/// # Errors
/// What is wrong with it. A single word that is no level would be taken for the name of a target, and
/// nothing but that target would be shown: unless this program has such targets, it is a typing error.
pub(super) fn parse(text: &str) -> Result<EnvFilter, String> {
    let directives: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if let Some(word) = directives.iter().find(|word| !is_known(word)) {
        return Err(format!(
            "`{word}` is neither a level nor a target of this program, which begin with `cajeta`"
        ));
    }
    EnvFilter::try_new(directives.join(",")).map_err(|error| error.to_string())
}

fn is_known(directive: &str) -> bool {
    let is_word = !directive.contains(['=', '[', ']', '{', '}']);
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(directive));
    !is_word
        || is_level
        || directive == "cajeta"
        || directive.starts_with("cajeta::")
        || directive.starts_with("cajeta_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_taken_and_typing_errors_are_not() {
        for good in [
            "",
            "info",
            "WARN",
            "off",
            "3",
            "cajeta",
            "cajeta::tile-choice",
            "warn,cajeta::probe=info",
            "other=debug",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        assert!(parse("[span{a=1}]=info, warn").is_ok());
        for bad in ["inof", "nonsense", "info,verbos", "cajeta-llm", "a=b=c"] {
            let why = parse(bad).expect_err(bad);
            assert!(!why.is_empty(), "{bad}");
        }
        assert!(parse("warn, inof").expect_err("no level").contains("`inof`"));
    }
}
