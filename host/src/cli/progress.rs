//! A bar on standard error while something long goes on: only for people, and only when it is long.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Progress in bytes. The bar goes away with this value.
pub(crate) struct Progress {
    what: &'static str,
    started: Instant,
    shown: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of `what`, for instance `loading`.
    pub(crate) fn new(what: &'static str) -> Progress {
        Progress { what, started: Instant::now(), shown: stderr().is_terminal(), bar: None }
    }

    /// Hears `done` of `total` bytes.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if !self.shown || self.started.elapsed() < PATIENCE {
            return;
        }
        let what = self.what;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = "{prefix} {bar:32} {binary_bytes} of {binary_total_bytes}, {eta} left";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style).with_prefix(what)
        });
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
