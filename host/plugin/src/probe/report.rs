//! What the probing process says, one JSON object a line: each stage as it begins, then a verdict.

use serde::{Deserialize, Serialize};

use crate::candidate::{Refusal, Stage};
use crate::device::DeviceSummary;

/// Most bytes a probing process may report.
pub(super) const REPORT_BYTES_MAX: u64 = 4 << 20;

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A stage begins.
    Stage(Stage),
    /// The plugin works here.
    Usable {
        /// Its devices.
        devices: Vec<DeviceSummary>,
        /// The kernel that was run.
        kernel: String,
    },
    /// It does not.
    Refused(Refusal),
}

/// What a whole report amounts to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Report {
    /// The last stage that began.
    pub(super) stage: Stage,
    /// The verdict, if it came to one.
    pub(super) verdict: Option<Line>,
}

impl Report {
    /// Reads what a process wrote. Whatever is not a line of a report ends it.
    pub(super) fn read(bytes: &[u8]) -> Report {
        let mut report = Report { stage: Stage::Open, verdict: None };
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(Line::Stage(stage)) => report.stage = stage,
                Ok(verdict) => report.verdict = Some(verdict),
                Err(_) => break,
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_and_the_verdict_are_read() {
        let text = "{\"stage\":\"open\"}\n{\"stage\":\"probe\"}\n";
        assert_eq!(Report::read(text.as_bytes()), Report { stage: Stage::Probe, verdict: None });
        let verdict = Line::Refused(Refusal::new(Stage::Abi, "why", "what"));
        let text = format!("{text}{}\n", serde_json::to_string(&verdict).unwrap());
        assert_eq!(Report::read(text.as_bytes()).verdict, Some(verdict));
    }

    #[test]
    fn rubbish_ends_a_report() {
        let text = b"{\"stage\":\"open\"}\n\xff\xfe{{\n{\"stage\":\"device\"}\n";
        assert_eq!(Report::read(text), Report { stage: Stage::Open, verdict: None });
    }
}
