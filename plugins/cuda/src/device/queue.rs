//! A queue: a stream, and the tickets on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cajeta_plugin_api::abi::{Code, Span, Ticket};
use cajeta_plugin_api::{Answer, BufferSpan, Fault, Poll};

use super::list::List;
use super::memory::Buffer;
use super::staging::{LARGEST, Staging};
use super::timeline::{Arrival, Entry, Held, Timeline};
use crate::driver::{Context, Event, Stream};

/// How long a wait looks without pause: a step of a small model is over by then, and waking a thread takes longer.
const SPIN: Duration = Duration::from_micros(200);
/// The pause between looks after that.
const PAUSE: Duration = Duration::from_micros(20);

/// A timeline of work on one stream.
pub struct Queue {
    context: Arc<Context>,
    stream: Stream,
    staging: Arc<Staging>,
    timeline: Timeline,
    /// Marks to use again.
    spare: Vec<Event>,
    last: u64,
}

impl Queue {
    pub(super) fn new(context: &Arc<Context>, staging: &Arc<Staging>) -> Answer<Queue> {
        Ok(Queue {
            context: Arc::clone(context),
            stream: Stream::new(context)?,
            staging: Arc::clone(staging),
            timeline: Timeline::default(),
            spare: Vec::new(),
            last: 0,
        })
    }

    /// # Safety
    /// - `src` is readable for `to.len` bytes until the ticket is complete.
    pub(super) unsafe fn upload(&mut self, to: BufferSpan<Buffer>, src: *const u8) -> Answer<Ticket> {
        let mut from = src;
        let mut piece = None;
        if to.len > 0 && to.len <= LARGEST {
            let lent = self.staging.borrow(to.len)?;
            // SAFETY: the caller promises `to.len` readable bytes; the piece has at least as many and is ours.
            unsafe { std::ptr::copy_nonoverlapping(src, lent.address(), to.len as usize) };
            from = lent.address();
            piece = Some(lent);
        }
        if to.len > 0 {
            // SAFETY: the source is the piece, held until the ticket is done, or the caller's memory until then; the
            // target lies within the buffer, which is held too. Work on a stream is ordered, so nothing of this queue
            // uses it meanwhile.
            unsafe { self.stream.copy(to.buffer.address() + to.offset, from as u64, to.len)? };
        }
        self.ticket(Held::Upload { _to: to.buffer, _piece: piece })
    }

    /// # Safety
    /// - `dst` is writable for `from.len` bytes, and not otherwise used, until the ticket is complete.
    pub(super) unsafe fn download(&mut self, from: BufferSpan<Buffer>, dst: *mut u8) -> Answer<Ticket> {
        let source = from.buffer.address() + from.offset;
        let mut arrival = None;
        if from.len > 0 && from.len <= LARGEST {
            let piece = self.staging.borrow(from.len)?;
            // SAFETY: the piece has at least this many bytes and is held until the ticket is done, as the buffer is.
            unsafe { self.stream.copy(piece.address() as u64, source, from.len)? };
            arrival = Some(Arrival { piece, to: dst, len: from.len as usize });
        } else if from.len > 0 {
            // SAFETY: the caller promises the target until the ticket is done; the buffer is held until then.
            unsafe { self.stream.copy(dst as u64, source, from.len)? };
        }
        self.ticket(Held::Download { _from: from.buffer, arrival })
    }

    pub(super) fn submit(&mut self, list: &Arc<List>, spans: bool) -> Answer<Ticket> {
        let queued = if spans {
            list.run_marked(&self.context, &self.stream).map(Some)
        } else {
            list.run(&self.stream).map(|()| None)
        };
        let marks = queued.map_err(|fault| self.explain(fault))?;
        self.ticket(Held::List(Arc::clone(list), marks))
    }

    /// Marks the end of what was just queued and gives out its ticket.
    fn ticket(&mut self, held: Held) -> Answer<Ticket> {
        let mark = match self.spare.pop() {
            Some(mark) => mark,
            None => Event::new(&self.context)?,
        };
        mark.record(&self.stream).map_err(|fault| self.explain(fault))?;
        self.last += 1;
        self.timeline.push(Entry { ticket: self.last, mark, held });
        self.settle()?;
        Ok(Ticket(self.last))
    }

    /// Finishes every ticket that is done.
    fn settle(&mut self) -> Answer<()> {
        while let Some(entry) = self.timeline.oldest() {
            match entry.mark.is_done() {
                Ok(true) => self.spare.extend(self.timeline.finish()),
                Ok(false) => break,
                Err(fault) => return Err(self.explain(fault)),
            }
        }
        Ok(())
    }

    pub(super) fn poll(&mut self, ticket: Ticket, timeout: Duration) -> Answer<Poll> {
        if ticket.0 > self.last {
            let what = format!("ticket {} was not given out; the last is {}", ticket.0, self.last);
            return Err(Fault::invalid(what));
        }
        let begun = Instant::now();
        loop {
            self.settle()?;
            if self.timeline.complete() >= ticket.0 {
                return Ok(Poll::Ready);
            }
            let waited = begun.elapsed();
            if waited >= timeout {
                return Ok(Poll::Pending);
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(PAUSE.min(timeout - waited));
            }
        }
    }

    pub(super) fn elapsed(&mut self, from: Ticket, to: Ticket) -> Answer<u64> {
        self.settle()?;
        let mark = |ticket: Ticket| {
            self.timeline.mark(ticket.0).ok_or_else(|| {
                Fault::invalid(format!(
                    "ticket {} is not complete, or too long ago to know its time",
                    ticket.0
                ))
            })
        };
        mark(to)?.since(mark(from)?)
    }

    pub(super) fn spans(&mut self, ticket: Ticket) -> Answer<Vec<Span>> {
        self.settle()?;
        let marks = self.timeline.marks(ticket.0).ok_or_else(|| {
            Fault::invalid(format!("ticket {} is not a completed submission that asked for spans", ticket.0))
        })?;
        let Some((first, rest)) = marks.events.split_first() else { return Ok(Vec::new()) };
        let mut spans = Vec::with_capacity(rest.len());
        let mut before = first;
        for (launch, (end, row)) in rest.iter().zip(&marks.rows).enumerate() {
            spans.push(Span {
                launch: launch as u32,
                row: *row as u32,
                start_ns: before.since(first)?,
                duration_ns: end.since(before)?,
            });
            before = end;
        }
        Ok(spans)
    }

    /// Says what ran when the device was lost.
    fn explain(&self, fault: Fault) -> Fault {
        if fault.code != Code::LOST {
            return fault;
        }
        Fault::lost(format!("{} while running {}", fault.text, self.timeline.describe()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // What is held goes only after the work that uses it; a lost device has no work left.
        if self.stream.wait().is_ok() {
            while self.timeline.oldest().is_some() {
                self.timeline.finish();
            }
        }
    }
}
