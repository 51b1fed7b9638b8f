//! Prepared lists: launches bound to their kernels, with the buffers they keep alive.

use cajeta_plugin_api::{Answer, BufferSpan, Fault, Work};

use super::memory::Buffer;
use crate::registry;
use crate::task::{Task, bind};

/// A list of launches, ready to run.
pub struct List {
    launches: Vec<Prepared>,
    /// Every buffer a launch points into.
    _buffers: Vec<BufferSpan<Buffer>>,
}

/// One bound launch.
pub(crate) struct Prepared {
    row: u32,
    task: Box<dyn Task>,
}

impl Prepared {
    pub(crate) fn task(&self) -> &dyn Task {
        &*self.task
    }

    pub(crate) fn row(&self) -> u32 {
        self.row
    }

    /// The fault with the row's name before it.
    pub(crate) fn name_in(&self, fault: Fault) -> Fault {
        named(self.row as usize, fault)
    }
}

impl List {
    pub(crate) fn new(work: Vec<Work<Buffer>>) -> Answer<List> {
        let mut launches = Vec::with_capacity(work.len());
        let mut buffers = Vec::new();
        for work in work {
            let task = bind(&work).map_err(|fault| named(work.row, fault))?;
            launches.push(Prepared { row: work.row as u32, task });
            buffers.extend(work.args.into_iter().flatten());
            buffers.extend(work.scratch);
        }
        Ok(List { launches, _buffers: buffers })
    }

    pub(crate) fn launches(&self) -> &[Prepared] {
        &self.launches
    }
}

fn named(row: usize, fault: Fault) -> Fault {
    let name = registry::rows().get(row).map_or("an unknown row", |row| row.name.as_str());
    Fault { code: fault.code, text: format!("launch of {name}: {}", fault.text) }
}
