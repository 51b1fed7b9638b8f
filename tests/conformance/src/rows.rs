//! Every claimed row on fuzzed problems.

use cajeta_abi::Row;
use cajeta_abi::layout::LayoutKind;
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::shapes::row_ops;
use cajeta_plugin_host::{Device, Queue};

use crate::case::{Case, own_layout};
use crate::compare;
use crate::draw::{self, Given};
use crate::execute::{self, Failure};
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::random::Random;
use crate::report::{Outcome, RowResult};

/// Runs a row on its cases; `begins` hears of each.
pub(crate) fn check(
    device: &Device,
    index: usize,
    options: &Options,
    queue: &mut Queue,
    begins: &mut dyn FnMut(&str),
) -> RowResult {
    let mut result = RowResult { row: String::new(), cases: 0, worst_error: 0.0, outcome: Outcome::Passed };
    let Some(row) = device.backend().rows().get(index) else {
        result.outcome = Outcome::Failed(format!("row {index} does not exist"));
        return result;
    };
    result.row = row.name.to_string();
    for case in 0..options.cases.max(1) {
        begins(&format!("case {case}"));
        match check_case(device, index, row, case, options, queue, begins) {
            Ok(worst) => {
                result.cases += 1;
                result.worst_error = result.worst_error.max(worst);
            }
            Err(Failure::Unsupported(why)) => {
                // Refusing one shape after computing another is a missing gate.
                result.outcome = if case == 0 {
                    Outcome::Unsupported(why)
                } else {
                    Outcome::Failed(format!("case {case}: its gates admit what it refuses: {why}"))
                };
                break;
            }
            Err(Failure::Failed(why)) => {
                result.outcome = Outcome::Failed(format!("case {case}: {why}"));
                break;
            }
        }
    }
    let expected = options.expected.iter().find(|expected| expected.row == row.name.as_str());
    result.outcome = match (expected, result.outcome) {
        (Some(expected), Outcome::Failed(_)) => Outcome::ExpectedFailure(expected.reason.clone()),
        (Some(expected), Outcome::Passed) => Outcome::Failed(format!(
            "passed, though expected to fail ({}); take the expectation away",
            expected.reason
        )),
        (_, outcome) => outcome,
    };
    result
}

fn check_case(
    device: &Device,
    index: usize,
    row: &Row,
    case: u32,
    options: &Options,
    queue: &mut Queue,
    begins: &mut dyn FnMut(&str),
) -> Result<f64, Failure> {
    let mut random = Random::new(options.seed, &row.name, u64::from(case));
    for need in row.needs.iter() {
        if !device.supports(need.capability)? {
            return Err(Failure::Unsupported(format!("the device lacks {}", need.name)));
        }
    }
    let plan = plan_that_fits(device, index, row, case, &mut random)?;
    let what = describe(&plan, index, device.backend().rows());
    begins(&format!("case {case}: {what}"));
    let of_case = |why: String| Failure::Failed(format!("{what}: {why}"));
    for launch in &plan.launches {
        execute::geometry_is_pure(device, launch.row, &launch.problem, &launch.scalars)?;
    }
    let contents =
        execute::execute(device, &plan, queue, random.chance(50)).map_err(|failure| match failure {
            Failure::Failed(why) => of_case(why),
            other => other,
        })?;
    compare::judge(&plan, &contents).map_err(of_case)
}

/// Redraws until every buffer can be bound and allocated on this device.
fn plan_that_fits(
    device: &Device,
    index: usize,
    row: &Row,
    case: u32,
    random: &mut Random,
) -> Result<Plan, Failure> {
    let limit = execute::largest_buffer(device.facts());
    for attempt in 0..120 {
        let given = Given { narrow: attempt >= 20, ..Given::default() };
        let plan = plan_row(device, index, row, case, given, random)?;
        if plan.buffers.iter().all(|buffer| buffer.len <= limit) {
            return Ok(plan);
        }
    }
    Err(Failure::Unsupported(format!("no case found whose buffers have at most {limit} bytes")))
}

/// A plan that exercises a row: for one that makes a weight layout, a row that reads it.
pub(crate) fn plan_row(
    device: &Device,
    index: usize,
    row: &Row,
    case: u32,
    given: Given,
    random: &mut Random,
) -> Result<Plan, Failure> {
    let ops = row_ops(row).map_err(|_| Failure::Unsupported("an op this suite does not know".to_owned()))?;
    if ops == [Op::Relayout] {
        let plan = plan_reader(device, row, case, given, random)?;
        if !plan.launches.iter().any(|launch| launch.row == index) {
            return Err(Failure::Unsupported("another row makes the same layout and comes first".to_owned()));
        }
        return Ok(plan);
    }
    let own_kv = |arg: &cajeta_abi::ArgSpec| {
        own_layout(device.backend().layouts(), arg.layout).is_some_and(|layout| layout.kind == LayoutKind::KV)
    };
    if row.args.iter().any(own_kv) {
        return Err(Failure::Unsupported(
            "K/V blocks in a layout of the plugin are not run by this suite".to_owned(),
        ));
    }
    let drawn = draw::draw(row, case, given, random)
        .ok_or_else(|| Failure::Failed("no problem of a testable size satisfies its gates".to_owned()))?;
    let made =
        Case::new(index, row, device.backend().layouts(), drawn, &[], random).map_err(Failure::Failed)?;
    plan::plan(device.backend(), &made, case % 2 == 1, random).map_err(Failure::Failed)
}

fn plan_reader(
    device: &Device,
    relayout: &Row,
    case: u32,
    given: Given,
    random: &mut Random,
) -> Result<Plan, Failure> {
    let out = relayout.steps.first().and_then(|step| step.operands.get(3)).and_then(|wire| wire.as_arg());
    let Some(out) = out.and_then(|out| relayout.args.get(out as usize)) else {
        return Err(Failure::Failed("a relayout without an output".to_owned()));
    };
    let sources = relayout.args.iter().filter(|arg| arg.access == cajeta_abi::Access::READ);
    let formats: Vec<_> = sources.map(|arg| arg.format).collect();
    let reads = |row: &Row| {
        !matches!(row_ops(row).as_deref(), Ok([Op::Relayout]) | Err(_))
            && row.args.iter().any(|arg| arg.layout == out.layout && formats.first() == Some(&arg.format))
    };
    let rows: Vec<(usize, &Row)> =
        device.backend().rows().iter().enumerate().filter(|(_, row)| reads(row)).collect();
    match random.pick(&rows) {
        Some((index, row)) => plan_row(device, index, row, case, given, random),
        None => Err(Failure::Failed(format!(
            "nothing reads layout {} of format {:?}",
            out.layout.0,
            formats.first()
        ))),
    }
}

/// What a case asks for, and of whom, where that is not the checked row alone.
fn describe(plan: &Plan, index: usize, rows: &[Row]) -> String {
    let Some(asked) = &plan.asked else { return String::new() };
    match rows.get(asked.row).filter(|_| asked.row != index) {
        Some(reader) => format!("as {} reads it, {asked}", reader.name),
        None => asked.to_string(),
    }
}
