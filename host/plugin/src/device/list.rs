//! Launch lists: a row, its problem and its buffers, prepared once and submitted many times.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use abi_stable::std_types::RSlice;
use cajeta_abi::{Access, BufferArg, Code, Handle, Launch, Problem, Row, SCALAR_BYTES_MAX};

use super::error::DeviceError;
use super::memory::{Buffer, BufferSpan};
use super::open::Device;

/// One launch of a row.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    /// Index in [`super::Backend::rows`].
    pub row: usize,
    /// Parts the reduction is split in; 1 for none.
    pub split: u32,
    /// The size of the row's `problem_step`.
    pub problem: Problem,
    /// One per argument of the row; `None` for an absent optional operand.
    pub args: Vec<Option<BufferSpan>>,
    /// The steps' scalar blocks in order; at most [`SCALAR_BYTES_MAX`] bytes.
    pub scalars: Vec<u8>,
    /// At least `Geometry::scratch_bytes`; `None` when that is 0.
    pub scratch: Option<BufferSpan>,
    /// At least `Geometry::semaphore_bytes`, zero before the first launch; `None` when that is 0.
    pub semaphores: Option<BufferSpan>,
}

/// Prepared launches. Cheap to clone; freed when the last clone is gone.
#[derive(Clone)]
pub struct List(Arc<Inner>);

struct Inner {
    device: Device,
    handle: Handle,
    launches: usize,
    /// What the launches name stays allocated while the list lives.
    _buffers: Vec<Buffer>,
}

impl List {
    pub(super) fn prepare(device: &Device, specs: &[LaunchSpec]) -> Result<List, DeviceError> {
        for (index, spec) in specs.iter().enumerate() {
            check(device, spec).map_err(|rule| {
                let name = device.backend().rows().get(spec.row).map(|row| row.name.as_str()).unwrap_or("?");
                let text = format!("launch {index} of {} (row {} `{name}`): {rule}", specs.len(), spec.row);
                device.error("list", Code::INVALID, text)
            })?;
        }
        let arg = |span: &Option<BufferSpan>| span.as_ref().map_or(BufferArg::NONE, BufferSpan::arg);
        let args: Vec<Vec<BufferArg>> =
            specs.iter().map(|spec| spec.args.iter().map(arg).collect()).collect();
        let launches: Vec<Launch<'_>> = specs
            .iter()
            .zip(&args)
            .map(|(spec, args)| Launch {
                row: spec.row as u32, // checked: below the number of rows, which is at most 65536
                split: spec.split,
                problem: spec.problem,
                args: RSlice::from_slice(args),
                scalars: RSlice::from_slice(&spec.scalars),
                scratch: arg(&spec.scratch),
                semaphores: arg(&spec.semaphores),
            })
            .collect();
        let handle = device.make("list", |table, device, out, error| {
            (table.list)(device, RSlice::from_slice(&launches), out, error)
        })?;
        // Lists are made while a model runs and name the same few buffers hundreds of times.
        let mut held = HashSet::new();
        let named = specs.iter().flat_map(spans).map(BufferSpan::buffer);
        let buffers = named.filter(|buffer| held.insert(buffer.handle())).cloned().collect();
        Ok(List(Arc::new(Inner { device: device.clone(), handle, launches: specs.len(), _buffers: buffers })))
    }

    /// The device it was prepared for.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Launches in it.
    pub fn len(&self) -> usize {
        self.0.launches
    }

    /// Whether it launches nothing.
    pub fn is_empty(&self) -> bool {
        self.0.launches == 0
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.handle
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let code = (self.device.table().list_free)(self.device.handle(), self.handle);
        if code != Code::OK {
            tracing::warn!(backend = %self.device.backend().id(), code = code.name(), "freeing a list failed");
        }
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({:#x}, {} launches)", self.0.handle.0, self.len())
    }
}

fn spans(spec: &LaunchSpec) -> impl Iterator<Item = &BufferSpan> {
    spec.args.iter().flatten().chain(&spec.scratch).chain(&spec.semaphores)
}

/// The rules this side can hold: the plugin holds the rest.
fn check(device: &Device, spec: &LaunchSpec) -> Result<(), String> {
    let rows = device.backend().rows();
    let row: &Row = rows.get(spec.row).ok_or_else(|| format!("the backend has {} rows", rows.len()))?;
    if spec.args.len() != row.args.len() {
        return Err(format!("{} arguments given, the row takes {}", spec.args.len(), row.args.len()));
    }
    if spec.scalars.len() > SCALAR_BYTES_MAX {
        return Err(format!("{} bytes of scalars; at most {SCALAR_BYTES_MAX}", spec.scalars.len()));
    }
    if let Some(span) = spans(spec).find(|span| !span.buffer().device().is_same(device)) {
        return Err(format!("{:?} is of another device", span.buffer()));
    }
    for (index, (span, arg)) in spec.args.iter().zip(row.args.iter()).enumerate() {
        let Some(span) = span else { continue };
        if !span.offset().is_multiple_of(u64::from(arg.align)) {
            return Err(format!(
                "argument {index} starts at byte {}, not a multiple of {}",
                span.offset(),
                arg.align
            ));
        }
        if arg.access != Access::READ && span.buffer().is_imported() {
            return Err(format!("argument {index} would write imported pages"));
        }
    }
    Ok(())
}
