//! The same for people: a table a segment, and under it what stands behind its choices, a line each.

use cajeta::lower::any_layer;
use cajeta::route::{Clause, Origin};

use super::decisions::Question;
use super::report::{Alternative, Launch, Report, SegmentFacts};
use crate::cli::table::Table;

/// The report in words; with `all`, also every row that stands behind.
pub(super) fn describe(report: &Report, all: bool) -> String {
    let mut out = format!("{} on {}: {}\n", report.model, report.backend, report.device);
    for segment in &report.segments {
        out.push_str(&heading(segment));
        out.push_str(&table(&segment.launches).to_string());
        out.push_str(&notes(&segment.launches, all).concat());
    }
    if has_unkept(report) {
        out.push_str(
            "\nNot kept: other processes held much of the device, or the folder cannot be written. The next \
             load measures anew.\n",
        );
    }
    for unused in &report.unused_overrides {
        out.push_str(&format!("\n`{unused}` fixes nothing that is asked here\n"));
    }
    out
}

fn has_unkept(report: &Report) -> bool {
    let launches = report.segments.iter().flat_map(|segment| &segment.launches);
    launches.flat_map(|launch| &launch.questions).any(is_unkept)
}

/// Whether it was measured for this run alone. What somebody fixed is not meant to be kept.
fn is_unkept(question: &Question) -> bool {
    !question.kept && !is_fixed(question)
}

fn is_fixed(question: &Question) -> bool {
    question.answered == Origin::Overridden.name()
}

fn heading(segment: &SegmentFacts) -> String {
    let SegmentFacts { segment: name, rows, sequences, context, launches, .. } = segment;
    let count: u64 = launches.iter().map(|launch| launch.launches).sum();
    let (many, what) = if *sequences > 1 { (*sequences, "sequence") } else { (*rows, "row") };
    let plural = if many == 1 { "" } else { "s" };
    format!("\n{name}: {many} {what}{plural}, context {context}, {count} launches\n")
}

/// What stands behind the choices of some launches, each line once; rows that one reason keeps from
/// serving share a line.
fn notes(launches: &[Launch], all: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut say = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    let mut kept_back: Vec<(Reason, Vec<&str>)> = Vec::new();
    for launch in launches {
        if let Some(error) = &launch.error {
            say(format!("  cannot run {}: {error}\n", any_layer(&launch.what)));
        }
        if let Some(despite) = &launch.despite {
            let site = any_layer(&launch.what);
            say(format!("  {} serves all the same at {site}: {despite}, and no other row can\n", launch.row));
        }
        launch.questions.iter().for_each(|question| say(timed(question)));
        for pruned in &launch.pruned {
            let super::decisions::PrunedFacts { row, rule, what, need, limit } = pruned;
            say(format!("  pruned {row}: {rule}: {need} {what}, at most {limit}\n"));
        }
        let ahead = launch.alternatives.iter().filter(|arm| arm.ahead && !is_pruned(launch, arm));
        for arm in ahead {
            let reason = reason(launch, arm);
            match kept_back.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, rows)) if rows.contains(&arm.row.as_str()) => {}
                Some((_, rows)) => rows.push(&arm.row),
                None => kept_back.push((reason, vec![&arm.row])),
            }
        }
    }
    for (Reason { verb, site, why }, rows) in kept_back {
        let site = site.map(|site| format!(" at {site}")).unwrap_or_default();
        say(format!("  {verb} {}{site}: {why}\n", rows.join(", ")));
    }
    if all {
        launches.iter().filter_map(behind).for_each(say);
    }
    lines
}

/// `  timed mvVariant-q4k-256x256-c1: a 1.20 us, b 1.50 us (a tie: ahead by 0.4 %)`; of what was not timed,
/// `  fixed mvVariant-q4k-256x256-c1: b`.
fn timed(question: &Question) -> String {
    let Question { name, answer, timings, note, .. } = question;
    if is_fixed(question) {
        return format!("  fixed {name}: {answer}\n");
    }
    let timings: Vec<String> =
        timings.iter().map(|timing| format!("{} {:.2} us", timing.arm, timing.median_ns / 1e3)).collect();
    let timings = if timings.is_empty() { answer.clone() } else { timings.join(", ") };
    let notes = note.as_deref().into_iter().chain(is_unkept(question).then_some("not kept"));
    let notes = notes.collect::<Vec<_>>();
    let note = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("  timed {name}: {timings}{note}\n")
}

/// Why an arm tried before the row that serves does not.
#[derive(PartialEq)]
struct Reason {
    verb: &'static str,
    /// Where, if it may serve elsewhere.
    site: Option<String>,
    why: String,
}

/// The gates that refuse an arm and what they saw, or the choice that passed it over.
fn reason(launch: &Launch, arm: &Alternative) -> Reason {
    let site = any_layer(&launch.what);
    let (Some(clause), Some(gate)) = (arm.clause, &arm.gate) else {
        let Launch { row, chosen, .. } = launch;
        let why = match *chosen {
            "overridden" => format!("an override has {row} serve"),
            "stored" => format!("{row} was measured faster by an earlier load"),
            _ => format!("{row} was measured faster"),
        };
        return Reason { verb: "passed over", site: Some(site), why };
    };
    // The gate that refused is named already; of it the value is news, where it has one.
    let refusing = arm.gates.iter().filter(|seen| !seen.holds && seen.value != *gate);
    let refusing = refusing.map(|seen| match seen.gate == *gate {
        true => seen.value.clone(),
        false => format!("{}: {}", seen.gate, seen.value),
    });
    let refusing: Vec<String> = refusing.collect();
    let limits = if refusing.is_empty() { String::new() } else { format!(" ({})", refusing.join(", ")) };
    let why = format!("{clause}: {gate}{limits}");
    Reason { verb: "refused", site: (clause == Clause::Ready.name()).then_some(site), why }
}

fn is_pruned(launch: &Launch, arm: &Alternative) -> bool {
    launch.pruned.iter().any(|pruned| pruned.row == arm.row)
}

/// The admitted rows behind the one that serves, in their order.
fn behind(launch: &Launch) -> Option<String> {
    let behind = launch.alternatives.iter();
    let behind = behind.filter(|arm| !arm.ahead && arm.clause.is_none() && !is_pruned(launch, arm));
    let behind: Vec<&str> = behind.map(|arm| arm.row.as_str()).collect();
    (!behind.is_empty())
        .then(|| format!("  behind {} at {}: {}\n", launch.row, any_layer(&launch.what), behind.join(", ")))
}

/// Launches that differ by their layer only, once with their number.
fn grouped(launches: &[Launch]) -> Vec<(Launch, u64)> {
    let mut groups: Vec<(Launch, u64)> = Vec::new();
    for launch in launches {
        let launch = Launch {
            what: any_layer(&launch.what),
            alternatives: Vec::new(),
            questions: Vec::new(),
            ..launch.clone()
        };
        let times = launch.launches;
        match groups.iter_mut().find(|(known, _)| *known == launch) {
            Some((_, count)) => *count += times,
            None => groups.push((launch, times)),
        }
    }
    groups
}

fn table(launches: &[Launch]) -> Table {
    let mut table = Table::new(&[
        "times", "computes", "row", "chosen", "weights", "layouts", "m", "n", "k", "batch", "split",
    ]);
    for (launch, count) in grouped(launches) {
        let Launch { what, row, chosen, split, problem, weights, layouts, .. } = launch;
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(|size| size.to_string());
        table.row([
            count.to_string(),
            what,
            row,
            chosen.to_owned(),
            weights.join(", "),
            layouts.join(" "),
            m,
            n,
            k,
            batch,
            split.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::decisions::{PrunedFacts, Timing};
    use super::super::report::{Gate, ProblemFacts};
    use super::*;

    fn arm(row: &str, ahead: bool, gate: Option<&str>) -> Alternative {
        let gates = gate.map(|gate| Gate { gate: gate.into(), value: "M=1".into(), holds: false });
        Alternative {
            row: row.into(),
            ahead,
            clause: gate.map(|_| "shape"),
            gate: gate.map(str::to_owned),
            gates: gates.into_iter().collect(),
            notes: Default::default(),
        }
    }

    fn launch(layer: u32, n: u64) -> Launch {
        Launch {
            what: format!("matmul blk.{layer}.q"),
            row: "r".into(),
            chosen: "declared",
            despite: None,
            launches: 1,
            split: 1,
            problem: ProblemFacts { m: 1, n, k: 2, batch: 0, aux: 0 },
            weights: vec!["Q4_K gguf".into()],
            layouts: Vec::new(),
            questions: Vec::new(),
            notes: Default::default(),
            pruned: Vec::new(),
            error: None,
            alternatives: vec![arm("faster", true, Some("M >= 64"))],
        }
    }

    #[test]
    fn launches_that_differ_by_layer_only_are_counted() {
        let launches = [launch(0, 4), launch(1, 4), launch(2, 8)];
        let table = table(&launches).to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with("2 ") && lines[2].starts_with("1 "), "{table}");
        assert_eq!(notes(&launches, true), ["  refused faster: shape: M >= 64 (M=1)\n"]);
    }

    #[test]
    fn what_was_measured_pruned_and_passed_over_is_a_line_each() {
        let timing = |arm: &str, median_ns| Timing { arm: arm.into(), median_ns };
        let pruned = PrunedFacts {
            row: "wide".into(),
            rule: "R3".into(),
            what: "shared bytes of a block",
            need: 98304,
            limit: 65536,
        };
        let stored = Launch {
            chosen: "stored",
            questions: vec![Question {
                name: "mvVariant-q4k-4x2-c1".into(),
                answer: "r".into(),
                answered: "stored",
                timings: vec![timing("first", 1500.0), timing("r", 1200.0)],
                note: Some("a tie".into()),
                kept: false,
            }],
            pruned: vec![pruned],
            alternatives: vec![
                arm("wide", true, None),
                arm("first", true, None),
                arm("b", false, None),
                arm("a", false, None),
                arm("c", false, Some("K % 32")),
            ],
            ..launch(0, 4)
        };
        let lines = notes(std::slice::from_ref(&stored), true);
        assert_eq!(
            lines,
            [
                "  timed mvVariant-q4k-4x2-c1: first 1.50 us, r 1.20 us (a tie; not kept)\n",
                "  pruned wide: R3: 98304 shared bytes of a block, at most 65536\n",
                "  passed over first at matmul blk.*.q: r was measured faster by an earlier load\n",
                "  behind r at matmul blk.*.q: b, a\n",
            ]
        );
        let held = Launch { despite: Some("measured slower".into()), ..launch(0, 4) };
        let all_the_same =
            "  r serves all the same at matmul blk.*.q: measured slower, and no other row can\n";
        assert_eq!(notes(&[held], false)[0], all_the_same);
        let mut told = stored.questions.clone();
        told[0].answered = "overridden";
        let fixed = notes(&[Launch { questions: told, ..stored.clone() }], false);
        assert_eq!(fixed[0], "  fixed mvVariant-q4k-4x2-c1: r\n", "nothing was timed, and nothing is lost");
        let told = Launch { chosen: "overridden", questions: Vec::new(), ..stored };
        let passed = "  passed over first at matmul blk.*.q: an override has r serve\n".to_owned();
        assert!(notes(&[told], false).contains(&passed));
    }
}
