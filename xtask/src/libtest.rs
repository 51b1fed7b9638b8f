//! Reading what the standard test harness prints, so that skips are counted and reported by name.
//!
//! A test that cannot run on this machine prints a line `skipped: why` and returns. The harness
//! calls that a pass; here it is a skip with its reason.

use crate::tally::Tally;

/// What a line of a test's own output must start with to mark the test as skipped.
pub(crate) const SKIP_MARK: &str = "skipped:";

/// Reads the output of test binaries run with `--show-output`, line by line.
#[derive(Default)]
pub(crate) struct Reader {
    tally: Tally,
    section: Section,
    /// Test whose captured output is being shown.
    shown: String,
}

#[derive(Default, PartialEq, Eq)]
enum Section {
    #[default]
    Running,
    Successes,
    Failures,
}

impl Reader {
    /// Takes the next line; says whether a person should see it.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.section = Section::Successes,
            "failures:" => self.section = Section::Failures,
            _ if line.starts_with("test result: ") => self.section = Section::Running,
            _ => {}
        }
        if self.section == Section::Running {
            if let Some((name, outcome)) =
                line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
            {
                self.finished(name, outcome);
            }
            return true;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.shown = name.to_owned();
        }
        if self.section == Section::Successes {
            if let Some(reason) = line.trim_start().strip_prefix(SKIP_MARK) {
                self.skipped(reason.trim());
            }
            // The output of tests that passed is noise.
            return false;
        }
        true
    }

    /// The counts of all lines taken.
    pub(crate) fn finish(self) -> Tally {
        self.tally
    }

    fn finished(&mut self, name: &str, outcome: &str) {
        if outcome.starts_with("ok") {
            self.tally.passed += 1;
        } else if outcome.starts_with("FAILED") {
            self.tally.failed.push(name.to_owned());
        } else if outcome.starts_with("ignored") {
            self.tally.skip(name, "marked as ignored");
        }
    }

    /// A test that passed says that it did not really run; its first reason counts.
    fn skipped(&mut self, reason: &str) {
        let prefix = format!("{}: ", self.shown);
        if !self.tally.skipped.iter().any(|line| line.starts_with(&prefix)) {
            self.tally.passed = self.tally.passed.saturating_sub(1);
            self.tally.skip(&self.shown, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test golden::smollm2 ... ok
test parser::short ... ok
test parser::long ... FAILED

successes:

---- golden::smollm2 stdout ----
skipped: no model on this machine
skipped: no reference data either

successes:
    golden::smollm2
    parser::short

failures:

---- parser::long stdout ----
assertion failed

failures:
    parser::long

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

running 1 test
test other ... ok
";

    #[test]
    fn a_pass_that_says_skipped_is_a_skip_with_its_first_reason() {
        let mut reader = Reader::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| reader.take(line)).collect();
        let tally = reader.finish();
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.failed, ["parser::long"]);
        assert_eq!(tally.skipped, ["golden::smollm2: no model on this machine"]);
        assert!(shown.contains(&"assertion failed"), "what a failing test printed is shown");
        assert!(!shown.iter().any(|line| line.contains("no model")), "what a passing test printed is not");
    }

    #[test]
    fn an_ignored_test_is_a_skip() {
        let mut reader = Reader::default();
        reader.take("test slow ... ignored");
        assert_eq!(reader.finish().skipped, ["slow: marked as ignored"]);
    }
}
