//! Work that leaves nothing in a cache of what was there before.

use cajeta_abi::{Fact, Problem};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{Device, List, Queue};

use super::operands::plain_scalars;
use super::row_bench::RowBench;
use super::tools::plain_tools;
use crate::tune::TuneError;

/// Values of a row that is copied.
const WIDTH: u64 = 4096;
/// Bytes of a value.
const VALUE: u64 = 4;

/// A copy of more than the last cache holds, by the backend's own kernel; nothing where there is none, or
/// the device names no cache.
///
/// # Errors
/// No room, whatever the device answers.
pub(super) fn sweep(device: &Device, queue: &mut Queue) -> Result<Option<List>, TuneError> {
    let cache = device.facts().get(Fact::L2_BYTES).unwrap_or(0);
    let rows = cache.div_ceil(WIDTH * VALUE);
    let Some(tool) = plain_tools(device, Op::Copy).into_iter().next().filter(|_| rows > 0) else {
        return Ok(None);
    };
    // What is read and what is written each fill the cache once.
    let problem = Problem { m: rows, n: rows, k: WIDTH, batch: 1, aux: 0 };
    let scalars = plain_scalars(tool.row)?;
    let bench = RowBench::new(device, queue, tool.index, &problem, &scalars, &|_| None)?;
    Ok(Some(bench.list(queue, tool.index, 1)?))
}
