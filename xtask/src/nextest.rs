//! Reading the JUnit report that cargo-nextest leaves (`.config/nextest.toml` asks for it).

use crate::libtest::SKIP_MARK;
use crate::tally::Tally;

/// Counts the test cases of a report; a passing case that printed `skipped: why` is a skip.
pub(crate) fn read_report(report: &str) -> Tally {
    let mut tally = Tally::default();
    // The writer escapes `<` inside text, so a tag in the report is always a tag.
    for case in report.split("<testcase ").skip(1) {
        let (opening, rest) = case.split_once('>').unwrap_or((case, ""));
        let body =
            if opening.ends_with('/') { "" } else { rest.split("</testcase>").next().unwrap_or_default() };
        let name = format!("{} {}", attribute(opening, "classname"), attribute(opening, "name"));
        if body.contains("<failure") || body.contains("<error") {
            tally.failed.push(name);
        } else if body.contains("<skipped") {
            tally.skip(&name, "marked as ignored");
        } else if let Some(reason) = skip_reason(body) {
            tally.skip(&name, &unescape(reason));
        } else {
            tally.passed += 1;
        }
    }
    tally
}

fn skip_reason(body: &str) -> Option<&str> {
    // The first captured line follows the tag without a line break.
    body.split(['\n', '>']).find_map(|line| line.trim_start().strip_prefix(SKIP_MARK)).map(|rest| {
        let end = rest.find("</").unwrap_or(rest.len());
        rest[..end].trim()
    })
}

fn attribute(opening: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    // Preceded by a space or at the front, so that `name` does not match inside `classname`.
    let at = if opening.starts_with(&start) {
        Some(0)
    } else {
        opening.find(&format!(" {start}")).map(|at| at + 1)
    };
    let value = at.map(|at| &opening[at + start.len()..]).and_then(|rest| rest.split('"').next());
    unescape(value.unwrap_or_default())
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0"?>
<testsuites name="nextest-run" tests="4" failures="1">
  <testsuite name="golden" tests="4">
    <testcase name="smollm2" classname="golden" time="0.1">
      <system-out>running 1 test
</system-out>
      <system-err>skipped: &quot;CAJETA_SMOLLM2&quot; names no file
</system-err>
    </testcase>
    <testcase name="tales" classname="golden" time="0.1">
      <system-out>nothing was skipped: all ran</system-out>
    </testcase>
    <testcase name="broken" classname="golden" time="0.1">
      <failure type="test failure">skipped: this does not excuse it</failure>
    </testcase>
    <testcase name="quick" classname="golden" time="0.1"/>
  </testsuite>
</testsuites>"#;

    #[test]
    fn cases_are_counted_and_skips_carry_their_reason() {
        let tally = read_report(REPORT);
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.failed, ["golden broken"]);
        assert_eq!(tally.skipped, ["golden smollm2: \"CAJETA_SMOLLM2\" names no file"]);
    }

    #[test]
    fn an_empty_report_counts_nothing() {
        assert_eq!(read_report(""), Tally::default());
    }
}
