//! What timing asks of a queue, and the queue of a device as the answer.

use std::time::{Duration, Instant};

use cajeta_abi::Capability;
use cajeta_plugin_host::{Device, DeviceError, List, Queue, Ticket};

/// A queue and two clocks: the device's, where it has one, and the host's.
pub trait TimedQueue {
    /// Launches submitted as one.
    type Work;
    /// The end of a submission on the queue's timeline.
    type Mark: Copy;

    /// Queues work behind what is queued already.
    ///
    /// # Errors
    /// Whatever the device answers.
    fn submit(&mut self, work: &Self::Work) -> Result<Self::Mark, DeviceError>;

    /// Waits until everything up to a mark is done.
    ///
    /// # Errors
    /// Whatever the device answers.
    fn wait(&mut self, mark: Self::Mark) -> Result<(), DeviceError>;

    /// Time between two marks that are done, on the device's clock; `None` where it has none.
    ///
    /// # Errors
    /// Whatever the device answers.
    fn elapsed(&mut self, from: Self::Mark, to: Self::Mark) -> Result<Option<Duration>, DeviceError>;

    /// The host's clock, from any beginning.
    fn now(&mut self) -> Duration;
}

/// A queue of a device.
#[derive(Debug)]
pub struct DeviceQueue {
    queue: Queue,
    has_clock: bool,
    began: Instant,
}

impl DeviceQueue {
    /// A queue made for timing.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn new(device: &Device) -> Result<DeviceQueue, DeviceError> {
        let has_clock = device.supports(Capability::EVENT_CLOCK)?;
        Ok(DeviceQueue { queue: device.queue()?, has_clock, began: Instant::now() })
    }

    /// The queue, to upload what is timed.
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }
}

impl TimedQueue for DeviceQueue {
    type Work = List;
    type Mark = Ticket;

    fn submit(&mut self, work: &List) -> Result<Ticket, DeviceError> {
        self.queue.submit(work)
    }

    fn wait(&mut self, mark: Ticket) -> Result<(), DeviceError> {
        self.queue.wait(mark)
    }

    fn elapsed(&mut self, from: Ticket, to: Ticket) -> Result<Option<Duration>, DeviceError> {
        if !self.has_clock {
            return Ok(None);
        }
        match self.queue.elapsed(from, to) {
            Ok(time) => Ok(Some(time)),
            // A device may say that it has a clock and find that this queue has none.
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }
}
