//! A row's operands on a device, and lists of launches over them.

use cajeta_abi::{ArgSpec, DtypeId, Fact, FormatId, MemoryKind, Problem};
use cajeta_catalog::contract::Role;
use cajeta_plugin_host::{BufferSpan, Device, DeviceError, LaunchSpec, List, Queue};

use super::contents::Random;
use super::operands::{ArgBytes, arg_bytes};
use crate::tune::TuneError;
use crate::tune::site::ArgSet;

/// Most bytes of copies of a weight.
const COPIES_BYTES_MAX: u64 = 1 << 30;
/// Most copies of a weight: no bracket has more launches.
const COPIES_MAX: u64 = 20;
/// Most launches that operands are spread over.
const STRIPES_MAX: u64 = 4096;
/// Bytes made and uploaded at once.
const PIECE: u64 = 16 << 20;

/// The operands of rows that take the same arguments.
#[derive(Debug)]
pub struct RowBench {
    device: Device,
    problem: Problem,
    scalars: Vec<u8>,
    /// Arguments of launch `i` are `sets[i % sets.len()]`. They differ in what is read, so that launches
    /// of a bracket read memory as those of a step do, and not what the last one left in a cache.
    sets: Vec<Vec<Option<BufferSpan>>>,
}

/// What fills the operands.
struct Filling<'a> {
    device: &'a Device,
    queue: &'a mut Queue,
    args: &'a [ArgSpec],
    sizes: Vec<Option<ArgBytes>>,
    given: &'a dyn Fn(usize) -> Option<BufferSpan>,
    random: Random,
}

impl RowBench {
    /// Allocates and fills the operands of a row. `given` may provide some: a resident weight needs no
    /// second copy of itself, and no other copies of it are made then.
    ///
    /// # Errors
    /// A row that cannot be launched without a model, no room, whatever the device answers.
    pub fn new(
        device: &Device,
        queue: &mut Queue,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        given: &dyn Fn(usize) -> Option<BufferSpan>,
    ) -> Result<RowBench, TuneError> {
        let copies = |filling: &Filling<'_>| filling.copies();
        RowBench::prepare(device, queue, row, problem, scalars, given, &copies)
    }

    fn prepare(
        device: &Device,
        queue: &mut Queue,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        given: &dyn Fn(usize) -> Option<BufferSpan>,
        copies: &dyn Fn(&Filling<'_>) -> u64,
    ) -> Result<RowBench, TuneError> {
        let backend = device.backend();
        let Some(spec) = backend.rows().get(row) else {
            return Err(TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() });
        };
        let layout_bytes =
            |layout, shapes: &[_]| backend.layout_bytes(layout, shapes).map_err(|error| error.to_string());
        let sizes = arg_bytes(spec, problem, scalars, &layout_bytes)?;
        let random = Random::new(row as u64);
        let mut filling = Filling { device, queue, args: spec.args.as_slice(), sizes, given, random };
        let mut sets = vec![filling.set(None)?];
        for _ in 1..copies(&filling) {
            match filling.set(sets.first()) {
                Ok(set) => sets.push(set),
                // Fewer copies are worse than more, and better than no measurement.
                Err(error) if error.is_out_of_memory() => break,
                Err(error) => return Err(error.into()),
            }
        }
        let (device, scalars) = (device.clone(), scalars.to_vec());
        Ok(RowBench { device, problem: *problem, scalars, sets })
    }

    /// Launches over arguments that are there already: those a model's step has, layer after layer. Nothing is
    /// allocated or written.
    ///
    /// # Errors
    /// No arguments at all.
    pub fn over(
        device: &Device,
        problem: &Problem,
        scalars: &[u8],
        sets: Vec<ArgSet>,
    ) -> Result<RowBench, TuneError> {
        if sets.is_empty() {
            let why = "no launch of it is in place".to_owned();
            return Err(TuneError::Untimed { what: "a launch".to_owned(), why });
        }
        Ok(RowBench { device: device.clone(), problem: *problem, scalars: scalars.to_vec(), sets })
    }

    /// As [`RowBench::new`], with the launches spread over so much memory that no cache holds it: every
    /// operand has a stripe of its own in buffers that many launches share.
    ///
    /// # Errors
    /// As [`RowBench::new`].
    pub fn spread(
        device: &Device,
        queue: &mut Queue,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
    ) -> Result<RowBench, TuneError> {
        let mut bench = RowBench::prepare(device, queue, row, problem, scalars, &|_| None, &|_| 1)?;
        let Some(first) = bench.sets.first().cloned() else { return Ok(bench) };
        let align = device.facts().get(Fact::BUFFER_ALIGNMENT).unwrap_or(1).max(256);
        let stride = |span: &BufferSpan| stride(span.len(), align);
        let bytes = first.iter().flatten().map(stride).fold(0, u64::saturating_add);
        let cache = device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        let stripes = stripes(bytes, cache);
        let mut random = Random::new(stripes);
        let mut wide = Vec::with_capacity(first.len());
        for (span, spec) in first.iter().zip(bench.args(row)) {
            wide.push(match span {
                None => None,
                Some(span) => {
                    let size =
                        ArgBytes { bytes: stride(span).saturating_mul(stripes), role: Role::Activation };
                    Some(operand(device, queue, *spec, size, &mut random)?)
                }
            });
        }
        bench.sets.clear();
        for stripe in 0..stripes {
            let part = |(wide, first): (&Option<BufferSpan>, &Option<BufferSpan>)| match (wide, first) {
                (Some(wide), Some(first)) => {
                    wide.part(stripe.saturating_mul(stride(first)), first.len()).map(Some)
                }
                _ => Ok(None),
            };
            bench.sets.push(wide.iter().zip(&first).map(part).collect::<Result<_, DeviceError>>()?);
        }
        Ok(bench)
    }

    fn args(&self, row: usize) -> &'static [ArgSpec] {
        self.device.backend().rows().get(row).map_or(&[], |row| row.args.as_slice())
    }

    /// Prepares launches of a row that takes these operands.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn list(&self, queue: &mut Queue, row: usize, launches: u32) -> Result<List, DeviceError> {
        self.device.list(&self.specs(queue, row, launches)?)
    }

    /// Launches of a row that takes these operands, to be prepared with others.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn specs(
        &self,
        queue: &mut Queue,
        row: usize,
        launches: u32,
    ) -> Result<Vec<LaunchSpec>, DeviceError> {
        self.specs_in_parts(queue, row, launches, None)
    }

    /// The same with the reduction in so many parts; in the fewest without a number.
    ///
    /// # Errors
    /// As [`RowBench::specs`].
    pub fn specs_in_parts(
        &self,
        queue: &mut Queue,
        row: usize,
        launches: u32,
        parts: Option<u32>,
    ) -> Result<Vec<LaunchSpec>, DeviceError> {
        let geometry =
            self.device.backend().geometry(row, self.device.facts(), &self.problem, &self.scalars)?;
        let scratch = match geometry.scratch_bytes {
            0 => None,
            bytes => Some(self.device.alloc(bytes, MemoryKind::DEVICE, false)?.whole()),
        };
        let semaphores = match geometry.semaphore_bytes {
            0 => None,
            bytes => {
                let span = self.device.alloc(bytes, MemoryKind::DEVICE, false)?.whole();
                queue.upload_owned(&span, vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)])?;
                Some(span)
            }
        };
        let spec = |args: &Vec<Option<BufferSpan>>| LaunchSpec {
            row,
            split: parts.unwrap_or(geometry.split_min).max(1),
            problem: self.problem,
            args: args.clone(),
            scalars: self.scalars.clone(),
            scratch: scratch.clone(),
            semaphores: semaphores.clone(),
        };
        Ok(self.sets.iter().cycle().take(launches as usize).map(spec).collect())
    }

    /// Sets of operands it cycles through.
    pub fn copies(&self) -> usize {
        self.sets.len()
    }
}

impl Filling<'_> {
    /// One set of operands; what it does not have of its own is shared with `like`.
    fn set(
        &mut self,
        like: Option<&Vec<Option<BufferSpan>>>,
    ) -> Result<Vec<Option<BufferSpan>>, DeviceError> {
        let mut set = Vec::with_capacity(self.args.len());
        for index in 0..self.args.len() {
            let shared = like.and_then(|set| set.get(index)).filter(|_| !self.is_own_weight(index));
            set.push(match (shared, (self.given)(index), self.sizes[index]) {
                (Some(span), _, _) => span.clone(),
                (None, Some(span), _) => Some(span),
                (None, None, None) => None,
                (None, None, Some(size)) => {
                    Some(operand(self.device, self.queue, self.args[index], size, &mut self.random)?)
                }
            });
        }
        Ok(set)
    }

    fn is_own_weight(&self, index: usize) -> bool {
        let weight = self.sizes[index].is_some_and(|size| size.role == Role::Weight);
        weight && (self.given)(index).is_none()
    }

    /// Sets that together read twice what the last cache holds, within reason.
    fn copies(&self) -> u64 {
        let own = (0..self.sizes.len()).filter(|&index| self.is_own_weight(index));
        let sizes = own.filter_map(|index| self.sizes[index]).map(|size| size.bytes);
        let bytes = sizes.fold(0, u64::saturating_add);
        let cache = self.device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        match bytes {
            0 => 1,
            bytes => (cache.saturating_mul(2).div_ceil(bytes))
                .clamp(1, COPIES_MAX.min(COPIES_BYTES_MAX / bytes).max(1)),
        }
    }
}

/// Bytes from one stripe of an operand to the next. Its size and the alignment are a plugin's word: what
/// does not fit 64 bits is refused when it is allocated.
fn stride(len: u64, align: u64) -> u64 {
    len.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

/// Launches of `bytes` each that together read more than a cache holds, within reason.
fn stripes(bytes: u64, cache: u64) -> u64 {
    let bytes = bytes.max(1);
    let wanted = (cache.saturating_mul(2) / bytes).saturating_add(1).min(STRIPES_MAX);
    wanted.min((COPIES_BYTES_MAX / bytes).max(1))
}

/// A buffer with harmless contents.
fn operand(
    device: &Device,
    queue: &mut Queue,
    spec: ArgSpec,
    size: ArgBytes,
    random: &mut Random,
) -> Result<BufferSpan, DeviceError> {
    let with_padding = size.bytes.saturating_add(u64::from(spec.padding));
    let buffer = device.alloc(with_padding, MemoryKind::DEVICE, false)?;
    let floats = spec.dtype == DtypeId::F32 || spec.format == FormatId(0);
    // In pieces, so that a large operand needs no second copy of itself on the host.
    let mut done = 0;
    while done < size.bytes {
        let piece = PIECE.min(size.bytes - done);
        let len = usize::try_from(piece).unwrap_or(usize::MAX);
        let content = if floats { random.floats(len) } else { random.blocks(len) };
        queue.upload(&buffer.span(done, piece)?, &content)?;
        done += piece;
    }
    buffer.span(0, size.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_spread_over_twice_a_cache_whatever_a_plugin_says() {
        assert_eq!((stride(300, 256), stride(256, 256)), (512, 256));
        assert_eq!(stride(300, 1 << 63), 1 << 63);
        assert_eq!((stride((1 << 63) + 1, 1 << 63), stride(1, u64::MAX)), (u64::MAX, u64::MAX));
        assert_eq!(stripes(1 << 20, 32 << 20), 65);
        assert_eq!(stripes(1 << 30, 32 << 20), 1, "one is more than it holds");
        assert_eq!(stripes(1 << 20, 1 << 40), 1024, "no more than there is to spend");
        assert_eq!((stripes(0, u64::MAX), stripes(u64::MAX, u64::MAX)), (STRIPES_MAX, 1));
    }
}
