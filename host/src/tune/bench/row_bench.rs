//! A row's operands on a device, and lists of launches over them.

use cajeta_abi::{Access, ArgSpec, DtypeId, Fact, FormatId, MemoryKind, Problem};
use cajeta_catalog::contract::Role;
use cajeta_plugin_host::{BufferSpan, Device, DeviceError, LaunchSpec, List, Queue};

use super::contents::Random;
use super::operands::{ArgBytes, arg_bytes};
use crate::tune::TuneError;

/// Most bytes of copies of a weight.
const COPIES_BYTES_MAX: u64 = 1 << 30;
/// Most copies of a weight: no bracket has more launches.
const COPIES_MAX: u64 = 20;

/// The operands of rows that take the same arguments.
#[derive(Debug)]
pub struct RowBench {
    device: Device,
    problem: Problem,
    scalars: Vec<u8>,
    /// Arguments of launch `i` are `sets[i % sets.len()]`. They differ in what is read, so that launches
    /// of a bracket read memory as those of a step do, and not what the last one left in a cache.
    sets: Vec<Vec<Option<BufferSpan>>>,
    written: Option<usize>,
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
        for _ in 1..filling.copies() {
            match filling.set(sets.first()) {
                Ok(set) => sets.push(set),
                // Fewer copies are worse than more, and better than no measurement.
                Err(error) if error.is_out_of_memory() => break,
                Err(error) => return Err(error.into()),
            }
        }
        let written = spec.args.iter().position(|arg| arg.access != Access::READ);
        let (device, scalars) = (device.clone(), scalars.to_vec());
        Ok(RowBench { device, problem: *problem, scalars, sets, written })
    }

    /// Prepares launches of a row that takes these operands.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn list(&self, queue: &mut Queue, row: usize, launches: u32) -> Result<List, DeviceError> {
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
            split: geometry.split_min.max(1),
            problem: self.problem,
            args: args.clone(),
            scalars: self.scalars.clone(),
            scratch: scratch.clone(),
            semaphores: semaphores.clone(),
        };
        let specs: Vec<LaunchSpec> = self.sets.iter().cycle().take(launches as usize).map(spec).collect();
        self.device.list(&specs)
    }

    /// The bytes of an argument of the first launch.
    ///
    /// # Errors
    /// An argument that is left out, whatever the device answers.
    pub fn read(&self, queue: &mut Queue, arg: usize) -> Result<Vec<u8>, TuneError> {
        let span = self.sets.first().and_then(|set| set.get(arg)).and_then(Option::as_ref);
        let Some(span) = span else {
            let why = "it is left out".to_owned();
            return Err(TuneError::Untimed { what: format!("argument {arg}"), why });
        };
        let mut bytes = vec![0; usize::try_from(span.len()).unwrap_or(usize::MAX)];
        queue.download(span, &mut bytes)?;
        Ok(bytes)
    }

    /// The first argument that a launch writes.
    pub fn written(&self) -> Option<usize> {
        self.written
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
                (None, None, Some(size)) => Some(self.operand(self.args[index], size)?),
            });
        }
        Ok(set)
    }

    fn operand(&mut self, spec: ArgSpec, size: ArgBytes) -> Result<BufferSpan, DeviceError> {
        let buffer = self.device.alloc(
            size.bytes.saturating_add(u64::from(spec.padding)),
            MemoryKind::DEVICE,
            false,
        )?;
        let bytes = usize::try_from(size.bytes).unwrap_or(usize::MAX);
        let floats = spec.dtype == DtypeId::F32 || spec.format == FormatId(0);
        let content = if floats { self.random.floats(bytes) } else { self.random.blocks(bytes) };
        self.queue.upload_owned(&buffer.whole(), content)?;
        buffer.span(0, size.bytes)
    }

    fn is_own_weight(&self, index: usize) -> bool {
        let weight = self.sizes[index].is_some_and(|size| size.role == Role::Weight);
        weight && (self.given)(index).is_none()
    }

    /// Sets that together read twice what the last cache holds, within reason.
    fn copies(&self) -> u64 {
        let own = (0..self.sizes.len()).filter(|&index| self.is_own_weight(index));
        let bytes: u64 = own.filter_map(|index| self.sizes[index]).map(|size| size.bytes).sum();
        let cache = self.device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        match bytes {
            0 => 1,
            bytes => (cache.saturating_mul(2).div_ceil(bytes))
                .clamp(1, COPIES_MAX.min(COPIES_BYTES_MAX / bytes).max(1)),
        }
    }
}
