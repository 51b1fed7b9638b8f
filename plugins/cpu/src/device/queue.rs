//! Queues: commands in order, run by whoever polls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cajeta_plugin_api::abi::{Span, Ticket};
use cajeta_plugin_api::{Answer, BufferSpan, Fault, Poll};

use super::list::List;
use super::memory::Buffer;
use super::pool::{Lead, Pool};

/// Completion times, span sets and faults a queue remembers.
const REMEMBERED: usize = 4096;

pub(crate) enum Command {
    Upload { to: BufferSpan<Buffer>, src: *const u8 },
    Download { from: BufferSpan<Buffer>, dst: *mut u8 },
    Run { list: Arc<List>, spans: bool },
}

/// A timeline of commands.
pub struct Queue {
    pool: Arc<Pool>,
    pending: VecDeque<Command>,
    /// The last ticket handed out.
    last: u64,
    /// The last ticket completed.
    done: u64,
    /// Launches of the front list that have run, and since when it runs.
    cursor: usize,
    started: Option<Instant>,
    running: Vec<Span>,
    born: Instant,
    finished: BTreeMap<u64, Instant>,
    spans: BTreeMap<u64, Vec<Span>>,
    faults: BTreeMap<u64, Fault>,
}

// SAFETY: the raw pointers are host memory that the caller of `upload` and
// `download` keeps valid until the ticket is complete, from any thread.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) fn new(pool: Arc<Pool>) -> Queue {
        Queue {
            pool,
            pending: VecDeque::new(),
            last: 0,
            done: 0,
            cursor: 0,
            started: None,
            running: Vec::new(),
            born: Instant::now(),
            finished: BTreeMap::new(),
            spans: BTreeMap::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Queues a command.
    ///
    /// # Safety
    /// The host memory a transfer names stays valid until its ticket is complete.
    pub(crate) unsafe fn push(&mut self, command: Command) -> Ticket {
        self.pending.push_back(command);
        self.last += 1;
        Ticket(self.last)
    }

    /// Runs commands until `ticket` is complete or the time is up; at least one launch.
    pub(crate) fn poll(&mut self, ticket: Ticket, timeout: Duration) -> Answer<Poll> {
        if ticket.0 > self.last {
            return Err(Fault::invalid(format!(
                "ticket {} was not handed out by this queue, whose last is {}",
                ticket.0, self.last
            )));
        }
        if ticket.0 > self.done {
            // A deadline past what a clock can hold is no deadline.
            let deadline = Instant::now().checked_add(timeout);
            let pool = Arc::clone(&self.pool);
            let Some(mut lead) = pool.lead(deadline) else { return Ok(Poll::Pending) };
            while ticket.0 > self.done {
                self.advance(&mut lead);
                if ticket.0 > self.done && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Ok(Poll::Pending);
                }
            }
        }
        match self.faults.get(&ticket.0) {
            Some(fault) => Err(fault.clone()),
            None => Ok(Poll::Ready),
        }
    }

    /// Runs one launch or transfer of the front command.
    fn advance(&mut self, lead: &mut Lead<'_>) {
        let Some(front) = self.pending.front() else { return };
        let fault = match front {
            Command::Upload { to, src } => {
                // SAFETY: the span lies in its buffer, which the span keeps alive
                // and `upload` found writable; the source is valid until this ticket completes.
                unsafe { std::ptr::copy(*src, to.buffer.start().add(to.offset as usize), to.len as usize) };
                None
            }
            Command::Download { from, dst } => {
                // SAFETY: as above, with the roles exchanged.
                unsafe {
                    std::ptr::copy(from.buffer.start().add(from.offset as usize), *dst, from.len as usize)
                };
                None
            }
            Command::Run { list, spans } => {
                let started = *self.started.get_or_insert_with(Instant::now);
                let mut fault = None;
                if let Some(launch) = list.launches().get(self.cursor) {
                    let before = started.elapsed();
                    // SAFETY: the list keeps its buffers alive, its sizes were
                    // checked, and commands of all queues run one at a time
                    // under the pool's lead.
                    fault = unsafe { lead.run(launch.task()) }.err().map(|fault| launch.name_in(fault));
                    if *spans {
                        self.running.push(Span {
                            launch: self.cursor as u32,
                            row: launch.row(),
                            start_ns: nanos(before),
                            duration_ns: nanos(started.elapsed().saturating_sub(before)),
                        });
                    }
                    self.cursor += 1;
                }
                if fault.is_none() && self.cursor < list.launches().len() {
                    return;
                }
                if *spans {
                    self.spans.insert(self.done + 1, std::mem::take(&mut self.running));
                }
                fault
            }
        };
        self.pending.pop_front();
        self.cursor = 0;
        self.started = None;
        self.running.clear();
        self.done += 1;
        self.finished.insert(self.done, Instant::now());
        if let Some(fault) = fault {
            self.faults.insert(self.done, fault);
        }
        forget(&mut self.finished);
        forget(&mut self.spans);
        forget(&mut self.faults);
    }

    /// Nanoseconds between two completed tickets.
    pub(crate) fn elapsed(&self, from: Ticket, to: Ticket) -> Answer<u64> {
        let at = |ticket: Ticket| {
            if ticket == Ticket::NONE {
                return Ok(self.born);
            }
            self.finished.get(&ticket.0).copied().ok_or_else(|| {
                Fault::invalid(format!(
                    "ticket {} is not among the last {REMEMBERED} completed ones",
                    ticket.0
                ))
            })
        };
        Ok(nanos(at(to)?.saturating_duration_since(at(from)?)))
    }

    /// Spans of a completed submission that asked for them.
    pub(crate) fn spans(&self, ticket: Ticket) -> Answer<Vec<Span>> {
        self.spans
            .get(&ticket.0)
            .cloned()
            .ok_or_else(|| Fault::invalid(format!("ticket {} recorded no spans, or too long ago", ticket.0)))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Freeing a queue waits for its work, and work here runs in whoever waits.
        let pool = Arc::clone(&self.pool);
        if let Some(mut lead) = pool.lead(None) {
            while !self.pending.is_empty() {
                self.advance(&mut lead);
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn forget<T>(remembered: &mut BTreeMap<u64, T>) {
    while remembered.len() > REMEMBERED {
        remembered.pop_first();
    }
}
