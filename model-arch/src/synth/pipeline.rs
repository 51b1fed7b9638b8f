//! Making tensor data on several threads and writing it in order, in bounded memory.

use super::random::Random;
use super::weights::Tensor;
use crate::gguf::writer::WriteError;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Values made at a time: whole blocks of every format, at most 1 MiB. Part of what a seed means,
/// since each part draws from a stream of its own.
const PART_VALUES: usize = 256 * 1024;

/// Finished parts that may wait for the writer, per thread.
const WAITING_PARTS: usize = 4;

/// A part of one tensor.
struct Part<'a> {
    tensor: &'a Tensor,
    tensor_number: u64,
    number: u64,
    values: usize,
}

/// Every part in file order.
fn parts(tensors: &[Tensor]) -> impl Iterator<Item = Part<'_>> {
    tensors.iter().enumerate().flat_map(|(tensor_number, tensor)| {
        let total = tensor.dims.iter().product::<u64>();
        (0..total.div_ceil(PART_VALUES as u64)).map(move |number| {
            let values = (total - number * PART_VALUES as u64).min(PART_VALUES as u64) as usize;
            Part { tensor, tensor_number: tensor_number as u64, number, values }
        })
    })
}

/// Makes all tensors and hands their bytes to `write` in order. Thread `i` of `n` makes parts
/// `i, i + n, …`, so the writer takes from the threads in turn and order needs no sorting.
pub(super) fn run(
    tensors: &[Tensor],
    seed: u64,
    threads: NonZeroUsize,
    write: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    std::thread::scope(|scope| {
        let threads = threads.get();
        let receivers: Vec<Receiver<Vec<u8>>> = (0..threads)
            .map(|first| {
                let (sender, receiver) = sync_channel(WAITING_PARTS);
                scope.spawn(move || make_parts(parts(tensors).skip(first).step_by(threads), seed, &sender));
                receiver
            })
            .collect();
        // A thread that has made all its parts hangs up; the parts end at the first that has none.
        // On a failed write the receivers are dropped, which stops the threads.
        for receiver in receivers.iter().cycle() {
            let Ok(bytes) = receiver.recv() else { return Ok(()) };
            write(&bytes)?;
        }
        Ok(())
    })
}

fn make_parts<'a>(parts: impl Iterator<Item = Part<'a>>, seed: u64, sender: &SyncSender<Vec<u8>>) {
    for part in parts {
        let mut random = Random::new(seed, part.tensor_number, part.number);
        let mut bytes = Vec::new();
        let start = part.number as usize * PART_VALUES;
        part.tensor.make(&mut random, start, part.values, &mut bytes);
        if sender.send(bytes).is_err() {
            return;
        }
    }
}
