//! The device's clock, held against the host's before it is believed.

use std::time::Duration;

use cajeta_plugin_host::DeviceError;

use super::face::TimedQueue;
use super::verdict::median;
use crate::record::{EventClock, Record};

/// A scale outside these is no drift but another unit, or a broken clock.
const SCALES: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// How long each sample keeps the device busy: far longer than a wait takes to return.
const SAMPLE: Duration = Duration::from_millis(5);
/// Samples taken; the middle one counts.
const SAMPLES: usize = 3;
/// Most submissions of a sample, for work that takes no time at all.
const SUBMISSIONS_MAX: u32 = 10_000;

/// By which clock launches are timed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tier {
    /// The device's; a nanosecond of it is so many of the host's.
    Event {
        /// Host nanoseconds per nanosecond of the device.
        scale: f64,
    },
    /// The host's, around a submission and its wait.
    Host,
}

/// The tier, found out at first use.
#[derive(Clone, Copy, Default, Debug)]
pub struct Clock(Option<Tier>);

impl Clock {
    /// The host's clock, whatever the device has.
    pub const fn host() -> Clock {
        Clock(Some(Tier::Host))
    }

    /// The tier; measured with `work` the first time, by submitting it `submissions` times or more.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn tier<Q: TimedQueue>(
        &mut self,
        queue: &mut Q,
        work: &Q::Work,
        submissions: &mut u64,
    ) -> Result<Tier, DeviceError> {
        if let Some(tier) = self.0 {
            return Ok(tier);
        }
        let tier = calibrate(queue, work, submissions)?;
        self.0 = Some(tier);
        Ok(tier)
    }

    /// The tier, if it was found out already.
    pub fn known(&self) -> Option<Tier> {
        self.0
    }
}

fn calibrate<Q: TimedQueue>(
    queue: &mut Q,
    work: &Q::Work,
    submissions: &mut u64,
) -> Result<Tier, DeviceError> {
    let mut scales = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        match sample(queue, work, submissions)? {
            Some(scale) => scales.push(scale),
            None => {
                Record::from(EventClock::default()).emit();
                return Ok(Tier::Host);
            }
        }
    }
    let scale = median(&mut scales);
    let refused = (!SCALES.contains(&scale)).then(|| {
        let (low, high) = (SCALES.start(), SCALES.end());
        format!("a device nanosecond measures {scale:.4} of the host's, outside {low} to {high}")
    });
    let tier = if refused.is_none() { Tier::Event { scale } } else { Tier::Host };
    Record::from(EventClock { scale: Some(scale), refused }).emit();
    Ok(tier)
}

/// Host time over device time of the same stretch; `None` without a device clock.
fn sample<Q: TimedQueue>(
    queue: &mut Q,
    work: &Q::Work,
    submissions: &mut u64,
) -> Result<Option<f64>, DeviceError> {
    // Both clocks start when the queue is known to be idle.
    let from = queue.submit(work)?;
    queue.wait(from)?;
    let start = queue.now();
    let mut to = from;
    let mut passed = Duration::ZERO;
    let mut count = 0;
    while passed < SAMPLE && count < SUBMISSIONS_MAX {
        to = queue.submit(work)?;
        queue.wait(to)?;
        passed = queue.now().saturating_sub(start);
        count += 1;
    }
    *submissions += u64::from(count) + 1;
    let device = queue.elapsed(from, to)?;
    // A clock that stands still gives an infinite scale, which is refused.
    Ok(device.map(|device| passed.as_secs_f64() / device.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeQueue;
    use super::*;

    fn tier(fake: &mut FakeQueue) -> Tier {
        let work = FakeQueue::work("a", 20, 5_000.0);
        let mut submissions = 0;
        let mut clock = Clock::default();
        let tier = clock.tier(fake, &work, &mut submissions).expect("no fault");
        let (first, before) = (tier, submissions);
        assert_eq!(clock.tier(fake, &work, &mut submissions).expect("no fault"), first);
        assert_eq!(submissions, before, "calibrated at first use only");
        tier
    }

    #[test]
    fn a_clock_that_runs_fast_is_corrected() {
        // 4.6 percent fast: the device counts 1046 where the host counts 1000.
        let Tier::Event { scale } = tier(&mut FakeQueue::new(Some(1.046))) else { panic!("refused") };
        assert!((scale * 1.046 - 1.0).abs() < 0.01, "{scale}");
    }

    #[test]
    fn a_clock_of_another_unit_is_refused_and_an_absent_one_is_not_missed() {
        for rate in [0.4, 2.5, 1000.0, 0.0] {
            assert_eq!(tier(&mut FakeQueue::new(Some(rate))), Tier::Host, "{rate}");
        }
        assert_eq!(tier(&mut FakeQueue::new(None)), Tier::Host);
        for rate in [0.6, 1.0, 1.9] {
            assert!(matches!(tier(&mut FakeQueue::new(Some(rate))), Tier::Event { .. }), "{rate}");
        }
    }
}
