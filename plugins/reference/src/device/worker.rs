//! The working thread: takes commands in order, does them late, and may break.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use cajeta_plugin_api::BufferSpan;
use cajeta_plugin_api::abi::Span;

use super::list::PreparedList;
use super::memory::Memory;
use super::timeline::Timeline;
use crate::settings::{Defect, Settings};

/// Host memory of a transfer that is under way.
pub(super) struct HostBytes(pub(super) *mut u8);

// SAFETY: the caller of `upload` or `download` leaves these bytes to the device
// until the ticket is complete, whatever thread uses them.
unsafe impl Send for HostBytes {}

/// What a ticket stands for.
pub(super) enum Task {
    Upload { to: BufferSpan<Memory>, src: HostBytes },
    Download { from: BufferSpan<Memory>, dst: HostBytes },
    Run { list: Arc<PreparedList>, spans: bool },
}

/// A task and the ticket it completes.
pub(super) struct Command {
    pub(super) timeline: Arc<Timeline>,
    pub(super) ticket: u64,
    pub(super) task: Task,
}

/// Works until nobody can send commands any more.
pub(super) fn work(inbox: &Receiver<Command>, habits: &Settings) {
    let mut lost: Option<String> = None;
    let mut runs_left = habits.lose_after;
    for Command { timeline, ticket, task } in inbox {
        if lost.is_none()
            && let Task::Run { list, .. } = &task
        {
            match &mut runs_left {
                Some(0) => {
                    lost = Some(format!(
                        "the device was lost while {} ran (CAJETA_REFERENCE_LOSE_AFTER)",
                        list.first_row()
                    ));
                }
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if let Some(why) = &lost {
            timeline.lose(why);
            continue;
        }
        // A panic must not leave the host waiting for a ticket that never comes.
        let done = catch_unwind(AssertUnwindSafe(|| perform(&task, habits.defect))).unwrap_or_else(|_| {
            Err("the working thread panicked; its message is on standard error".to_owned())
        });
        if !habits.latency.is_zero() {
            std::thread::sleep(habits.latency);
        }
        // Buffers and lists go before the ticket shows as complete, so that
        // memory freed under running work is free once the host has waited.
        let asked = matches!(&task, Task::Run { spans: true, .. });
        drop(task);
        match done {
            Ok(spans) => timeline.complete(ticket, asked.then_some(spans)),
            Err(why) => {
                timeline.lose(&why);
                lost = Some(why);
            }
        }
    }
}

fn perform(task: &Task, defect: Option<Defect>) -> Result<Vec<Span>, String> {
    match task {
        Task::Upload { to, src } => {
            // SAFETY: the caller of `upload` keeps `to.len` bytes at `src` readable
            // until the ticket is complete; the span is within its buffer, which
            // only this thread touches; host and device memory are apart.
            unsafe {
                let bytes = to.buffer.slice_mut(to.offset, to.len);
                std::ptr::copy_nonoverlapping(src.0.cast_const(), bytes.as_mut_ptr(), bytes.len());
            }
            Ok(Vec::new())
        }
        Task::Download { from, dst } => {
            // SAFETY: the caller of `download` leaves `from.len` writable bytes at
            // `dst` to us until the ticket is complete; otherwise as above.
            unsafe {
                let bytes = from.buffer.slice(from.offset, from.len);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), dst.0, bytes.len());
            }
            Ok(Vec::new())
        }
        Task::Run { list, .. } => list.run(defect),
    }
}
