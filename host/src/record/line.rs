//! Records as people read them: one line each, the decision first, then what it rests on.

use std::fmt;

use super::kinds::*;

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answered::Outright => "the only one that fits",
            Answered::Stored => "as stored",
            Answered::Measured => "measured",
            Answered::Overridden => "as told",
            Answered::Held => "first by priority, timing is held",
        })
    }
}

impl fmt::Display for ArmTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2} us", self.arm, self.median_ns / 1e3)
    }
}

/// `, a, b` after what was said before.
fn rest<T: fmt::Display>(f: &mut fmt::Formatter<'_>, lead: &str, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if index == 0 { lead } else { ", " })?;
    }
    Ok(())
}

fn not_stored(f: &mut fmt::Formatter<'_>, why: &Option<String>) -> fmt::Result {
    why.as_ref().map_or(Ok(()), |why| write!(f, "; not stored: {why}"))
}

impl fmt::Display for BatchRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.problem;
        write!(f, "{} runs on {} ({}", self.site, self.row, self.regime)?;
        rest(f, ", ", self.format.as_slice())?;
        write!(f, ", {m}x{n}x{k}")?;
        if self.launches > 1 {
            write!(f, ", a launch for each of {} sequences: {}", self.launches, self.chosen)?;
        } else if !["", "declared"].contains(&self.chosen.as_str()) {
            write!(f, ", {}", self.chosen)?;
        }
        rest(f, ", instead of ", self.instead_of.as_slice())?;
        rest(f, ", as nothing else is admitted, in spite of: ", self.despite.as_slice())?;
        f.write_str(")")
    }
}

impl fmt::Display for RouteRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} refused by {}: {}", self.asked, self.row, self.clause, self.gate)
    }
}

impl fmt::Display for TileChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.problem;
        write!(f, "{} {m}x{n}x{k}: {}, {}", self.family, self.chosen, self.answered)?;
        if let Some(lead) = self.lead_percent {
            write!(f, ", {} by {lead:.1} %", if self.tie { "a tie, ahead" } else { "ahead" })?;
        }
        rest(f, "; timed ", &self.timings)?;
        rest(f, "; pruned ", &self.pruned)?;
        not_stored(f, &self.not_stored)
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}, {} launches", self.probe, self.answer, self.answered, self.launches)?;
        rest(f, "; timed ", &self.timings)?;
        not_stored(f, &self.not_stored)
    }
}

impl fmt::Display for TuneStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.folder, self.event)
    }
}

impl fmt::Display for TuneDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is measured anew: {}", self.entry, self.why)
    }
}

impl fmt::Display for EventClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.scale, &self.refused) {
            (Some(scale), None) => write!(f, "one device nanosecond is {scale:.4} of the host's"),
            (_, Some(why)) => write!(f, "timing by the host's clock: {why}"),
            (None, None) => f.write_str("timing by the host's clock: the device has none"),
        }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{} = {value:.6e} ({})", self.fact, self.by),
            None => write!(f, "{} is absent: {}", self.fact, self.by),
        }
    }
}

impl fmt::Display for LoadPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({}) in {:.0} ms: ", self.model, self.backend, self.device, self.total_ms)?;
        write!(f, "read {:.0}, device {:.0}, ", self.read_ms, self.device_ms)?;
        write!(f, "weights {:.0}, prewarm {:.0}, ", self.weights_ms, self.prewarm_ms)?;
        write!(f, "warm-up {:.0} ms; ", self.warm_up_ms)?;
        write!(f, "{} bytes mapped, {} uploaded, ", self.mapped_bytes, self.uploaded_bytes)?;
        write!(f, "{} packed in {} packs; ", self.packed_bytes, self.packs)?;
        let (stored, memory) = (self.stored_probe_launches, self.memory_probe_launches);
        write!(f, "{stored} launches of stored probes, {memory} of others")
    }
}

impl fmt::Display for WidenBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WidenBudget { budget_bytes, policy, copies, copied_bytes, .. } = self;
        write!(
            f,
            "{copies} widened copies of {copied_bytes} bytes in a budget of {budget_bytes} ({policy})"
        )?;
        if let Some(first) = &self.first_declined {
            write!(f, "; declined {} of {} bytes, {first} first", self.declined, self.declined_bytes)?;
        }
        Ok(())
    }
}

impl fmt::Display for DecodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.mode, self.why)
    }
}

impl fmt::Display for DecodeBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.refused)
    }
}

impl fmt::Display for PrefillBatchRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl fmt::Display for KvCeiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KvCeiling { blocks, most_blocks, block_bytes, limited_by } = self;
        write!(f, "{blocks} of at most {most_blocks} blocks of {block_bytes} bytes, by {limited_by}")
    }
}

impl fmt::Display for SchedPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchedPhase { rows, admission_ns, kv_reserve_ns, model_ns, total_ns } = self;
        write!(f, "{rows} rows: admission {admission_ns}, reserve {kv_reserve_ns}, ")?;
        write!(f, "model {model_ns}, total {total_ns} ns")
    }
}

impl fmt::Display for DecodeBatchPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeBatchPhase { sequences, embed_ns, upload_ns, issue_ns, tail_ns } = self;
        write!(f, "{sequences} sequences: embed {embed_ns}, upload {upload_ns}, ")?;
        write!(f, "issue {issue_ns}, tail {tail_ns} ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_says_what_it_rests_on() {
        let arm = |arm: &str, median_ns| ArmTiming { arm: arm.into(), median_ns, rounds_ns: Vec::new() };
        let choice = TileChoice {
            family: "q4kTcTile".into(),
            problem: [512, 4096, 2048],
            chosen: "q4kTcTile64".into(),
            answered: Answered::Measured,
            lead_percent: Some(1.5),
            tie: true,
            timings: vec![arm("q4kTcTile64", 1000.0), arm("q4kTcTile128", 1015.0)],
            not_stored: Some("others held 30 % of the device".into()),
            pruned: vec!["q4kTcTile256: R3".into()],
        };
        let line = choice.to_string();
        let expected = "q4kTcTile 512x4096x2048: q4kTcTile64, measured, a tie, ahead by 1.5 %; \
             timed q4kTcTile64 1.00 us, q4kTcTile128 1.01 us; pruned q4kTcTile256: R3; \
             not stored: others held 30 % of the device";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_record_is_one_object_that_names_its_kind() {
        let record = Record::from(KvCeiling { blocks: 3, limited_by: "memory".into(), ..Default::default() });
        let json: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&record).expect("json")).expect("json");
        assert_eq!(json["record"], "kv-ceiling");
        assert_eq!((&json["blocks"], &json["limited_by"]), (&3.into(), &"memory".into()));
        assert!(Record::KINDS.contains(&record.kind()));
    }
}
