//! A queue's timeline: what is complete, when it was, and whether the device is gone.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cajeta_plugin_api::abi::Span;
use cajeta_plugin_api::{Answer, Fault, Poll};

/// Completions remembered for `elapsed`, and for `spans`.
const REMEMBERED: usize = 4096;

struct Progress {
    complete: u64,
    lost: Option<String>,
    times: VecDeque<(u64, Instant)>,
    spans: VecDeque<(u64, Vec<Span>)>,
}

/// Shared by a queue and the working thread.
pub(super) struct Timeline {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Timeline {
    pub(super) fn new() -> Timeline {
        let progress = Progress { complete: 0, lost: None, times: VecDeque::new(), spans: VecDeque::new() };
        Timeline { progress: Mutex::new(progress), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The working thread has finished a ticket.
    pub(super) fn complete(&self, ticket: u64, spans: Option<Vec<Span>>) {
        let mut progress = self.lock();
        progress.complete = progress.complete.max(ticket);
        if progress.times.len() == REMEMBERED {
            progress.times.pop_front();
        }
        progress.times.push_back((ticket, Instant::now()));
        if let Some(spans) = spans {
            if progress.spans.len() == REMEMBERED {
                progress.spans.pop_front();
            }
            progress.spans.push_back((ticket, spans));
        }
        self.changed.notify_all();
    }

    /// The device is gone; nothing completes any more.
    pub(super) fn lose(&self, why: &str) {
        self.lock().lost.get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
    }

    pub(super) fn check_alive(&self) -> Answer<()> {
        self.lock().lost.clone().map_or(Ok(()), |why| Err(Fault::lost(why)))
    }

    /// Waits for a ticket that was given out.
    pub(super) fn wait(&self, ticket: u64, timeout: Duration) -> Answer<Poll> {
        let begun = Instant::now();
        let mut progress = self.lock();
        loop {
            if progress.complete >= ticket {
                return Ok(Poll::Ready);
            }
            if let Some(why) = &progress.lost {
                return Err(Fault::lost(why.clone()));
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(Poll::Pending);
            }
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for everything up to a ticket, or for the loss of the device.
    pub(super) fn drain(&self, ticket: u64) {
        let mut progress = self.lock();
        while progress.complete < ticket && progress.lost.is_none() {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nanoseconds between two completions.
    pub(super) fn elapsed(&self, from: u64, to: u64) -> Answer<u64> {
        let progress = self.lock();
        let time = |ticket: u64| {
            let found = progress.times.iter().find(|(known, _)| *known == ticket);
            found.map(|(_, time)| *time).ok_or_else(|| {
                Fault::invalid(format!("ticket {ticket} is not complete, or completed too long ago"))
            })
        };
        let between = time(to)?.saturating_duration_since(time(from)?);
        Ok(u64::try_from(between.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The spans of a submission that asked for them.
    pub(super) fn spans(&self, ticket: u64) -> Answer<Vec<Span>> {
        let progress = self.lock();
        let found = progress.spans.iter().find(|(known, _)| *known == ticket);
        found
            .map(|(_, spans)| spans.clone())
            .ok_or_else(|| Fault::invalid(format!("ticket {ticket} recorded no spans, or is not complete")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_by_completion_timeout_or_loss() {
        let timeline = Timeline::new();
        assert_eq!(timeline.wait(1, Duration::ZERO), Ok(Poll::Pending));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                timeline.complete(1, Some(vec![Span::default()]));
            });
            assert_eq!(timeline.wait(1, Duration::from_secs(20)), Ok(Poll::Ready));
        });
        assert_eq!(timeline.spans(1), Ok(vec![Span::default()]));
        assert!(timeline.spans(2).is_err() && timeline.elapsed(1, 2).is_err());
        assert_eq!(timeline.elapsed(1, 1), Ok(0));
        timeline.lose("pulled out");
        assert_eq!(timeline.wait(1, Duration::ZERO), Ok(Poll::Ready), "what completed stays complete");
        assert_eq!(timeline.wait(2, Duration::from_secs(20)), Err(Fault::lost("pulled out")));
        timeline.drain(2);
    }
}
