//! A queue without a device: work takes the time it says, on a host clock that moves with it and a
//! device clock that runs at any rate.

use std::time::Duration;

use cajeta_abi::Code;
use cajeta_plugin_host::DeviceError;

use super::face::TimedQueue;

/// Host nanoseconds of a submission, and of learning that it is done.
const SUBMIT_NS: f64 = 2_000.0;
const WAIT_NS: f64 = 1_000.0;

/// Launches that take so long each.
#[derive(Clone, Debug)]
pub(crate) struct FakeWork {
    name: &'static str,
    launches: u32,
    ns: f64,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct FakeQueue {
    /// Device nanoseconds per nanosecond of the host; no clock without.
    rate: Option<f64>,
    /// Every submission multiplies what work takes by this.
    pub(crate) drift: f64,
    /// The submission of this name with this number takes ten times as long.
    pub(crate) hiccup: Option<(&'static str, usize)>,
    /// The device is lost after so many submissions.
    pub(crate) fails_after: Option<usize>,
    /// What was submitted: name and launches.
    pub(crate) runs: Vec<(&'static str, u32)>,
    host_ns: f64,
    device_done_ns: f64,
    ends: Vec<f64>,
}

impl FakeQueue {
    pub(crate) fn new(rate: Option<f64>) -> FakeQueue {
        FakeQueue {
            rate,
            drift: 1.0,
            hiccup: None,
            fails_after: None,
            runs: Vec::new(),
            host_ns: 0.0,
            device_done_ns: 0.0,
            ends: Vec::new(),
        }
    }

    pub(crate) fn work(name: &'static str, launches: u32, ns: f64) -> FakeWork {
        FakeWork { name, launches, ns }
    }
}

impl TimedQueue for FakeQueue {
    type Work = FakeWork;
    type Mark = usize;

    fn submit(&mut self, work: &FakeWork) -> Result<usize, DeviceError> {
        if self.fails_after.is_some_and(|after| self.runs.len() >= after) {
            return Err(DeviceError {
                operation: "submit",
                backend: "fake".into(),
                code: Code::LOST,
                text: "the device is gone".into(),
            });
        }
        self.host_ns += SUBMIT_NS;
        let mut ns = work.ns * f64::from(work.launches) * self.drift.powi(self.runs.len() as i32);
        let number = self.runs.iter().filter(|(name, _)| *name == work.name).count();
        if self.hiccup == Some((work.name, number)) {
            ns *= 10.0;
        }
        self.device_done_ns = self.device_done_ns.max(self.host_ns) + ns;
        self.runs.push((work.name, work.launches));
        self.ends.push(self.device_done_ns);
        Ok(self.ends.len() - 1)
    }

    fn wait(&mut self, mark: usize) -> Result<(), DeviceError> {
        self.host_ns = self.host_ns.max(self.ends[mark]) + WAIT_NS;
        Ok(())
    }

    fn elapsed(&mut self, from: usize, to: usize) -> Result<Option<Duration>, DeviceError> {
        let ns = self.ends[to] - self.ends[from];
        Ok(self.rate.map(|rate| Duration::from_nanos((ns * rate) as u64)))
    }

    fn now(&mut self) -> Duration {
        Duration::from_nanos(self.host_ns as u64)
    }
}
