//! One conformance suite for every backend: whatever a plugin claims, it is held to.
//!
//! [`run`] takes an open device. Each row the plugin claims is launched on
//! fuzzed problems that satisfy its gates, with real-valued data, weights made
//! of random valid blocks, memory that is poisoned until written, and canaries
//! around every buffer; what comes back is compared with the catalog's oracles.
//! Layouts that belong to the plugin are made by its own relayout and pack rows
//! and judged by the rows that read them. Then the calls themselves are checked:
//! stale handles, wrong sizes, order, reuse, freeing under running work.
//!
//! A case goes through the modules in this order: [`draw`] picks a problem,
//! [`data`] fills its operands, [`expect`] computes what must come out and how
//! far off it may be, [`plan`] turns it into buffers and launches, [`execute`]
//! runs them, [`compare`] judges. [`claims`] and [`conduct`] are the checks of
//! the registry and of the calls. [`Suite`] runs all of it piece by piece, and
//! [`run_apart`] does so in a process that may crash or hang.

mod random;
mod report;
mod options;
mod weights;
mod draw;
mod data;
mod case;
mod expect;
mod plan;
mod execute;
mod compare;
mod rows;
mod claims;
mod conduct;
mod suite;
mod worker;
mod apart;

use cajeta_plugin_host::Device;

pub use apart::{Apart, ApartError, Heard, run_apart};
pub use options::{Expected, Options};
pub use report::{CheckResult, Finding, Outcome, Report, RowResult};
pub use suite::Suite;
pub use worker::worker;

/// Holds an open device to what its backend claims, in this process.
pub fn run(device: &Device, options: &Options) -> Report {
    let mut suite = Suite::new(device, options);
    let mut report = suite.report();
    for unit in 0..suite.len() {
        suite.run(unit, &mut |_| ()).into_iter().for_each(|finding| report.add(finding));
    }
    report
}
