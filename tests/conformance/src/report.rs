//! What a run found.

use serde::{Deserialize, Serialize};

/// How a row or check ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Outcome {
    /// It does what it claims.
    Passed,
    /// It does not, and how.
    Failed(String),
    /// It was not run, and why that is in order.
    Unsupported(String),
    /// It failed as was expected, with the reason given for it.
    ExpectedFailure(String),
}

/// One row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RowResult {
    /// Its name.
    pub row: String,
    /// Problems it was run on.
    pub cases: u32,
    /// The largest error seen, in parts of what the row's arithmetic class allows.
    pub worst_error: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// One check of the registry or of the calls.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckResult {
    /// What was checked.
    pub check: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// A whole run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Id of the backend.
    pub backend: String,
    /// Version of the plugin.
    pub version: String,
    /// Name of the device.
    pub device: String,
    /// The seed that repeats the run.
    pub seed: u64,
    /// In registry order.
    pub rows: Vec<RowResult>,
    /// In the order they ran.
    pub checks: Vec<CheckResult>,
}

impl Report {
    /// Whether nothing failed and something passed.
    pub fn passed(&self) -> bool {
        let outcomes =
            || self.rows.iter().map(|row| &row.outcome).chain(self.checks.iter().map(|c| &c.outcome));
        !outcomes().any(|outcome| matches!(outcome, Outcome::Failed(_)))
            && outcomes().any(|outcome| *outcome == Outcome::Passed)
    }

    /// Names and reasons of what failed.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let rows = self.rows.iter().map(|row| (row.row.as_str(), &row.outcome));
        let checks = self.checks.iter().map(|check| (check.check.as_str(), &check.outcome));
        rows.chain(checks).filter_map(|(name, outcome)| match outcome {
            Outcome::Failed(why) => Some((name, why.as_str())),
            _ => None,
        })
    }
}

impl Report {
    /// The first line: what is checked.
    pub fn heading(&self) -> String {
        format!("{} {} on {} (seed {})", self.backend, self.version, self.device, self.seed)
    }

    /// The last line: how many ended how.
    pub fn summary(&self) -> String {
        let count = |wanted: fn(&Outcome) -> bool| {
            self.rows.iter().filter(|row| wanted(&row.outcome)).count()
                + self.checks.iter().filter(|check| wanted(&check.outcome)).count()
        };
        format!(
            "{} passed, {} failed, {} unsupported, {} failed as expected",
            count(|outcome| matches!(outcome, Outcome::Passed)),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Unsupported(_))),
            count(|outcome| matches!(outcome, Outcome::ExpectedFailure(_))),
        )
    }

    /// Takes in what was found next.
    pub fn add(&mut self, finding: Finding) {
        match finding {
            Finding::Row(row) => self.rows.push(row),
            Finding::Check(check) => self.checks.push(check),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.heading())?;
        let width = self.rows.iter().map(|row| row.row.len()).max().unwrap_or(0);
        for row in &self.rows {
            writeln!(f, "{}", row.line(width))?;
        }
        for check in &self.checks {
            writeln!(f, "{}", check.line())?;
        }
        f.write_str(&self.summary())
    }
}

/// How one thing that was checked ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A row.
    Row(RowResult),
    /// A check of the registry or of the calls.
    Check(CheckResult),
}

impl Finding {
    /// Its line of a report whose rows' names have at most `width` characters.
    pub fn line(&self, width: usize) -> String {
        match self {
            Finding::Row(row) => row.line(width),
            Finding::Check(check) => check.line(),
        }
    }
}

impl RowResult {
    fn line(&self, width: usize) -> String {
        let RowResult { row, cases, worst_error, outcome } = self;
        match outcome {
            Outcome::Passed => {
                format!(
                    "  ok    {row:width$}  {cases} cases, worst error {worst_error:.2} of what is allowed"
                )
            }
            other => format!("  {} {row:width$}  {}", word(other), reason(other)),
        }
    }
}

impl CheckResult {
    fn line(&self) -> String {
        match &self.outcome {
            Outcome::Passed => format!("  ok    {}", self.check),
            other => format!("  {} {}: {}", word(other), self.check, reason(other)),
        }
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "ok   ",
        Outcome::Failed(_) => "FAIL ",
        Outcome::Unsupported(_) => "n/a  ",
        Outcome::ExpectedFailure(_) => "xfail",
    }
}

fn reason(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Passed => "",
        Outcome::Failed(why) | Outcome::Unsupported(why) | Outcome::ExpectedFailure(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome) -> Report {
        Report {
            backend: "b".into(),
            version: "1".into(),
            device: "d".into(),
            seed: 3,
            rows: vec![RowResult { row: "r".into(), cases: 2, worst_error: 0.5, outcome }],
            checks: vec![],
        }
    }

    #[test]
    fn only_a_pass_without_failures_passes() {
        assert!(report(Outcome::Passed).passed());
        assert!(!report(Outcome::Failed("x".into())).passed());
        assert!(!report(Outcome::Unsupported("x".into())).passed(), "nothing passed");
    }

    #[test]
    fn it_prints_and_survives_json() {
        let report = report(Outcome::Failed("wrong at 3".into()));
        assert!(report.to_string().contains("FAIL  r  wrong at 3"), "{report}");
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""outcome":{"is":"failed","why":"wrong at 3"}"#), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
