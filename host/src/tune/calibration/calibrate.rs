//! Measures a device: clock, memory, arithmetic, edges.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cajeta_abi::{Arith, Fact};
use cajeta_plugin_host::{Device, DeviceError};

use super::bandwidth::{fastest, under_host_load};
use super::edges::edges;
use super::fact::CalibrationFact;
use super::peaks::peak;
use super::record::{CalibrationKey, CalibrationRecord, Measured};
use crate::tune::timer::{DeviceQueue, KernelTimer, Tier};

/// How long threads of the backend may wait actively for more work after the last.
const REST: Duration = Duration::from_millis(50);

/// Each arithmetic with its peak and its ridge.
const ARITHMETICS: [(Arith, CalibrationFact, CalibrationFact); 4] = [
    (Arith::F32, CalibrationFact::PeakF32, CalibrationFact::RidgeF32),
    (Arith::F16, CalibrationFact::PeakF16, CalibrationFact::RidgeF16),
    (Arith::BF16, CalibrationFact::PeakBf16, CalibrationFact::RidgeBf16),
    (Arith::INT8, CalibrationFact::PeakInt8, CalibrationFact::RidgeInt8),
];

/// Measures what the backend's rows can measure; `progress` hears what is next. Takes seconds.
///
/// # Errors
/// When no queue can be made. What fails later is absent from the record, with the reason.
pub fn calibrate(device: &Device, progress: &mut dyn FnMut(&str)) -> Result<CalibrationRecord, DeviceError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut record = CalibrationRecord::new(CalibrationKey::of(device), now);
    let mut timer = KernelTimer::new(DeviceQueue::new(device)?);
    record.foreign_load_percent = foreign_load(device);

    progress("bandwidth");
    let mover = fastest(device, &mut timer);
    let idle = mover.as_ref().map(|mover| Measured { value: mover.rate, by: mover.by() });
    let bandwidth = idle.as_ref().ok().map(|measured| measured.value);
    record.put(CalibrationFact::BandwidthIdle, idle.map_err(Clone::clone));
    progress("bandwidth under host load");
    let loaded = mover.as_ref().map_err(Clone::clone).and_then(|mover| {
        let rate = under_host_load(|| mover.again(device, &mut timer)).map_err(|error| error.to_string())?;
        Ok(Measured { value: rate, by: mover.by() })
    });
    record.put(CalibrationFact::BandwidthLoaded, loaded);
    progress("bytes in flight");
    let in_flight = mover
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|mover| mover.in_flight(device, &mut timer).map_err(|error| error.to_string()));
    record.put(CalibrationFact::BytesInFlight, in_flight);

    for (arith, peak_fact, ridge_fact) in ARITHMETICS {
        progress(peak_fact.label());
        let peak = peak(device, &mut timer, arith);
        let ridge = match (&peak, bandwidth) {
            (Ok(peak), Some(bandwidth)) => {
                Ok(Measured { value: peak.value / bandwidth, by: format!("{}, and the bandwidth", peak.by) })
            }
            (Err(why), _) => Err(why.clone()),
            (_, None) => Err("the bandwidth is not known".to_owned()),
        };
        record.put(peak_fact, peak);
        record.put(ridge_fact, ridge);
    }

    progress("launches, marks and queues");
    match edges(device) {
        Ok(facts) => facts.into_iter().for_each(|(fact, measured)| record.put(fact, Ok(measured))),
        Err(why) => {
            use CalibrationFact::{Event, InterQueue, Launch, RoundTrip};
            [Launch, RoundTrip, Event, InterQueue]
                .into_iter()
                .for_each(|fact| record.put(fact, Err(why.clone())));
        }
    }
    let scale = match timer.tier() {
        Some(Tier::Event { scale }) => Ok(Measured { value: scale, by: "both clocks".into() }),
        Some(Tier::Host) => Err("the device has no clock that agrees with the host's".to_owned()),
        None => Err("nothing could be timed".to_owned()),
    };
    record.put(CalibrationFact::EventClockScale, scale);
    record.foreign_load_percent = record.foreign_load_percent.max(foreign_load(device));
    Ok(record)
}

/// Percent of the device that others hold, once what this process started has come to rest.
fn foreign_load(device: &Device) -> Option<u64> {
    std::thread::sleep(REST);
    let facts = device.backend().devices().ok()?;
    facts.get(device.index() as usize)?.get(Fact::FOREIGN_LOAD)
}
