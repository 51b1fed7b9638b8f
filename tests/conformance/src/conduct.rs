//! How a device behaves when called: order, reuse, freeing under running work,
//! and calls that break the contract.

mod transfers;
mod lists;
mod refusals;

use cajeta_plugin_host::Device;

use crate::execute::Failure;
use crate::report::{CheckResult, Outcome};

/// A check of the calls.
pub(crate) type Conduct = (&'static str, fn(&Device, u64) -> Result<(), Failure>);

/// All of them, in order.
pub(crate) const CONDUCTS: &[Conduct] = &[
    ("fresh memory is poisoned when asked", transfers::poison),
    ("bytes survive the way there and back", transfers::round_trip),
    ("copies on one queue are in order", transfers::order),
    ("imported pages read as they are", transfers::import),
    ("poll with no timeout returns at once", lists::poll_without_waiting),
    ("a list runs as often as it is submitted", lists::resubmission),
    ("uploads, lists and downloads of a queue are in order", lists::order),
    ("work survives the freeing of what it uses", lists::freed_while_running),
    ("two queues on two threads keep apart", lists::two_queues),
    ("an empty list is harmless", lists::empty),
    ("spans and elapsed time answer if claimed", lists::clocks),
    ("handles that are not live are refused", refusals::handles),
    ("allocations that cannot be are refused", refusals::allocations),
    ("launches that break their row are refused", refusals::launches),
    ("tickets that were not given out are refused", refusals::tickets),
];

/// Runs one.
pub(crate) fn check(device: &Device, seed: u64, &(check, run): &Conduct) -> CheckResult {
    let outcome = match run(device, seed) {
        Ok(()) => Outcome::Passed,
        Err(Failure::Unsupported(why)) => Outcome::Unsupported(why),
        Err(Failure::Failed(why)) => Outcome::Failed(why),
    };
    CheckResult { check: check.to_owned(), outcome }
}

/// A broken promise, as a sentence.
fn broken(what: impl Into<String>) -> Failure {
    Failure::Failed(what.into())
}
