//! Lists and queues, with a real row: the first simple one the plugin has.

use std::time::{Duration, Instant};

use cajeta_abi::Capability;
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::shapes::row_ops;
use cajeta_plugin_host::{Device, Queue};

use super::broken;
use crate::case::{Case, refill};
use crate::compare;
use crate::draw::{self, Given};
use crate::execute::{Failure, Prepared, largest_buffer};
use crate::plan::{self, Plan, Wanted};
use crate::random::Random;

/// Ops in the order in which they make a good subject: one input to vary, one output to see.
const SUBJECTS: [Op; 5] = [Op::Norm, Op::Add, Op::Glu, Op::Copy, Op::Matmul];

/// A case of a simple row.
pub(super) fn subject(device: &Device, random: &mut Random) -> Result<Case, Failure> {
    let rows = device.backend().rows();
    let limit = largest_buffer(device.facts());
    for op in SUBJECTS {
        for (index, row) in rows.iter().enumerate().filter(|(_, row)| row_ops(row) == Ok(vec![op])) {
            if row.needs.iter().any(|need| device.supports(need.capability) != Ok(true)) {
                continue;
            }
            for _ in 0..40 {
                let Some(drawn) = draw::draw(row, 2, Given::default(), random) else { break };
                let case = Case::new(index, row, device.backend().layouts(), drawn, &[], random);
                if let Ok(case) = case
                    && case.slots.iter().all(|slot| slot.bytes.len() as u64 <= limit)
                {
                    return Ok(case);
                }
            }
        }
    }
    Err(Failure::Unsupported("the plugin has none of the rows this check runs".to_owned()))
}

fn planned(device: &Device, case: &Case, random: &mut Random) -> Result<Plan, Failure> {
    plan::plan(device.backend(), case, false, random).map_err(Failure::Failed)
}

/// Writes a plan's inputs without waiting.
fn write_later(prepared: &Prepared, plan: &Plan, queue: &mut Queue) -> Result<(), Failure> {
    for (index, buffer) in plan.buffers.iter().enumerate() {
        if let Some(initial) = &buffer.initial {
            queue.upload_owned(&prepared.span(plan, index)?, initial.clone())?;
        }
    }
    Ok(())
}

fn output(plan: &Plan) -> Result<usize, Failure> {
    let found = plan.buffers.iter().position(|buffer| matches!(buffer.wanted, Wanted::Output(_)));
    found.ok_or_else(|| broken("the row writes nothing"))
}

/// Compares one buffer's content alone.
fn judge_output(plan: &Plan, index: usize, got: Vec<u8>) -> Result<(), String> {
    let contents: Vec<Vec<u8>> = plan
        .buffers
        .iter()
        .enumerate()
        .map(
            |(at, buffer)| {
                if at == index { got.clone() } else { buffer.initial.clone().unwrap_or_default() }
            },
        )
        .collect();
    compare::judge(plan, &contents).map(|_| ())
}

pub(super) fn resubmission(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "resubmission", 0);
    let mut case = subject(device, &mut random)?;
    let first = planned(device, &case, &mut random)?;
    let prepared = Prepared::new(device, &first, false)?;
    let mut queue = device.queue()?;
    for turn in 0..6 {
        refill(&mut case, &mut random);
        let plan = planned(device, &case, &mut random)?;
        prepared.write(&plan, &mut queue)?;
        prepared.run(&mut queue)?;
        let contents = prepared.read(&plan, &mut queue)?;
        compare::judge(&plan, &contents)
            .map_err(|why| broken(format!("submission {turn} of one list: {why}")))?;
    }
    Ok(())
}

pub(super) fn order(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "order", 0);
    let mut case = subject(device, &mut random)?;
    let first = planned(device, &case, &mut random)?;
    let at = output(&first)?;
    let prepared = Prepared::new(device, &first, false)?;
    let mut queue = prepared.device().queue()?;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        refill(&mut case, &mut random);
        let plan = planned(device, &case, &mut random)?;
        write_later(&prepared, &plan, &mut queue)?;
        queue.submit(prepared.list())?;
        let ticket = queue.download_later(&prepared.span(&plan, at)?)?;
        waiting.push((plan, ticket));
    }
    for (turn, (plan, ticket)) in waiting.into_iter().enumerate() {
        let got = queue.take(ticket)?;
        judge_output(&plan, at, got)
            .map_err(|why| broken(format!("turn {turn} of 8 queued at once: {why}")))?;
    }
    Ok(())
}

pub(super) fn freed_while_running(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "freed", 0);
    let mut queue = device.queue()?;
    for _ in 0..4 {
        let case = subject(device, &mut random)?;
        let plan = planned(device, &case, &mut random)?;
        let at = output(&plan)?;
        let prepared = Prepared::new(device, &plan, false)?;
        write_later(&prepared, &plan, &mut queue)?;
        let mut last = None;
        for _ in 0..4 {
            last = Some(queue.submit(prepared.list())?);
        }
        let download = queue.download_later(&prepared.span(&plan, at)?)?;
        // Buffers and list go while the queue is still busy with them.
        drop(prepared);
        let got = queue.take(download)?;
        judge_output(&plan, at, got).map_err(|why| broken(format!("after its buffers were freed: {why}")))?;
        if let Some(ticket) = last {
            queue.wait(ticket)?;
        }
    }
    Ok(())
}

pub(super) fn two_queues(device: &Device, seed: u64) -> Result<(), Failure> {
    let busy = |number: u64| -> Result<(), Failure> {
        let mut random = Random::new(seed, "two queues", number);
        let mut queue = device.queue()?;
        for turn in 0..8 {
            let case = subject(device, &mut random)?;
            let plan = planned(device, &case, &mut random)?;
            let prepared = Prepared::new(device, &plan, false)?;
            prepared.write(&plan, &mut queue)?;
            prepared.run(&mut queue)?;
            let contents = prepared.read(&plan, &mut queue)?;
            compare::judge(&plan, &contents)
                .map_err(|why| broken(format!("queue {number}, turn {turn}: {why}")))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| busy(1));
        let here = busy(0);
        let there = other.join().unwrap_or_else(|_| Err(broken("the thread of the second queue panicked")));
        here.and(there)
    })
}

pub(super) fn poll_without_waiting(device: &Device, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed, "poll", 0);
    let case = subject(device, &mut random)?;
    let plan = planned(device, &case, &mut random)?;
    let prepared = Prepared::new(device, &plan, false)?;
    let mut queue = device.queue()?;
    prepared.write(&plan, &mut queue)?;
    let ticket = queue.submit(prepared.list())?;
    let begun = Instant::now();
    queue.poll(ticket, Duration::ZERO)?;
    if begun.elapsed() > Duration::from_secs(2) {
        return Err(broken(format!("poll with timeout 0 took {:?}", begun.elapsed())));
    }
    // Polling alone brings every device to the end.
    while !queue.poll(ticket, Duration::from_millis(1))? {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(broken("a small launch is not complete after 60 s of polling"));
        }
    }
    if !queue.poll(ticket, Duration::ZERO)? {
        return Err(broken("a complete ticket is pending again"));
    }
    Ok(())
}

pub(super) fn empty(device: &Device, _seed: u64) -> Result<(), Failure> {
    // A device may refuse it; if it takes it, it must complete.
    let Ok(list) = device.list(&[]) else { return Ok(()) };
    let mut queue = device.queue()?;
    let ticket = queue.submit(&list)?;
    Ok(queue.wait(ticket)?)
}

pub(super) fn clocks(device: &Device, seed: u64) -> Result<(), Failure> {
    let (spans, clock) = (device.supports(Capability::SPANS)?, device.supports(Capability::EVENT_CLOCK)?);
    if !spans && !clock {
        return Err(Failure::Unsupported("the device claims neither spans nor a clock".to_owned()));
    }
    let mut random = Random::new(seed, "clocks", 0);
    let case = subject(device, &mut random)?;
    let plan = planned(device, &case, &mut random)?;
    let prepared = Prepared::new(device, &plan, false)?;
    let mut queue = device.queue()?;
    prepared.write(&plan, &mut queue)?;
    let first = queue.submit_with_spans(prepared.list())?;
    let second = queue.submit_with_spans(prepared.list())?;
    queue.wait(second)?;
    if clock {
        let elapsed = queue.elapsed(first, second)?;
        if elapsed > Duration::from_secs(60) {
            return Err(broken(format!("two small submissions are {elapsed:?} apart")));
        }
    }
    if spans {
        let got = queue.spans(first, plan.launches.len())?;
        if got.len() != plan.launches.len() {
            return Err(broken(format!("{} spans of {} launches", got.len(), plan.launches.len())));
        }
        for (index, (span, launch)) in got.iter().zip(&plan.launches).enumerate() {
            if span.launch as usize != index || span.row as usize != launch.row {
                return Err(broken(format!("span {index} is of launch {}, row {}", span.launch, span.row)));
            }
        }
    }
    Ok(())
}
