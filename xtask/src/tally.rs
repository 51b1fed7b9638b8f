//! Counting what passed, failed and was skipped, with a reason for every skip.

/// Results of everything one `cargo xtask test` ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// What failed, one name each.
    pub(crate) failed: Vec<String>,
    /// What was skipped, each as `name: reason`.
    pub(crate) skipped: Vec<String>,
}

impl Tally {
    /// Records one check that either held or did not.
    pub(crate) fn check(&mut self, name: &str, held: bool) {
        if held {
            self.passed += 1;
        } else {
            self.failed.push(name.to_owned());
        }
    }

    /// Records something that could not run on this machine.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        self.skipped.push(format!("{name}: {reason}"));
    }

    /// Adds the counts of a part.
    pub(crate) fn add(&mut self, part: Self) {
        self.passed += part.passed;
        self.failed.extend(part.failed);
        self.skipped.extend(part.skipped);
    }

    /// The closing text: failures and skips by name, and the counts on the last line.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for name in &self.failed {
            text.push_str(&format!("FAILED   {name}\n"));
        }
        for line in &self.skipped {
            text.push_str(&format!("SKIPPED  {line}\n"));
        }
        text.push_str(&format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_and_the_lines_before_it_name() {
        let mut tally = Tally { passed: 3, ..Tally::default() };
        tally.check("format", true);
        tally.check("lints", false);
        tally.skip("licences", "cargo-deny is not installed");
        assert_eq!(
            tally.summary(),
            "FAILED   lints\nSKIPPED  licences: cargo-deny is not installed\n4 passed, 1 failed, 1 skipped"
        );
    }
}
