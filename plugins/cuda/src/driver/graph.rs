//! Graphs: a chain of kernels, instantiated once and launched as one.

use std::ffi::c_void;
use std::sync::Arc;

use cajeta_plugin_api::Answer;
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, cuGraphAddDependencies_v2,
    cuGraphAddKernelNode_v2, cuGraphCreate, cuGraphDestroy, cuGraphExecDestroy, cuGraphInstantiateWithFlags,
    cuGraphLaunch,
};

use super::context::Context;
use super::error::check;
use super::module::Function;
use super::stream::Stream;

/// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`: the edge leaves when every block has let its dependents go.
const PORT_PROGRAMMATIC: u8 = 1;
/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
const EDGE_PROGRAMMATIC: u8 = 1;

/// One kernel of a chain.
pub(crate) struct Node<'a, P> {
    /// What runs.
    pub(crate) function: &'a Function,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads a block.
    pub(crate) threads: u32,
    /// Dynamic shared bytes.
    pub(crate) shared: u32,
    /// Its one parameter.
    pub(crate) parameter: &'a P,
    /// Whether it may start before the kernel in front of it ends; it then waits itself before it reads what that one
    /// writes.
    pub(crate) early: bool,
}

/// An instantiated chain.
pub(crate) struct Graph {
    context: Arc<Context>,
    handle: CUgraphExec,
}

// SAFETY: the driver serialises launches of one executable graph; its owner synchronises the queue.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A graph under construction, destroyed once it is instantiated.
struct Draft(CUgraph);

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: made in `chain` and destroyed once, here.
        let _ = unsafe { cuGraphDestroy(self.0) };
    }
}

impl Graph {
    /// Chains kernels, each after the one before it.
    ///
    /// # Safety
    /// - Each parameter has the size of its kernel's one parameter, and every address in it is what the kernel expects
    ///   whenever the graph runs.
    pub(crate) unsafe fn chain<P>(context: &Arc<Context>, nodes: &[Node<'_, P>]) -> Answer<Graph> {
        context.bind()?;
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: a context is current; the driver writes one handle.
        check(unsafe { cuGraphCreate(&raw mut graph, 0) }, "making a graph")?;
        let graph = Draft(graph);
        let mut last: Option<CUgraphNode> = None;
        for node in nodes {
            // SAFETY: the caller vouches for the parameter; the functions are live.
            let added = unsafe { add(&graph, node)? };
            if let Some(last) = last {
                let edge = if node.early { (PORT_PROGRAMMATIC, EDGE_PROGRAMMATIC) } else { (0, 0) };
                let edge = CUgraphEdgeData { from_port: edge.0, to_port: 0, type_: edge.1, reserved: [0; 5] };
                // SAFETY: both nodes are of this graph; one edge is given.
                let tied = unsafe {
                    cuGraphAddDependencies_v2(graph.0, &raw const last, &raw const added, &raw const edge, 1)
                };
                check(tied, "ordering two kernels of a graph")?;
            }
            last = Some(added);
        }
        let mut handle: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph is whole; the driver writes one handle.
        check(unsafe { cuGraphInstantiateWithFlags(&raw mut handle, graph.0, 0) }, "preparing a graph")?;
        Ok(Graph { context: Arc::clone(context), handle })
    }

    /// Queues a run.
    pub(crate) fn launch(&self, stream: &Stream) -> Answer<()> {
        self.context.bind()?;
        // SAFETY: graph and stream are live; `chain`'s caller vouched for the parameters.
        check(unsafe { cuGraphLaunch(self.handle, stream.handle) }, "launching a list")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made in `chain` and destroyed once, here; the driver keeps what still runs.
            let _ = unsafe { cuGraphExecDestroy(self.handle) };
        }
    }
}

/// Adds a kernel without edges.
///
/// # Safety
/// As [`Graph::chain`], for one node.
unsafe fn add<P>(graph: &Draft, node: &Node<'_, P>) -> Answer<CUgraphNode> {
    let mut parameters = [std::ptr::from_ref(node.parameter).cast_mut().cast::<c_void>()];
    let description = CUDA_KERNEL_NODE_PARAMS {
        func: node.function.handle,
        gridDimX: node.grid[0],
        gridDimY: node.grid[1],
        gridDimZ: node.grid[2],
        blockDimX: node.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: node.shared,
        kernelParams: parameters.as_mut_ptr(),
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    };
    let mut added: CUgraphNode = std::ptr::null_mut();
    // SAFETY: the driver copies the parameter during the call; the caller vouches for what it says.
    let result = unsafe {
        cuGraphAddKernelNode_v2(&raw mut added, graph.0, std::ptr::null(), 0, &raw const description)
    };
    check(result, "adding a kernel to a graph")?;
    Ok(added)
}
