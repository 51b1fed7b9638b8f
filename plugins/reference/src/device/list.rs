//! A prepared launch list: checked once, run many times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cajeta_plugin_api::abi::Span;
use cajeta_plugin_api::{Answer, BufferSpan, Fault, Work};

use super::memory::Memory;
use crate::launch::{ArgBytes, Prepared, writes};
use crate::registry;
use crate::settings::Defect;

/// What `list` makes.
pub struct PreparedList {
    launches: Vec<Launch>,
    runs: AtomicU64,
}

struct Launch {
    prepared: Prepared,
    args: Vec<Option<BufferSpan<Memory>>>,
}

impl PreparedList {
    /// Holds every launch against its row.
    pub(super) fn new(launches: Vec<Work<Memory>>, defect: Option<Defect>) -> Answer<PreparedList> {
        let launch = |work| Launch::new(work, defect);
        let launches: Answer<Vec<Launch>> = launches.into_iter().map(launch).collect();
        Ok(PreparedList { launches: launches?, runs: AtomicU64::new(0) })
    }

    /// The name of the first row, for messages.
    pub(super) fn first_row(&self) -> &'static str {
        let row = self.launches.first().and_then(|launch| registry::rows().get(launch.prepared.row));
        row.map_or("an empty list", |row| row.name.as_str())
    }

    /// Runs all launches in order, on the working thread, and says when each ran.
    pub(super) fn run(&self, defect: Option<Defect>) -> Result<Vec<Span>, String> {
        let again = self.runs.fetch_add(1, Ordering::Relaxed) > 0;
        if again && defect == Some(Defect::SkipsResubmission) {
            return Ok(Vec::new());
        }
        let begun = Instant::now();
        let nanoseconds = |instant: Instant| u64::try_from((instant - begun).as_nanos()).unwrap_or(u64::MAX);
        let mut spans = Vec::with_capacity(self.launches.len());
        for (index, launch) in self.launches.iter().enumerate() {
            let start = Instant::now();
            launch.run(defect)?;
            let duration = Instant::now() - start;
            spans.push(Span {
                launch: index as u32,
                row: launch.prepared.row as u32,
                start_ns: nanoseconds(start),
                duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            });
        }
        Ok(spans)
    }
}

impl Launch {
    fn new(work: Work<Memory>, defect: Option<Defect>) -> Answer<Launch> {
        let row = registry::rows()
            .get(work.row)
            .ok_or_else(|| Fault::invalid(format!("row {} does not exist", work.row)))?;
        let trusting = defect == Some(Defect::TrustsSizes);
        let length = |span: &BufferSpan<Memory>| if trusting { u64::MAX } else { span.len };
        let lengths: Vec<Option<u64>> = work.args.iter().map(|arg| arg.as_ref().map(length)).collect();
        let mut prepared = Prepared::new(work.row, row, &work.problem, &work.scalars, &lengths)?;
        if defect == Some(Defect::ForgetsAttributes) {
            prepared.forget_attributes();
        }
        let written = |index: usize| writes(row, index);
        for (i, a) in work.args.iter().enumerate().filter(|(i, _)| written(*i)) {
            for (j, b) in work.args.iter().enumerate().skip(i + 1).filter(|(j, _)| written(*j)) {
                if overlap(a.as_ref(), b.as_ref()) {
                    let what =
                        format!("launch of {}: arguments {i} and {j} are both written and overlap", row.name);
                    return Err(Fault::invalid(what));
                }
            }
        }
        Ok(Launch { prepared, args: work.args })
    }

    fn run(&self, defect: Option<Defect>) -> Result<(), String> {
        let rows = registry::rows();
        let Some(row) = rows.get(self.prepared.row) else { return Err("a row has gone".to_owned()) };
        let written = |index: usize| writes(row, index);
        // An input that overlaps an output (in place) is read from a copy.
        let copies: Vec<Option<Vec<u8>>> = self
            .args
            .iter()
            .enumerate()
            .map(|(index, arg)| {
                let shared = !written(index)
                    && self
                        .args
                        .iter()
                        .enumerate()
                        .any(|(other, o)| written(other) && overlap(arg.as_ref(), o.as_ref()));
                let span = arg.as_ref().filter(|_| shared)?;
                // SAFETY: this is the working thread, the only one that touches
                // device memory while work runs, and it writes nothing now.
                Some(unsafe { span.buffer.slice(span.offset, span.len) }.to_vec())
            })
            .collect();
        let mut args: Vec<ArgBytes<'_>> = Vec::with_capacity(self.args.len());
        for (index, (arg, copy)) in self.args.iter().zip(&copies).enumerate() {
            args.push(match (arg, copy) {
                (None, _) => ArgBytes::Absent,
                (Some(_), Some(copy)) => ArgBytes::Read(copy),
                (Some(span), None) if written(index) => {
                    // SAFETY: only the working thread touches device memory while
                    // work runs. Written spans do not overlap each other (`new`
                    // refuses that), and inputs overlapping them are copies.
                    ArgBytes::Write(unsafe { span.buffer.slice_mut(span.offset, span.len) })
                }
                (Some(span), None) => {
                    // SAFETY: as above; no written span overlaps this one.
                    ArgBytes::Read(unsafe { span.buffer.slice(span.offset, span.len) })
                }
            });
        }
        let kept = keep_last_words(&args, defect);
        self.prepared.run(&mut args).map_err(|error| format!("{}: {error}", row.name))?;
        spoil(&mut args, &kept, defect);
        drop(args);
        if let Some(defect) = defect {
            self.spoil_around(defect, &written);
        }
        Ok(())
    }

    /// Defects outside the operands.
    fn spoil_around(&self, defect: Defect, written: &dyn Fn(usize) -> bool) {
        for (index, span) in self.args.iter().enumerate().filter_map(|(i, arg)| Some((i, arg.as_ref()?))) {
            let (offset, len) = match (defect, written(index)) {
                (Defect::WritesPastEnd, true) => (span.offset + span.len, 4),
                (Defect::WritesInput, false) => (span.offset, 1),
                _ => continue,
            };
            // SAFETY: the working thread has no other slice of device memory now.
            let bytes = unsafe { span.buffer.slice_mut(offset, len) };
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        }
    }
}

/// The last word of each output before the launch, where a defect needs it.
fn keep_last_words(args: &[ArgBytes<'_>], defect: Option<Defect>) -> Vec<Option<[u8; 4]>> {
    let keep = defect == Some(Defect::LeavesUnwritten);
    let word = |arg: &ArgBytes<'_>| match arg {
        ArgBytes::Write(bytes) if keep => bytes.last_chunk().copied(),
        _ => None,
    };
    args.iter().map(word).collect()
}

/// Defects inside the outputs.
fn spoil(args: &mut [ArgBytes<'_>], kept: &[Option<[u8; 4]>], defect: Option<Defect>) {
    for (arg, kept) in args.iter_mut().zip(kept) {
        let ArgBytes::Write(bytes) = arg else { continue };
        if defect == Some(Defect::OffByOne) && bytes.len() >= 4 {
            bytes.rotate_left(4);
        }
        if let (Some(kept), Some(last)) = (kept, bytes.last_chunk_mut()) {
            *last = *kept;
        }
    }
}

fn overlap(a: Option<&BufferSpan<Memory>>, b: Option<&BufferSpan<Memory>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    std::sync::Arc::ptr_eq(&a.buffer, &b.buffer) && a.offset < b.offset + b.len && b.offset < a.offset + a.len
}
