//! What a queue remembers of each ticket: its mark, what it holds while it runs, and what follows when it is done.

use std::collections::VecDeque;
use std::sync::Arc;

use super::list::{List, Marks};
use super::memory::Buffer;
use super::staging::Piece;
use crate::driver::Event;

/// Completed marks kept for `elapsed`, and completed runs kept for `spans`.
const REMEMBERED: usize = 1024;

/// What a ticket's work needs until it is done.
pub(super) enum Held {
    /// A list and, when spans were asked for, its marks.
    List(Arc<List>, Option<Marks>),
    /// An upload's buffer and the piece it goes through.
    Upload { _to: Arc<Buffer>, _piece: Option<Piece> },
    /// A download's buffer, and where its bytes go from the piece.
    Download { _from: Arc<Buffer>, arrival: Option<Arrival> },
}

/// Bytes that have arrived in a piece and go on to the host.
pub(super) struct Arrival {
    pub(super) piece: Piece,
    pub(super) to: *mut u8,
    pub(super) len: usize,
}

// SAFETY: the address is the caller's memory, its own until the ticket is done and used by nobody else; which thread
// copies to it does not matter.
unsafe impl Send for Arrival {}

impl Arrival {
    /// Hands the bytes over.
    fn deliver(self) {
        // SAFETY: the device has filled the piece's first `len` bytes; the caller of `download` promised as many
        // writable bytes at `to` until the ticket is done, which it becomes by this.
        unsafe { std::ptr::copy_nonoverlapping(self.piece.address(), self.to, self.len) };
    }
}

/// A ticket that was given out.
pub(super) struct Entry {
    pub(super) ticket: u64,
    pub(super) mark: Event,
    pub(super) held: Held,
}

/// The tickets of a queue, in order.
#[derive(Default)]
pub(super) struct Timeline {
    running: VecDeque<Entry>,
    done: VecDeque<(u64, Event)>,
    marked: VecDeque<(u64, Marks)>,
    complete: u64,
}

impl Timeline {
    pub(super) fn push(&mut self, entry: Entry) {
        self.running.push_back(entry);
    }

    /// The last ticket known to be done.
    pub(super) fn complete(&self) -> u64 {
        self.complete
    }

    /// The oldest that is not.
    pub(super) fn oldest(&self) -> Option<&Entry> {
        self.running.front()
    }

    /// Finishes the oldest, which is done. Answers a mark to use again.
    pub(super) fn finish(&mut self) -> Option<Event> {
        let entry = self.running.pop_front()?;
        match entry.held {
            Held::Download { arrival: Some(arrival), .. } => arrival.deliver(),
            Held::List(_, Some(marks)) => {
                if self.marked.len() == REMEMBERED {
                    self.marked.pop_front();
                }
                self.marked.push_back((entry.ticket, marks));
            }
            _ => {}
        }
        self.complete = entry.ticket;
        self.done.push_back((entry.ticket, entry.mark));
        if self.done.len() > REMEMBERED { self.done.pop_front().map(|(_, mark)| mark) } else { None }
    }

    /// The mark of a completed ticket, while it is remembered.
    pub(super) fn mark(&self, ticket: u64) -> Option<&Event> {
        self.done.iter().rev().find(|(done, _)| *done == ticket).map(|(_, mark)| mark)
    }

    /// The marks of a completed run that asked for spans.
    pub(super) fn marks(&self, ticket: u64) -> Option<&Marks> {
        self.marked.iter().rev().find(|(done, _)| *done == ticket).map(|(_, marks)| marks)
    }

    /// What runs now, for messages.
    pub(super) fn describe(&self) -> String {
        let running = self.running.iter().find_map(|entry| match &entry.held {
            Held::List(list, _) => Some(list.describe()),
            _ => None,
        });
        running.unwrap_or_else(|| "a transfer".to_owned())
    }
}
