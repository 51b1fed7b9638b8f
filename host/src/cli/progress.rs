//! A line on standard error while something long goes on: only for people, and only when it is long.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the line shows that the program is alive while no bytes move.
const TICK: Duration = Duration::from_millis(120);

/// Progress in bytes. The line goes away with this value.
pub(crate) struct Progress(Option<Shown>);

struct Shown {
    bar: ProgressBar,
    measured: bool,
    /// Tells the waiter that there is nothing to wait for any more.
    over: Option<Sender<()>>,
    waiter: Option<JoinHandle<()>>,
}

impl Progress {
    /// Progress of `what`, for instance `loading`.
    pub(crate) fn new(what: &'static str) -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if dumb || !stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{prefix} {spinner} {elapsed}"));
        let bar = bar.with_prefix(what);
        let (over, ended) = channel();
        let shown = bar.clone();
        // A thread, since what takes long may be something that reports no bytes, as finding a backend.
        let waiter = std::thread::Builder::new().name("progress".into()).spawn(move || wait(&shown, &ended));
        Progress(Some(Shown { bar, measured: false, over: Some(over), waiter: waiter.ok() }))
    }

    /// Hears `done` of `total` bytes.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        let Some(shown) = &mut self.0 else { return };
        if !shown.measured {
            shown
                .bar
                .set_style(style("{prefix} {bar:32} {binary_bytes} of {binary_total_bytes}, {eta} left"));
            // What went before moved no bytes, and says nothing of how long they take.
            shown.bar.reset_elapsed();
            shown.measured = true;
        }
        shown.bar.set_length(total);
        shown.bar.set_position(done);
    }
}

fn wait(bar: &ProgressBar, ended: &Receiver<()>) {
    if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.over = None;
        if let Some(waiter) = self.waiter.take() {
            // Only what draws could fail there, and then there is nothing to take away.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_over_shows_nothing() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let (over, ended) = channel();
        drop(over);
        wait(&bar, &ended);
        assert!(bar.is_hidden());
    }
}
