//! The buffers a step works in: arena, last hidden state, scratch, semaphores. They only grow, and a
//! list prepared over the old ones keeps them alive until it is dropped.

use cajeta_abi::MemoryKind;
use cajeta_plugin_host::{BufferSpan, Device, Queue};

use super::error::EngineError;
use super::residency::zeroed;
use crate::lower::Program;

/// Buffers shared by all lists of an engine.
pub(super) struct Workspace {
    device: Device,
    poison: bool,
    /// Rows of the last hidden state; sized for the largest chunk at load.
    pub hidden: BufferSpan,
    arena: Option<BufferSpan>,
    scratch: Option<BufferSpan>,
    semaphores: Option<BufferSpan>,
}

impl Workspace {
    /// A workspace whose hidden state holds `hidden_bytes`.
    pub(super) fn new(device: &Device, hidden_bytes: u64, poison: bool) -> Result<Workspace, EngineError> {
        let hidden = device.alloc(hidden_bytes, MemoryKind::DEVICE, poison)?.whole();
        Ok(Workspace { device: device.clone(), poison, hidden, arena: None, scratch: None, semaphores: None })
    }

    /// Makes every buffer at least as large as a program needs. `true` when one was replaced: lists
    /// prepared before still work, over the old buffers, but hold memory until dropped.
    pub(super) fn fit(&mut self, queue: &mut Queue, program: &Program) -> Result<bool, EngineError> {
        let small = |span: &Option<BufferSpan>, bytes: u64| span.as_ref().map_or(0, BufferSpan::len) < bytes;
        let mut grown = false;
        if small(&self.arena, program.arena) {
            self.arena = Some(self.device.alloc(program.arena, MemoryKind::DEVICE, self.poison)?.whole());
            grown = true;
        }
        if small(&self.scratch, program.scratch) {
            self.scratch = Some(self.device.alloc(program.scratch, MemoryKind::DEVICE, self.poison)?.whole());
            grown = true;
        }
        if small(&self.semaphores, program.semaphores) {
            self.semaphores = zeroed(&self.device, queue, program.semaphores)?;
            grown = true;
        }
        Ok(grown)
    }

    /// Part of the arena.
    pub(super) fn arena(&self, offset: u64, len: u64) -> Result<Option<BufferSpan>, EngineError> {
        self.arena.as_ref().map(|span| span.part(offset, len)).transpose().map_err(EngineError::from)
    }

    /// The scratch of a launch that needs any.
    pub(super) fn scratch(&self, bytes: u64) -> Option<BufferSpan> {
        if bytes == 0 { None } else { self.scratch.clone() }
    }

    /// The semaphores of a launch that needs any.
    pub(super) fn semaphores(&self, bytes: u64) -> Option<BufferSpan> {
        if bytes == 0 { None } else { self.semaphores.clone() }
    }
}
