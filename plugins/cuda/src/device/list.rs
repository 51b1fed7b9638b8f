//! A prepared launch list: its kernels chained in a graph, launched as one.

use std::sync::Arc;

use cajeta_plugin_api::{Answer, Work};

use super::code::LoadedCode;
use super::memory::Buffer;
use crate::driver::{Context, Event, Function, Graph, Node, Stream};
use crate::launch::{Block, Bound, Stage, bind};
use crate::registry::{self, Kind};

/// One kernel of a launch.
struct Part {
    function: Function,
    stage: Stage,
    /// Whether it may start before the kernel in front of it ends.
    early: bool,
}

struct Launch {
    row: usize,
    /// Kernels with their shapes, in order.
    kernels: Vec<Part>,
    block: Block,
}

/// What `list` makes. It holds the buffers its launches name.
pub struct List {
    launches: Vec<Launch>,
    /// `None` for a list without launches.
    graph: Option<Graph>,
    _buffers: Vec<Work<Buffer>>,
}

impl List {
    pub(super) fn prepare(
        context: &Arc<Context>,
        code: &LoadedCode,
        work: Vec<Work<Buffer>>,
    ) -> Answer<List> {
        let mut launches = Vec::with_capacity(work.len());
        let mut after_relayout = false;
        for work in &work {
            let Bound { row, entry, stages, block } = bind(work, context.multiprocessors())?;
            let names = entry.kernels();
            let mut kernels = Vec::with_capacity(stages.len());
            for stage in stages {
                let name = names.get(stage.kernel).map_or("", String::as_str);
                let (function, waits) = code.function(name)?.clone();
                // Weights are read before the wait; right behind what writes them there is nothing to start early.
                let early = waits && !after_relayout;
                kernels.push(Part { function, stage, early });
            }
            launches.push(Launch { row, kernels, block });
            after_relayout = entry.kind == Kind::Relayout;
        }
        let nodes: Vec<Node<'_, Block>> =
            launches.iter().flat_map(|launch| launch.kernels.iter().map(|part| launch.node(part))).collect();
        let graph = if nodes.is_empty() {
            None
        } else {
            // SAFETY: every kernel's one parameter is a `Block`. `bind` held its spans against the operands, and the
            // buffers live as long as this list, which a queue holds while it runs.
            Some(unsafe { Graph::chain(context, &nodes)? })
        };
        Ok(List { launches, graph, _buffers: work })
    }

    /// Queues a run.
    pub(super) fn run(&self, stream: &Stream) -> Answer<()> {
        self.graph.as_ref().map_or(Ok(()), |graph| graph.launch(stream))
    }

    /// Queues a run launch by launch, with a mark before the first and after each.
    pub(super) fn run_marked(&self, context: &Arc<Context>, stream: &Stream) -> Answer<Marks> {
        let mark = || {
            let event = Event::new(context)?;
            event.record(stream)?;
            Ok(event)
        };
        let mut events = vec![mark()?];
        for launch in &self.launches {
            for Part { function, stage, .. } in &launch.kernels {
                // SAFETY: as in `prepare`.
                unsafe { function.launch(stream, stage.grid, stage.threads, stage.shared, &launch.block)? };
            }
            events.push(mark()?);
        }
        Ok(Marks { events, rows: self.launches.iter().map(|launch| launch.row).collect() })
    }

    /// What it runs, for messages.
    pub(super) fn describe(&self) -> String {
        let name = |launch: &Launch| registry::rows().get(launch.row).map_or("?", |row| row.name.as_str());
        match self.launches.as_slice() {
            [] => "an empty list".to_owned(),
            [only] => format!("row {}", name(only)),
            [first, .., last] => {
                format!("a list of {} launches, {} to {}", self.launches.len(), name(first), name(last))
            }
        }
    }
}

impl Launch {
    fn node<'a>(&'a self, part: &'a Part) -> Node<'a, Block> {
        Node {
            function: &part.function,
            grid: part.stage.grid,
            threads: part.stage.threads,
            shared: part.stage.shared,
            parameter: &self.block,
            early: part.early,
        }
    }
}

/// Marks around each launch of a run.
pub(super) struct Marks {
    pub(super) events: Vec<Event>,
    pub(super) rows: Vec<usize>,
}
