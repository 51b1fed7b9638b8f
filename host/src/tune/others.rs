//! How much of a device others hold while something is timed on it.

use std::time::Duration;

use cajeta_abi::Fact;
use cajeta_plugin_host::Device;

/// Percent of the device that others may hold, at which a measurement is used and not kept.
pub const FOREIGN_PERCENT_MAX: u64 = 25;
/// Readings of the others' share; the lowest counts, because one reading may catch a passer-by.
const READINGS: usize = 3;
/// Time between readings.
const BETWEEN_READINGS: Duration = Duration::from_millis(2);

/// Answers percent of the device that others hold now, `None` where nobody knows.
type Load = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// The others on one device.
pub(super) struct Others(Load);

impl Others {
    /// Others whose share `load` answers.
    pub(super) fn new(load: Load) -> Others {
        Others(load)
    }

    /// What the driver says now of others' use of a device.
    pub(super) fn load_of(device: &Device) -> Load {
        let device = device.clone();
        Box::new(move || {
            let facts = device.backend().devices().ok()?;
            facts.get(device.index() as usize)?.get(Fact::FOREIGN_LOAD)
        })
    }

    /// Percent of the device that they hold, as a steady share.
    pub(super) fn steady(&self) -> Option<u64> {
        let mut lowest = (self.0)()?;
        for _ in 1..READINGS {
            if lowest < FOREIGN_PERCENT_MAX {
                break;
            }
            std::thread::sleep(BETWEEN_READINGS);
            lowest = lowest.min((self.0)()?);
        }
        Some(lowest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_passer_by_is_no_steady_share() {
        let of = |readings: &'static [Option<u64>]| {
            let next = AtomicUsize::new(0);
            Others::new(Box::new(move || readings[next.fetch_add(1, Ordering::Relaxed)])).steady()
        };
        assert_eq!(of(&[Some(90), Some(3)]), Some(3));
        assert_eq!(of(&[Some(90), Some(60), Some(80)]), Some(60));
        assert_eq!(of(&[Some(24)]), Some(24), "read once");
        assert_eq!((of(&[None]), of(&[Some(90), None])), (None, None));
    }
}
