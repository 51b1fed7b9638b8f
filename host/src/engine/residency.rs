//! Makes weights resident: the file's pages where the device reads them in place, copies elsewhere,
//! and the layouts its kernels want.

use std::collections::{BTreeSet, HashMap};

use cajeta_abi::{Access, Capability, Fact, LayoutId, MemoryKind};
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::{Plan, PlanTensor, TensorId};
use cajeta_plugin_host::{Buffer, BufferSpan, Device, LaunchSpec, Queue};

use super::error::EngineError;
use super::registry::DeviceRegistry;
use crate::lower::{LowerError, WeightKey, relayout_problem, relayout_row, weight_bytes, weight_shapes};
use crate::route::Registry;

/// The weights on a device.
pub struct Residency {
    spans: HashMap<WeightKey, BufferSpan>,
    /// Bytes read in place from the file's pages.
    pub mapped: u64,
    /// Bytes copied to the device.
    pub uploaded: u64,
    /// Bytes of layouts made on the device.
    pub relaid: u64,
    /// Layouts made on the device.
    pub packs: u64,
}

impl Residency {
    /// Where a weight is.
    pub fn span(&self, key: &WeightKey) -> Option<&BufferSpan> {
        self.spans.get(key)
    }

    /// Whether a weight is there.
    pub fn has(&self, key: &WeightKey) -> bool {
        self.spans.contains_key(key)
    }

    /// Makes the wanted weights resident; `progress` is told bytes done of bytes to do.
    pub fn load(
        registry: &DeviceRegistry,
        queue: &mut Queue,
        plan: &Plan,
        file: &GgufFile,
        wanted: &BTreeSet<WeightKey>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Residency, EngineError> {
        let device = registry.device();
        let mut loader = Loader {
            registry,
            queue,
            plan,
            file,
            pages: import(device, registry, file)?,
            align: weight_alignment(registry),
            residency: Residency { spans: HashMap::new(), mapped: 0, uploaded: 0, relaid: 0, packs: 0 },
        };
        let size = |key: &WeightKey| key.tensors.iter().map(|id| plan.tensor(*id).bytes).sum::<u64>();
        let total = wanted.iter().map(size).sum();
        let mut done = 0;
        for key in wanted {
            loader.make(key)?;
            done += size(key);
            progress(done, total);
        }
        Ok(loader.residency)
    }
}

struct Loader<'a> {
    registry: &'a DeviceRegistry,
    queue: &'a mut Queue,
    plan: &'a Plan,
    file: &'a GgufFile,
    /// The whole file as a buffer, where the device reads host pages.
    pages: Option<Buffer>,
    /// Alignment every kernel that reads file blocks accepts.
    align: u64,
    residency: Residency,
}

impl Loader<'_> {
    fn make(&mut self, key: &WeightKey) -> Result<(), EngineError> {
        let span = if key.is_file() { self.file_span(key.tensors[0])? } else { self.relayout(key)? };
        self.residency.spans.insert(key.clone(), span);
        Ok(())
    }

    /// A tensor's own bytes: in place, or copied once.
    fn file_span(&mut self, id: TensorId) -> Result<BufferSpan, EngineError> {
        let key = WeightKey::new(LayoutId::GGUF, vec![id]);
        if let Some(span) = self.residency.spans.get(&key) {
            return Ok(span.clone());
        }
        let tensor = self.plan.tensor(id);
        let limit = self.registry.device().facts().get(Fact::LARGEST_BINDING).unwrap_or(u64::MAX);
        if tensor.bytes > limit {
            return Err(EngineError::LargestBinding {
                what: format!("tensor `{}`", tensor.name),
                bytes: tensor.bytes,
                limit,
                device: self.registry.device().facts().name.to_string(),
                remedy: "run the model on another backend",
            });
        }
        match &self.pages {
            Some(pages) if tensor.offset.is_multiple_of(self.align) => {
                self.residency.mapped += tensor.bytes;
                Ok(pages.span(tensor.offset, tensor.bytes)?)
            }
            _ => {
                self.residency.uploaded += tensor.bytes;
                self.upload(tensor)
            }
        }
    }

    fn upload(&mut self, tensor: &PlanTensor) -> Result<BufferSpan, EngineError> {
        let buffer = self.registry.device().alloc(tensor.bytes, MemoryKind::DEVICE, false)?;
        let span = buffer.whole();
        // By place rather than by name: a tensor of the plan may be a part of the file's.
        let bytes = usize::try_from(tensor.offset)
            .ok()
            .zip(usize::try_from(tensor.bytes).ok())
            .and_then(|(offset, bytes)| self.file.map().get(offset..)?.get(..bytes));
        self.queue.upload(&span, bytes.unwrap_or_default())?;
        Ok(span)
    }

    /// A layout of the backend's own, made by its relayout row from the file's bytes.
    fn relayout(&mut self, key: &WeightKey) -> Result<BufferSpan, EngineError> {
        let name = |key: &WeightKey| {
            let names: Vec<&str> = key.tensors.iter().map(|id| self.plan.tensor(*id).name.as_str()).collect();
            names.join(", ")
        };
        let fail = |what: String, text: String| EngineError::Lower(LowerError::Backend { what, text });
        let row = relayout_row(self.registry, self.plan, key)
            .ok_or_else(|| fail(format!("a relayout row for {}", name(key)), "none is admissible".into()))?;
        let bytes = weight_bytes(self.registry, self.plan, key)
            .map_err(|text| fail(format!("the size of {}", name(key)), text))?;
        let problem = relayout_problem(&weight_shapes(self.plan, key));
        let geometry = self
            .registry
            .geometry(row, &problem, &[])
            .map_err(|text| fail(format!("the geometry of the relayout of {}", name(key)), text))?;
        let out = self.registry.device().alloc(bytes, MemoryKind::DEVICE, false)?.whole();
        let mut args = Vec::with_capacity(key.tensors.len() + 1);
        for id in &key.tensors {
            args.push(Some(self.file_span(*id)?));
        }
        args.push(Some(out.clone()));
        let device = self.registry.device();
        let launch = LaunchSpec {
            row,
            split: geometry.split_min.max(1),
            problem,
            args,
            scalars: Vec::new(),
            scratch: side_buffer(device, geometry.scratch_bytes)?,
            semaphores: zeroed(device, self.queue, geometry.semaphore_bytes)?,
        };
        let list = device.list(&[launch])?;
        let ticket = self.queue.submit(&list)?;
        self.queue.wait(ticket)?;
        self.residency.relaid += bytes;
        self.residency.packs += 1;
        Ok(out)
    }
}

/// The file's pages as a buffer, if the device can read them.
fn import(
    device: &Device,
    registry: &DeviceRegistry,
    file: &GgufFile,
) -> Result<Option<Buffer>, EngineError> {
    if !registry.supports(Capability::IMPORT) {
        return Ok(None);
    }
    match device.import(file.pages()) {
        Ok(buffer) => Ok(Some(buffer)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The strictest alignment that a row reading file bytes, or the device itself, asks of an offset.
fn weight_alignment(registry: &DeviceRegistry) -> u64 {
    let device = registry.device().facts().get(Fact::BUFFER_ALIGNMENT).unwrap_or(1);
    let args = registry.rows().iter().flat_map(|row| row.args.iter());
    let reads_file = args.filter(|arg| {
        arg.access == Access::READ
            && (arg.layout == LayoutId::GGUF || arg.format != cajeta_abi::FormatId::NONE)
    });
    reads_file.map(|arg| u64::from(arg.align)).chain([device, 1]).max().unwrap_or(1)
}

/// A scratch buffer of a size, or none.
pub(super) fn side_buffer(device: &Device, bytes: u64) -> Result<Option<BufferSpan>, EngineError> {
    if bytes == 0 {
        return Ok(None);
    }
    Ok(Some(device.alloc(bytes, MemoryKind::DEVICE, false)?.whole()))
}

/// A zeroed buffer of a size, or none.
pub(super) fn zeroed(
    device: &Device,
    queue: &mut Queue,
    bytes: u64,
) -> Result<Option<BufferSpan>, EngineError> {
    let span = side_buffer(device, bytes)?;
    if let Some(span) = &span {
        queue.upload(span, &vec![0; bytes as usize])?;
    }
    Ok(span)
}
